"""Tokenizers from files that would fill the memory, never end, or fail in the library: refused, in one line."""

from __future__ import annotations

import base64
import json
import time

import pytest

from headway.data.tokenizer_checks import quiet_panics
from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.limits import raised

BPE = {
    "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
    "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {"a": 0, "b": 1, " ": 2}, "merges": [],
}  # fmt: skip
WORD_PIECE = {
    "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    "vocab": {"[UNK]": 0, "a": 1, "##a": 2},
}  # fmt: skip
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
LLAMA = "|".join([
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])  # fmt: skip
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{Lm}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+"
)


def tokenizer_json(model=BPE, **parts):
    whole = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return json.dumps({"version": "1.0", "added_tokens": [], **whole, **parts, "model": model})


def unigram(count):
    """Pieces a, aa, aaa …: at each character, all of them are looked at."""
    vocabulary = [["a" * n, -1.0 * n] for n in range(1, count + 1)]
    return {"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": False}


def replace(pattern, text, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": text}


def normalizers(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def pre_tokenizers(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def decoders(*steps):
    return {"type": "Sequence", "decoders": list(steps)}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def refused(text, capfd):
    begun = time.thread_time()
    with pytest.raises(DataError) as caught:
        Tokenizer.from_json(text, where="run/tokenizer.json")
    assert time.thread_time() - begun < 8
    said = str(caught.value)
    assert said.startswith("run/tokenizer.json: ")
    assert said.isprintable()
    assert capfd.readouterr().err == ""
    return said


EXPANDING = {
    "normalizer": tokenizer_json(normalizer=normalizers(*[replace("a", "a" * 1000)] * 4)),
    "decoder": tokenizer_json(decoder=decoders(*[replace("a", "a" * 1000)] * 4)),
    "one replacement": tokenizer_json(normalizer=replace("a", "a" * 100)),
    "between characters": tokenizer_json(normalizer=normalizers(*[replace("", "a", "Regex")] * 40)),
    "an empty string": tokenizer_json(normalizer=normalizers(*[replace("", "a")] * 40)),
    "normalizer and pre-tokenizer": tokenizer_json(
        normalizer=replace("a", "aaaaaaaa"), pre_tokenizer=pre_tokenizers(*[BYTES] * 2)
    ),
    "prepend": tokenizer_json(normalizer={"type": "Prepend", "prepend": "a" * 1000}),
    "prepend often": tokenizer_json(normalizer=normalizers(*[{"type": "Prepend", "prepend": "a"}] * 10)),
    "bytes of bytes": tokenizer_json(pre_tokenizer=pre_tokenizers(*[BYTES] * 40)),
    "sequences in sequences": tokenizer_json(normalizer=normalizers(*[normalizers(*[replace("a", "aa")] * 8)] * 8)),
    "a table": tokenizer_json(
        normalizer={
            "type": "Precompiled",
            "precompiled_charsmap": base64.b64encode(b"\4\0\0\0\0\0\0\0" + b"a" * 10_000 + b"\0").decode(),
        }
    ),
    "a prefix": tokenizer_json(model={**BPE, "continuing_subword_prefix": "x" * 1000}),
    "a suffix": tokenizer_json(model={**BPE, "end_of_word_suffix": "x" * 1000}),
}


@pytest.mark.parametrize("name", EXPANDING)
def test_a_tokenizer_that_makes_a_text_far_longer_is_refused(name, capfd):
    """D6: four replacements of a letter by a thousand took 3 GB and more for one word."""
    said = refused(EXPANDING[name], capfd)
    assert said.endswith("times, allowed: up to 16 (--limit expansion=N raises it)")


def test_the_limit_can_be_raised():
    text = tokenizer_json(normalizer=replace("a", "a" * 100))
    with raised({"expansion": 200}):
        assert len(Tokenizer.from_json(text).encode("aba")) == 201


SLOW = {
    "nested quantifiers": "(a+)+$",
    "alternatives that overlap": "(?:x|y|xy)*z",
    "three in a row": r"a*a*a*\d",
    "two classes": r"\w*\w*\d",
    "groups in a row": r"(?:ab)*(?:ab)*(?:ab)*\d",
    "references": r"(a*)\1*(a*)\2*b",
}


@pytest.mark.parametrize("name", SLOW)
def test_a_pattern_that_never_ends_is_refused(name, capfd):
    """D8: a pattern such as (a+)+$ made the library panic at encode, which was a traceback; others took minutes."""
    for part in (
        {"pre_tokenizer": split(SLOW[name])},
        {"normalizer": replace(SLOW[name], "b", "Regex")},
        {"decoder": replace(SLOW[name], "b", "Regex")},
    ):
        said = refused(tokenizer_json(**part), capfd)
        assert said.startswith(f"run/tokenizer.json: {next(iter(part))}: the pattern ")
        if name != "nested quantifiers":
            break


def test_pieces_that_begin_alike_are_fine_if_they_are_few():
    assert Tokenizer.from_json(tokenizer_json(model=unigram(100))).encode("aaa") == [2]


@pytest.mark.parametrize("pattern", [LLAMA, CASED, r"\s+", r"\A +| +\z", r"(?<!\S)(?:<s>|</s>)(?!\S)", r" {2,}"])
def test_the_patterns_of_ordinary_tokenizers_are_not(pattern):
    tokenizer = Tokenizer.from_json(tokenizer_json(pre_tokenizer=pre_tokenizers(split(pattern))))
    assert tokenizer.encode("ab a") == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (tokenizer_json(pre_tokenizer={"type": "FixedLength", "length": 0}), "the library fails with this tokenizer"),
        (tokenizer_json(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}), "the library fails"),
        (tokenizer_json(model={**BPE, "dropout": 0.5}), "dropout 0.5: a text would have other tokens each time"),
        (
            tokenizer_json(model={**BPE, "vocab": {**BPE["vocab"], "c" * 70_000: 3}}),
            "a token: 70,000 characters, allowed",
        ),
        (tokenizer_json(model={**WORD_PIECE, "max_input_chars_per_word": 10**9}), "--limit wordpiece-word=N raises it"),
        (tokenizer_json(normalizer=normalizers(*[{"type": "NFC"}] * 100)), "normalizer: more than 64 steps"),
        (
            tokenizer_json(model=unigram(300)),
            "a token: 299 tokens, allowed: up to 128 (--limit nested-tokens=N raises it)",
        ),
        (tokenizer_json(pre_tokenizer=split("(((")), "not the JSON of a tokenizer"),
        ('{"normalizer":' + '{"type":"Sequence","normalizers":[' * 500, "not the JSON of a tokenizer"),
        ("[" * 100_000, "not the JSON of a tokenizer"),
        (" " * 33_000_000, "33,000,000 bytes, allowed: up to 32,000,000 (--limit tokenizer-bytes=N raises it)"),
    ],
)
def test_what_else_is_refused(text, wrong, capfd):
    assert wrong in refused(text, capfd)


