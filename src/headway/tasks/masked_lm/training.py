"""Masked pretraining (Devlin et al. 2019, §3.1): hidden tokens and, as BERT, whether a text follows another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.data.batching import Draws, Indices
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.metrics.language import LanguageReport, unigram_entropy
from headway.models.bert import PretrainingLogits
from headway.tasks.adaptive_depth import mean_steps, pondered
from headway.tasks.base import named_split
from headway.tasks.masked_lm.config import Masked
from headway.tasks.sharing import in_parts
from headway.tasks.training_task import IGNORED, Batch, Term, chosen_loss, cross_entropy

FOLLOWS, RANDOM = 0, 1  # the classes of the next-sentence head, in the order of the released weights
EVALUATION_TOKENS = 8192  # in one forward pass of an evaluation
EVALUATION_ROWS = 4096  # two a place; a longer split is thinned out evenly to as many
SHORTER = 0.1  # of all rows: cut off at random, so that a model meets short ones too
ATTEMPTS = 16  # at a place that is not the true next one; a text too short to have any gives true pairs only


class Sentences:
    """Where a text of sentences, an empty one between documents, may be cut into what comes before and what follows."""

    def __init__(self, store: TokenStore) -> None:
        self.ids = store.ids
        filled = store.lengths > 0
        self.breaks = np.unique(np.concatenate([[0], store.starts[:-1][~filled], store.starts[-1:]]))
        self.begins = np.asarray(store.starts[:-1][filled])
        # Of what can be a B: the first of a document follows none.
        self.places = self.begins[~np.isin(self.begins, self.breaks)]

    def document(self, place: int) -> tuple[int, int]:
        """First token of the document around a place, and the one past its last."""
        after = int(np.searchsorted(self.breaks, place, side="right"))
        return int(self.breaks[after - 1]), int(self.breaks[after])


class Row(NamedTuple):
    """One example: what is shown, what is to be guessed (IGNORED elsewhere), and which sentence each token is in."""

    shown: NDArray[np.int64]
    targets: NDArray[np.int64]  # the first, at `<s>`, is FOLLOWS or RANDOM: that head reads that token
    segments: NDArray[np.int64] | None  # None: all of it is one text


class MaskedTraining:
    """Rows `<s>` A `</s>` B `</s>`, or `<s>` A `</s>`, with some tokens hidden, and how well a model guesses them."""

    fixed_shapes = resident = True

    def __init__(
        self, config: Masked, tokenizer: Tokenizer, splits: dict[str, TokenStore], *, batch_tokens: int, seed: int
    ) -> None:
        self.config, self.tokenizer, self.splits = config, tokenizer, splits
        self.mask = tokenizer.mask  # and start stands for BERT's [CLS], stop for its [SEP]
        self.specials = tokenizer.specials
        self.ordinary = np.setdiff1d(np.arange(tokenizer.size), self.specials)  # what a random token may be
        self.sentences = {name: Sentences(store) for name, store in splits.items()}
        if "train" in splits:
            self.order = Draws(len(self._places("train")), max(batch_tokens // config.length, 1), seed)
            # The two texts of a pair may be of two documents, the rest of a row is its special tokens.
            longest = self.longest("train")
            self.length = min(config.length, 2 * longest - 3 if config.rows == "pairs" else longest)

    @property
    def most_targets(self) -> int:
        """Of full rows, each with as many targets as it may have."""
        may = self.config.length - (3 if self.config.rows == "pairs" else 2)
        return min(self.order.rows, self.order.places) * max(round(self.config.mask * may), 1)

    def stream(self, step: int, device: torch.device) -> None:
        """The loss draws nothing."""

    def batch(self, indices: Indices) -> Batch:
        """The training rows of these (place, number)."""
        return self._batch("train", indices)

    def _batch(self, split: str, indices: Indices) -> Batch:
        rows = [self._row(split, int(place), int(number)) for place, number in indices]
        lengths = torch.tensor([len(row.shown) for row in rows])
        # All batches for training have one shape, so that a GPU may replay its steps; few have no row of this length.
        length = self.length if split == "train" else int(lengths.max())
        shown = _padded([row.shown for row in rows], self.tokenizer.pad, length)
        targets = _padded([row.targets for row in rows], IGNORED, length)
        marked = [row.segments for row in rows if row.segments is not None]
        segments = _padded(marked, 0, length) if marked else None
        return Batch((shown, lengths, segments), targets, int((targets[:, 1:] != IGNORED).sum()))

    def _row(self, split: str, place: int, number: int) -> Row:
        random = np.random.default_rng([place, number])
        if self.config.rows == "running":
            text = self._text(self.sentences[split], place, random)
            tokens = np.concatenate([[self.tokenizer.start], text, [self.tokenizer.stop]]).astype(np.int64)
            return Row(*self._corrupt(tokens, np.arange(1, len(tokens) - 1), random), None)
        # Half of all numbers are even; an evaluation, which gives its own, asks each place both ways.
        first, second, follows = self._pair(self.sentences[split], place, random, follows=number % 2 == 0)
        start, stop = [self.tokenizer.start], [self.tokenizer.stop]
        tokens = np.concatenate([start, first, stop, second, stop]).astype(np.int64)
        segments = np.repeat([0, 1], [len(first) + 2, len(second) + 1])
        may = np.ones(len(tokens), bool)
        may[[0, len(first) + 1, -1]] = False
        shown, targets = self._corrupt(tokens, np.flatnonzero(may), random)
        targets[0] = FOLLOWS if follows else RANDOM
        return Row(shown, targets, segments)

    def _pair(
        self, sentences: Sentences, place: int, random: np.random.Generator, *, follows: bool
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], bool]:
        """What stands before a place and what stands after it, or after another one, each within its document.

        The other place lies in another document, as in the paper; where a few draws find none, as in a text of one
        document, outside what the true pair could show. It is drawn from the same places and given the same room, so
        that A and B have to be compared: neither alone says which it is.
        """
        before, after = self._room(random)
        cut = int(sentences.places[place])
        document = sentences.document(cut)
        begin, end = max(document[0], cut - before), min(document[1], cut + after)
        drawn = sentences.places[random.integers(0, len(sentences.places), ATTEMPTS)]
        others = drawn[(drawn < document[0]) | (drawn >= document[1])]
        if not len(others):
            others = drawn[(drawn < begin) | (drawn >= end)]
        if follows or not len(others):
            return sentences.ids[begin:cut], sentences.ids[cut:end], True
        other = int(others[0])
        stop = min(sentences.document(other)[1], other + after)
        return sentences.ids[begin:cut], sentences.ids[other:stop], False

    def _text(self, sentences: Sentences, place: int, random: np.random.Generator) -> NDArray[np.uint32]:
        """What stands from a place on, or from so far before it that a row near the end of its document is full too."""
        room = self.config.length - 2
        if random.random() < SHORTER:
            room = int(random.integers(max(room // 4, 1), room + 1))
        begin, end = sentences.document(int(sentences.begins[place]))
        first = max(begin, min(int(sentences.begins[place]), end - room))
        return sentences.ids[first : min(first + room, end)]

    def _room(self, random: np.random.Generator) -> tuple[int, int]:
        """Tokens that A and B may have: a row is divided at random, as BERT's own data is, at least a quarter to each.

        So a place gives another pair in every epoch.
        """
        room = self.config.length - 3
        if random.random() < SHORTER:
            room = int(random.integers(max(room // 4, 2), room + 1))
        least = max(room // 4, 1)
        before = int(random.integers(least, room - least + 1))
        return before, room - before

    def _corrupt(
        self, tokens: NDArray[np.int64], may: Indices, random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What is shown of the tokens, and the targets; only positions in `may` are chosen."""
        config = self.config
        chosen = random.permutation(may)[: max(round(config.mask * len(may)), 1)]
        kind = random.random(len(chosen))
        drawn = self.ordinary[random.integers(0, len(self.ordinary), len(chosen))]
        shown, targets = tokens.copy(), np.full_like(tokens, IGNORED)
        targets[chosen] = tokens[chosen]
        shown[chosen] = np.where(kind < config.hidden, self.mask, tokens[chosen])
        swapped = (kind >= config.hidden) & (kind < config.hidden + config.replaced)
        shown[chosen[swapped]] = drawn[swapped]
        return shown, targets

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Cross-entropy of the chosen tokens and of the next sentence; smoothing is for the tokens.

        The trainer divides every term by the step's `batch.count`, here the chosen tokens. The weight turns the second
        term's division into one by rows: the sum is mean + mean. Over micro-batches the second mean is weighted by
        their chosen tokens, so that k of them equal one large batch to the bit of rounding where rows are full, and
        nearly where they are not.
        """
        pretraining: Any = model
        shown, lengths, segments = _inputs(batch)
        terms: dict[str, Term] = {}
        with pondered(model, terms, batch.count):
            found = pretraining.features(shown, lengths, segments_BT=segments)
        x_BTD, follows = found if isinstance(found, tuple) else (found, None)  # a Longformer has no second head
        rows = len(batch.targets)
        tokens = chosen_loss(
            x_BTD[:, 1:], pretraining.output(), batch.targets[:, 1:], batch.count, smoothing, most=self.most_targets
        )
        terms["masked_token"] = Term(tokens, batch.count)
        if follows is not None:
            terms["next_sentence"] = Term(cross_entropy(follows, batch.targets[:, 0]), rows, batch.count / rows)
        return terms

    def validate(self, model: nn.Module, device: torch.device) -> float:
        """Nats per chosen token of the validation text."""
        return self._score(model, device, "val")[0]

    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> dict[str, Any]:
        """The figures that `headway evaluate --json` prints; each row is drawn the same way every time."""
        with mean_steps(model) as steps:
            loss, tokens, accuracy = self._score(model, device, split)
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "tokens": tokens,
            **({} if accuracy is None else {"next_sentence_accuracy": accuracy}),
            "unigram_entropy": unigram_entropy(self._split(split).ids, self.tokenizer.size),
            **steps,
            "samples": self._guesses(model, device, split, rows=3),
        }

    def longest(self, split: str) -> int:
        """Tokens of the longest row that the documents of a split allow, special ones included."""
        return int(np.diff(self._split(split).breaks).max()) + (3 if self.config.rows == "pairs" else 2)

    def scored(self, model: nn.Module, device: torch.device, split: str, *, length: int) -> LanguageReport:
        """The hidden tokens of a split in rows of up to `length`, instead of the task's own."""
        held = {split: self.splits[split]}
        other = MaskedTraining(replace(self.config, length=length), self.tokenizer, held, batch_tokens=1, seed=0)
        loss, tokens, _ = other._score(model, device, split)
        return LanguageReport(loss * tokens, tokens)

    @torch.no_grad()
    def _score(self, model: nn.Module, device: torch.device, split: str) -> tuple[float, int, float | None]:
        """Nats per chosen token, how many those are, and the next-sentence accuracy, if the model has it."""

        def scored(indices: Indices) -> tuple[float, ...]:
            """Nats, tokens, rows, whether the model tells the next sentence, and in how many rows it is right."""
            batch = self._batch(split, indices).to(device)
            logits = _logits(model, batch)
            nats = float(cross_entropy(logits.tokens[:, 1:], batch.targets[:, 1:]))
            asked = logits.follows is not None
            right = 0 if logits.follows is None else int((logits.follows.argmax(-1) == batch.targets[:, 0]).sum())
            return nats, batch.count, len(indices), asked, right

        found = in_parts(self._evaluation(split), scored)
        nats, tokens, rows, asked, right = (sum(column) for column in zip(*found, strict=True))
        return nats / tokens, int(tokens), right / rows if asked else None

    def _evaluation(self, split: str) -> Iterator[Indices]:
        """Rows of a split, at most EVALUATION_ROWS and the same every time: each place with its B and with another."""
        places = len(self._places(split))
        chosen = np.arange(0, places, -(-2 * places // EVALUATION_ROWS)).repeat(2)
        rows = max(EVALUATION_TOKENS // self.config.length, 1)
        for first in range(0, len(chosen), rows):
            some = chosen[first : first + rows]
            yield np.stack([some, np.arange(first, first + len(some))], 1)

    def _split(self, name: str) -> Sentences:
        return named_split(self.sentences, name)

    def _places(self, split: str) -> Indices:
        """Where the rows of a split may begin, or, for pairs, be cut in two."""
        if self.config.rows == "running":
            return self._split(split).begins
        if not len(self._split(split).places):
            raise DataError(f"split {split!r} has no two sentences in a row: a pair needs two lines of one document")
        return self.sentences[split].places

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A row of the validation text with its hidden tokens, and the model's guesses."""
        return self._guesses(model, device, "val", rows=1)

    @torch.no_grad()
    def _guesses(self, model: nn.Module, device: torch.device, split: str, *, rows: int) -> list[str]:
        places = len(self._places(split))
        chosen = np.unique(np.linspace(0, places - 1, rows + 2)[1:-1].astype(np.int64))
        batch = self._batch(split, np.stack([chosen, np.arange(len(chosen))], 1)).to(device)
        logits = _logits(model, batch)
        shown, lengths, _ = _inputs(batch)
        lines = []
        for n, length in enumerate(lengths.tolist()):
            text = self.tokenizer.decode(shown[n, :length].tolist(), specials=True)
            at = [t for t in range(1, length) if batch.targets[n, t] != IGNORED]
            guessed = [self._spelt(logits.tokens[n, t].argmax()) for t in at]
            truth = [self._spelt(batch.targets[n, t]) for t in at]
            said = ", ".join(f"{a} → {b}" if a != b else f"{a} ✓" for a, b in zip(truth, guessed, strict=True))
            lines.append(f"{text} | {said}")
        return lines

    def _spelt(self, index: Tensor) -> str:
        return self.tokenizer.token(int(index)).strip()


def _padded(rows: list[NDArray[np.int64]], value: int, length: int) -> Tensor:
    """Rows side by side (B, T), filled up with a value to this length."""
    out = np.full((len(rows), length), value, np.int64)
    for n, row in enumerate(rows):
        out[n, : len(row)] = row
    return torch.from_numpy(out)


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
    tokens, lengths, segments = batch.inputs
    assert tokens is not None
    assert lengths is not None
    return tokens, lengths, segments


def _logits(model: nn.Module, batch: Batch) -> PretrainingLogits:
    tokens, lengths, segments = _inputs(batch)
    logits: PretrainingLogits | Tensor = model(tokens, lengths, segments_BT=segments)
    return PretrainingLogits(logits, None) if isinstance(logits, Tensor) else logits
