"""Plain text as a language task: read, train a tokenizer if the run has none, encode, keep the ids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from headway.config import kind
from headway.counts import counted
from headway.data.datasets import load_text
from headway.data.digests import check_digests, split_digests
from headway.data.mixes import Mix
from headway.data.prepared_text import find_prepared
from headway.data.text_files import PlainText, with_whole
from headway.data.token_store import TokenStore, fingerprint, store_tokens
from headway.data.token_stream import PreparedText, TokenStream
from headway.data.tokenizers import Tokenizer, Word, named
from headway.errors import DataError, UnknownCharacterError
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.language_modelling.config import Language
from headway.tasks.language_modelling.training import LanguageTraining


def prepare(config: Language, request: DataRequest) -> Prepared:
    """A text with its tokenizer (the run's, else one trained on it) and its digests by split.

    Text that was prepared before is not read. Raises DataError for a split with a character that the training split,
    and so a vocabulary of characters, lacks.
    """
    data = request.data
    prepared = find_prepared(data.spec, request.tokenizer)
    if prepared is not None:
        return _prepared_text(config, request, prepared)
    text = load_text(data.spec, errors=data.errors, column=data.text)
    if request.other_data:
        text = with_whole(text)
    digests = split_digests(text, request.expected)
    tokenizer = request.tokenizer
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, text.chunks("train"), specials=())
    cache = Path(data.cache).expanduser()
    splits: dict[str, TokenStream] = {}
    for name in text.splits:
        try:
            splits[name] = _stream(cache, text, name, tokenizer, digests[name])
        except UnknownCharacterError as error:
            if request.tokenizer is not None:
                raise
            remedy = "add it there, or use --data.tokenizer byte-bpe"
            missing = f"character {named(error.character)} does not occur in the training split"
            raise DataError(f"{text.name}, {name} split: {missing}; {remedy}") from error
    return _ready(config, request, tokenizer, splits, digests)


def _prepared_text(config: Language, request: DataRequest, text: PreparedText) -> Prepared:
    """Prepared text with the tokenizer that made it. Raises DataError if the run has another one."""
    tokenizer = request.tokenizer or text.tokenizer
    if tokenizer is None:
        raise DataError(f"{text.name}: ids without a tokenizer; put its tokenizer.json beside them, or pass --init RUN")
    if text.tokenizer is not None and text.tokenizer.content_hash != tokenizer.content_hash:
        sizes = f"of {counted(text.tokenizer.size, 'token')}; the run has one of {tokenizer.size:,}"
        raise DataError(f"{text.name} was prepared with another tokenizer, {sizes}: prepare it with --tokenizer RUN")
    check_digests(text.digests, request.expected)
    return _ready(config, request, tokenizer, text.splits, text.digests, trained=False, mix=text.mix)


def _ready(
    config: Language,
    request: DataRequest,
    tokenizer: Tokenizer,
    splits: Mapping[str, TokenStream],
    digests: Mapping[str, str],
    *,
    trained: bool = True,
    mix: Mix | None = None,
) -> Prepared:
    return Prepared(
        training=LanguageTraining(
            config,
            tokenizer,
            splits,
            batch_tokens=request.batch_tokens,
            seed=request.seed,
            mix=mix,
            accumulate=request.accumulate,
        ),
        tokenizers={ONE_TOKENIZER: tokenizer},
        trained_tokenizers=trained,
        model_overrides={"vocab": tokenizer.size},
        digests=digests,
        facts={
            "text": ", ".join(f"{name} {counted(splits[name].total, 'token')}" for name in digests),
            **({"mix": mix.described} if mix else {}),
            "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(request.data.tokenizer)) if trained else 'given'})",
        },
    )


def _stream(cache: Path, text: PlainText, split: str, tokenizer: Tokenizer, content: str) -> TokenStore:
    key = fingerprint([content, tokenizer.content_hash])
    return store_tokens(cache / f"text-{key}", (tokenizer.encode(chunk) for chunk in text.chunks(split)))


def stand_in(config: Language, request: DataRequest) -> LanguageTraining:
    """A text of one token that is just long enough for every batch to be full."""
    length = max(request.batch_tokens, config.context) + 2 * config.context + 1
    tokenizer = request.tokenizer or Tokenizer.train(Word(), ["a"], specials=())
    store = TokenStore(np.zeros(length, np.uint32), np.asarray([0, length]))
    return LanguageTraining(config, tokenizer, {"train": store}, batch_tokens=request.batch_tokens, seed=request.seed)
