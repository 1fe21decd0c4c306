"""A T-maze, where the first observation tells what to do at the end (Bakker 2002, section 4): a test of memory."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

NAME = "headway/TMaze-v0"
CORRIDOR = 4  # steps forward from the sign to the junction
LIMIT = 40  # steps of an episode
LEFT_SIGN, RIGHT_SIGN, CELL, JUNCTION, ARM = range(5)  # what is observed
LEFT, RIGHT, FORWARD = range(3)  # actions
TILE = 16  # pixels a side; a picture has three by three tiles, the agent's in the middle
CENTRE, AHEAD, BEHIND, TO_THE_LEFT, TO_THE_RIGHT = (1, 1), (0, 1), (2, 1), (1, 0), (1, 2)  # row and column of a tile
OPEN = {  # tiles beside the agent that it could enter
    LEFT_SIGN: (AHEAD,), RIGHT_SIGN: (AHEAD,), CELL: (AHEAD, BEHIND),
    JUNCTION: (BEHIND, TO_THE_LEFT, TO_THE_RIGHT), ARM: (),
}  # fmt: skip
SIGN = {LEFT_SIGN: TO_THE_LEFT, RIGHT_SIGN: TO_THE_RIGHT}  # the wall on which it hangs
DARK, WALL, FLOOR, AGENT, GREEN = (0, 0, 0), (110, 110, 110), (225, 225, 225), (220, 30, 30), (30, 170, 60)


class TMaze(gymnasium.Env[np.int64, np.int64]):
    """A corridor with a sign at its start, and a junction at its end. The arm that the sign named gives a reward of 1.

    All cells between look alike, so that at the junction one observation does not tell the arm. A turn in the corridor
    and a step forward at the junction change nothing; there is no way back. Rendered it is the same world: a picture
    for each of the five observations.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012  # gymnasium's own form

    def __init__(self, corridor: int = CORRIDOR, render_mode: str | None = None) -> None:
        self.corridor, self.render_mode = corridor, render_mode
        self.observation_space = gymnasium.spaces.Discrete(5)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.place, self.goal, self.over = 0, LEFT, False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Back to the sign, which is drawn anew."""
        super().reset(seed=seed)
        self.place, self.goal, self.over = 0, int(self.np_random.integers(2)), False
        return self._seen(), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Go on, or into an arm, which ends the episode."""
        if self.place < self.corridor:
            self.place += int(action == FORWARD)
        elif action != FORWARD:
            self.over = True
            return self._seen(), float(action == self.goal), True, False, {}
        return self._seen(), 0.0, False, False, {}

    def render(self) -> NDArray[np.uint8]:
        """The agent's tile and the four beside it from above, (48, 48, 3); the tiles at the corners are dark."""
        seen = int(self._seen())
        tiles = np.full((3, 3, 3), DARK, np.uint8)
        for at in (AHEAD, BEHIND, TO_THE_LEFT, TO_THE_RIGHT):
            tiles[at] = FLOOR if at in OPEN[seen] else WALL
        tiles[CENTRE] = AGENT
        if seen in SIGN:
            tiles[SIGN[seen]] = GREEN
        return np.asarray(tiles.repeat(TILE, 0).repeat(TILE, 1), np.uint8)

    def _seen(self) -> np.int64:
        if self.over:
            return np.int64(ARM)
        if self.place == 0:
            return np.int64((LEFT_SIGN, RIGHT_SIGN)[self.goal])
        return np.int64(JUNCTION if self.place == self.corridor else CELL)


def register() -> None:
    """Make the maze known to gymnasium by its name."""
    if NAME not in gymnasium.registry:
        gymnasium.register(NAME, entry_point="headway.data.t_maze:TMaze", max_episode_steps=LIMIT)
