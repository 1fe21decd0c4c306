"""The ways there are from the same inputs to the same logits: alone or in a batch, whole or through a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from headway.verification.kinds import Example, Forward, Kind, Rows

Logits = list[Tensor]  # (T, V) an example, its own tokens only
Path = Callable[[nn.Module, Kind, Sequence[Example]], Logits]


@contextmanager
def kernel(model: nn.Module, name: str | None) -> Iterator[None]:
    """Let every attention of a model run on this kernel; None leaves each its own."""
    kept = {part: part.kernel for part in attentions(model)} if name is not None else {}
    for part in kept:
        part.kernel = name  # type: ignore[assignment]
    try:
        yield
    finally:
        for part, before in kept.items():
            part.kernel = before


def attentions(model: nn.Module) -> list[nn.Module]:
    """The parts of a model that choose a kernel."""
    return [part for part in model.modules() if isinstance(getattr(part, "kernel", None), str)]


def alone(model: Forward, kind: Kind, examples: Sequence[Example]) -> Logits:
    """One at a time, whole: no cache, no padding."""
    return [kind.forward(model, Rows.alone(each))[0] for each in examples]


def together(model: Forward, kind: Kind, examples: Sequence[Example], fill: int = 0) -> Logits:
    """All in one batch, padded on the right."""
    return _cut(kind.forward(model, Rows.together(examples, fill)), examples)


def stepped(model: nn.Module, kind: Kind, examples: Sequence[Example]) -> Logits:
    """One at a time through a cache, token by token."""
    return [_pieces(model, kind, each, [1] * len(each.tokens)) for each in examples]


def chunked(model: nn.Module, kind: Kind, examples: Sequence[Example]) -> Logits:
    """One at a time through a cache, several tokens at once after a prefix, as a draft is checked."""
    return [_pieces(model, kind, each, _sizes(len(each.tokens))) for each in examples]


def ragged(model: nn.Module, kind: Kind, examples: Sequence[Example]) -> Logits:
    """Prompts of unequal length in one batch, then token by token: each row's cache has a length of its own."""
    return _batched(model, kind, examples, torch.arange(len(examples)))


def reordered(model: nn.Module, kind: Kind, examples: Sequence[Example]) -> Logits:
    """The same, its rows turned round after the prompts, as a beam moves them."""
    return _batched(model, kind, examples, torch.arange(len(examples)).flip(0))


def _pieces(model: nn.Module, kind: Kind, example: Example, sizes: Sequence[int]) -> Tensor:
    rows = Rows.alone(example)
    state = kind.start(model, rows, 4)  # small, so that the buffers must grow
    seen = []
    for begin, end in pairwise(accumulate(sizes, initial=0)):
        logits, state = model.extend(rows.tokens[:, begin:end], state)  # type: ignore[operator]
        seen.append(logits[0])
    return torch.cat(seen)


def _sizes(length: int) -> list[int]:
    """Pieces of 3, 1, 5, 1, 5, 1 … tokens that make up a length."""
    sizes: list[int] = []
    while (left := length - sum(sizes)) > 0:
        sizes.append(min(left, 1 if len(sizes) % 2 else 5 if sizes else 3))
    return sizes


def _batched(model: nn.Module, kind: Kind, examples: Sequence[Example], order: Tensor) -> Logits:
    """Prompts whole, the greedy tokens after them one by one, with rows in `order` (its own inverse) in between."""
    rows = Rows.together(examples)
    prompts = [Example(each.tokens[: each.given], each.given) for each in examples]
    begun = Rows.together(prompts)
    order = order.to(rows.tokens.device)
    first, state = model.extend(begun.tokens, kind.start(model, rows, 4), begun.lengths)  # type: ignore[operator]
    state = model.select(state, order)  # type: ignore[operator]
    chosen = torch.stack([each.tokens[each.given :] for each in examples])  # as many for each
    then = []
    for step in range(chosen.shape[1]):
        logits, state = model.extend(chosen[order, step : step + 1], state)  # type: ignore[operator]
        then.append(logits[order, 0])
    after = torch.stack(then, 1)
    return [torch.cat([a, b]) for a, b in zip(_cut(first, prompts), after, strict=True)]


def _cut(logits_BTV: Tensor, examples: Sequence[Example]) -> Logits:
    return [logits_BTV[row, : len(each.tokens)] for row, each in enumerate(examples)]
