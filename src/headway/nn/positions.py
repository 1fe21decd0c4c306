"""Positional encodings, interchangeable by one config value.

Some are added to the input, or concatenated as `concat` dimensions and projected back: W[x; p] = W_x x + W_p p, of
which adding is the tied case. Others act inside attention. The types allow what makes sense: a rotation cannot be
concatenated, a causal model does not know the fraction of the length, cross-attention has no positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headway import ops
from headway.errors import ConfigError, TooLongError
from headway.nn.context import AttentionContext
from headway.ops import Offset

# --- at the input --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _InputPosition:
    concat: int = 0  # 0 adds the code to the input; n > 0 appends n dimensions and mixes them back to the width

    def __post_init__(self) -> None:
        if self.concat < 0:
            raise ConfigError(f"concat={self.concat}, allowed: 0 (add) and above")

    def codes(self, positions: Tensor, width: int, lengths: Tensor | int) -> Tensor:
        """Codes (…, width) for positions (…) in sequences of these lengths."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class RawIndex(_InputPosition):
    """t itself in every dimension: unbounded, it outweighs the embeddings of a long text."""

    def codes(self, positions: Tensor, width: int, lengths: Tensor | int) -> Tensor:
        return positions.float().unsqueeze(-1).expand(*positions.shape, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fraction(_InputPosition):
    """t/(T - 1): bounded, but a position's code depends on the length of the text. Encoders only."""

    def codes(self, positions: Tensor, width: int, lengths: Tensor | int) -> Tensor:
        last = torch.as_tensor(lengths, device=positions.device).unsqueeze(-1) - 1
        code = positions / last.clamp(min=1)
        return code.unsqueeze(-1).expand(*code.shape, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturating(_InputPosition):
    """tanh(t/tau): bounded and independent of the length, but far positions become indistinguishable."""

    tau: float = 10.0  # tokens until the code is about 0.76 (tanh 1)

    def __post_init__(self) -> None:
        _InputPosition.__post_init__(self)
        if self.tau <= 0:
            raise ConfigError(f"tau={self.tau}, allowed: above 0")

    def codes(self, positions: Tensor, width: int, lengths: Tensor | int) -> Tensor:
        return (positions / self.tau).tanh().unsqueeze(-1).expand(*positions.shape, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sine(_InputPosition):
    """sin(rate·t): bounded without saturation, but different positions share a code."""

    rate: float = 1.0  # radians per token

    def codes(self, positions: Tensor, width: int, lengths: Tensor | int) -> Tensor:
        return (self.rate * positions).sin().unsqueeze(-1).expand(*positions.shape, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class SineCosine(_InputPosition):
    """sin and cos of rate·t in alternate dimensions: unique within one period, 2π/rate."""

    rate: float = 1.0  # radians per token

    def codes(self, positions: Tensor, width: int, lengths: Tensor | int) -> Tensor:
        _expect_even("sine-cosine", width)
        pair = torch.stack([(self.rate * positions).sin(), (self.rate * positions).cos()], -1)
        return pair.repeat(*[1] * positions.ndim, width // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinusoidal(_InputPosition):
    """sin and cos in alternate dimensions, wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5)."""

    layout: ClassVar[Literal["paper", "halves", "tensor2tensor"]] = "paper"
    base: float = 10000.0  # the longest wavelength is 2π·base tokens

    def __post_init__(self) -> None:
        _InputPosition.__post_init__(self)
        _expect_base(self.base)

    def codes(self, positions: Tensor, width: int, lengths: Tensor | int) -> Tensor:
        _expect_even("sinusoidal", width)
        return ops.sinusoids(positions, width, self.layout, self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinusoidalHalves(Sinusoidal):
    """The same frequencies, all sines before all cosines: Marian's layout."""

    layout: ClassVar[Literal["paper", "halves", "tensor2tensor"]] = "halves"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinusoidalTensor2Tensor(Sinusoidal):
    """Halves with the frequencies of tensor2tensor and fairseq, the lowest of which is exactly 1/base."""

    layout: ClassVar[Literal["paper", "halves", "tensor2tensor"]] = "tensor2tensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(_InputPosition):
    """A trained vector for each position up to the model's context; longer inputs are an error."""


def _expect_base(base: float) -> None:
    if not base >= 1.0:
        raise ConfigError(f"position.base={base}, allowed: 1 and above")


def _expect_even(kind: str, width: int) -> None:
    if width % 2:
        raise ConfigError(f"position {kind} needs an even width, got {width}")


# --- inside attention ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """Queries and keys rotated by an angle proportional to the position (Su et al. 2021, section 3.2)."""

    base: float | tuple[float, ...] = 10000.0  # the slowest angle turns once in about 2π·base tokens; or one a layer
    layout: Literal["interleaved", "halves"] = "interleaved"  # RoFormer, GPT-J; LLaMA, NeoX

    def __post_init__(self) -> None:
        for base in self.bases or (0.0,):
            _expect_base(base)
        if self.layout not in ("interleaved", "halves"):
            raise ConfigError(f"layout={self.layout!r}, allowed: interleaved, halves")

    @property
    def bases(self) -> tuple[float, ...]:
        """The base of each layer, or one for all."""
        return self.base if isinstance(self.base, tuple) else (self.base,)

    def base_of(self, layer: int) -> float:
        """The base of a layer."""
        return self.bases[layer % len(self.bases)]

    def build(self, heads: int, head_width: int, *, causal: bool) -> AttentionPositions:
        """What all layers share."""
        return RotaryPositions(self, heads, head_width)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlibiBias:
    """A penalty on scores proportional to the distance, with a slope for each head (Press et al. 2022, section 3)."""

    name: ClassVar[str] = "alibi"

    def build(self, heads: int, head_width: int, *, causal: bool) -> AttentionPositions:
        """What all layers share."""
        return AlibiPositions(self, heads, head_width)


@dataclass(frozen=True, slots=True, kw_only=True)
class T5:
    """A learned bias per head and bucket of distances, one table for all layers (Raffel et al. 2020, section 2.1).

    T5 itself leaves out the factor 1/√E of the scores.
    """

    buckets: int = 32  # distances share this many biases: near ones have one each, far ones by logarithm
    distance: int = 128  # tokens from which on all distances share the last bucket

    def __post_init__(self) -> None:
        if self.buckets < 4 or self.distance <= self.buckets // 2:
            raise ConfigError(f"buckets={self.buckets}, distance={self.distance}: at least 4, above half the buckets")

    def build(self, heads: int, head_width: int, *, causal: bool) -> AttentionPositions:
        """What all layers share."""
        return T5Positions(self, heads, head_width, causal=causal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaw:
    """Learned vectors for clipped distances, added to keys and, with `values`, to values (Shaw et al. 2018, section 3).

    Each layer has its tables. The value part needs the attention weights, so a layer with it computes them densely.
    """

    reach: int = 16  # distances beyond this many tokens are clipped to it
    values: bool = True  # also add learned vectors to the values

    def __post_init__(self) -> None:
        if self.reach < 0:
            raise ConfigError(f"reach={self.reach}, allowed: 0 and above")

    def build(self, heads: int, head_width: int, *, causal: bool) -> AttentionPositions:
        """What all layers share: nothing but the offset."""
        return AttentionPositions(self, heads, head_width)


AttentionPosition = Rotary | AlibiBias | T5 | Shaw
CausalInput = (
    RawIndex | Saturating | Sine | SineCosine | Sinusoidal | SinusoidalHalves | SinusoidalTensor2Tensor | Learned
)
CausalPosition = CausalInput | AttentionPosition
EncoderPosition = CausalPosition | Fraction


class InputPositions(nn.Module):
    """Adds the code of each position to its token's vector, or concatenates and projects it."""

    def __init__(self, position: CausalInput | Fraction, width: int, context: int) -> None:
        super().__init__()
        self.position = position  # for reports: `forward` does not read it
        self.context, self.codes = context, position.codes
        self.code_width = position.concat or width
        self.table = nn.Parameter(torch.empty(context, self.code_width)) if isinstance(position, Learned) else None
        if self.table is not None:
            nn.init.normal_(self.table, std=0.02)
        else:
            position.codes(torch.zeros(1, device="cpu"), self.code_width, 1)  # an odd width fails here, not later
        self.mix = nn.Linear(width + position.concat, width) if position.concat else None

    def forward(self, x_BTD: Tensor, positions: Tensor, furthest: int, lengths: Tensor | int) -> Tensor:
        """(B, T, D) -> (B, T, D); positions (T,) or (B, T), all below `furthest`."""
        codes: Tensor
        if self.table is None:
            codes = self.codes(positions, self.code_width, lengths).to(x_BTD.dtype)
        elif furthest > self.context:
            raise TooLongError(f"a sequence of up to {furthest} tokens, the learned positions end at {self.context}")
        else:
            whole = positions.ndim == 1 and furthest == len(positions)  # 0, 1, 2 …: a slice
            codes = self.table[:furthest] if whole else self.table[positions]
        if self.mix is None:
            return x_BTD + codes
        mixed: Tensor = self.mix(torch.cat([x_BTD, codes.expand(*x_BTD.shape[:2], -1)], -1))
        return mixed


class AttentionPositions(nn.Module):
    """The part of a position inside attention that all layers share; for Shaw none, whose tables are in each layer.

    `position` describes it: `forward` does not read it.
    """

    def __init__(self, position: AttentionPosition, heads: int, head_width: int) -> None:
        super().__init__()
        self.position, self.heads, self.head_width = position, heads, head_width

    def forward(self, positions: Tensor, offset: Offset) -> AttentionContext:
        """The context of queries at `positions` (T,) or (B, T), the first of which is at `offset` among the keys."""
        return AttentionContext(offset)

    def of_layers(self, positions: Tensor, offset: Offset, layers: int) -> Sequence[AttentionContext]:
        """The context of each layer; here one for all."""
        return [self(positions, offset)] * layers


class RotaryPositions(AttentionPositions):
    """Rotation angles, of all layers or of each."""

    def __init__(self, position: Rotary, heads: int, head_width: int) -> None:
        super().__init__(position, heads, head_width)
        _expect_even("rotary", head_width)
        self.bases, self.layout = position.bases, position.layout

    def forward(self, positions: Tensor, offset: Offset) -> AttentionContext:
        """The context of the first layer."""
        return self._turned(positions, offset, self.bases[0])

    def of_layers(self, positions: Tensor, offset: Offset, layers: int) -> Sequence[AttentionContext]:
        """The context of each layer; layers with equal bases share one."""
        if len(self.bases) == 1:
            return super().of_layers(positions, offset, layers)
        made = {base: self._turned(positions, offset, base) for base in dict.fromkeys(self.bases)}
        return [made[base] for base in self.bases]

    def _turned(self, positions: Tensor, offset: Offset, base: float) -> AttentionContext:
        return AttentionContext(offset, ops.rotary_angles(positions, self.head_width, base), self.layout)


class AlibiPositions(AttentionPositions):
    """A slope for each head. Computed at each call: a buffer would be rounded in a model of 16 bits."""

    def forward(self, positions: Tensor, offset: Offset) -> AttentionContext:
        return AttentionContext(offset, bias=ops.Alibi(ops.alibi_slopes(self.heads).to(positions.device), offset))


class T5Positions(AttentionPositions):
    """A learned bias for each head and bucket of distances."""

    def __init__(self, position: T5, heads: int, head_width: int, *, causal: bool) -> None:
        super().__init__(position, heads, head_width)
        self.buckets, self.distance, self.causal = position.buckets, position.distance, causal
        self.table = nn.Parameter(torch.zeros(heads, position.buckets))

    def forward(self, positions: Tensor, offset: Offset) -> AttentionContext:
        distances = torch.arange(-self.distance, self.distance + 1, device=positions.device)
        buckets = t5_buckets(distances, self.buckets, self.distance, causal=self.causal)
        return AttentionContext(offset, bias=ops.Relative(self.table[:, buckets][None, :, None], offset))


def t5_buckets(distances: Tensor, buckets: int, furthest: int, *, causal: bool) -> Tensor:
    """The bucket of each distance j - i: exact if small, logarithmic if large, the last one from `furthest` on.

    A causal model uses all buckets for the past; an encoder half for each side (Raffel et al. 2020, section 2.1).
    """
    ahead = torch.zeros_like(distances)
    if causal:
        away = (-distances).clamp(min=0)
    else:
        buckets //= 2
        ahead, away = (distances > 0) * buckets, distances.abs()
    exact = buckets // 2
    growth = (away.clamp(min=exact).float() / exact).log() / torch.tensor(furthest / exact).log()
    far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
    return ahead + torch.where(away < exact, away, far)
