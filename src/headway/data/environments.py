"""gymnasium environments with observations as arrays that a model can read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headway.config import positive
from headway.errors import ConfigError, DataError
from headway.extras import import_extra
from headway.suggestions import did_you_mean

Observation = NDArray[Any]
MAX_STEPS = 1000  # of an episode, if its environment has no limit
OPTIMUM = {  # the highest possible mean return, within the environment's step limit
    "FrozenLake-v1": 0.744,
    "FrozenLake8x8-v1": 0.913,
    "CartPole-v1": 500.0,
    "MiniGrid-Empty-5x5-v0": 0.955,
    "MiniGrid-Empty-8x8-v0": 0.961,
    "headway/TMaze-v0": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """The observation as the environment gives it: an integer, a vector, or an image."""

    size: int = 48  # pixels per side, of an image

    def __post_init__(self) -> None:
        positive("task.view.size", self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """An array of small integers, such as MiniGrid's view of the cells ahead."""

    part: str = "image"  # key of a Dict observation
    levels: int = 11  # upper bound of the integers, exclusive

    def __post_init__(self) -> None:
        positive("task.view.levels", self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The rendered frame, downscaled."""

    size: int = 40  # pixels per side

    def __post_init__(self) -> None:
        positive("task.view.size", self.size)


View = Plain | Grid | Rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """Observations of `parts` integers, each below `levels`."""

    parts: int
    levels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """Observations of `size` real numbers."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageObservation:
    """Observations of square RGB images, `size` pixels per side."""

    size: int


Shape = Symbols | Vector | ImageObservation


class BrokenEpisodeError(DataError):
    """The environment raised an exception or returned invalid values; the current episode is unusable."""


class Environment:
    """One gymnasium environment. `taken` counts its steps."""

    def __init__(self, name: str, view: View) -> None:
        self.name, self.view, self.taken = name, view, 0
        self.env = _made(name, "rgb_array" if isinstance(view, Rendered) else None)
        self.actions = _actions(self.env, name)
        self.shape = _shape(self.env, name, view)
        limit = self.env.spec.max_episode_steps if self.env.spec else None
        self.limit = int(limit or getattr(self.env.unwrapped, "max_steps", None) or MAX_STEPS)
        self.first = int(getattr(self.env.action_space, "start", 0))
        self.age = 0

    def reset(self, seed: int) -> Observation:
        """The first observation of the episode of this seed. Raises BrokenEpisodeError."""
        self.age = 0
        try:
            observation, _ = self.env.reset(seed=seed)
            return self._read(observation)
        except BrokenEpisodeError:
            raise
        except Exception as error:  # an environment may raise anything
            raise BrokenEpisodeError(f"{self.name}: reset raised {type(error).__name__}: {error}") from error

    def step(self, action: int) -> tuple[Observation, float, bool, bool]:
        """Take an action -> next observation, reward, whether the episode terminated, and whether it was truncated.

        Raises BrokenEpisodeError.
        """
        self.taken += 1
        self.age += 1
        try:
            observation, reward, ended, cut, _ = self.env.step(action + self.first)
            read = self._read(observation)
        except BrokenEpisodeError:
            raise
        except Exception as error:
            raise BrokenEpisodeError(f"{self.name}: step raised {type(error).__name__}: {error}") from error
        if not np.isfinite(float(reward)):
            raise BrokenEpisodeError(f"{self.name}: reward {reward}, expected a finite number")
        return read, float(reward), bool(ended), bool(cut) or self.age >= self.limit

    def _read(self, observation: Any) -> Observation:
        if isinstance(self.view, Rendered):
            return downscaled(self.env.render(), self.view.size)
        if isinstance(self.view, Grid):
            observation = observation[self.view.part] if isinstance(observation, dict) else observation
        if isinstance(self.shape, ImageObservation):
            return downscaled(observation, self.shape.size)
        if isinstance(self.shape, Symbols):
            return self._symbols(observation)
        vector = np.asarray(observation, np.float32).reshape(-1)
        if not np.isfinite(vector).all():
            raise BrokenEpisodeError(f"{self.name}: observation {vector.tolist()}, expected finite numbers")
        return vector

    def _symbols(self, observation: Any) -> Observation:
        assert isinstance(self.shape, Symbols)
        space = self.env.observation_space
        first = np.asarray(getattr(space, "start", 0)).reshape(-1) if isinstance(self.view, Plain) else 0
        read = np.asarray(observation, np.int64).reshape(-1) - first
        if read.min() < 0 or read.max() >= self.shape.levels:
            wrong = int(read.min() if read.min() < 0 else read.max())
            raise BrokenEpisodeError(f"{self.name}: observation {wrong}, allowed: 0 to {self.shape.levels - 1}")
        return read

    def close(self) -> None:
        """Release the resources of the environment."""
        self.env.close()


Maker = Callable[[], Environment]


def downscaled(frame: Any, size: int) -> NDArray[np.uint8]:
    """An image (H, W, 3), or (H, W) in grey -> (3, size, size)."""
    image = Image.fromarray(np.asarray(frame, np.uint8)).convert("RGB").resize((size, size), Image.Resampling.BOX)
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def make_renderer(name: str) -> Any:
    """A gymnasium environment that renders frames; None if it does not support that."""
    try:
        return _made(name, "rgb_array")
    except ConfigError:
        return None


def render_observation(env: Any, observation: Observation) -> NDArray[np.uint8] | None:
    """Render an observation by setting the environment's state; None if its state cannot be set."""
    world = env.unwrapped
    try:
        if hasattr(world, "state") and len(observation) > 1:
            world.state = tuple(float(x) for x in observation)
        elif hasattr(world, "s") and len(observation) == 1:
            world.s = int(observation[0])
        else:
            return None
        return np.asarray(env.render(), np.uint8)
    except Exception:  # a frame that cannot be rendered is left out
        return None


def _gymnasium() -> Any:
    gymnasium = import_extra("gymnasium", "world", "a world model")
    with contextlib.suppress(ImportError):
        import minigrid  # noqa: F401  # registers its environments
    from headway.data import t_maze

    t_maze.register()
    return gymnasium


def _made(name: str, mode: str | None) -> Any:
    """Make an environment. Raises ConfigError naming similar ones, or the problem."""
    gymnasium = _gymnasium()
    if name not in gymnasium.registry:
        if name.startswith("MiniGrid-"):
            import_extra("minigrid", "world", name)
        newest_first = reversed(list(gymnasium.registry))
        hint = did_you_mean(name, newest_first).strip() or "see gymnasium's registry"
        raise ConfigError(f"no environment {name!r}: {hint}")
    try:
        return gymnasium.make(name, disable_env_checker=True, **({"render_mode": mode} if mode else {}))
    except Exception as error:
        drawn = f" with render_mode={mode!r}" if mode else ""
        raise ConfigError(f"{name} cannot be made{drawn} ({type(error).__name__}: {error})") from error


def _actions(env: Any, name: str) -> int:
    space = env.action_space
    if type(space).__name__ != "Discrete":
        raise ConfigError(f"{name}: action space {space}, allowed: Discrete")
    return int(space.n)


def _shape(env: Any, name: str, view: View) -> Shape:
    """The shape of observations. Raises ConfigError for an unsupported observation space."""
    space = env.observation_space
    if isinstance(view, Rendered):
        return ImageObservation(size=view.size)
    if isinstance(view, Grid):
        parts = getattr(space, "spaces", None)
        if parts is not None and view.part not in parts:
            raise ConfigError(f"task.view.part={view.part!r}, {name} has {', '.join(parts)}")
        inner = space if parts is None else parts[view.part]
        return Symbols(parts=int(np.prod(inner.shape)), levels=view.levels)
    kind = type(space).__name__
    if kind == "Discrete":
        return Symbols(parts=1, levels=int(space.n))
    if kind == "MultiDiscrete":
        return Symbols(parts=int(space.nvec.size), levels=int(space.nvec.max()))
    if kind == "Box" and len(space.shape) == 3 and space.dtype == np.uint8:
        return ImageObservation(size=view.size)
    if kind == "Box" and len(space.shape) == 1:
        return Vector(size=int(space.shape[0]))
    raise ConfigError(
        f"{name}: observation space {space}, allowed: Discrete, MultiDiscrete, Box of one dimension or of an image; "
        f"--task.view grid reads one part of a Dict, --task.view rendered the rendered frame"
    )
