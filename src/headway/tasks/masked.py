"""BERT's pretraining: guess hidden tokens from both sides, and say whether one text follows another (FACTS §13)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from headway.data.batching import Indices, Order
from headway.data.builtin import load_text
from headway.data.config import DataConfig
from headway.data.contents import contents
from headway.data.store import TokenStore, fingerprint, stored
from headway.data.tokenizers import MASK, SPECIALS, Tokenizer
from headway.errors import ConfigError, DataError
from headway.evaluation.language import unigram_entropy
from headway.models.bert import BertPretraining, PretrainingLogits
from headway.tasks.pondering import mean_steps, pondered
from headway.tasks.task import IGNORED, Batch, Term, chosen_loss, cross_entropy

FOLLOWS, RANDOM = 0, 1  # the classes of the next-sentence head, in the order of the released weights
LONG_LINE = 200  # characters: a longer line is taken for a paragraph and divided at its sentence ends
EVALUATION_TOKENS = 8192  # in one forward pass of an evaluation
EVALUATION_ROWS = 4096  # two a place; a longer split is thinned out evenly to as many
SHORTER = 0.1  # of all rows: cut off at random, so that a model meets short ones too
ATTEMPTS = 16  # at a place that is not the true next one; a text too short to have any gives true pairs only
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """How a text becomes pairs of sentences, and how much of them is hidden."""

    length: int = 128  # tokens in a row, the three special ones included
    mask: float = 0.15  # share of a row's tokens to be guessed, rounded, at least one
    hidden: float = 0.8  # of those: shown as `<mask>`
    replaced: float = 0.1  # of those: shown as a random token; the rest are shown as they are
    documents: Literal["paragraphs", "files"] = "paragraphs"  # does a blank line end a document, or only a file's end?

    def __post_init__(self) -> None:
        if self.length < 5:
            raise ConfigError(
                f"task.length={self.length}, allowed: 5 and above (two sentences and three special tokens)"
            )
        if not 0 < self.mask < 1:
            raise ConfigError(f"task.mask={self.mask}, allowed: above 0 and below 1")
        if min(self.hidden, self.replaced) < 0 or self.hidden + self.replaced > 1:
            given = f"task.hidden={self.hidden}, task.replaced={self.replaced}"
            raise ConfigError(f"{given}, allowed: 0 and above, together at most 1")


class Sentences:
    """Where a text of sentences, an empty one between documents, may be cut into what comes before and what follows."""

    def __init__(self, store: TokenStore) -> None:
        self.ids = store.ids
        filled = store.lengths > 0
        self.breaks = np.unique(np.concatenate([[0], store.starts[:-1][~filled], store.starts[-1:]]))
        begins = np.asarray(store.starts[:-1][filled])
        self.places = begins[~np.isin(begins, self.breaks)]  # of what can be a B: the first of a document follows none

    def document(self, place: int) -> tuple[int, int]:
        """First token of the document around a place, and the one past its last."""
        after = int(np.searchsorted(self.breaks, place, side="right"))
        return int(self.breaks[after - 1]), int(self.breaks[after])


class Draws(Order):
    """Every place once an epoch, each with a number of its own from which its row is drawn: rows of (place, number).

    A row depends on nothing else, so that a resumed run, and any division into micro-batches, sees the same rows.
    """

    def __init__(self, places: int, rows: int, seed: int) -> None:
        super().__init__(seed)
        self.places, self.rows = places, rows

    def epoch(self, number: int) -> list[Indices]:
        """Batches (rows, 2); a last one that is not full waits for another epoch."""
        random = self.random(number)
        drawn = np.stack([random.permutation(self.places), random.integers(0, 2**62, self.places)], 1)
        full = max(self.places // self.rows, 1)
        return [drawn[n * self.rows : (n + 1) * self.rows] for n in range(full)]


class Row(NamedTuple):
    """One example: what is shown, what is to be guessed (IGNORED elsewhere), and which sentence each token is in."""

    shown: NDArray[np.int64]
    targets: NDArray[np.int64]  # the first, at `<s>`, is FOLLOWS or RANDOM: that head reads that token
    segments: NDArray[np.int64]


class MaskedTask:
    """Rows `<s>` A `</s>` B `</s>` with some tokens hidden, and how well a model guesses them."""

    fixed_shapes = False

    def __init__(
        self, config: Masked, tokenizer: Tokenizer, splits: dict[str, TokenStore], *, batch_tokens: int, seed: int
    ) -> None:
        self.config, self.tokenizer, self.splits = config, tokenizer, splits
        self.mask = tokenizer.mask  # and start stands for BERT's [CLS], stop for its [SEP]
        self.specials = tokenizer.specials
        self.ordinary = np.setdiff1d(np.arange(tokenizer.size), self.specials)  # what a random token may be
        self.sentences = {name: Sentences(store) for name, store in splits.items()}
        if "train" in splits:
            places = len(self._split("train").places)
            self.order = Draws(places, max(batch_tokens // config.length, 1), seed)

    def batch(self, indices: Indices) -> Batch:
        """The training rows of these (place, number)."""
        return self._batch("train", indices)

    def _batch(self, split: str, indices: Indices) -> Batch:
        rows = [self._row(split, int(place), int(number)) for place, number in indices]
        lengths = torch.tensor([len(row.shown) for row in rows])
        shown, targets, segments = (
            _padded([row[part] for row in rows], value) for part, value in enumerate((self.tokenizer.pad, IGNORED, 0))
        )
        return Batch((shown, lengths, segments), targets, int((targets[:, 1:] != IGNORED).sum()))

    def _row(self, split: str, place: int, number: int) -> Row:
        random = np.random.default_rng([place, number])
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
        pretraining, rows = cast(BertPretraining, model), len(batch.targets)
        shown, lengths, segments = _inputs(batch)
        terms: dict[str, Term] = {}
        with pondered(model, terms, batch.count):
            x_BTD, follows = pretraining.features(shown, lengths, segments_BT=segments)
        tokens = chosen_loss(x_BTD[:, 1:], pretraining.output(), batch.targets[:, 1:], batch.count, smoothing)
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

    @torch.no_grad()
    def _score(self, model: nn.Module, device: torch.device, split: str) -> tuple[float, int, float | None]:
        """Nats per chosen token, how many those are, and the share of next sentences told right, if it was asked."""
        nats, tokens, right, rows, asked = 0.0, 0, 0, 0, True
        for indices in self._evaluation(split):
            batch = self._batch(split, indices).to(device)
            logits = _logits(model, batch)
            nats += float(cross_entropy(logits.tokens[:, 1:], batch.targets[:, 1:]))
            if logits.follows is None:
                asked = False
            else:
                right += int((logits.follows.argmax(-1) == batch.targets[:, 0]).sum())
            tokens, rows = tokens + batch.count, rows + len(indices)
        return nats / tokens, tokens, right / rows if asked else None

    def _evaluation(self, split: str) -> Iterator[Indices]:
        """Rows of a split, at most EVALUATION_ROWS and the same every time: each place with its B and with another."""
        places = len(self._split(split).places)
        chosen = np.arange(0, places, -(-2 * places // EVALUATION_ROWS)).repeat(2)
        rows = max(EVALUATION_TOKENS // self.config.length, 1)
        for first in range(0, len(chosen), rows):
            some = chosen[first : first + rows]
            yield np.stack([some, np.arange(first, first + len(some))], 1)

    def _split(self, name: str) -> Sentences:
        if name not in self.sentences:
            raise DataError(f"no split {name!r}, there are {', '.join(self.sentences)}")
        if not len(self.sentences[name].places):
            raise DataError(f"split {name!r} has no two sentences in a row: a pair needs two lines of one document")
        return self.sentences[name]

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A row of the validation text with its hidden tokens, and the model's guesses."""
        return self._guesses(model, device, "val", rows=1)

    @torch.no_grad()
    def _guesses(self, model: nn.Module, device: torch.device, split: str, *, rows: int) -> list[str]:
        places = len(self._split(split).places)
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


