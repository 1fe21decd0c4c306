"""Pairs of texts, or plain text, as a contrastive task: read, train a tokenizer if the run has none, encode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.config import kind
from headway.counts import counted
from headway.data.config import DataConfig
from headway.data.datasets import load_parallel, load_text
from headway.data.digests import check_digests, split_digests
from headway.data.text_files import with_whole
from headway.data.token_store import TokenStore, fingerprint, store_tokens
from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError, DataError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.sentence_embedding.config import Embedding
from headway.tasks.sentence_embedding.contrastive import numbered_texts
from headway.tasks.sentence_embedding.recognise import reading
from headway.tasks.sentence_embedding.training import EmbeddingTraining, EncodedPairs


@dataclass(frozen=True, slots=True)
class ContrastiveTexts:
    """The texts of each split: first and second of a pair, and a negative where there is one; one where it is alone."""

    name: str
    splits: dict[str, list[tuple[str, ...]]]
    digests: dict[str, str]


def prepare(config: Embedding, request: DataRequest) -> Prepared:
    """Texts with their tokenizer (the run's, else one trained on them) and their digests by split."""
    sizes = request.model.text
    if sizes is None:
        raise ConfigError(f"a sentence encoder with a {type(request.model).__name__}, which reads no text")
    data = request.data
    if request.other_data:
        source, target = _columns(data)
        data = replace(data, source=source, target=target)
    texts = _plain(config, data, whole=request.other_data) if config.positives == "dropout" else _pairs(config, data)
    check_digests(texts.digests, request.expected)
    tokenizer = request.tokenizer
    if tokenizer is None:
        every = chain.from_iterable(texts.splits["train"])
        tokenizer = Tokenizer.train(data.tokenizer, every, marks=data.marks)
    left_out: dict[str, int] = {}
    splits = {}
    for name in texts.splits:
        splits[name], left_out[name] = _encoded(config, texts, name, tokenizer, Path(data.cache).expanduser())
    training = EmbeddingTraining(config, tokenizer, splits, rows=request.batch_tokens, seed=request.seed)
    facts = {
        "pairs" if config.positives == "pairs" else "texts": ", ".join(
            f"{n} {len(each):,}" for n, each in splits.items()
        ),
        "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(data.tokenizer))})",
    }
    if left_out.get("train"):
        facts["left out"] = (
            f"{counted(left_out['train'], 'training pair')} with an empty text, or a negative of its own pair"
        )
    return Prepared(
        training=training,
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={sizes.vocab_key: tokenizer.size},
        digests=texts.digests,
        facts=facts,
    )


def _columns(data: DataConfig) -> tuple[str, str]:
    """The columns of another table than the run's own, which may be called otherwise."""
    found = reading(data.spec, {}).settings
    return found.get("data.source", data.source), found.get("data.target", data.target)


def _pairs(config: Embedding, data: DataConfig) -> ContrastiveTexts:
    text = load_parallel(data.spec, data.source, data.target, errors=data.errors, skip_bad=data.skip_bad)
    splits: dict[str, list[tuple[str, ...]]] = {name: list(text.pairs(name)) for name in text.splits}
    digests = split_digests(text)
    if config.negative:
        further = load_parallel(data.spec, data.source, config.negative, errors=data.errors, skip_bad=data.skip_bad)
        for name, pairs in splits.items():
            negatives = (negative for _, negative in further.pairs(name))
            splits[name] = [(*pair, negative) for pair, negative in zip(pairs, negatives, strict=True)]
        digests = {name: fingerprint([digests[name], *further.fingerprint(name)]) for name in splits}
    return ContrastiveTexts(text.name, splits, digests)


def _plain(config: Embedding, data: DataConfig, *, whole: bool) -> ContrastiveTexts:
    text = load_text(data.spec, errors=data.errors, column=data.text)
    text = with_whole(text) if whole else text

    def lines(split: str) -> Iterator[tuple[str, ...]]:
        for chunk in text.chunks(split):
            yield from ((line.strip(),) for line in chunk.split("\n") if line.strip())

    return ContrastiveTexts(text.name, {name: list(lines(name)) for name in text.splits}, split_digests(text))


def _encoded(
    config: Embedding, texts: ContrastiveTexts, split: str, tokenizer: Tokenizer, cache: Path
) -> tuple[EncodedPairs, int]:
    """A split in tokens, cut to the length that the model reads, and how many pairs were left out.

    Texts are the same if the model reads the same tokens: cut, and in the spelling of the tokenizer.
    """
    rows = texts.splits[split]
    before, after = tokenizer.around
    room = config.max_length - len(before) - len(after)
    stores: list[TokenStore] = []
    for side in range(len(rows[0]) if rows else 0):
        key = fingerprint([texts.digests[split], f"{side} {room}", tokenizer.content_hash])
        encoded = tokenizer.encode_lines(row[side] for row in rows)
        stores.append(store_tokens(cache / f"pairs-{key}", (ids[:room] for ids in encoded)))
    numbers = numbered_texts(tuple([store[n].tobytes() for n in range(len(store))] for store in stores))
    kept = np.flatnonzero(_usable(numbers, stores))
    if len(kept) < 2:
        raise DataError(f"{texts.name}, split {split}: {len(kept)} pairs with text on both sides, expected at least 2")
    return EncodedPairs(tuple(stores), kept, numbers[kept]), len(rows) - len(kept)


def _usable(numbers_NK: NDArray[np.int64], stores: list[TokenStore]) -> NDArray[np.bool_]:
    """Pairs whose texts all have a token and whose negative is neither of the two."""
    filled = np.stack([store.lengths > 0 for store in stores]).all(axis=0)
    if len(stores) == 3:
        filled = filled & (numbers_NK[:, 2:] != numbers_NK[:, :2]).all(axis=1)
    return np.asarray(filled, bool)
