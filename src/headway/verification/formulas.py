"""Compare positions inside attention with their published formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from headway.nn.attention import SelfAttention
from headway.nn.positions import AlibiBias, AttentionPositions, Rotary, Shaw
from headway.nn.stack import Stack

PLACES = 12  # positions looked at
SHIFTS = (1, 5, 40)
TOLERANCE = 1e-4  # of scores near 1: angles are computed in float32
Difference = Callable[[nn.Module], float | str]  # the largest one, or why there is nothing to compare


def by_distance(model: nn.Module) -> float | str:
    """How far scores change when queries and keys move on together: with relative positions, not at all."""
    differences = [
        (_scores(attention, positions, shift) - _scores(attention, positions, 0)).abs().max()
        for attention, positions in _relative(model)
        for shift in SHIFTS
    ]
    return float(max(differences)) if differences else "the model has no positions inside attention"


def alibi_slopes(model: nn.Module) -> float | str:
    """How far a head's penalty for one step back is from the published slope (Press et al. 2022, §3)."""
    found = [0.0]
    for _, positions in _relative(model, AlibiBias):
        bias = positions(torch.arange(2), 0).bias.dense(1, positions.heads, 2, 2, torch.device("cpu"))
        found.append(float((-bias[0, :, 1, 0].double() - _published_slopes(positions.heads)).abs().max()))
    return max(found) if len(found) > 1 else "the model has no ALiBi"


def _published_slopes(heads: int) -> Tensor:
    """2^(-8/n), 2^(-16/n) … for the power of two n below, then the odd members of the same sequence for 2n."""
    power = 1 << (heads.bit_length() - 1)
    exponents = [8 * (h + 1) / power for h in range(power)] + [4 * (2 * h + 1) / power for h in range(heads - power)]
    return torch.tensor([2.0**-exponent for exponent in exponents], dtype=torch.float64)


def rotary_turns(model: nn.Module) -> float | str:
    """How far the products of features d steps apart are from a turn by d·base^(-2i/E) of the config's pairs."""
    found = [0.0]
    for _, positions in _relative(model, Rotary):
        width, rotary = positions.head_width, positions.position
        assert isinstance(rotary, Rotary)
        unit = torch.eye(width)[None, :, None].expand(1, width, PLACES, width)  # a feature a head
        turned = positions(torch.arange(PLACES), 0).rotate(unit)[0].double()  # (E, T, E)
        products = torch.einsum("atx,bx->tab", turned, turned[:, 0])
        found.append(float((products - _published_turns(rotary, width)).abs().max()))
    return max(found) if len(found) > 1 else "the model has no rotary positions"


def _published_turns(rotary: Rotary, width: int) -> Tensor:
    """(T, E, E): what a feature at place t gives with a feature at place 0."""
    expected = torch.zeros(PLACES, width, width, dtype=torch.float64)
    for i in range(width // 2):
        a, b = (2 * i, 2 * i + 1) if rotary.layout == "interleaved" else (i, i + width // 2)
        for t in range(PLACES):
            angle = t * rotary.base_of(0) ** (-2 * i / width)
            expected[t, a, a] = expected[t, b, b] = math.cos(angle)
            expected[t, a, b], expected[t, b, a] = math.sin(angle), -math.sin(angle)
    return expected


def _relative(model: nn.Module, kind: type | None = None) -> Iterator[tuple[SelfAttention, AttentionPositions]]:
    """The positions of each stack that act inside attention, with one attention they act in."""
    for stack in model.modules():
        if isinstance(stack, Stack) and stack.attention_positions is not None and len(stack.blocks):
            positions, attention = stack.attention_positions, stack.blocks[0].attention
            if isinstance(attention, SelfAttention) and (kind is None or isinstance(positions.position, kind)):
                yield attention, positions


@torch.no_grad()
def _scores(attention: SelfAttention, positions: AttentionPositions, shift: int) -> Tensor:
    """Scores (1, H, T, T) of fixed queries and keys that begin at place `shift`."""
    device = next(attention.parameters()).device
    generator = torch.Generator().manual_seed(0)
    size = (1, attention.heads, PLACES, attention.head_width)
    q, k = (torch.randn(size, generator=generator).to(device) for _ in range(2))
    context = positions(shift + torch.arange(PLACES, device=device), shift)
    scores: Tensor = context.rotate(q) @ context.rotate(k).mT * attention.head_width**-0.5
    shaw = attention.shaw.bias(q, 1.0, shift) if isinstance(positions.position, Shaw) and attention.shaw else None
    bias = shaw or context.bias
    if bias is not None:
        scores = scores + bias.dense(1, attention.heads, PLACES, shift + PLACES, device)[..., shift:]
    return scores
