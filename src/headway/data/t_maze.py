"""A T-maze, where the first observation tells what to do at the end (Bakker 2002, section 4): a test of memory."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

NAME = "headway/TMaze-v0"
CORRIDOR = 4  # steps forward from the sign to the junction
LIMIT = 40  # steps of an episode
LEFT_SIGN, RIGHT_SIGN, CELL, JUNCTION, ARM = range(5)  # what is observed
LEFT, RIGHT, FORWARD = range(3)  # actions


class TMaze(gymnasium.Env[np.int64, np.int64]):
    """A corridor with a sign at its start, and a junction at its end. The arm that the sign named gives a reward of 1.

    All cells between look alike, so that at the junction one observation does not tell the arm. A turn in the corridor
    and a step forward at the junction change nothing; there is no way back.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # gymnasium's own form

    def __init__(self, corridor: int = CORRIDOR) -> None:
        self.corridor = corridor
        self.observation_space = gymnasium.spaces.Discrete(5)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.place, self.goal = 0, LEFT

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Back to the sign, which is drawn anew."""
        super().reset(seed=seed)
        self.place, self.goal = 0, int(self.np_random.integers(2))
        return self._seen(), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Go on, or into an arm, which ends the episode."""
        if self.place < self.corridor:
            self.place += int(action == FORWARD)
        elif action != FORWARD:
            return np.int64(ARM), float(action == self.goal), True, False, {}
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> np.int64:
        if self.place == 0:
            return np.int64((LEFT_SIGN, RIGHT_SIGN)[self.goal])
        return np.int64(JUNCTION if self.place == self.corridor else CELL)


def register() -> None:
    """Make the maze known to gymnasium by its name."""
    if NAME not in gymnasium.registry:
        gymnasium.register(NAME, entry_point="headway.data.t_maze:TMaze", max_episode_steps=LIMIT)
