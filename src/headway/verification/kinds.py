"""What `verify` needs to know of a kind of task: its inputs, and how its model is called. One small class a kind.

Those that read images are in `image_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.data.tokenizers import Tokenizer
from headway.models import Source
from headway.models.bert import PretrainingLogits
from headway.tasks.language_modelling.training import Language
from headway.tasks.masked_lm.training import Masked
from headway.tasks.sentence_embedding.embed import Embedding, around
from headway.tasks.text_classification.training import TextClassification
from headway.tasks.translation.search import Translation, before_source

Forward = Callable[..., Any]  # a model, or anything that is called as one
Named = Literal["token", "class"] | None


@dataclass(frozen=True, slots=True)
class Example:
    """One input: its tokens (T,), how many of them were given, and what is read beside them.

    The tokens after the first `given` are the model's own greedy choice; a model that generates nothing chose none.
    A classifier's image stands beside a single token of no meaning: the one place there is an answer for.
    """

    tokens: Tensor
    given: int
    source: Tensor | None = None  # (S,)
    segments: Tensor | None = None  # (T,)
    image: Tensor | None = None  # (C, height, width)

    def to(self, device: torch.device) -> Example:
        """The same on a device."""
        source, segments, image = (
            None if part is None else part.to(device) for part in (self.source, self.segments, self.image)
        )
        return Example(self.tokens.to(device), self.given, source, segments, image)


@dataclass(frozen=True, slots=True)
class Rows:
    """Examples side by side, padded on the right with `fill`; without lengths where nothing is padded."""

    tokens: Tensor  # (B, T)
    lengths: Tensor | None = None
    source: Tensor | None = None  # (B, S)
    source_lengths: Tensor | None = None
    segments: Tensor | None = None
    images: Tensor | None = None  # (B, C, height, width)
    marked: Tensor | None = None  # (B, T), not 0 at global tokens

    @classmethod
    def alone(cls, example: Example) -> Rows:
        """One example as a batch of one, nothing padded."""
        source = None if example.source is None else example.source[None]
        segments = None if example.segments is None else example.segments[None]
        image = None if example.image is None else example.image[None]
        return cls(example.tokens[None], None, source, None, segments, image)

    @classmethod
    def together(cls, examples: Sequence[Example], fill: int = 0) -> Rows:
        """All of them in one batch."""
        tokens, lengths = _padded([each.tokens for each in examples], fill)
        sources = [each.source for each in examples if each.source is not None]
        segments = [each.segments for each in examples if each.segments is not None]
        images = [each.image for each in examples if each.image is not None]
        source, source_lengths = _padded(sources, fill) if sources else (None, None)
        marked = _padded(segments, 0)[0] if segments else None
        return cls(tokens, lengths, source, source_lengths, marked, torch.stack(images) if images else None)

    @classmethod
    def kept(cls, tensors: Mapping[str, Tensor]) -> Rows:
        """What a file has under the names of these fields; a classifier's images need no tokens."""
        images = tensors.get("images")
        found = {name: tensor.long() for name, tensor in tensors.items() if name != "images"}
        if images is None:
            return cls(**found)
        none = torch.zeros(len(images), 1, dtype=torch.long, device=images.device)
        return cls(found.pop("tokens", none), images=images.float(), **found)


def _padded(rows: Sequence[Tensor], fill: int) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(row) for row in rows], device=rows[0].device)
    return pad_sequence(list(rows), batch_first=True, padding_value=fill), lengths


class Kind(Protocol):
    """A kind of task."""

    generates: bool  # does its model write tokens, each seeing only those before it?
    pads: bool  # are its inputs of unequal length?
    names: Named  # what the largest logit of a place stands for; None: they are vectors

    def forward(self, model: Forward, rows: Rows) -> Tensor:
        """Logits (B, T, V); of images (B, 1, classes)."""
        ...

    def start(self, model: Any, rows: Rows, capacity: int) -> Any:
        """The state before the first token, for what generates."""
        ...

    @property
    def vocabularies(self) -> tuple[Tokenizer | None, ...]:
        """The tokenizers of the tokens and, where there is one, of the source; of images none."""
        ...


class TextKind(Kind, Protocol):
    """A kind of task that reads text."""

    longest: int  # tokens of an input that its model was made for

    def example(self, ids: Sequence[int], source: Sequence[int] | None) -> Example:
        """These tokens as an input, with what its model expects around them."""
        ...

    def read(self, text: str) -> tuple[list[int], list[int] | None]:
        """A line of the user's as tokens and, for a translation, the source's tokens."""
        ...

    @property
    def vocabularies(self) -> tuple[Tokenizer, Tokenizer | None]:
        """The tokenizer of the tokens, and of the source where there is one."""
        ...


