"""What a forward pass did, kept for the page: every attention's queries, keys, values, and every block's stream.

The model runs as it always does: forward hooks look at its modules and taps, and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.nn.alignment import Aligned, Alignment
from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.positions import Geometry, InputPositions
from headway.nn.stack import Stack
from headway.ops import Mask


@dataclass(slots=True)
class Heads:
    """One attention of one text: q (H, T, E), k and v (G, S, E), weights (H, T, S), what came of it (H, T, E)."""

    module: nn.Module
    seen: dict[str, Tensor] = field(default_factory=dict)  # q, k, v, weights, heads, and global_q, … of Longformer
    mask: Mask | None = None
    geometry: Geometry | None = None
    energy: Tensor | None = None  # (E,) of an additive score


@dataclass(slots=True)
class Stream:
    """What passed through one stack: (T, D) each; `parts` are what attention and network added, by block."""

    module: Stack
    embedded: Tensor | None = None
    placed: Tensor | None = None  # with the positions joined to the input
    entered: Tensor | None = None  # what the first block reads
    left: list[Tensor] = field(default_factory=list)
    parts: list[dict[str, Tensor]] = field(default_factory=list)
    out: Tensor | None = None


class Recording:
    """Listens to a model's attentions and stacks while it is entered; the first text of a batch is kept."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.attentions: dict[str, Heads] = {}
        self.streams: dict[str, Stream] = {}
        self._hooks = ExitStack()

    def __enter__(self) -> Recording:
        for name, module in self.model.named_modules():
            if isinstance(module, SelfAttention | CrossAttention):
                self._listen_to_heads(name, module)
            elif isinstance(module, Alignment):
                self._listen_to_alignment(name, module)
            elif isinstance(module, Stack):
                self._listen_to_stack(name, module)
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.close()

    def _after(self, module: nn.Module, keep: Callable[[Tensor], None]) -> None:
        handle = module.register_forward_hook(lambda _module, _given, value: keep(value))
        self._hooks.callback(handle.remove)

    def _before(self, module: nn.Module, keep: Callable[[tuple[Any, ...], dict[str, Any]], None]) -> None:
        handle = module.register_forward_pre_hook(lambda _module, given, named: keep(given, named), with_kwargs=True)
        self._hooks.callback(handle.remove)

    def _listen_to_heads(self, name: str, module: SelfAttention | CrossAttention) -> None:
        heads = self.attentions[name] = Heads(module)

        def called(given: tuple[Any, ...], named: dict[str, Any]) -> None:
            heads.mask, heads.geometry = named.get("mask"), named.get("geometry")

        self._before(module, called)
        for tap, child in module.named_children():
            if tap.startswith("tap_"):
                self._after(child, self._keep(heads.seen, tap.removeprefix("tap_")))

    @staticmethod
    def _keep(seen: dict[str, Tensor], name: str) -> Callable[[Tensor], None]:
        def keep(value: Tensor) -> None:
            seen[name] = value[0].detach()

        return keep

    def _listen_to_alignment(self, name: str, module: Alignment) -> None:
        heads = self.attentions[name] = Heads(module, energy=module.energy)

        def called(given: tuple[Any, ...], named: dict[str, Any]) -> None:
            states, source = given
            assert isinstance(source, Aligned)
            query = states if module.query is None else module.query(states)
            query = query.sigmoid() if module.kind == "learned" else query
            real = source.real[0]
            _append(heads.seen, "q", query[0])
            heads.seen["k"], heads.seen["v"] = source.keys[0][real].unsqueeze(0), source.values[0][real].unsqueeze(0)

        self._before(module, called)
        self._after(module.tap_weights, lambda weights: _append(heads.seen, "weights", weights[0]))
        self._after(module, lambda context: _append(heads.seen, "heads", context[0]))

    def _listen_to_stack(self, name: str, module: Stack) -> None:
        stream = self.streams[name] = Stream(module)

        def began(given: tuple[Any, ...], named: dict[str, Any]) -> None:
            stream.embedded = given[0][0].detach()

        def entered(value: Tensor) -> None:
            stream.entered = value[0].detach() if stream.entered is None else stream.entered

        def placed(value: Tensor) -> None:
            stream.placed = value[0].detach()

        def finished(value: Tensor) -> None:
            stream.out = value[0].detach()

        self._before(module, began)
        self._after(module, finished)
        if isinstance(module.input_positions, InputPositions):
            self._after(module.input_positions, placed)
        for block in module.blocks:
            assert isinstance(block, Block)
            parts: dict[str, Tensor] = {}
            stream.parts.append(parts)
            self._after(block.tap_resid_in, entered)
            self._after(block.tap_resid_out, lambda value: stream.left.append(value[0].detach()))
            for part in ("attn", "cross", "mlp"):
                self._after(getattr(block, f"tap_{part}_out"), self._keep(parts, part))


def _append(seen: dict[str, Tensor], name: str, rows_TE: Tensor) -> None:
    """Put rows (T, …) below those of the looks before, as one head (1, T, …): a recurrent decoder looks step by step."""
    rows = rows_TE.detach().unsqueeze(0)
    seen[name] = torch.cat([seen[name], rows], 1) if name in seen else rows
