"""Taps: named identity modules at fixed places of a model, where hooks read or replace what passes.

The public names, below any attention or block: `tap_q`, `tap_k`, `tap_v`, `tap_weights`, `tap_heads` in an attention
(with global tokens also `tap_global_q`, `tap_global_k`, `tap_global_v`);
`tap_resid_in`, `tap_attn_out`, `tap_cross_out`, `tap_mlp_out`, `tap_resid_out` in a block.

Fused paths leave some modules out. Only this file reads the dictionaries in which torch keeps hooks: whether a fused
path may be taken is `not observed(module)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

if TYPE_CHECKING:
    from headway.nn.attention_record import AttentionRecord

    AttentionObserver = Callable[[AttentionRecord], None]


class Tap(nn.Module):
    """The identity. Hooks registered on it (torch's own `register_forward_hook`) see, and may replace, its value."""

    @property
    def observed(self) -> bool:
        """Whether a hook is registered on this tap."""
        return bool(self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks)

    def forward(self, x: Tensor) -> Tensor:
        """x, unchanged."""
        return x

    def passed(self, x: Tensor) -> tuple[Tensor, bool]:
        """The tap's output, and whether a hook replaced x or wrote into it."""
        if not self.observed:
            return x, False
        kept = x.clone() if x.is_inference() else None  # inference tensors have no version counter
        writes = 0 if kept is not None else x._version
        value = self(x)
        written = x._version != writes if kept is None else not torch.equal(x, kept)
        return value, written or value is not x

    def __call__(self, x: Tensor) -> Tensor:
        # A decoder step passes dozens of taps: without a hook they must cost nothing.
        value: Tensor = super().__call__(x) if self.observed else x
        return value


class ObservableAttention(nn.Module):
    """An attention that hands an `AttentionRecord` of every call to `on_attention`, if set; its kernel runs as ever."""

    def __init__(self) -> None:
        super().__init__()
        self.on_attention: AttentionObserver | None = None


class Observers:
    """The hooks and attention observers of a module and of all modules inside it, collected once: cheap to ask."""

    def __init__(self, module: nn.Module) -> None:
        parts = list(module.modules())
        self._hooks = [hooks for part in parts for hooks in _hooks(part)]
        self._attentions = [part for part in parts if isinstance(part, ObservableAttention)]

    def __bool__(self) -> bool:
        return (
            any(_global_hooks())
            or any(self._hooks)
            or any(attention.on_attention is not None for attention in self._attentions)
        )


def observed(module: nn.Module, *, inside: bool = False) -> bool:
    """Whether a hook (on this module or on all modules) or an attention observer would miss what a fused path skips.

    With `inside`, also those of every module inside it.
    """
    if inside:
        return bool(Observers(module))
    attention = isinstance(module, ObservableAttention) and module.on_attention is not None
    return attention or any(_hooks(module)) or any(_global_hooks())


def _hooks(module: nn.Module) -> tuple[dict[int, Any], ...]:
    return module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks


def _global_hooks() -> tuple[dict[int, Any], ...]:
    return (
        torch_module._global_forward_hooks,
        torch_module._global_forward_pre_hooks,
        torch_module._global_backward_hooks,
        torch_module._global_backward_pre_hooks,
    )
