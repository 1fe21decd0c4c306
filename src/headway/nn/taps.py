"""Taps: named identities at fixed places of a model, where a hook may read or replace what passes.

The public names, below any attention or block: `tap_q`, `tap_k`, `tap_v`, `tap_weights`, `tap_heads` in an attention
(with global tokens also `tap_global_q`, `tap_global_k`, `tap_global_v`);
`tap_resid_in`, `tap_attn_out`, `tap_cross_out`, `tap_mlp_out`, `tap_resid_out` in a block.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Tap(nn.Module):
    """The identity. Hooks registered on it (torch's own `register_forward_hook`) see, and may replace, its value."""

    @property
    def listening(self) -> bool:
        """Has somebody registered a hook here?"""
        return bool(self._forward_hooks or self._forward_pre_hooks)

    def forward(self, x: Tensor) -> Tensor:
        """x, untouched."""
        return x

    def passed(self, x: Tensor) -> tuple[Tensor, bool]:
        """What comes out, and whether a hook put it in the place of x, or wrote into x."""
        if not self.listening:
            return x, False
        kept = x.clone() if x.is_inference() else None  # such a tensor does not count how often it is written to
        writes = 0 if kept is not None else x._version
        value = self(x)
        written = x._version != writes if kept is None else not torch.equal(x, kept)
        return value, written or value is not x

    def __call__(self, x: Tensor) -> Tensor:
        # A decoder step passes dozens of taps: without a listener they must cost nothing.
        value: Tensor = super().__call__(x) if self.listening else x
        return value
