"""Plain text as a masked task: read as sentences, train a tokenizer if the run has none, encode, keep the ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from headway.config import kind
from headway.counts import counted
from headway.data.datasets import load_text
from headway.data.digests import split_digests
from headway.data.text_files import with_whole
from headway.data.token_store import TokenStore, fingerprint, store_tokens
from headway.data.tokenizers import MASK, SPECIALS, Tokenizer, Word
from headway.errors import ConfigError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.masked_lm.config import Masked
from headway.tasks.masked_lm.training import MaskedTraining

LONG_LINE = 200  # characters: a longer line is taken for a paragraph and divided at its sentence ends
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def prepare(config: Masked, request: DataRequest) -> Prepared:
    """A text with its tokenizer (the run's, else one trained on it) and its digests by split."""
    data, sizes = request.data, request.model.text
    if sizes is None:
        raise ConfigError(f"a masked task with a {type(request.model).__name__}, which reads no text")
    text = load_text(data.spec, errors=data.errors, column=data.text)
    if request.other_data:
        text = with_whole(text)
    digests = split_digests(text, request.expected)
    tokenizer = request.tokenizer
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, text.chunks("train"), specials=(*SPECIALS, MASK))
    cache = Path(data.cache).expanduser()
    splits = {}
    for name in text.splits:
        key = fingerprint([digests[name], config.documents, "spaced", tokenizer.content_hash])
        sentences = _in_sentences(text.documents(name), paragraphs=config.documents == "paragraphs")
        splits[name] = store_tokens(cache / f"sentences-{key}", tokenizer.encode_lines(sentences))
    return Prepared(
        training=MaskedTraining(config, tokenizer, splits, batch_tokens=request.batch_tokens, seed=request.seed),
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={sizes.vocab_key: tokenizer.size},
        digests=digests,
        facts={
            "text": ", ".join(f"{name} {counted(len(store.ids), 'token')}" for name, store in splits.items()),
            "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(data.tokenizer))})",
        },
    )


def stand_in(config: Masked, request: DataRequest) -> MaskedTraining:
    """Sentences of half a row, a few in a document, enough for full batches."""
    tokenizer = request.tokenizer or Tokenizer.train(Word(), ["a"], specials=(*SPECIALS, MASK))
    length, documents = max(config.length // 2, 2), max(request.batch_tokens // config.length, 1) + 1
    lengths = np.tile([length] * 4 + [0], documents)  # an empty sentence ends a document
    ids = np.full(int(lengths.sum()), tokenizer.size - 1, np.uint32)
    store = TokenStore(ids, np.concatenate([[0], np.cumsum(lengths)]))
    return MaskedTraining(
        config, tokenizer, {"train": store}, batch_tokens=request.batch_tokens, seed=request.seed
    )  # fmt: skip


def _in_sentences(documents: Iterable[Iterable[str]], *, paragraphs: bool) -> Iterator[str]:
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
