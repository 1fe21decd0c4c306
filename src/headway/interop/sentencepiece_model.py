"""A SentencePiece model (a protobuf message, of which a few fields are read) as one of the `tokenizers` library."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from headway.errors import BadModelError, shown

SPACE = "\u2581"  # stands for the space in front of a word
PLAIN, UNKNOWN, CONTROL, USER, UNUSED = 1, 2, 3, 4, 5  # kinds of pieces
NOWHERE = "\U0010ffff"  # in front of a piece that text must never become: not a Unicode character
MAX_CUTS = 10**9  # characters of the two parts of every piece, cut at every place: some seconds
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # wire types


@dataclass(slots=True)
class SentencePieceModel:
    """The model in a file: pieces in the order of their ids, and how text is normalised."""

    pieces: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    algorithm: Literal["unigram", "bpe"] = "unigram"
    byte_fallback: bool = False
    charsmap: bytes = b""
    dummy_prefix: bool = True
    remove_extra_spaces: bool = True

    def of_kind(self, *kinds: int) -> list[int]:
        """The ids of pieces of these kinds."""
        return [index for index, kind in enumerate(self.kinds) if kind in kinds]


def read_model(data: bytes, origin: str) -> SentencePieceModel:
    """The model in a `.model` or `.spm` file. Raises BadModelError naming the file."""
    found = SentencePieceModel()
    try:
        for number, value in _fields(data):
            if number == 1 and isinstance(value, bytes):
                _read_piece(found, value)
            elif number == 2 and isinstance(value, bytes):
                _read_trainer(found, dict(_fields(value)), origin)
            elif number == 3 and isinstance(value, bytes):
                _read_normalizer(found, dict(_fields(value)), origin)
    except (ValueError, IndexError, struct.error) as error:
        raise BadModelError(f"{origin}: not a SentencePiece model ({type(error).__name__})") from None
    check_model(found, origin)
    return found


def check_model(model: SentencePieceModel, origin: str) -> None:
    """Raise BadModelError for scores and pieces that no tokenizer can be made of."""
    if not all(map(math.isfinite, model.scores)):
        raise BadModelError(f"{origin}: the score of a piece is NaN or infinite")
    if model.algorithm == "bpe" and sum(len(piece) ** 2 for piece in model.pieces) > MAX_CUTS:
        raise BadModelError(f"{origin}: pieces of up to {max(map(len, model.pieces)):,} characters, too long for BPE")
    if len(set(model.pieces)) != len(model.pieces) or not model.pieces:
        raise BadModelError(f"{origin}: {len(model.pieces):,} pieces, expected 1 or more, no duplicate")


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int | float]]:
    """The fields of a protobuf message. Raises ValueError, IndexError or struct.error for a malformed one."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise ValueError("cut off")
            yield key >> 3, data[at : at + size]
            at += size
        elif wire in (_FOUR, _EIGHT):
            size = 4 if wire == _FOUR else 8
            yield key >> 3, struct.unpack_from("<f" if wire == _FOUR else "<d", data, at)[0]
            at += size
        else:
            raise ValueError(f"wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number too long")


def _read_piece(found: SentencePieceModel, data: bytes) -> None:
    fields = dict(_fields(data))
    piece, score, kind = fields.get(1, b""), fields.get(2, 0.0), fields.get(3, 1)
    if not isinstance(piece, bytes) or not isinstance(score, float) or not isinstance(kind, int):
        raise ValueError("not a piece")
    found.pieces.append(piece.decode())
    found.scores.append(score)
    found.kinds.append(kind)


def _read_trainer(found: SentencePieceModel, fields: dict[int, bytes | int | float], origin: str) -> None:
    algorithm = fields.get(3, 1)
    if algorithm not in (1, 2):
        raise BadModelError(f"{origin}: model_type {shown(algorithm)}, allowed: 1 (unigram), 2 (bpe)")
    if fields.get(24, 0):
        raise BadModelError(f"{origin}: treat_whitespace_as_suffix has no equivalent here")
    found.algorithm = "unigram" if algorithm == 1 else "bpe"
    found.byte_fallback = bool(fields.get(35, 0))


