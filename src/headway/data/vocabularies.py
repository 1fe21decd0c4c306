"""The kinds of tokenizer, and how the vocabulary of each is trained.

Each is a `tokenizers.Tokenizer` that is fully described by its JSON, so that other programs give the same ids. For
words, BPE and Unigram a run of white space is one word boundary, and a space before a word is part of its first token.
Characters and byte-level BPE preserve white space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from headway.data.chunks import chunks, shorten_words
from headway.data.tokenizer_checks import library_error
from headway.errors import ConfigError, DataError, HeadwayError

PAD, UNK, START, STOP = SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
_EVERY_WORD = 2**31 - 1  # the library needs a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Words separated by white space, sorted; those seen less than `min_count` times are unknown."""

    lower: bool = False  # put text into lower case first
    min_count: int = 1  # words seen less often in train are unknown

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise ConfigError(f"min_count={self.min_count}, expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Characters:
    """Every character of the training text, including white space, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bpe:
    """Byte-pair encoding (Sennrich et al. 2016); words start with a space instead of ending with a marker."""

    vocab: int = 8000  # tokens in the vocabulary, special ones included
    fit: bool = False  # a text that gives fewer tokens than `vocab` has a smaller vocabulary; otherwise an error

    def __post_init__(self) -> None:
        _positive(self.vocab)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteBpe:
    """Byte-level BPE of GPT-2 (Radford et al. 2019): lossless, without unknown tokens."""

    vocab: int = 8000  # tokens in the vocabulary, special ones included
    fit: bool = False  # a text that gives fewer tokens than `vocab` has a smaller vocabulary; otherwise an error

    def __post_init__(self) -> None:
        _positive(self.vocab)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unigram:
    """Unigram language model segmentation (Kudo 2018)."""

    vocab: int = 8000  # tokens in the vocabulary, special ones included
    fit: bool = False  # a text that gives fewer tokens than `vocab` has a smaller vocabulary; otherwise an error

    def __post_init__(self) -> None:
        _positive(self.vocab)


TokenizerConfig = Word | Characters | Bpe | ByteBpe | Unigram


def train_vocabulary(config: TokenizerConfig, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    """Train the library's tokenizer; special tokens come first, in the given order.

    If unknown tokens are possible, `<unk>` is added to them. Raises DataError for a vocabulary size that is too large
    or too small for the text.
    """
    if len(set(specials)) != len(specials) or any(len(token) < 2 for token in specials):
        raise ConfigError(f"special tokens {specials}, expected distinct names of two characters or more")
    if isinstance(config, Word | Bpe | Unigram) and UNK not in specials:
        specials = (*specials, UNK)
    try:
        library = _LEARN[type(config)](config, lines, specials)
    except UnicodeEncodeError as error:
        raise DataError(f"text with a lone surrogate (U+{ord(error.object[error.start]):04X}) is not Unicode") from None
    except HeadwayError:
        raise
    except BaseException as error:
        raise library_error(error, "no vocabulary of this kind can be trained on this text") from None
    library.add_special_tokens(list(specials))
    return library


def _word(config: Word, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    library = Tokenizer(models.WordLevel({}, unk_token=UNK))
    literal = "|".join(map(re.escape, specials))
    no_special = normalizers.Replace(
        Regex(rf"(?<!\S)(?:{literal})(?!\S)"), UNK
    )  # the word "</s>" is not the special token
    library.normalizer = normalizers.Sequence([*([normalizers.Lowercase()] if config.lower else []), no_special])
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(
        vocab_size=_EVERY_WORD, min_frequency=config.min_count, special_tokens=list(specials), show_progress=False
    )
    library.train_from_iterator(_chunked(map(shorten_words, lines), within_words=False), trainer)
    words = sorted(set(library.get_vocab()) - set(specials))
    if not words:
        raise DataError(f"no word occurs {config.min_count} times or more in the training text")
    library.model = models.WordLevel(_numbered([*specials, *words]), unk_token=UNK)
    return library


def _characters(config: Characters, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    found: set[str] = set()
    for line in lines:
        found.update(line)
    if not found:
        raise DataError("no character in the training text")
    "".join(found).encode()  # raises for lone surrogates, like the library
    unknown = UNK if UNK in specials else None
    library = Tokenizer(models.BPE(_numbered([*specials, *sorted(found)]), [], unk_token=unknown))  # BPE without merges
    library.decoder = decoders.Fuse()
    return library


def _bpe(config: Bpe, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    library = _subwords(models.BPE(unk_token=UNK), specials)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab,
        min_frequency=_least_count(config),
        special_tokens=list(specials),
        show_progress=False,
    )
    library.train_from_iterator(_chunked(lines), trainer)
    return _check_size("bpe", library, config, "its characters and the special tokens")


def _byte_bpe(config: ByteBpe, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab,
        min_frequency=_least_count(config),
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    library.train_from_iterator(_chunked(lines), trainer)
    return _check_size("byte-bpe", library, config, "256 bytes and the special tokens")


def _unigram(config: Unigram, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    library = _subwords(models.Unigram(), specials)
    trainer = trainers.UnigramTrainer(
        vocab_size=config.vocab, special_tokens=list(specials), unk_token=UNK, show_progress=False
    )
    try:
        library.train_from_iterator(_chunked(lines), trainer)
    except Exception as error:
        if "not large enough" not in str(error):
            raise
        raise DataError(f"unigram: a vocabulary of {config.vocab} has no room for the text's characters") from None
    _make_deterministic(library, specials)
    return _check_size("unigram", library, config, "its characters and the special tokens")


def _subwords(model: Any, specials: tuple[str, ...]) -> Tokenizer:
    """Words with a preceding space; the text `<s>` is split, so that no merge produces a special token."""
    library = Tokenizer(model)
    library.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip(), normalizers.Prepend(" ")]
    )
    opening = "|".join(f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in specials)
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Split(Regex(opening), "isolated")]
    )
    library.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return library


def _make_deterministic(library: Tokenizer, specials: tuple[str, ...]) -> None:
    """Make unigram scores reproducible.

    The library sums them in the order of a hash table, and gives unused characters the lowest score minus 0.0001 each,
    in the same order. So the lowest scores are clamped, the others rounded, and ties sorted by name.
    """
    vocab = json.loads(library.to_str())["model"]["vocab"]
    scores = {piece: score for piece, score in vocab if piece not in specials}
    if not scores:
        return
    floor = min(scores.values()) + 0.0001 * sum(len(piece) == 1 for piece in scores)
    settled = {piece: round(max(score, floor), 3) for piece, score in scores.items()}
    ordered = sorted(settled.items(), key=lambda item: (-item[1], item[0]))
    pieces_of = [*((token, 0.0) for token in specials), *ordered]
    library.model = models.Unigram(pieces_of, unk_id=specials.index(UNK), byte_fallback=False)


def _least_count(config: Bpe | ByteBpe) -> int:
    """How often a merged pair must occur: once shows no unit, and most pairs of a small text occur once."""
    return 2 if config.fit else 0


def _check_size(kind: str, library: Tokenizer, config: Bpe | ByteBpe | Unigram, least: str) -> Tokenizer:
    """The tokenizer. Raises DataError unless its vocabulary has the requested size, or is smaller where that may be."""
    reached, wanted = library.get_vocab_size(), config.vocab
    if reached > wanted:
        raise DataError(f"{kind}: a vocabulary of {wanted} is too small for the training text: {least} are {reached}")
    if reached < wanted and not config.fit:
        raise DataError(
            f"{kind}: a vocabulary of {wanted} is more than the training text gives "
            f"(data.tokenizer.vocab): {reached} at most"
        )
    return library


def fitted_vocabulary(config: TokenizerConfig, size: int) -> str:
    """What to tell about a trained vocabulary that has fewer tokens than the config asks for; "" if it has them."""
    wanted = getattr(config, "vocab", size)
    return f"vocabulary: asked {wanted:,}, the text gives {size:,} (data.tokenizer.vocab)" if size < wanted else ""


def _chunked(lines: Iterable[str], *, within_words: bool = True) -> Iterator[str]:
    return (piece for line in lines for piece, _ in chunks(line, within_words=within_words))


def _numbered(tokens: list[str]) -> dict[str, int]:
    return {token: index for index, token in enumerate(tokens)}


def _positive(vocab: int) -> None:
    if vocab < 1:
        raise ConfigError(f"vocab={vocab}, expected at least 1")


_LEARN: dict[type, Callable[[Any, Iterable[str], tuple[str, ...]], Tokenizer]] = {
    Word: _word,
    Characters: _characters,
    Bpe: _bpe,
    ByteBpe: _byte_bpe,
    Unigram: _unigram,
}
