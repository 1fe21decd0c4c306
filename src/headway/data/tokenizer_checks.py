"""What is refused in a tokenizer from a file: rules that make a text far longer, or patterns that never come to an end.

The `tokenizers` library trusts its files. Four rules that each write a letter as a thousand fill the memory with one
word, and a pattern such as `(a+)+$` takes a time that grows exponentially with the text.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import math
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import tokenizers
from tokenizers import Regex, pre_tokenizers

from headway.errors import DataError, HeadwayError, one_line, shown
from headway.limits import expect_within

MAX_STEPS = 64  # of a normalizer, a pre-tokenizer or a decoder
UNICODE_EXPANSION = 18  # characters that one becomes in NFKC, at most: U+FDFA
PARTS = ("normalizer", "pre_tokenizer", "decoder")
SAMPLE = "a B\n1. \u00e9\u4e00\U0001f600\t"
SIZES = (32, 128, 256, 512, 1024)  # characters of the texts on which patterns are tried
ENOUGH = 256  # characters after which a pattern that was fast until then is not tried further
MAX_SECONDS = 0.1  # of processor time for such a text
SAMPLES = (" ", "a", "A", "1", ".", "\n", "\u00e9", "\u4e00")  # characters of the classes that patterns name
_QUIET = threading.RLock()  # two threads that restore stderr in the wrong order would lose it
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_QUANTIFIER = re.compile(r"[*+{]")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_LITERAL = re.compile(r"[^\\()\[\]{}*+?|^$.]+")


def check_tokenizer(content: Mapping[str, Any], where: str, error: type[HeadwayError] = DataError) -> int:
    """The most characters that a token of a tokenizer, given as the library's JSON, is decoded to.

    Raises `error` for one that may make a text far longer than it is; `where` names it in the message.
    """
    written = 1
    for name in PARTS:
        steps = list(itertools.islice(_steps(content.get(name)), MAX_STEPS + 1))
        if len(steps) > MAX_STEPS:
            raise error(f"{where}: {name}: more than {MAX_STEPS} steps")
        factor = math.prod(map(_expansion, steps))
        written = factor if name == "decoder" else written * factor  # a text passes through both of the others
        expect_within("expansion", written, f"{where}: {name}: a text may become longer", error)
    model = content["model"]
    vocabulary = model.get("vocab") or ()
    expect_within("vocabulary", len(vocabulary), where, error)
    pieces = vocabulary if isinstance(vocabulary, Mapping) else (piece for piece, _ in vocabulary)
    added = (token["content"] for token in content.get("added_tokens") or ())
    longest = max(map(len, itertools.chain(pieces, added)), default=0)
    expect_within("token", longest, f"{where}: a token", error)
    if model["type"] == "Unigram":
        depth = _prefix_depth([piece for piece, _ in vocabulary if len(piece) > 1]) if longest > MAX_STEPS else 0
        expect_within("nested-tokens", depth, f"{where}: a token", error)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        affix = len(model.get(name) or "")
        expect_within("expansion", 1 + affix, f"{where}: {name}: a character may become longer", error)
    if model.get("dropout"):
        raise error(f"{where}: dropout {shown(model['dropout'])}: a text would have other tokens each time")
    word = model.get("max_input_chars_per_word") or 0
    expect_within("wordpiece-word", word, f"{where}: max_input_chars_per_word", error)
    return longest * written


def try_tokenizer(
    library: tokenizers.Tokenizer, content: Mapping[str, Any], where: str, error: type[HeadwayError] = DataError
) -> None:
    """Raise `error` if the library fails with this tokenizer, or if one of its patterns is slow.

    A pattern is tried on repetitions of what stands in it, unless its form says that it cannot be slow: with one
    quantifier at most, and none after a group.
    """
    with quiet_panics():
        try:
            library.decode(library.encode(SAMPLE, add_special_tokens=False).ids[:100])
        except BaseException as failure:
            raise library_error(failure, f"{where}: the library fails with this tokenizer", error) from None
        for name in PARTS:
            for pattern in map(_regex, _steps(content.get(name))):
                if len(_QUANTIFIER.findall(_ESCAPED.sub("x", pattern))) > 1 or _REPEATED_GROUP.search(pattern):
                    _try(pattern, f"{where}: {name}: the pattern {shown(pattern)}", error)


def library_error(failure: BaseException, what: str, error: type[HeadwayError] = DataError) -> HeadwayError:
    """The error for an exception of the library, as one line that begins with `what`.

    The library panics on some input; that is a BaseException. Any other, as KeyboardInterrupt, is raised again.
    """
    if isinstance(failure, HeadwayError):
        raise failure
    if not isinstance(failure, Exception) and type(failure).__name__ != "PanicException":
        raise failure
    return error(f"{what} ({one_line(failure)[:200]})")


@contextlib.contextmanager
def quiet_panics() -> Iterator[None]:
    """Discard what is written to the file descriptor of stderr: Rust reports a panic there before Python sees it."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_QUIET)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr may be closed
            sys.stderr.flush()
            kept = os.dup(2)
            stack.callback(os.close, kept)
            null = os.open(os.devnull, os.O_WRONLY)
            stack.callback(os.close, null)
            os.dup2(null, 2)
            stack.callback(os.dup2, kept, 2)
        yield


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """The steps of a normalizer, pre-tokenizer or decoder, sequences resolved."""
    if part is None:
        return
    if part["type"] == "Sequence":
        for inner in next(value for value in part.values() if isinstance(value, list)):
            yield from _steps(inner)
    else:
        yield part


