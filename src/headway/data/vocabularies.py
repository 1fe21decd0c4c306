"""The kinds of tokenizer, and how the vocabulary of each is learned from text.

Each is a `tokenizers.Tokenizer` whose JSON says all there is to say, so that other programs read the same ids from it.
White space means nothing to words, BPE and Unigram: a run of it is one boundary, and a space in front of a word is part
of the word's first token. Characters and bytes keep it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from headway.data.chunks import chunks, shorten_words
from headway.errors import ConfigError, DataError

PAD, UNK, START, STOP = SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
_EVERY_WORD = 2**31 - 1  # the library wants a bound; no text has as many words


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Words as white space divides them, sorted; those seen less than `min_count` times are unknown."""

    lower: bool = False  # put text into lower case first
    min_count: int = 1  # words seen less often in train are unknown

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise ConfigError(f"min_count={self.min_count}, expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Characters:
    """Every character of the training text, white space included, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bpe:
    """Sennrich's byte-pair encoding of characters; the boundary of words is a space in front, not a mark behind."""

    vocab: int = 8000  # tokens in the vocabulary, special ones included

    def __post_init__(self) -> None:
        _positive(self.vocab)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteBpe:
    """GPT-2's byte-pair encoding of bytes: any text, to the last byte, and nothing is unknown."""

    vocab: int = 8000  # tokens in the vocabulary, special ones included

    def __post_init__(self) -> None:
        _positive(self.vocab)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unigram:
    """Kudo's unigram pieces."""

    vocab: int = 8000  # tokens in the vocabulary, special ones included

    def __post_init__(self) -> None:
        _positive(self.vocab)


TokenizerConfig = Word | Characters | Bpe | ByteBpe | Unigram


def train_vocabulary(config: TokenizerConfig, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    """The library's tokenizer, trained; special tokens come first, in the order given.

    Where a text can hold what the vocabulary does not, `<unk>` is added to them. Raises DataError for a vocabulary
    that the text cannot fill, or that cannot hold it.
    """
    if len(set(specials)) != len(specials) or any(len(token) < 2 for token in specials):
        raise ConfigError(f"special tokens {specials}, expected distinct names of two characters or more")
    if isinstance(config, Word | Bpe | Unigram) and UNK not in specials:
        specials = (*specials, UNK)
    try:
        library = _LEARN[type(config)](config, lines, specials)
    except UnicodeEncodeError as error:
        raise DataError(f"text with a lone surrogate (U+{ord(error.object[error.start]):04X}) is not Unicode") from None
    library.add_special_tokens(list(specials))
    return library


def _word(config: Word, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    library = Tokenizer(models.WordLevel({}, unk_token=UNK))
    literal = "|".join(map(re.escape, specials))
    no_special = normalizers.Replace(Regex(rf"(?<!\S)(?:{literal})(?!\S)"), UNK)  # "</s>" as a word ends nothing
    library.normalizer = normalizers.Sequence([*([normalizers.Lowercase()] if config.lower else []), no_special])
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(
        vocab_size=_EVERY_WORD, min_frequency=config.min_count, special_tokens=list(specials), show_progress=False
    )
    library.train_from_iterator(_in_pieces(map(shorten_words, lines), within_words=False), trainer)
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
    "".join(found).encode()  # raises for a lone surrogate, as the library does in training
    unknown = UNK if UNK in specials else None
    library = Tokenizer(models.BPE(_numbered([*specials, *sorted(found)]), [], unk_token=unknown))  # BPE without merges
    library.decoder = decoders.Fuse()
    return library


def _bpe(config: Bpe, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    library = _subwords(models.BPE(unk_token=UNK), specials)
    trainer = trainers.BpeTrainer(vocab_size=config.vocab, special_tokens=list(specials), show_progress=False)
    library.train_from_iterator(_in_pieces(lines), trainer)
    return _filled("bpe", library, config.vocab, "its characters and the special tokens")


def _byte_bpe(config: ByteBpe, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab,
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    library.train_from_iterator(_in_pieces(lines), trainer)
    return _filled("byte-bpe", library, config.vocab, "256 bytes and the special tokens")


def _unigram(config: Unigram, lines: Iterable[str], specials: tuple[str, ...]) -> Tokenizer:
    library = _subwords(models.Unigram(), specials)
    trainer = trainers.UnigramTrainer(
        vocab_size=config.vocab, special_tokens=list(specials), unk_token=UNK, show_progress=False
    )
    try:
        library.train_from_iterator(_in_pieces(lines), trainer)
    except Exception as error:
        if "not large enough" not in str(error):
            raise
        raise DataError(f"unigram: a vocabulary of {config.vocab} has no room for the text's characters") from None
    _settle(library, specials)
    return _filled("unigram", library, config.vocab, "its characters and the special tokens")


def _subwords(model: Any, specials: tuple[str, ...]) -> Tokenizer:
    """Words with the space in front of them; the text `<s>` is broken up, so that no merge spells a special token."""
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


def _settle(library: Tokenizer, specials: tuple[str, ...]) -> None:
    """Unigram scores made the same for every run.

    The library adds them up in the order of a hash table, and gives characters no piece needed the lowest score less
    0.0001 each, in the same order: so the lowest are levelled, the rest rounded, and equals sorted by name.
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


def _filled(kind: str, library: Tokenizer, asked: int, least: str) -> Tokenizer:
    """The tokenizer, if its vocabulary is as large as was asked."""
    reached = library.get_vocab_size()
    if reached > asked:
        raise DataError(f"{kind}: a vocabulary of {asked} is too small for the training text: {least} are {reached}")
    if reached < asked:
        raise DataError(
            f"{kind}: a vocabulary of {asked} is more than the training text gives "
            f"(data.tokenizer.vocab): {reached} at most"
        )
    return library


def _in_pieces(lines: Iterable[str], *, within_words: bool = True) -> Iterator[str]:
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
