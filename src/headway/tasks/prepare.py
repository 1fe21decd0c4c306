"""From a data spec to a task: read, train a tokenizer where there is none yet, encode, keep the ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from headway.data.config import DataConfig
from headway.data.datasets import load_parallel, load_text
from headway.data.digests import split_digests
from headway.data.text_files import ParallelText, PlainText
from headway.data.token_store import TokenStore, fingerprint, store_tokens
from headway.data.tokenizers import MASK, SPECIALS, Tokenizer
from headway.errors import DataError
from headway.tasks.language_modelling.training import Language, LanguageTraining
from headway.tasks.masked_lm.training import Masked, MaskedTraining
from headway.tasks.translation.training import Pairs, Translation, TranslationTraining, before_source

LONG_LINE = 200  # characters: a longer line is taken for a paragraph and divided at its sentence ends
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def prepare_language(
    config: Language,
    data: DataConfig,
    tokenizer: Tokenizer | None,
    *,
    batch_tokens: int,
    seed: int,
    expected: Mapping[str, str] | None = None,
) -> tuple[LanguageTraining, Tokenizer, dict[str, str]]:
    """A text as a language task, its tokenizer (the one given, else one trained on it) and its contents by split."""
    text = load_text(data.spec, errors=data.errors)
    found = split_digests(text, expected)
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, text.chunks("train"), specials=())
    cache = Path(data.cache).expanduser()
    splits = {name: _stream(cache, text, name, tokenizer, found[name]) for name in text.splits}
    return LanguageTraining(config, tokenizer, splits, batch_tokens=batch_tokens, seed=seed), tokenizer, found


def _stream(cache: Path, text: PlainText, split: str, tokenizer: Tokenizer, content: str) -> TokenStore:
    key = fingerprint([content, tokenizer.content_hash])
    return store_tokens(cache / f"text-{key}", (tokenizer.encode(chunk) for chunk in text.chunks(split)))


def prepare_masked(
    config: Masked,
    data: DataConfig,
    tokenizer: Tokenizer | None,
    *,
    batch_tokens: int,
    seed: int,
    expected: Mapping[str, str] | None = None,
) -> tuple[MaskedTraining, Tokenizer, dict[str, str]]:
    """A text as a masked task, its tokenizer (the one given, else one trained on it) and its contents by split."""
    text = load_text(data.spec, errors=data.errors)
    found = split_digests(text, expected)
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, text.chunks("train"), specials=(*SPECIALS, MASK))
    cache = Path(data.cache).expanduser()
    splits = {}
    for name in text.splits:
        key = fingerprint([found[name], config.documents, "spaced", tokenizer.content_hash])
        sentences = _in_sentences(text.documents(name), paragraphs=config.documents == "paragraphs")
        splits[name] = store_tokens(cache / f"sentences-{key}", tokenizer.encode_lines(sentences))
    return MaskedTraining(config, tokenizer, splits, batch_tokens=batch_tokens, seed=seed), tokenizer, found


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


def prepare_translation(
    config: Translation,
    data: DataConfig,
    tokenizers: dict[str, Tokenizer],
    *,
    batch_tokens: int,
    seed: int,
    expected: Mapping[str, str] | None = None,
) -> tuple[TranslationTraining, dict[str, Tokenizer], dict[str, str]]:
    """Parallel text as a translation task, its tokenizers by file name and its contents by split."""
    text = load_parallel(data.spec, data.source, data.target, errors=data.errors)
    found = split_digests(text, expected)
    tokenizers = tokenizers or _train(text, data)
    source = tokenizers.get("tokenizer-source.json") or tokenizers["tokenizer.json"]
    target = tokenizers.get("tokenizer-target.json") or tokenizers["tokenizer.json"]
    cache = Path(data.cache).expanduser()
    splits = {}
    for name in text.splits:
        sides = (
            _sentences(cache, text, name, source, 0, found[name], before_source(source)),
            _sentences(cache, text, name, target, 1, found[name]),
        )
        if len(sides[0]) != len(sides[1]):
            raise DataError(f"{data.spec}, split {name}: {len(sides[0])} source and {len(sides[1])} target lines")
        splits[name] = Pairs(*sides)
    task = TranslationTraining(config, source, target, splits, batch_tokens=batch_tokens, seed=seed)
    return task, tokenizers, found


def _train(text: ParallelText, data: DataConfig) -> dict[str, Tokenizer]:
    def trained(lines: Iterable[str]) -> Tokenizer:
        return Tokenizer.train(data.tokenizer, lines, marks=data.marks)

    if data.joint:
        return {"tokenizer.json": trained(chain.from_iterable(text.pairs("train")))}
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
