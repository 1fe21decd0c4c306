"""Stop strings: what is shown is the text before the first that is complete, and what is held is bounded."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.text_stream import StopFilter, TextStream
from headway.data.tokenizers import Characters, Tokenizer

words = st.text(alphabet="ab", min_size=1, max_size=7)


def before_stop(pieces: Sequence[str], stops: Sequence[str]) -> str:
    """By the whole text after each piece."""
    text = ""
    for piece in pieces:
        text += piece
        found = [at for stop in stops if (at := text.find(stop)) >= 0]
        if found:
            return text[: min(found)]
    return text


def shown(pieces: Sequence[str], stops: Sequence[str]) -> str:
    """What a filter passes; it holds less than the longest stop string, so that a piece costs the same anywhere."""
    passing, longest = StopFilter(stops), max(map(len, stops))
    text = ""
    for piece in pieces:
        text += passing.add(piece)
        assert len(passing.held) < longest
    return text + passing.finish()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(pieces=st.lists(words, max_size=20), stops=st.lists(words, min_size=1, max_size=4))
def test_what_is_shown(pieces: list[str], stops: list[str]) -> None:
    assert shown(pieces, stops) == before_stop(pieces, stops)


def test_two_hundred_hostile_sets_of_stop_strings() -> None:
    """S7: strings that begin like each other and like the text, of the longest and the most that are allowed."""
    draw = random.Random(0)
    for number in range(200):
        unit = "".join(draw.choice("ab") for _ in range(1 + number % 5))
        stops = [(unit * 64)[: 64 - n] + draw.choice("bc") for n in range(8)]
        text = (unit * 400)[: draw.randint(100, 400)] + draw.choice(["", stops[draw.randrange(8)]])
        pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
        assert shown(pieces, stops) == before_stop(pieces, stops)


def test_the_length_counts_what_is_held_back() -> None:
    tokenizer = Tokenizer.train(Characters(), ["abc"])
    stream = TextStream(tokenizer, [], ["abc"])
    pieces = [(stream.add(token), stream.length) for token in tokenizer.encode("aab")]
    assert pieces == [("", 1), ("a", 2), ("", 3)]
    assert stream.finish() == "ab"
