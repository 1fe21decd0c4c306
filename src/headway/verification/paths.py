"""Different ways from the same inputs to the same logits: alone or in a batch, whole or through a KV cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.models import Model, ModelInputs, ModelOutputs
from headway.tasks.verification_inputs import Example, compared

Logits = list[Tensor]  # (T, V) an example, its own tokens only
Run = Callable[[ModelInputs], ModelOutputs]  # the `run` of a model, or of anything that stands for one
Path = Callable[[Model, Sequence[Example]], Logits]


def alone(model: Model | Run, examples: Sequence[Example]) -> Logits:
    """One at a time, whole: no cache, no padding."""
    return [forward(model, each.inputs)[0] for each in examples]


def together(model: Model | Run, examples: Sequence[Example], fill: int = 0) -> Logits:
    """All in one batch, padded on the right with `fill`."""
    return _unpadded(forward(model, batch(examples, fill)), examples)


def stepped(model: Model, examples: Sequence[Example]) -> Logits:
    """One at a time through a cache, token by token."""
    return [_chunks(model, each, [1] * len(each.tokens)) for each in examples]


def chunked(model: Model, examples: Sequence[Example]) -> Logits:
    """One at a time through a cache, several tokens at once after a prefix, as a draft is checked."""
    return [_chunks(model, each, _sizes(len(each.tokens))) for each in examples]


def ragged(model: Model, examples: Sequence[Example]) -> Logits:
    """Prompts of different lengths in one batch, then token by token: each row's cache has its own length."""
    return _batched(model, examples, torch.arange(len(examples)))


def reordered(model: Model, examples: Sequence[Example]) -> Logits:
    """The same, with the rows reversed after the prompts, as beam search reorders them."""
    return _batched(model, examples, torch.arange(len(examples)).flip(0))


def forward(model: Model | Run, inputs: ModelInputs) -> Tensor:
    """Logits (B, T, V) of a forward pass; images and frames are cast to the dtype of a model's weights."""
    run = model.run if isinstance(model, Model) else model
    inputs = as_weights(model, inputs) if isinstance(model, Model) else inputs
    return compared(run(inputs), inputs)


def centred(logits_TV: Tensor) -> Tensor:
    """Less the mean of each place, which no probability sees; a single output is a number, and stays as it is."""
    return logits_TV if logits_TV.shape[-1] == 1 else logits_TV - logits_TV.mean(-1, keepdim=True)


def as_weights(model: Model, inputs: ModelInputs) -> ModelInputs:
    """Images and frames in the dtype of a model's weights."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    images, frames = (None if part is None else part.to(dtype) for part in (inputs.images, inputs.frames))
    return replace(inputs, images=images, frames=frames)


def batch(examples: Sequence[Example], fill: int = 0) -> ModelInputs:
    """Examples in one batch, tokens and frames padded on the right with `fill`, segments with 0."""
    rows = [each.inputs for each in examples]
    tokens, lengths = _padded([each.tokens for each in rows], fill)
    source, source_lengths = _padded([each.source for each in rows], fill)
    frames, frame_lengths = _padded([each.frames for each in rows], fill)
    segments, _ = _padded([each.segments for each in rows], 0)
    vectors, vector_lengths = _padded([each.vectors for each in rows], fill)
    images = [each.images for each in rows if each.images is not None]
    return ModelInputs(
        tokens=tokens,
        lengths=vector_lengths if lengths is None else lengths,
        source=source,
        source_lengths=source_lengths,
        segments=segments,
        images=torch.cat(images) if images else None,
        frames=frames,
        frame_lengths=frame_lengths,
        vectors=vectors,
    )


def _padded(rows: Sequence[Tensor | None], fill: int) -> tuple[Tensor | None, Tensor | None]:
    """(1, T, …) each -> (B, T, …), lengths (B,); None where the rows are."""
    there = [row[0] for row in rows if row is not None]
    if not there:
        return None, None
    lengths = torch.tensor([len(row) for row in there], device=there[0].device)
    return pad_sequence(there, batch_first=True, padding_value=fill), lengths


def _start(model: Model, inputs: ModelInputs) -> Any:
    """The state before the first token, with room for few tokens, so that its buffers must grow."""
    return model.start(as_weights(model, inputs).encoder_input, capacity=4)  # type: ignore[operator]


def _chunks(model: Model, example: Example, sizes: Sequence[int]) -> Tensor:
    state = _start(model, example.inputs)
    tokens, seen = example.inputs.need("tokens"), []
    for begin, end in pairwise(accumulate(sizes, initial=0)):
        logits, state = model.extend(tokens[:, begin:end], state)  # type: ignore[operator]
        seen.append(logits[0])
    return torch.cat(seen)


def _sizes(length: int) -> list[int]:
    """Chunks of 3, 1, 5, 1, 5, 1 … tokens that make up a length."""
    sizes: list[int] = []
    while (left := length - sum(sizes)) > 0:
        sizes.append(min(left, 1 if len(sizes) % 2 else 5 if sizes else 3))
    return sizes


def _batched(model: Model, examples: Sequence[Example], order: Tensor) -> Logits:
    """Prompts whole, the greedy tokens after them one by one, with rows in `order` (its own inverse) in between."""
    rows = batch(examples)
    prompts = [
        Example(ModelInputs(tokens=each.inputs.need("tokens")[:, : each.given]), each.given) for each in examples
    ]
    begun = batch(prompts)
    order = order.to(begun.need("tokens").device)
    first, state = model.extend(begun.tokens, _start(model, rows), begun.lengths)  # type: ignore[operator]
    state = model.select(state, order)  # type: ignore[operator]
    chosen = torch.stack([each.tokens[each.given :] for each in examples])  # as many for each
    then = []
    for step in range(chosen.shape[1]):
        logits, state = model.extend(chosen[order, step : step + 1], state)  # type: ignore[operator]
        then.append(logits[order, 0])
    after = torch.stack(then, 1)
    return [torch.cat([a, b]) for a, b in zip(_unpadded(first, prompts), after, strict=True)]


def _unpadded(logits_BTV: Tensor, examples: Sequence[Example]) -> Logits:
    return [logits_BTV[row, : len(each.tokens)] for row, each in enumerate(examples)]
