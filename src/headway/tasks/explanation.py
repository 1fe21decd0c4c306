"""What the page of `headway look` needs of one forward pass, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from headway.data.tokenizers import Tokenizer

if TYPE_CHECKING:
    from headway.data.image_decoding import Pixels
    from headway.decoding.trace import Trace

Embed = Callable[[Sequence[str]], Tensor]  # texts -> (N, D)


def token_sequence(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    *,
    label: str = "Text",
    start: int | None = None,
    written: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A text as a sequence of the page. `start` is the token that is selected at first, by default the last.

    `written` are the tokens that a decoder writes at the places of these.
    """
    sequence: dict[str, Any] = {"label": label, "tokens": [tokenizer.display(index) for index in ids], "ids": list(ids)}
    if start is not None:
        sequence["start"] = start
    if written is not None:
        sequence["writes"] = [tokenizer.display(index) for index in written]
    return sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDescription:
    """What a stack, or an attention without one, is called, and which sequences of the page it works on."""

    label: str
    sequence: str
    memory: str | None = None  # what its cross-attention attends to
    positions: Tensor | None = None  # (T, D) learned ones that were added before the stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How to read logits (T, V): what each of V is called, whose places the T are, and what really came there."""

    name: Callable[[int], str]
    label: str
    sequence: str | None  # None: one row, for the whole input
    targets: Sequence[int | None]
    unit: str = "token"  # what each of V is
    drawn: bool = False  # whether a text is written by drawing from these logits, place after place


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingTable:
    """A text's tokens, and the vectors of all tokens there are: the page shows the nearest ones."""

    ids: Sequence[int]
    vectors: Tensor  # (V, D)
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedWords:
    """A text's tokens, and the encoder that reads each of them, and each word of the vocabulary, by itself."""

    ids: Sequence[int]
    embed: Embed
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageView:
    """The image that was read, and the sequence of its patches."""

    pixels: Pixels  # (C, H, W)
    sequence: str
    mean: Sequence[float]  # what zeros are after normalising, 0 to 1
    rollout: bool = False  # whether the page shows attention rollout (Abnar and Zuidema 2020)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One forward pass to record, and how to read it. `forward` gives logits (T, V), or what `output` is None for."""

    kind: str  # what the page calls it: "language", "translation", "masked", "image", "caption", …
    given: str
    forward: Callable[[], Tensor]
    reads: Mapping[str, StackDescription]  # by stack
    sequences: Mapping[str, Any]  # label, tokens and more of each sequence, by name
    output: Output | None
    said: str | Callable[[Tensor], str] = ""  # what the model answered, or how to read it from what `forward` gave
    tables: Mapping[str, EmbeddingTable | EncodedWords] = field(default_factory=dict)
    image: ImageView | None = None
    trace: Trace | None = None  # the search behind the output
