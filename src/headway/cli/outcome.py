"""What an evaluation comes to, before any of it is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An evaluation: flat values for machines, parts to show people, and what there is to plot or to write."""

    values: dict[str, Any]
    shown: list[RenderableType]
    picture: Callable[[str], bytes] | None = None  # drawn under a title
    said: list[str] = field(default_factory=list)
