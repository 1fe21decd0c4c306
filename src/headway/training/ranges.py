"""The ranges of the numbers in the `train` section of a config."""

from __future__ import annotations

import math

from headway.errors import ConfigError, shown

LARGEST = 2**63 - 1  # torch's and numpy's largest integer


def expect_whole(key: str, value: int, *, least: int) -> None:
    """Raise ConfigError unless `least` <= value <= LARGEST."""
    if value < least or value > LARGEST:
        upper = "and above" if value < least else f"to {LARGEST}"
        raise ConfigError(f"train.{key}={shown(value)}, allowed: {least} {upper}")


def expect_share(key: str, value: float, *, whole: bool = False) -> None:
    """Raise ConfigError unless 0 <= value < 1, or <= 1 if `whole`."""
    if not (0.0 <= value < 1.0 or (whole and value == 1.0)):
        raise ConfigError(f"train.{key}={value}, allowed: {'0 to 1' if whole else 'at least 0 and below 1'}")


def expect_not_negative(key: str, value: float) -> None:
    """Raise ConfigError unless value is finite and at least 0."""
    if not 0.0 <= value < math.inf:
        raise ConfigError(f"train.{key}={value}, allowed: finite, 0 and above")
