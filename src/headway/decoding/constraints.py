"""Lexical constraints on generated tokens, as a value; beam search, greedy search and sampling treat them alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import ConfigError

Tokens = tuple[int, ...]
MAX_PHRASES = 10  # required ones: the automaton has a state for each subset of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Conditions on the generated tokens; the prompt is not included. Combine two with `&`.

    They hold in every output, with one exception: a token that brings a required phrase nearer, or belongs to the
    prefix, may repeat an n-gram.
    """

    prefix: Tokens = ()  # the output starts with these tokens
    must: tuple[Tokens, ...] = ()  # each phrase occurs somewhere, contiguously; they may overlap
    banned: tuple[Tokens, ...] = ()  # no phrase (of one token or more) occurs
    no_repeat: int = 0  # no n-gram of this length occurs twice; 0: off

    def __post_init__(self) -> None:
        if self.no_repeat < 0:
            raise ConfigError(f"no_repeat={self.no_repeat}, allowed: 0 (off) and above")
        if len(self.must) > MAX_PHRASES:
            raise ConfigError(f"{len(self.must)} required phrases, allowed: up to {MAX_PHRASES}")
        for name, phrases in (("must", self.must), ("banned", self.banned)):
            if not all(phrases):
                raise ConfigError(f"{name} contains an empty phrase")
        for banned in self.banned:
            for required in (self.prefix, *self.must):
                if _contains(required, banned):
                    raise ConfigError(f"impossible: required {_shown(required)} contains banned {_shown(banned)}")

    def __and__(self, other: Constraints) -> Constraints:
        """Both. Raises ConfigError if they contradict each other."""
        short, long = sorted((self.prefix, other.prefix), key=len)
        if long[: len(short)] != short:
            raise ConfigError(f"impossible: prefixes {_shown(short)} and {_shown(long)} differ")
        sizes = [size for size in (self.no_repeat, other.no_repeat) if size]
        return Constraints(
            prefix=long,
            must=tuple(dict.fromkeys((*self.must, *other.must))),
            banned=tuple(dict.fromkeys((*self.banned, *other.banned))),
            no_repeat=min(sizes, default=0),  # a repeated n-gram contains repeated shorter ones
        )

    def __bool__(self) -> bool:
        return bool(self.prefix or self.must or self.banned or self.no_repeat)

    def check_tokens(self, vocab: int, stop: int) -> None:
        """Raise ConfigError for a token outside the vocabulary, and for the stop token, which can only come last."""
        for name, phrases in (("prefix", (self.prefix,)), ("must", self.must), ("banned", self.banned)):
            for phrase in phrases:
                if any(not 0 <= token < vocab for token in phrase):
                    raise ConfigError(f"{name} {_shown(phrase)}: expected tokens from 0 to {vocab - 1}")
                if stop in phrase:
                    why = "no hypothesis could end" if name == "banned" else "nothing can follow it"
                    raise ConfigError(f"impossible: {name} {_shown(phrase)} contains the stop token {stop}: {why}")


def _contains(whole: Sequence[int], part: Sequence[int]) -> bool:
    return any(tuple(whole[n : n + len(part)]) == tuple(part) for n in range(len(whole) - len(part) + 1))


def _shown(tokens: Sequence[int]) -> str:
    return f"[{' '.join(map(str, tokens))}]"