def _expansion(step: Mapping[str, Any]) -> int:
    """By how much a step multiplies the length of a text, at most; what Unicode prescribes is not counted."""
    kind = step["type"]
    if kind == "Replace":
        old, new = step["pattern"].get("String"), len(step["content"])
        # A regular expression may match between any two characters.
        return 1 + new if not old and new else max(math.ceil(new / len(old)), 1) if old else 1
    if kind == "Prepend":
        return 1 + len(step["prepend"])
    if kind == "Precompiled":
        return math.ceil(_longest_mapping(step["precompiled_charsmap"]) / UNICODE_EXPANSION) or 1
    return 2 if kind in ("ByteLevel", "Metaspace", "WordPiece") else 1


def _longest_mapping(charsmap: str | None) -> int:
    """The longest text that SentencePiece's table writes for a character, in bytes."""
    try:
        data = base64.b64decode(charsmap or "")
    except (binascii.Error, ValueError):
        return 0
    texts = data[4 + int.from_bytes(data[:4], "little") :]  # a table of this size, then the texts, each ended by NUL
    return max(map(len, texts.split(b"\0"))) // 2  # U+FDFA has 18 characters in 33 bytes


def _prefix_depth(pieces: list[str]) -> int:
    """The longest chain of pieces that each begin with the one before: Unigram tries all of a chain at a character."""
    deepest, chain = 0, list[str]()
    for piece in sorted(pieces):
        while chain and not piece.startswith(chain[-1]):
            chain.pop()
        chain.append(piece)
        deepest = max(deepest, len(chain))
    return deepest


def _regex(step: Mapping[str, Any]) -> str:
    pattern = step.get("pattern")
    return str(pattern.get("Regex") or "") if isinstance(pattern, Mapping) else ""


def _try(pattern: str, what: str, error: type[HeadwayError]) -> None:
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    literals = [run for run in _LITERAL.findall(_ESCAPED.sub("", pattern)) if len(run) <= 16]
    letters = list(dict.fromkeys([*"".join(literals)[:8], *SAMPLES]))
    pairs = map("".join, itertools.permutations(letters[:4], 2))
    ends = ("", "\x01", f"\x01{literals[-1] if literals else ''}")  # what a match must have may come too late
    total = 0.0
    for unit, end in itertools.product(dict.fromkeys([*letters, *literals[:8], *pairs]), ends):
        for size in SIZES:
            begun = time.thread_time()
            try:
                split.pre_tokenize_str(unit * (size // len(unit)) + end)
            except BaseException as failure:
                raise library_error(failure, f"{what} fails", error) from None
            taken = time.thread_time() - begun
            total += taken
            if taken > MAX_SECONDS or total > 4 * MAX_SECONDS:
                raise error(f"{what} takes {max(taken, total):.1f} s for short texts, up to {size} characters")
            if size >= ENOUGH and taken < 1e-3:  # it grows no faster than the text
                break