class LanguageKind:
    """A text goes in, the logits of each next token come out."""

    generates, pads = True, True
    names: Named = "token"

    def __init__(self, config: Language, tokenizers: Mapping[str, Tokenizer]) -> None:
        self.longest, self.tokenizer = config.context, tokenizers["tokenizer.json"]

    @property
    def vocabularies(self) -> tuple[Tokenizer, None]:
        return self.tokenizer, None

    def forward(self, model: Forward, rows: Rows) -> Tensor:
        logits: Tensor = model(rows.tokens) if rows.lengths is None else model(rows.tokens, rows.lengths)
        return logits

    def start(self, model: Any, rows: Rows, capacity: int) -> Any:
        return model.start(capacity=capacity)

    def example(self, ids: Sequence[int], source: Sequence[int] | None) -> Example:
        marks = self.tokenizer.marks
        tokens = torch.tensor([*(marks.before if marks else ()), *ids])
        return Example(tokens, len(tokens))

    def read(self, text: str) -> tuple[list[int], None]:
        return self.tokenizer.encode(text), None


class TranslationKind:
    """A source and a target's beginning go in, the logits of each next target token come out."""

    generates, pads = True, True
    names: Named = "token"

    def __init__(self, config: Translation, tokenizers: Mapping[str, Tokenizer]) -> None:
        self.longest = config.max_length
        self.source = tokenizers.get("tokenizer-source.json") or tokenizers["tokenizer.json"]
        self.target = tokenizers.get("tokenizer-target.json") or tokenizers["tokenizer.json"]

    @property
    def vocabularies(self) -> tuple[Tokenizer, Tokenizer]:
        return self.target, self.source

    def forward(self, model: Forward, rows: Rows) -> Tensor:
        lengths = () if rows.lengths is None else (rows.source_lengths, rows.lengths)
        logits: Tensor = model(rows.source, rows.tokens, *lengths)
        return logits

    def start(self, model: Any, rows: Rows, capacity: int) -> Any:
        assert rows.source is not None
        return model.start(Source(rows.source, rows.source_lengths), capacity=capacity)

    def example(self, ids: Sequence[int], source: Sequence[int] | None) -> Example:
        tokens = torch.tensor([self.target.start, *ids])
        marks = self.source.marks
        after = () if marks is not None and marks.stop is None else (self.source.stop,)
        return Example(tokens, len(tokens), torch.tensor([*before_source(self.source), *(source or ()), *after]))

    def read(self, text: str) -> tuple[list[int], list[int] | None]:
        source, _, target = text.partition("\t")
        return self.target.encode(target), self.source.encode(source)


class MaskedKind:
    """Tokens of two sentences, or of one text, go in, the logits of every token come out."""

    generates, pads = False, True
    names: Named = "token"

    def __init__(self, config: Masked, tokenizers: Mapping[str, Tokenizer]) -> None:
        self.longest, self.tokenizer = config.length, tokenizers["tokenizer.json"]
        self.pairs = config.rows == "pairs"

    @property
    def vocabularies(self) -> tuple[Tokenizer, None]:
        return self.tokenizer, None

    def forward(self, model: Forward, rows: Rows) -> Tensor:
        marked = {} if rows.marked is None else {"global_BT": rows.marked != 0}
        said = model(rows.tokens, rows.lengths, segments_BT=rows.segments, **marked)
        logits: Tensor = said.tokens if isinstance(said, PretrainingLogits) else said
        return logits

    def start(self, model: Any, rows: Rows, capacity: int) -> Any:
        raise NotImplementedError("a masked model generates nothing")

    def example(self, ids: Sequence[int], source: Sequence[int] | None) -> Example:
        before, after = around(self.tokenizer)
        tokens = torch.tensor([*before, *ids, *after])
        if not self.pairs:
            return Example(tokens, 0)
        # A second sentence from the middle on, so that its embedding is part of what is compared.
        return Example(tokens, 0, segments=(torch.arange(len(tokens)) > len(tokens) // 2).long())

    def read(self, text: str) -> tuple[list[int], None]:
        return self.tokenizer.encode(text), None


class EmbeddingKind(MaskedKind):
    """Tokens go in, a vector of each comes out; what is compared are these."""

    names: Named = None

    def __init__(self, config: Embedding, tokenizers: Mapping[str, Tokenizer]) -> None:
        self.longest, self.tokenizer, self.pairs = config.max_length, tokenizers["tokenizer.json"], True


class TextClassKind(MaskedKind):
    """Tokens go in, the logits of the text's class come out, at every place the same."""

    names: Named = "class"

    def __init__(self, config: TextClassification, tokenizers: Mapping[str, Tokenizer]) -> None:
        self.longest, self.tokenizer, self.pairs = config.length, tokenizers["tokenizer.json"], False

    def forward(self, model: Forward, rows: Rows) -> Tensor:
        logits: Tensor = model(rows.tokens, rows.lengths)
        return logits.unsqueeze(1).expand(-1, rows.tokens.shape[1], -1)


KINDS: dict[type, Callable[[Any, Mapping[str, Tokenizer]], TextKind]] = {
    Language: LanguageKind,
    Masked: MaskedKind,
    Translation: TranslationKind,
    Embedding: EmbeddingKind,
    TextClassification: TextClassKind,
}
