"""headway: the transformer family as one working system.

Names are imported when they are first used, so that `import headway` and `headway --help` do not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway._lazy import on_demand

__version__ = "0.1.0"

if TYPE_CHECKING:
    from headway.inspection.capture import capture
    from headway.inspection.tap_names import taps
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

__getattr__ = on_demand(
    __name__,
    {
        "headway.ops": (
            "attend", "attention_weights", "Mask", "Causal", "Window", "Lengths", "Packed", "Prefix", "Global",
            "NotSelf", "Alibi", "Relative",
        ),
        "headway.inspection": ("capture", "taps"),
        "headway.presets": ("build",),
        "headway.runs": ("load",),
    },
)  # fmt: skip

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


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
