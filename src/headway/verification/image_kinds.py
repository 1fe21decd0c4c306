"""The kinds of task that `verify` shows images: what comes out is a class, a caption or heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.tokenizers import Tokenizer
from headway.models import Source
from headway.tasks.captioning import Captioning
from headway.verification.kinds import Example, Forward, LanguageKind, Named, Rows


class ImageKind:
    """An image goes in, the logits of its class come out: one place."""

    generates, pads = False, False
    names: Named = "class"
    vocabularies: tuple[Tokenizer | None, ...] = ()

    def forward(self, model: Forward, rows: Rows) -> Tensor:
        logits: Tensor = model(_images(model, rows))
        return logits.unsqueeze(1)

    def start(self, model: Any, rows: Rows, capacity: int) -> Any:
        raise NotImplementedError("a classifier generates nothing")

    def example(self, image: Tensor) -> Example:
        """An image (C, height, width), already normalised, as an input."""
        return Example(torch.zeros(1, dtype=torch.long), 0, image=image)


class HeatMapKind(ImageKind):
    """An image goes in, a heat map of each keypoint comes out; what is compared are all cells: one place."""

    names: Named = None

    def forward(self, model: Forward, rows: Rows) -> Tensor:
        maps: Tensor = model(_images(model, rows))
        return maps.flatten(1).unsqueeze(1)


class CaptionKind(LanguageKind):
    """An image and a caption's beginning go in, the logits of each next token come out."""

    def __init__(self, config: Captioning, tokenizers: Mapping[str, Tokenizer]) -> None:
        self.longest, self.tokenizer = config.max_length, tokenizers["tokenizer.json"]

    def forward(self, model: Forward, rows: Rows) -> Tensor:
        lengths = () if rows.lengths is None else (rows.lengths,)
        logits: Tensor = model(_images(model, rows), rows.tokens, *lengths)
        return logits

    def start(self, model: Any, rows: Rows, capacity: int) -> Any:
        return model.start(Source.of_images(_images(model, rows)), capacity=capacity)

    def example(self, ids: Sequence[int], source: Sequence[int] | None) -> Example:
        tokens = torch.tensor([self.tokenizer.start, *ids])
        return Example(tokens, len(tokens))


def _images(model: Forward, rows: Rows) -> Tensor:
    """The images of a batch in the precision of a model's weights."""
    assert rows.images is not None
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    dtype = next((p.dtype for p in parameters if p.is_floating_point()), rows.images.dtype)
    return rows.images.to(dtype)
