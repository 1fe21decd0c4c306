"""Text to token ids and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

import tokenizers

from headway.data.chunks import CHUNK, chunks, shorten_words
from headway.data.special_tokens import SpecialTokens
from headway.data.tokenizer_checks import PARTS, check_tokenizer, library_error, quiet_panics, try_tokenizer
from headway.data.unknown_tokens import count_lines
from headway.data.vocabularies import (
    PAD,
    SPECIALS,
    START,
    STOP,
    UNK,
    Bpe,
    ByteBpe,
    Characters,
    TokenizerConfig,
    Unigram,
    Word,
    train_vocabulary,
)
from headway.errors import ConfigError, DataError, UnknownCharacterError, shown
from headway.limits import expect_within, limit

MASK = "<mask>"
NAMES = {"pad": PAD, "unk": UNK, "start": START, "stop": STOP, "mask": MASK}  # by the fields of `SpecialTokens`
WORD_MARKS = (" ", "Ġ", "▁")  # in front of a token that begins a word: headway's, GPT-2's and SentencePiece's
JOINED = "·"  # for a reader, in front of a token that continues the word before it

__all__ = [
    "JOINED",
    "MASK",
    "SPECIALS",
    "Bpe",
    "ByteBpe",
    "Characters",
    "SpecialTokens",
    "Tokenizer",
    "TokenizerConfig",
    "Unigram",
    "Word",
]


class Tokenizer:
    """Text to token ids and back, in linear time.

    Text never becomes a special token: `</s>` typed by a user is four characters. A word of more than 8,192 characters
    is encoded in chunks, at whose boundaries tokens may differ from the library's. Special tokens are looked up by
    headway's names, or by the ids in `marks`.
    """

    def __init__(
        self, library: tokenizers.Tokenizer, marks: SpecialTokens | None = None, *, where: str = "tokenizer"
    ) -> None:
        self._library, self.marks = library, marks
        self._library.encode_special_tokens = True
        self._library.no_truncation()
        self._library.no_padding()
        self._text = library.to_str()
        content = json.loads(self._text)
        self._longest = check_tokenizer(content, where)
        self._rules = {name: content[name] for name in PARTS}
        model = content["model"]
        self._kind: str = model["type"]
        self._words = self._kind == "WordLevel"
        named = model.get("unk_token")  # a Unigram model has its number instead
        self.unknown: int | None = model.get("unk_id") if named is None else library.token_to_id(named)
        # Without merges and `<unk>` there is a token per character, and the library silently drops unknown ones.
        only_characters = model["type"] == "BPE" and not model["merges"]
        as_it_is = content["normalizer"] is None and content["pre_tokenizer"] is None
        self._drops_unknown = only_characters and as_it_is and model.get("unk_token") is None
        added = content.get("added_tokens") or ()
        self._spans = {token["id"]: len(token["content"]) for token in added if not token["special"]}

    @classmethod
    def train(
        cls,
        config: TokenizerConfig,
        lines: Iterable[str],
        *,
        specials: Sequence[str] = SPECIALS,
        marks: SpecialTokens | None = None,
    ) -> Tokenizer:
        """Train a tokenizer on lines (or other chunks of text); the result does not depend on their order."""
        return cls(train_vocabulary(config, lines, tuple(specials)), marks)

    @classmethod
    def from_json(cls, text: str, marks: SpecialTokens | None = None, *, where: str = "tokenizer") -> Tokenizer:
        """A tokenizer in the format of the `tokenizers` library. Raises DataError for anything else.

        `where` names it in errors. Also refused is one that may make a text far longer, or take far longer than a text
        is long (`headway.data.tokenizer_checks`).
        """
        expect_within("tokenizer-bytes", len(text), where, DataError)
        try:
            with quiet_panics():
                library = tokenizers.Tokenizer.from_str(text)
                highest = max(library.get_vocab().values(), default=-1)
        except BaseException as error:
            raise library_error(error, f"{where}: not the JSON of a tokenizer") from None
        if highest + 1 != library.get_vocab_size():
            size = library.get_vocab_size()
            raise DataError(f"{where}: {size} tokens with ids up to {highest}, expected ids 0 to {size - 1}")
        made = cls(library, marks, where=where)
        try_tokenizer(library, made._rules, where)
        return made

    def extended(
        self, tokens: Sequence[str], *, special: Sequence[str] = (), named_special: Sequence[str] = ()
    ) -> Tokenizer:
        """The same with new tokens behind the others; `special` are fields of `SpecialTokens` that it must have.

        A new token is found in a text before any other; one of letters or digits only as a whole word. Special tokens
        get headway's names; `named_special` are further ones by their own. No text becomes a special token. Raises
        ConfigError for a token that is there already or empty.
        """
        library, marks = tokenizers.Tokenizer.from_str(self._text), self.marks
        known = [token for token in tokens if not token.strip() or library.token_to_id(token) is not None]
        if known or len(set(tokens)) != len(tokens):
            named = shown((known or list(tokens))[0])
            raise ConfigError(f"data.new_tokens: {named} is empty, there twice, or in the vocabulary of {self.size:,}")
        # A rule that puts a space in front of a text would put one in front of the token, too.
        normalised = "Prepend" not in json.dumps(self._rules["normalizer"])
        library.add_tokens([_added(token, normalised) for token in tokens])
        for name in special:
            if marks is None and library.token_to_id(NAMES[name]) is None:
                library.add_special_tokens([NAMES[name]])
            elif marks is not None and getattr(marks, name) is None:
                library.add_special_tokens([NAMES[name]])
                added: dict[str, Any] = {name: library.token_to_id(NAMES[name])}
                marks = replace(marks, **added)
        library.add_special_tokens([token for token in named_special if library.token_to_id(token) is None])
        same = library.get_vocab_size() == self.size and marks is self.marks
        return self if same else Tokenizer.from_json(library.to_str(), marks)

    def __repr__(self) -> str:
        return f"<Tokenizer: {self._kind}, {self.size:,} tokens>"

    def to_json(self) -> str:
        """The tokenizer in the format of the `tokenizers` library."""
        return self._text

    @property
    def content_hash(self) -> str:
        """Equal for tokenizers that behave the same."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    @property
    def size(self) -> int:
        """Tokens in the vocabulary, special ones included."""
        return self._library.get_vocab_size()

    @property
    def pad(self) -> int:
        """The id that fills up a batch."""
        return self._special("pad", PAD)

    @property
    def unk(self) -> int:
        """The id of what the vocabulary does not hold."""
        return self._special("unk", UNK)

    @property
    def start(self) -> int:
        """The id before the first token."""
        return self._special("start", START)

    @property
    def between(self) -> tuple[int, ...]:
        """What stands between the two texts of a pair: the token after a text, or what an imported vocabulary says."""
        marks = self.marks
        if marks is None:
            return (self.stop,)
        return marks.between or marks.after or (self.stop,)  # a GPT-2 has no tokens around a text

    @property
    def stop(self) -> int:
        """The id after the last token."""
        return self._special("stop", STOP)

    @property
    def mask(self) -> int:
        """The id that hides a token."""
        return self._special("mask", MASK)

    @property
    def specials(self) -> list[int]:
        """The ids of special tokens, sorted."""
        if self.marks is None:
            return sorted(self.id(token) for token in (*SPECIALS, MASK) if self._library.token_to_id(token) is not None)
        return sorted(index for index, token in self._library.get_added_tokens_decoder().items() if token.special)

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens in front of a text and behind it, as an encoder reads it: by default `<s>` and `</s>`."""
        if self.marks is None:
            return (self.start,), (self.stop,)
        return self.marks.before, self.marks.after

    def _special(self, name: str, token: str) -> int:
        if self.marks is None:
            return self.id(token)
        found: int | None = getattr(self.marks, name)
        if found is None:
            raise DataError(f"this vocabulary of {self.size} has no {name} token")
        return found

    def id(self, token: str) -> int:
        """The id of a token. Raises DataError for an unknown token."""
        index = self._library.token_to_id(token)
        if index is None:
            raise DataError(f"no token {shown(token)} in this vocabulary of {self.size}")
        return index

    def token(self, index: int) -> str:
        """The token of an id, as the vocabulary spells it."""
        return self._library.id_to_token(self._checked(index))  # type: ignore[return-value]

    def display(self, index: int) -> str:
        """The token of an id for a reader: a space in front of one that begins a word, JOINED before one that does not.

        Vocabularies spell this differently (a space, `Ġ`, `▁`, `##`). A special token, and a token of a vocabulary of
        whole words or single characters, is as the vocabulary spells it.
        """
        token = self.token(index)
        if index in self._shown_as_is:
            return token
        if self._kind == "WordPiece":
            return JOINED + token.removeprefix("##") if token.startswith("##") else token
        if self._word_mark is None:
            return token
        if self._word_mark != " ":
            token = token.replace(self._word_mark, " ").replace("Ċ", "\n")
        return token if token[:1].isspace() else JOINED + token

    @cached_property
    def _shown_as_is(self) -> frozenset[int]:
        return frozenset(self.specials)

    @cached_property
    def _word_mark(self) -> str | None:
        """What stands in front of a token that begins a word; None where nothing does."""
        vocabulary = self._library.get_vocab()
        marks = (mark for mark in WORD_MARKS if any(len(token) > 1 and token.startswith(mark) for token in vocabulary))
        return next(marks, None)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens. Raises DataError for text that cannot be encoded."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text. Unknown tokens are counted (`headway.data.unknown_tokens`)."""
        for text in texts:
            _must_be_unicode(text)
        if self._words:
            texts = [shorten_words(text) for text in texts]
        short = iter(self._ids(self._library, [text for text in texts if len(text) <= CHUNK]))
        found = [next(short) if len(text) <= CHUNK else self._encode_long(text) for text in texts]
        count_lines(self, found)
        return found

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text, and for each the characters it stands for: the first, and the one after the last.

        White space around them is left out. Raises DataError for text that cannot be encoded.
        """
        ids = self.encode(text)
        spans: list[tuple[int, int]] = []
        start = 0
        for part, inside in chunks(text, within_words=not self._words) if len(text) > CHUNK else [(text, False)]:
            library = self._inside if inside else self._library
            try:
                offsets = library.encode(part, add_special_tokens=False).offsets
            except BaseException as error:
                raise library_error(error, "this text cannot be encoded by this tokenizer") from None
            spans += [_trimmed(text, start + first, start + last) for first, last in offsets]
            start += len(part)
        if len(spans) != len(ids):
            raise DataError("this text cannot be encoded by this tokenizer: its tokens have no offsets in the text")
        return ids, spans

    def encode_lines(self, lines: Iterable[str]) -> Iterator[list[int]]:
        """The ids of each line, encoded in batches, which is faster."""
        rest = iter(lines)
        while batch := list(islice(rest, 1000)):
            yield from self.encode_batch(batch)

    def decode(self, ids: Iterable[int], *, specials: bool = False) -> str:
        """The text of ids, with special tokens only if `specials`. Raises DataError for an invalid id."""
        kept = list(map(int, ids))
        if kept and (min(kept) < 0 or max(kept) >= self.size):
            self._checked(next(index for index in kept if not 0 <= index < self.size))
        if len(kept) * self._longest > limit("document-bytes"):
            size = sum(len(self._library.id_to_token(index) or "") for index in kept)
            expect_within("document-bytes", size, f"the text of {len(kept):,} tokens", DataError)
        try:
            return self._library.decode(kept, skip_special_tokens=not specials)
        except BaseException as error:
            raise library_error(error, "these tokens cannot be decoded by this tokenizer") from None

    def _encode_long(self, text: str) -> list[int]:
        """Encode a text in chunks, a few at a time, which limits the working memory of the library."""
        parts = chunks(text, within_words=not self._words)
        found: list[int] = []
        while some := list(islice(parts, 8)):
            starting = iter(self._ids(self._library, [part for part, inside in some if not inside]))
            continued = iter(self._ids(self._inside, [part for part, inside in some if inside]))
            for _, inside in some:
                found += next(continued if inside else starting)
        return found

    @cached_property
    def _inside(self) -> tokenizers.Tokenizer:
        """The same tokenizer for text that continues a word: without prepending a space."""
        content = json.loads(self._text)
        changed = {key: _without_prefix(content[key]) for key in ("normalizer", "pre_tokenizer")}
        try:
            library = tokenizers.Tokenizer.from_str(json.dumps({**content, **changed}))
        except BaseException as error:  # the library does not read every tokenizer that it writes
            raise library_error(error, "this text is too long for this tokenizer") from None
        library.encode_special_tokens = True
        return library

    def _ids(self, library: tokenizers.Tokenizer, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        try:
            found: list[list[int]] = [each.ids for each in library.encode_batch_fast(texts, add_special_tokens=False)]
        except BaseException as error:
            raise library_error(error, "this text cannot be encoded by this tokenizer") from None
        # In tokens, of which a character may be four or, where Unicode expands it, more.
        allowed = 4 * limit("expansion") * (sum(map(len, texts)) + len(texts))
        if sum(map(len, found)) > allowed:
            expect_within("expansion", limit("expansion") + 1, "tokenizer: a text becomes longer, at least", DataError)
        if self._drops_unknown:
            for text, ids in zip(texts, found, strict=True):
                whole = len(ids) if not self._spans else sum(self._spans.get(each, 1) for each in ids)
                if whole != len(text):
                    for each in self._spans:
                        text = text.replace(library.id_to_token(each) or "", "")
                    unknown = next((char for char in text if library.token_to_id(char) is None), None)
                    if unknown is None:  # each character is a token, but a rule of the tokenizer takes them otherwise
                        raise DataError("this text cannot be encoded by this tokenizer: characters are lost")
                    message = f"character {named(unknown)} is not among the {self.size} of this vocabulary"
                    raise UnknownCharacterError(unknown, message)
        return found

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise DataError(f"token id {index}, expected 0 to {self.size - 1}")
        return int(index)


def _added(token: str, normalised: bool) -> tokenizers.AddedToken:
    word = token[0].isalnum() and token[-1].isalnum() and len(token) > 1
    return tokenizers.AddedToken(token, single_word=word, normalized=normalised)


def named(character: str) -> str:
    """A character with its code point, for messages."""
    return f"{character!r} (U+{ord(character):04X})"


def _trimmed(text: str, start: int, stop: int) -> tuple[int, int]:
    """A span without the white space around it."""
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    return start, stop


def _without_prefix(part: Any) -> Any:
    """The JSON of a normaliser or pre-tokenizer, changed not to prepend a space."""
    if isinstance(part, list):
        return [
            _without_prefix(each) for each in part if not (isinstance(each, dict) and each.get("type") == "Prepend")
        ]
    if isinstance(part, dict):
        fixed = {"prepend_scheme": "never", "add_prefix_space": False}
        return {key: fixed[key] if key in fixed else _without_prefix(value) for key, value in part.items()}
    return part


def _must_be_unicode(text: str) -> None:
    if not isinstance(text, str):
        raise DataError(f"a text is of type {type(text).__name__}, expected one string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"U+{ord(text[error.start]):04X} at character {error.start + 1}"
        raise DataError(f"text with a lone surrogate ({found}) is not Unicode") from None
