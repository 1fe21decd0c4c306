"""The code listings of the Macau decks, as printed and corrected.

A class or function `Printed…` has the text of a slide, but for the prefix of its name: it is compared with `LISTINGS`
by
a test. What the slides use without defining it (`d_h`, `Attention`, `Linear`, …) is defined here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import LeakyReLU, Linear, Sequential

d_h = d_x = 16
T_MAX = 32


class DotProductAttention(nn.Module):
    """One head: softmax(q kᵀ/√d) v, and an output layer; the slides name it `Attention` and leave it open."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (Linear(d_h, d_h) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """(…, T, D) -> (…, T, D)."""
        scores = self.query(x) @ self.key(x).mT / math.sqrt(d_h)
        mixed: Tensor = self.out(scores.softmax(-1) @ self.value(x))
        return mixed


Attention = DotProductAttention


class PrintedTransformerBlock(nn.Module):  # noqa: D101
    def __init__(self):  # type: ignore[no-untyped-def]
        self.attn = Attention()
        self.mlp = Sequential(
            Linear(d_h, d_h), LeakyReLU(), Linear(d_h, d_h))  # fmt: skip
        self.norm1 = nn.LayerNorm(d_h)
        self.norm2 = nn.LayerNorm(d_h)

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = self.norm1(self.attn(x) + x)
        x = self.norm2(self.mlp(x) + x)
        return x


class PrintedTransformer(nn.Module):  # noqa: D101
    def __init__(self):  # type: ignore[no-untyped-def]
        self.block1 = PrintedTransformerBlock()  # type: ignore[no-untyped-call]
        self.block2 = PrintedTransformerBlock()  # type: ignore[no-untyped-call]
        self.block3 = PrintedTransformerBlock()  # type: ignore[no-untyped-call]

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = self.block1(x)
        x = self.block2(x)
        x = self.block3(x)
        return x


class PrintedFinalTransformer(nn.Module):  # noqa: D101
    def __init__(self):  # type: ignore[no-untyped-def]
        self.position_embedding = nn.Embedding(d_x)  # type: ignore[call-arg]
        self.block1 = PrintedTransformerBlock()  # type: ignore[no-untyped-call]
        self.block2 = PrintedTransformerBlock()  # type: ignore[no-untyped-call]

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = x + embedding(torch.arange(x.shape[0]))  # type: ignore[name-defined]  # noqa: F821
        x = self.block1(x)
        x = self.block2(x)
        return x


TOKENISATION = """unique_words = set(sentence.split(" ")) for sentence in xs)
tokens = {word: i for i, word in enumerate(unique_words)}
embeddings = nn.Embedding(len(tokens), d_x)
# Convert from words to parameters
xs = []
for sentence in sentences:
    xs.append([])
    for word in sentence:
        index = embeddings[word]
        token = tokens[index]
        xs.append(token)
"""


def compile_tokenisation() -> None:
    """Raise what Python says of the listing."""
    compile(TOKENISATION, "slide", "exec")


def run_loop() -> None:
    """The last listing: a model of the slides and a loop over tokenised sentences."""
    model = PrintedFinalTransformer()  # type: ignore[no-untyped-call]
    for tokenized_sentence in tokenise(("I like dogs",))[0]:
        # Convert list to tensor
        x = torch.stack(list(tokenized_sentence))
        model(x)


class CorrectedBlock(nn.Module):
    """The block that the slide means: `super().__init__()`, and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()
        self.mlp = Sequential(Linear(d_h, d_h), LeakyReLU(), Linear(d_h, d_h))
        self.norm1 = nn.LayerNorm(d_h)
        self.norm2 = nn.LayerNorm(d_h)

    def forward(self, x: Tensor) -> Tensor:
        """(…, T, D) -> (…, T, D)."""
        x = self.norm1(self.attn(x) + x)
        x = self.norm2(self.mlp(x) + x)
        return x


class CorrectedTransformer(nn.Module):
    """Positions with a length, batches, and blocks."""

    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.position_embedding = nn.Embedding(T_MAX, d_x)
        self.blocks = Sequential(*(CorrectedBlock() for _ in range(blocks)))

    def forward(self, x: Tensor) -> Tensor:
        """(…, T, D) -> (…, T, D)."""
        made: Tensor = self.blocks(x + self.position_embedding(torch.arange(x.shape[-2])))
        return made


def tokenise(sentences: Sequence[str]) -> tuple[list[Tensor], list[str]]:
    """The corrected tokenisation: sentences as vectors of their words (T, D), and the vocabulary."""
    words = sorted({word for sentence in sentences for word in sentence.split(" ")})
    tokens = {word: i for i, word in enumerate(words)}
    embeddings = nn.Embedding(len(tokens), d_x)
    rows = [embeddings(torch.tensor([tokens[word] for word in sentence.split(" ")])) for sentence in sentences]
    return rows, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A listing of a slide."""

    name: str
    slide: str
    run: Callable[[], object]  # as printed
    error: type[Exception]  # that it ends with
    corrected: str  # what was changed
    corrected_run: Callable[[], object]


LISTINGS = (
    Listing(
        name="TransformerBlock",
        slide="000 Transformers 30 (line 999)",
        run=PrintedTransformerBlock,
        error=AttributeError,
        corrected="super().__init__() in every class; an Attention",
        corrected_run=lambda: CorrectedBlock()(torch.randn(5, d_h)),
    ),
    Listing(
        name="Transformer",
        slide="000 Transformers 31 (line 1016)",
        run=PrintedTransformer,
        error=AttributeError,
        corrected="the same",
        corrected_run=lambda: CorrectedTransformer(3)(torch.randn(5, d_h)),
    ),
    Listing(
        name="Transformer with positions",
        slide="001 Positional Encoding 51 (line 1686)",
        run=PrintedFinalTransformer,
        error=TypeError,
        corrected="nn.Embedding(T_max, d_x); self.position_embedding; x.shape[-2] for batches",
        corrected_run=lambda: CorrectedTransformer(2)(torch.randn(3, 5, d_x)),
    ),
    Listing(
        name="tokenisation",
        slide="001 Text 57 (line 1788)",
        run=compile_tokenisation,
        error=SyntaxError,
        corrected="sorted words of sentences; embeddings(tokens[word]); words, not characters; xs[-1]",
        corrected_run=lambda: tokenise(("John likes movies", "I like dogs")),
    ),
    Listing(
        name="training loop",
        slide="001 Text 58 (line 1807)",
        run=run_loop,
        error=TypeError,
        corrected="the corrected model; rows are tensors already",
        corrected_run=lambda: [CorrectedTransformer()(row) for row in tokenise(("John likes movies",))[0]],
    ),
)
