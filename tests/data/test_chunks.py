from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data import chunks as module
from headway.data.chunks import chunks


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 8)


def cut(text, **options):
    return list(chunks(text, **options))


def test_cut_between_words_where_there_is_such_a_place():
    assert cut("one two three four") == [("one two", False), (" three", False), (" four", False)]


def test_a_long_word_goes_on_in_the_next_piece():
    assert cut("abcdefghijklmnopqrs t") == [("abcdefgh", False), ("ijklmnop", True), ("qrs t", True)]
    assert cut("abcdefgh ij") == [("abcdefgh", False), (" ij", False)]
    assert cut("abcdefghijkl mn", within_words=False) == [("abcdefghijkl", False), (" mn", False)]


@given(text=st.text(st.sampled_from("ab \n\x1c\u2028é"), max_size=60), within=st.booleans())
def test_nothing_is_lost_and_only_a_word_goes_on(text, within):
    parts = cut(text, within_words=within)
    assert "".join(part for part, _ in parts) == text
    assert all(len(part) <= 8 for part, _ in parts) or not within
    for (left, _), (right, inside) in pairwise(parts):
        joined = (left[-1] + right[0]).replace("\x1c", "x")
        assert inside == (within and len(joined.split()) == 1 and joined.strip() == joined)
