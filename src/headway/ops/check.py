"""Run-time shape checks.

One legend for the whole package: B batch, T query, S key, D width, H heads, G key/value heads, E head width,
W value width, F inner, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor

from headway.errors import ShapeError

_LAYOUTS: dict[str, tuple[str, ...]] = {}  # parsed once: a decoding step checks dozens of shapes


def check_shape(tensor: Tensor, name: str, layout: str, sizes: dict[str, int]) -> None:
    """Check `tensor` against a layout such as "B G S E"; sizes of letters not yet in `sizes` are recorded there.

    Raises ShapeError naming the tensor, the dimension, the size it has and the size it should have.
    """
    letters, shape = _LAYOUTS.get(layout) or _LAYOUTS.setdefault(layout, tuple(layout.split())), tensor.shape
    if len(shape) != len(letters):
        raise ShapeError(f"{name} has {len(shape)} dimensions {tuple(shape)}, expected {len(letters)}: ({layout})")
    for letter, size in zip(letters, shape, strict=True):
        known = sizes.setdefault(letter, size)
        if size != known:
            given = f"{name} has {letter}={size} in shape {tuple(shape)}"
            raise ShapeError(f"{given}, expected {letter}={known} ({layout})")
