"""Parallel text as a translation task: read, train the tokenizers that are missing, encode, keep the ids."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np

from headway.config import kind
from headway.counts import counted
from headway.data.config import DataConfig
from headway.data.datasets import load_parallel
from headway.data.digests import split_digests
from headway.data.text_files import ParallelText
from headway.data.token_store import TokenStore, fingerprint, store_tokens
from headway.data.tokenizers import Tokenizer, Word
from headway.errors import DataError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.translation.config import Translation
from headway.tasks.translation.search import before_source
from headway.tasks.translation.training import Pairs, TranslationTraining

STAND_IN = 32  # tokens of a made-up sentence


def prepare(config: Translation, request: DataRequest) -> Prepared:
    """Parallel text with its tokenizers and its digests by split. Raises DataError for sides of unequal length."""
    data = request.data
    text = load_parallel(data.spec, data.source, data.target, errors=data.errors, skip_bad=data.skip_bad)
    digests = split_digests(text, request.expected)
    tokenizers = dict(request.tokenizers) or _train(text, data)
    source = tokenizers.get("tokenizer-source.json") or tokenizers[ONE_TOKENIZER]
    target = tokenizers.get("tokenizer-target.json") or tokenizers[ONE_TOKENIZER]
    cache = Path(data.cache).expanduser()
    splits = {}
    for name in text.splits:
        sides = (
            _sentences(cache, text, name, source, 0, digests[name], before_source(source)),
            _sentences(cache, text, name, target, 1, digests[name]),
        )
        if len(sides[0]) != len(sides[1]):
            raise DataError(f"{data.spec}, split {name}: {len(sides[0])} source and {len(sides[1])} target lines")
        splits[name] = Pairs(*sides)
    training = TranslationTraining(config, source, target, splits, batch_tokens=request.batch_tokens, seed=request.seed)
    sizes = {"vocab": target.size, "source_vocab": None if source is target else source.size}
    return Prepared(
        training=training,
        tokenizers=tokenizers,
        model_overrides=sizes,
        digests=digests,
        facts=_facts(config, data, training, text.left_out()),
    )


def _facts(config: Translation, data: DataConfig, training: TranslationTraining, bad: int) -> dict[str, str]:
    source, target, splits = training.source_tokenizer, training.target_tokenizer, training.splits
    shared = f"{target.size:,} tokens for both sides"
    facts = {
        "pairs": ", ".join(
            f"{name} {len(pairs.source):,} ({len(pairs.source.ids):,} and {len(pairs.target.ids):,} tokens)"
            for name, pairs in splits.items()
        ),
        "languages": f"{data.source} to {data.target}",
        "vocabulary": (shared if source is target else f"{source.size:,} and {target.size:,} tokens")
        + f" ({kind(type(data.tokenizer))})",
    }
    left_out = [f"{counted(bad, 'row')} with more or fewer cells than the first"] if bad else []
    if "train" in splits and (long := len(splits["train"].source) - len(training.kept)):
        left_out.append(f"{counted(long, 'training pair')} longer than task.max_length={config.max_length}")
    if left_out:
        facts["left out"] = "; ".join(left_out)
    return facts


def _train(text: ParallelText, data: DataConfig) -> dict[str, Tokenizer]:
    def trained(lines: Iterable[str]) -> Tokenizer:
        return Tokenizer.train(data.tokenizer, lines, marks=data.marks)

    if data.joint:
        return {ONE_TOKENIZER: trained(chain.from_iterable(text.pairs("train")))}
    return {
        f"tokenizer-{name}.json": trained(pair[side] for pair in text.pairs("train"))
        for side, name in enumerate(("source", "target"))
    }


def _sentences(
    cache: Path,
    text: ParallelText,
    split: str,
    tokenizer: Tokenizer,
    side: int,
    content: str,
    before: tuple[int, ...] = (),
) -> TokenStore:
    key = fingerprint([content, str(side), tokenizer.content_hash, *map(str, before)])
    lines = tokenizer.encode_lines(pair[side] for pair in text.pairs(split))
    return store_tokens(cache / f"lines-{key}", ([*before, *line] for line in lines))


def stand_in(config: Translation, request: DataRequest) -> TranslationTraining:
    """Pairs of sentences of one length, enough for full batches."""
    tokenizer = Tokenizer.train(Word(), ["a"])
    length = min(STAND_IN, config.max_length) - 1  # the stop token is one more
    pairs = 2 * max(request.batch_tokens // (length + 1), 1)
    ids = np.full(pairs * length, tokenizer.size - 1, np.uint32)
    side = TokenStore(ids, np.arange(pairs + 1) * length)
    return TranslationTraining(
        config, tokenizer, tokenizer, {"train": Pairs(side, side)},
        batch_tokens=request.batch_tokens, seed=request.seed,
    )  # fmt: skip