def _read_normalizer(found: SentencePieceModel, fields: dict[int, bytes | int | float], origin: str) -> None:
    charsmap = fields.get(2, b"")
    if not isinstance(charsmap, bytes):
        raise ValueError("not a charsmap")
    if not fields.get(5, 1):
        raise BadModelError(f"{origin}: escape_whitespaces=false has no equivalent here")
    found.charsmap = charsmap
    found.dummy_prefix, found.remove_extra_spaces = bool(fields.get(3, 1)), bool(fields.get(4, 1))


def to_tokenizer(
    model: SentencePieceModel, origin: str, ids: Sequence[str] | None = None, specials: Sequence[str] = ()
) -> Tokenizer:
    """The library's tokenizer for a model; `ids` gives other ids to its pieces, as a vocabulary beside it does.

    Text never becomes a control piece, one of `specials`, or one that only `ids` has. Raises BadModelError.
    """
    tokens = model.pieces if ids is None else list(ids)
    score_of = dict(zip(model.pieces, model.scores, strict=True))
    hidden = {model.pieces[index] for index in model.of_kind(UNUSED)} | (set(tokens) - set(score_of))
    unknown = [model.pieces[index] for index in model.of_kind(UNKNOWN)]
    if not unknown or unknown[0] not in tokens:
        raise BadModelError(f"{origin}: no piece for unknown text")
    control = [*specials, *(model.pieces[index] for index in model.of_kind(UNKNOWN, CONTROL))]
    special = [token for token in dict.fromkeys(control) if token in tokens]
    hidden -= set(special)
    named = [f"{NOWHERE}{token}" if token in hidden else token for token in tokens]
    scores = [score_of.get(token, 0.0) for token in tokens]
    try:
        library = Tokenizer(_algorithm(model, named, scores, unknown[0]))
        library.normalizer = _normalizer(model)
    except Exception as error:  # the library raises plain Exceptions
        raise BadModelError(f"{origin}: not usable ({type(error).__name__})") from None
    joined = any(SPACE in piece[1:] for piece in model.pieces)  # only such a model joins words
    # Metaspace leaves a text alone that begins with a space; without normalised spaces each text gets one more.
    added = model.dummy_prefix and model.remove_extra_spaces
    spaces = pre_tokenizers.Metaspace(
        replacement=SPACE, prepend_scheme="always" if added else "never", split=not joined
    )
    spelt = [*special, "<0x41>"] if model.byte_fallback else special
    library.pre_tokenizer = pre_tokenizers.Sequence([spaces, apart(spelt)])
    steps = [
        decoders.Replace(NOWHERE, ""),
        decoders.Replace(SPACE, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    library.decoder = decoders.Sequence(steps if model.dummy_prefix else steps[:-1])
    library.add_special_tokens(special)
    library.add_tokens([model.pieces[index] for index in model.of_kind(USER) if model.pieces[index] in tokens])
    return library


def apart(specials: Sequence[str]) -> pre_tokenizers.PreTokenizer:
    """A pre-tokenizer that splits text which spells a special token, so that it stays text."""
    literal = [rf"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in specials if len(token) > 1]
    literal = ["<(?=0x[0-9A-F]{2}>)" if "0x41" in each else each for each in literal]
    return pre_tokenizers.Split(Regex("|".join(literal) or r"(?!)"), "isolated")


def _algorithm(model: SentencePieceModel, tokens: list[str], scores: list[float], unknown: str) -> models.Model:
    if model.algorithm == "unigram":
        pieces = list(zip(tokens, scores, strict=True))
        return models.Unigram(pieces, unk_id=tokens.index(unknown), byte_fallback=model.byte_fallback)
    vocab = {token: index for index, token in enumerate(tokens)}
    plain = {model.pieces[index] for index in model.of_kind(PLAIN)}
    score_of = dict(zip(model.pieces, model.scores, strict=True))
    merges = [
        (piece[:cut], piece[cut:])
        for piece in sorted(plain, key=lambda each: (-score_of[each], each))
        for cut in range(1, len(piece))
        if piece[:cut] in plain and piece[cut:] in plain
    ]
    return models.BPE(vocab, merges, unk_token=unknown, fuse_unk=True, byte_fallback=model.byte_fallback)


def _normalizer(model: SentencePieceModel) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.remove_extra_spaces:
        steps += [normalizers.Replace(Regex(r"\A +| +\z"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    elif model.dummy_prefix:
        steps += [normalizers.Prepend(SPACE)]
    return normalizers.Sequence(steps)
