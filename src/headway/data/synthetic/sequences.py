"""Generated sequence tasks: copy, reverse and addition; the same on every machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from headway.data.tables import Pair
from headway.data.text_files import ParallelText

TRAIN, HELD_OUT = 50_000, 1_000  # pairs of a generated set
Answer = Callable[[list[str]], list[str]]


@cache
def reverse() -> ParallelText:
    """Integers below 50 and their reversal: train up to 25 of them, held out up to 30 (JoeyNMT's reverse task)."""
    return _sequences("reverse", lambda words: words[::-1])


@cache
def copy() -> ParallelText:
    """Integers below 50 and their copy, in the lengths of `reverse`."""
    return _sequences("copy", lambda words: words)


@cache
def copy_digits() -> ParallelText:
    """Digits and their copy: train up to 40 of them, test at 400 (Dehghani et al. 2019, section 3.3)."""
    return _at_ten_times_the_length("copy-digits", 10, lambda words: words)


@cache
def reverse_digits() -> ParallelText:
    """Digits and their reversal, in the lengths of `copy-digits`."""
    return _at_ten_times_the_length("reverse-digits", 10, lambda words: words[::-1])


@cache
def copy_long() -> ParallelText:
    """Integers below 50 and their copy, in the lengths of `copy-digits`."""
    return _at_ten_times_the_length("copy-long", 50, lambda words: words)


@cache
def reverse_long() -> ParallelText:
    """Integers below 50 and their reversal, in the lengths of `copy-digits`."""
    return _at_ten_times_the_length("reverse-long", 50, lambda words: words[::-1])


@cache
def addition() -> ParallelText:
    """Sums of two numbers of up to five digits, as digits; held-out pairs are in train in neither order."""
    random = Random("addition")

    def number() -> int:
        digits = 1 + below(random, 5)
        lowest = 10 ** (digits - 1) if digits > 1 else 0
        return lowest + below(random, 10**digits - lowest)

    seen: set[tuple[int, int]] = set()

    def draw(count: int, *, new: bool) -> tuple[Pair, ...]:
        pairs: list[Pair] = []
        while len(pairs) < count:
            a, b = number(), number()
            sum_of = (min(a, b), max(a, b))
            if new and sum_of in seen:
                continue
            seen.add(sum_of)
            pairs.append((" ".join(f"{a}+{b}"), " ".join(str(a + b))))
        return tuple(pairs)

    splits = {"train": draw(TRAIN, new=False), "val": draw(HELD_OUT, new=True), "test": draw(HELD_OUT, new=True)}
    return ParallelText(name="addition", source="source", target="target", splits=splits)


def below(random: Random, bound: int) -> int:
    """An integer in [0, bound), from `random()`, the only method whose sequence Python guarantees."""
    return int(random.random() * bound)


def _sequences(name: str, answer: Answer) -> ParallelText:
    """Training lines may repeat, as short ones must; held-out lines are not in train."""
    draw = _lines(name, 50, answer)
    splits = {
        "train": draw(TRAIN, 1, 25, False),
        "val": draw(HELD_OUT, 1, 30, True),
        "test": draw(HELD_OUT, 1, 30, True),
        "long": draw(HELD_OUT, 26, 30, True),
    }
    return ParallelText(name=name, source="source", target="target", splits=splits)


def _at_ten_times_the_length(name: str, words: int, answer: Answer) -> ParallelText:
    draw = _lines(name, words, answer)
    splits = {
        "train": draw(2 * TRAIN, 1, 40, False),
        "val": draw(HELD_OUT // 2, 1, 40, True),
        "test": draw(HELD_OUT // 10, 400, 400, True),
    }
    return ParallelText(name=name, source="source", target="target", splits=splits)


def _lines(name: str, words: int, answer: Answer) -> Callable[[int, int, int, bool], tuple[Pair, ...]]:
    """A function (count, shortest, longest, new) that draws lines and their answers; `new`: not drawn before."""
    random, seen = Random(name), set[str]()

    def draw(count: int, shortest: int, longest: int, new: bool) -> tuple[Pair, ...]:
        pairs: list[Pair] = []
        while len(pairs) < count:
            length = shortest + below(random, longest - shortest + 1)
            drawn = [str(below(random, words)) for _ in range(length)]
            line = " ".join(drawn)
            if new and line in seen:
                continue
            seen.add(line)
            pairs.append((line, " ".join(answer(drawn))))
        return tuple(pairs)

    return draw
