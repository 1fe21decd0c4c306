"""What a forward pass gives its layers: positions inside attention, the mask, the cache, the memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from headway import ops
from headway.nn.cache import LayerCache
from headway.nn.memory import LayerMemory
from headway.ops import Bias, Mask, Offset


@dataclass(frozen=True, slots=True)
class AttentionContext:
    """Positions inside attention, computed once for all layers: rotation angles or a bias on the scores."""

    offset: Offset = 0  # the position of the first query among the keys
    angles: tuple[Tensor, Tensor] | None = None
    layout: Literal["interleaved", "halves"] = "interleaved"
    bias: Bias | None = None

    def rotate(self, x_BHTE: Tensor) -> Tensor:
        """Rotate queries or keys to their positions; without rotary positions, x itself."""
        return x_BHTE if self.angles is None else ops.rotate(x_BHTE, *self.angles, self.layout)


NO_POSITIONS = AttentionContext()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerContext:
    """What a block is given beside its input (B, T, D)."""

    positions: AttentionContext  # no default: torch.compile of torch 2.11 cannot trace one that is an object
    mask: Mask | None = None
    cache: LayerCache | None = None  # of this layer; x then holds the tokens after those it has seen
    memory: LayerMemory | None = None  # for cross-attention
    real_BT: Tensor | None = None  # noqa: N815  # which tokens are not padding, where layers mix them outside attention
    output_tokens: int | None = None  # if given, compute only the first n tokens; they see all keys


NO_CONTEXT = LayerContext(positions=NO_POSITIONS)
