"""A source as a decoder's cross-attention sees it: keys and values of every layer, projected once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headway.nn.beam_cache import SharedSourceArgs, selected_sources
from headway.nn.cache import AttendArgs
from headway.ops import Lengths, Mask


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """The source's keys and values (N, G, S, E) for one layer; each row serves `hypotheses` adjacent decoder rows."""

    k: Tensor
    v: Tensor
    mask: Mask | None = None
    hypotheses: int = 1

    def attend_args(self, q_BHTE: Tensor) -> AttendArgs:
        """Attention of these queries, (N·hypotheses, H, T, E), over the source."""
        args = AttendArgs(q_BHTE, self.k, self.v, self.mask)
        return args if self.hypotheses == 1 else SharedSourceArgs.of(args, self.hypotheses)


@dataclass(frozen=True, slots=True)
class Memory:
    """Keys and values (N, G, S, E) of every layer, and the source's padding."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    mask: Mask | None
    hypotheses: int = 1  # adjacent decoder rows of each source: a beam's hypotheses share what is held of it

    def layer(self, number: int) -> LayerMemory:
        """What one layer's cross-attention is given."""
        return LayerMemory(*self.layers[number], self.mask, self.hypotheses)

    def select(self, rows_B: Tensor) -> Memory:
        """These decoder rows, in this order."""
        kept, hypotheses = selected_sources(rows_B, self.hypotheses) or (rows_B // self.hypotheses, 1)
        if kept.device.type == "cpu" and torch.equal(kept, torch.arange(len(self.layers[0][0]))):
            return replace(self, hypotheses=hypotheses)
        layers = tuple((k[kept], v[kept]) for k, v in self.layers)
        mask = Lengths(self.mask.lengths[kept]) if isinstance(self.mask, Lengths) else self.mask
        return Memory(layers, mask, hypotheses)
