"""What an output must and must not hold, as a value: it works the same on beam search, greedy and sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import ConfigError

Tokens = tuple[int, ...]
MOST = 10  # required phrases: the automaton that follows them has a state for each set of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Conditions on the tokens a model writes; a prompt is not part of them. Join two with `&`.

    They always hold in what comes out, whatever the model would rather say. One gives way: a token that brings a
    required phrase nearer, or belongs to the prefix, may repeat an n-gram.
    """

    prefix: Tokens = ()  # the output begins with these
    must: tuple[Tokens, ...] = ()  # each appears somewhere, unbroken; they may overlap
    banned: tuple[Tokens, ...] = ()  # none appears; of one token or several
    no_repeat: int = 0  # no run of this many tokens appears twice; 0: any may

    def __post_init__(self) -> None:
        if self.no_repeat < 0:
            raise ConfigError(f"no_repeat={self.no_repeat}, allowed: 0 (off) and above")
        if len(self.must) > MOST:
            raise ConfigError(f"{len(self.must)} required phrases, allowed: up to {MOST}")
        for name, phrases in (("must", self.must), ("banned", self.banned)):
            if not all(phrases):
                raise ConfigError(f"{name} holds a phrase of no tokens")
        for banned in self.banned:
            for required in (self.prefix, *self.must):
                if _within(banned, required):
                    raise ConfigError(f"impossible: {_shown(required)} is required and holds {_shown(banned)}, banned")

    def __and__(self, other: Constraints) -> Constraints:
        """Both. Raises ConfigError where they cannot hold together."""
        short, long = sorted((self.prefix, other.prefix), key=len)
        if long[: len(short)] != short:
            raise ConfigError(f"impossible: prefixes {_shown(short)} and {_shown(long)} part")
        sizes = [size for size in (self.no_repeat, other.no_repeat) if size]
        return Constraints(
            prefix=long,
            must=tuple(dict.fromkeys((*self.must, *other.must))),
            banned=tuple(dict.fromkeys((*self.banned, *other.banned))),
            no_repeat=min(sizes, default=0),  # what repeats a longer run repeats a shorter one
        )

    def __bool__(self) -> bool:
        return bool(self.prefix or self.must or self.banned or self.no_repeat)

    def check_tokens(self, vocab: int, stop: int) -> None:
        """Raise ConfigError for a token that is none, and for the stop token, which only ever ends a line."""
        for name, phrases in (("prefix", (self.prefix,)), ("must", self.must), ("banned", self.banned)):
            for phrase in phrases:
                if any(not 0 <= token < vocab for token in phrase):
                    raise ConfigError(f"{name} {_shown(phrase)}: expected tokens from 0 to {vocab - 1}")
                if stop in phrase:
                    what = "no line could end" if name == "banned" else "nothing can follow it"
                    raise ConfigError(f"impossible: {name} {_shown(phrase)} holds the stop token {stop}: {what}")


def _within(part: Sequence[int], whole: Sequence[int]) -> bool:
    return any(tuple(whole[n : n + len(part)]) == tuple(part) for n in range(len(whole) - len(part) + 1))


def _shown(tokens: Sequence[int]) -> str:
    return f"[{' '.join(map(str, tokens))}]"
