"""Environments to act in: gymnasium's, behind one door, with observations that a model can read."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headway.config import positive
from headway.errors import ConfigError, DataError

Observation = NDArray[Any]
EXTRA = "worlds need gymnasium: pip install headway[world]"
ENDLESS = 1000  # steps after which an episode is cut off where its environment never does
OPTIMUM = {  # the best mean return there is, within the environment's own limit of steps
    "FrozenLake-v1": 0.744,
    "FrozenLake8x8-v1": 0.913,
    "CartPole-v1": 500.0,
    "MiniGrid-Empty-5x5-v0": 0.955,
    "MiniGrid-Empty-8x8-v0": 0.961,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """The observation as the environment gives it: a number, a vector, or a picture."""

    size: int = 48  # pixels a side, of a picture

    def __post_init__(self) -> None:
        positive("task.view.size", self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of small whole numbers, such as MiniGrid's view of the cells ahead."""

    part: str = "image"  # of an observation of several
    levels: int = 11  # every number is below


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What a person would see: the picture the environment draws, made small."""

    size: int = 40  # pixels a side

    def __post_init__(self) -> None:
        positive("task.view.size", self.size)


View = Plain | Grid | Rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """Observations of `parts` whole numbers, each below `levels`."""

    parts: int
    levels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """Observations of `size` real numbers."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageObservation:
    """Observations of square pictures, `size` pixels a side, in red, green and blue."""

    size: int


Shape = Symbols | Vector | ImageObservation


class BrokenEpisodeError(DataError):
    """The environment raised, or gave numbers that are none: the episode at hand is worth nothing."""


class Environment:
    """One gymnasium environment. `taken` counts the steps that were taken in it."""

    def __init__(self, name: str, view: View) -> None:
        self.name, self.view, self.taken = name, view, 0
        self.env = _made(name, "rgb_array" if isinstance(view, Rendered) else None)
        self.actions = _actions(self.env, name)
        self.shape = _shape(self.env, name, view)
        limit = self.env.spec.max_episode_steps if self.env.spec else None
        self.limit = int(limit or getattr(self.env.unwrapped, "max_steps", None) or ENDLESS)
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
        except Exception as error:  # whatever somebody else's environment raises
            raise BrokenEpisodeError(f"{self.name}: reset raised {type(error).__name__}: {error}") from error

    def step(self, action: int) -> tuple[Observation, float, bool, bool]:
        """The next observation, the reward, whether the world ended, and whether only the time was up.

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
        """Give back what it holds."""
        self.env.close()


Maker = Callable[[], Environment]


def downscaled(frame: Any, size: int) -> NDArray[np.uint8]:
    """A picture (H, W, 3), or (H, W) in grey, as (3, size, size)."""
    image = Image.fromarray(np.asarray(frame, np.uint8)).convert("RGB").resize((size, size), Image.Resampling.BOX)
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def make_renderer(name: str) -> Any:
    """A gymnasium environment that draws itself, or None where it cannot."""
    try:
        return _made(name, "rgb_array")
    except ConfigError:
        return None


def render_observation(env: Any, observation: Observation) -> NDArray[np.uint8] | None:
    """The picture of an observation by an environment that lets itself be put there; None of any other."""
    world = env.unwrapped
    try:
        if hasattr(world, "state") and len(observation) > 1:
            world.state = tuple(float(x) for x in observation)
        elif hasattr(world, "s") and len(observation) == 1:
            world.s = int(observation[0])
        else:
            return None
        return np.asarray(env.render(), np.uint8)
    except Exception:  # one that cannot show itself is only not shown
        return None


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ImportError as error:
        raise ConfigError(EXTRA) from error
    with contextlib.suppress(ImportError):
        import minigrid  # noqa: F401  # adds its environments to gymnasium's
    return gymnasium


def _made(name: str, mode: str | None) -> Any:
    """Raises ConfigError naming the nearest environments there are, or what this one lacks."""
    gymnasium = _gymnasium()
    if name not in gymnasium.registry:
        near = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "gymnasium's registry lists what there is"
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
    """What observations look like. Raises ConfigError naming a space that no model here reads."""
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
        f"{name}: observation space {space}, allowed: Discrete, MultiDiscrete, Box of one dimension or of a picture; "
        f"--task.view grid reads one part of a Dict, --task.view rendered the picture that is drawn"
    )
