"""How each lab is broken on purpose: a module for each lab, named like the lab's own, with a table `BROKEN`.

    BROKEN = (Mutation("forget", lambda inputs, gamma: inputs.sum(0), fails="guest by guest"),)

replaces the function `forget` of the lab's module; the check whose name begins with `fails` must then not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """One function of a lab's mechanism, what stands in its place, and the check that must fail."""

    function: str
    broken: Callable[..., Any]
    fails: str
    flags: Mapping[str, str] = field(default_factory=dict)  # of the lab, to make the run short