def test_a_vocabulary_has_a_limit(capfd):
    with raised({"vocabulary": 2}):
        assert "3 tokens, allowed: up to 2 (--limit vocabulary=N" in refused(tokenizer_json(), capfd)


@pytest.mark.parametrize("call", ["encode", "encode_batch", "encode_lines", "decode"])
def test_a_panic_of_the_library_is_a_data_error(call, monkeypatch):
    """D8: what is not found when a tokenizer is read is one line when it happens."""
    monkeypatch.setattr("headway.data.tokenizers.try_tokenizer", lambda *arguments: None)
    tokenizer = Tokenizer.from_json(
        tokenizer_json(
            pre_tokenizer=split("(a+)+$"), decoder=decoders({"type": "Fuse"}, replace("(a+)+$", "b", "Regex"))
        )
    )
    text = "a" * 100 + "b"
    value = {"encode": text, "encode_batch": [text], "encode_lines": [text], "decode": [0] * 100 + [1]}[call]
    with quiet_panics(), pytest.raises(DataError, match=r"this tokenizer .*retry-limit") as caught:
        list(getattr(tokenizer, call)(value))
    assert str(caught.value).isprintable()


def test_more_tokens_than_the_text_can_have_are_refused(monkeypatch):
    """The rules are looked at when a tokenizer is read; this is the check of what they did."""
    monkeypatch.setattr("headway.data.tokenizers.check_tokenizer", lambda *arguments: 1)
    tokenizer = Tokenizer.from_json(tokenizer_json(normalizer=replace("a", "a" * 1000)))
    with pytest.raises(DataError, match="a text becomes longer, at least: 17 times, allowed: up to 16"):
        tokenizer.encode("aaaa")


def test_a_decoded_text_has_a_limit():
    tokenizer = Tokenizer.from_json(tokenizer_json(model={**BPE, "vocab": {**BPE["vocab"], "c" * 1000: 3}}))
    assert len(tokenizer.decode([3] * 10)) == 10_009
    with (
        raised({"document-bytes": 5000}),
        pytest.raises(DataError, match="the text of 10 tokens: 10,000 bytes, allowed"),
    ):
        tokenizer.decode([3] * 10)


def test_interrupts_are_not_swallowed(monkeypatch):
    tokenizer = Tokenizer.from_json(tokenizer_json())

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        tokenizer, "_library", type("Library", (), {"decode": interrupted, "get_vocab_size": lambda _: 3})()
    )
    with pytest.raises(KeyboardInterrupt):
        tokenizer.decode([0])