def _padded(rows: list[NDArray[np.int64]], value: int) -> Tensor:
    """Rows side by side (B, T), filled up with a value."""
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=value)


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    tokens, lengths, segments = batch.inputs
    assert tokens is not None
    assert lengths is not None
    assert segments is not None
    return tokens, lengths, segments


def _logits(model: nn.Module, batch: Batch) -> PretrainingLogits:
    tokens, lengths, segments = _inputs(batch)
    logits: PretrainingLogits = model(tokens, lengths, segments_BT=segments)
    return logits


def prepare_masked(
    config: Masked,
    data: DataConfig,
    tokenizer: Tokenizer | None,
    *,
    batch_tokens: int,
    seed: int,
    expected: Mapping[str, str] | None = None,
) -> tuple[MaskedTask, Tokenizer, dict[str, str]]:
    """A text as a masked task, its tokenizer (the one given, else one trained on it) and its contents by split."""
    text = load_text(data.spec, errors=data.errors)
    found = contents(text, expected)
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, text.chunks("train"), specials=(*SPECIALS, MASK))
    cache = Path(data.cache).expanduser()
    splits = {}
    for name in text.splits:
        key = fingerprint([found[name], config.documents, "spaced", tokenizer.content_hash])
        sentences = _sentences(text.documents(name), paragraphs=config.documents == "paragraphs")
        splits[name] = stored(cache / f"sentences-{key}", tokenizer.encode_lines(sentences))
    return MaskedTask(config, tokenizer, splits, batch_tokens=batch_tokens, seed=seed), tokenizer, found


def _sentences(documents: Iterable[Iterable[str]], *, paragraphs: bool) -> Iterator[str]:
    """Lines, a long one divided at its sentence ends; an empty one ends a document, where wanted each paragraph.

    Each begins with a space: joined, they read as the text does, and a word is the same token wherever its line breaks.
    """
    for document in documents:
        for chunk in document:
            for line in chunk.removesuffix("\n").split("\n"):
                if not line.strip():
                    if paragraphs:
                        yield ""
                elif len(line) <= LONG_LINE:
                    yield f" {line}"
                else:
                    yield from (f" {part}" for part in _SENTENCE_END.split(line) if part)
        yield ""
