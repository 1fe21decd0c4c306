"""The tokenizer in the metadata of a GGUF file, as one of the `tokenizers` library."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from headway.errors import BadModelError, shown
from headway.interop.sentencepiece_model import (
    CONTROL,
    PLAIN,
    UNKNOWN,
    USER,
    SentencePieceModel,
    check_model,
    to_tokenizer,
)

PREFIX = "tokenizer.ggml."
BYTE = 6  # the kind of a piece that stands for a byte; the other kinds are SentencePiece's
# How text is divided before byte pairs are merged, by `tokenizer.ggml.pre`: a pattern, or GPT-2's own with or without
# digits one by one.
GPT2, DIGITS = "gpt2", "digits"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DIVISIONS = {
    "default": GPT2, "gpt-2": GPT2, "phi-2": GPT2, "olmo": GPT2,
    "smollm": DIGITS, "starcoder": DIGITS, "refact": DIGITS, "command-r": DIGITS,
    "llama3": LLAMA3, "llama-v3": LLAMA3, "llama-bpe": LLAMA3, "falcon3": LLAMA3,
    "qwen2": QWEN2, "deepseek-r1-qwen": QWEN2,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GgufTokenizer:
    """The tokenizer, the special tokens around a text, and the ids of pad, unk and mask where the file names them."""

    library: Tokenizer
    before: tuple[int, ...]
    after: tuple[int, ...]
    named: dict[str, int]


def read_gguf_tokenizer(metadata: Mapping[str, Any], origin: str) -> GgufTokenizer:
    """The tokenizer of a GGUF file. Raises BadModelError naming the file and the key."""
    given = _Fields(metadata, origin)
    kind = given.get("model")
    if kind not in ("gpt2", "llama", "t5"):
        given.fail("model", kind, "gpt2 (byte pairs), llama and t5 (SentencePiece)")
    division = given.get("pre", "default")
    library = _byte_pairs(given, division) if kind == "gpt2" else _sentencepiece(given, kind)
    # What llama.cpp assumes where a file does not say: a start token for SentencePiece's byte pairs and Llama 3.
    starts = given.flag("add_bos_token", kind == "llama" or DIVISIONS.get(division) == LLAMA3)
    ends = given.flag("add_eos_token", kind == "t5")
    start, stop = given.id("bos_token_id"), given.id("eos_token_id")
    ids = {"unk": given.id("unknown_token_id"), "pad": given.id("padding_token_id"), "mask": given.id("mask_token_id")}
    return GgufTokenizer(
        library,
        (start,) if starts and start is not None else (),
        (stop,) if ends and stop is not None else (),
        {name: index for name, index in ids.items() if index is not None},
    )


class _Fields:
    """The keys of the tokenizer, each checked when it is read."""

    def __init__(self, metadata: Mapping[str, Any], origin: str) -> None:
        self.metadata, self.origin = metadata, origin
        tokens = self.strings("tokens")
        if not tokens or len(set(tokens)) != len(tokens):
            raise BadModelError(f"{origin}: {PREFIX}tokens: {len(tokens):,} tokens, expected 1 or more, no duplicate")
        self.tokens = tokens
        self.kinds = self.numbers("token_type", [PLAIN] * len(tokens))

    def get(self, name: str, default: Any = None) -> Any:
        return self.metadata.get(f"{PREFIX}{name}", default)

    def fail(self, name: str, value: object, allowed: str) -> NoReturn:
        raise BadModelError(f"{self.origin}: {PREFIX}{name} {shown(value)}, allowed: {allowed}")

    def strings(self, name: str) -> list[str]:
        value = self.get(name)
        if not isinstance(value, list):
            raise BadModelError(f"{self.origin}: {PREFIX}{name}: missing, or not a list of strings")
        return value

    def numbers(self, name: str, default: Sequence[Any]) -> Sequence[Any]:
        """One number for each token."""
        value = self.get(name, default)
        if not isinstance(value, array | list) or len(value) != len(self.tokens):
            raise BadModelError(
                f"{self.origin}: {PREFIX}{name}: expected a number for each of {len(self.tokens):,} tokens"
            )
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if type(value) is not bool:
            self.fail(name, value, "true or false")
        return bool(value)

    def id(self, name: str) -> int | None:
        value = self.get(name)
        if value is not None and (type(value) is not int or not 0 <= value < len(self.tokens)):
            self.fail(name, value, f"an id from 0 to {len(self.tokens) - 1}")
        return value

    def of_kind(self, *kinds: int) -> list[str]:
        return [token for token, kind in zip(self.tokens, self.kinds, strict=True) if kind in kinds]


def _byte_pairs(given: _Fields, division: Any) -> Tokenizer:
    """GPT-2's bytes, written as printable characters, and the merges that make the tokens."""
    if not isinstance(division, str) or division not in DIVISIONS:
        given.fail("pre", division, ", ".join(DIVISIONS))
    pattern = DIVISIONS[division]
    pairs = [tuple(merge.split(" ")) for merge in given.strings("merges")]
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        given.fail("merges", " ".join(wrong), "two tokens with a space between them")
    vocab = {token: index for index, token in enumerate(given.tokens)}
    # Llama 3 takes a word that is a token as it is, whatever the merges make of it.
    library = Tokenizer(models.BPE(vocab, pairs, ignore_merges=pattern == LLAMA3))  # type: ignore[arg-type]
    if pattern == QWEN2:
        library.normalizer = normalizers.NFC()
    steps: list[pre_tokenizers.PreTokenizer] = []
    if pattern == DIGITS:
        steps = [pre_tokenizers.Digits(individual_digits=True)]
    elif pattern != GPT2:
        steps = [pre_tokenizers.Split(Regex(pattern), "isolated")]
    by_words = pattern in (GPT2, DIGITS)
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=by_words)]
    )
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(given.of_kind(UNKNOWN, CONTROL))
    library.add_tokens([AddedToken(token, normalized=False) for token in given.of_kind(USER)])
    return library


def _sentencepiece(given: _Fields, kind: str) -> Tokenizer:
    """SentencePiece's pieces with their scores: byte pairs for `llama`, a unigram model for `t5`."""
    charsmap = given.get("precompiled_charsmap", array("B"))
    if not isinstance(charsmap, array) or charsmap.itemsize != 1:
        given.fail("precompiled_charsmap", charsmap, "an array of bytes")
    model = SentencePieceModel(
        pieces=given.tokens,
        scores=[float(each) for each in given.numbers("scores", [])],
        kinds=list(given.kinds),
        algorithm="bpe" if kind == "llama" else "unigram",
        byte_fallback=BYTE in given.kinds,
        charsmap=charsmap.tobytes(),
        dummy_prefix=given.flag("add_space_prefix", True),
        remove_extra_spaces=given.flag("remove_extra_whitespaces", kind == "t5"),
    )
    check_model(model, given.origin)
    return to_tokenizer(model, given.origin)
