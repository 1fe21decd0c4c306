"""headway: the transformer family as one working system.

Names are imported when they are first used, so that `import headway` and `headway --help` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from headway.inspection import capture, taps
    from headway.ops import (
        Alibi,
        Causal,
        Global,
        Lengths,
        Mask,
        NotSelf,
        Packed,
        Prefix,
        Relative,
        Window,
        attend,
        attention_weights,
    )
    from headway.presets import build
    from headway.runs import load

_HOME = {
    "headway.ops": (
        "attend", "attention_weights", "Mask", "Causal", "Window", "Lengths", "Packed", "Prefix", "Global",
        "NotSelf", "Alibi", "Relative",
    ),
    "headway.inspection": ("capture", "taps"),
    "headway.presets": ("build",),
    "headway.runs": ("load",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Alibi",
    "Causal",
    "Global",
    "Lengths",
    "Mask",
    "NotSelf",
    "Packed",
    "Prefix",
    "Relative",
    "Window",
    "attend",
    "attention_weights",
    "build",
    "capture",
    "load",
    "taps",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
