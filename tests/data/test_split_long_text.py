from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.split_long_text import split_long
from headway.errors import DataError
from headway.limits import raised


def words(texts):
    return [len(text.split()) for text in texts]


def characters(texts):
    return [len(text) for text in texts]


def test_whole_sentences_while_they_fit():
    text = 'One two. "Three four five!" Six? Seven eight… nine ten eleven twelve.'
    parts = ['One two. "Three four five!"', "Six? Seven eight…", "nine ten eleven twelve."]
    assert split_long(text, words, 6) == parts
    assert split_long(text, words, 99) == [text]
    assert split_long("一二三。四五六。七八", characters, 4) == ["一二三。", "四五六。", "七八"]


def test_words_where_a_sentence_does_not_fit():
    assert split_long("a b c d e f g", words, 3) == ["a b", "c d", "e f", "g"]
    assert split_long("short one. a b c d e f g", words, 4) == ["short one. a", "b c", "d e", "f g"]


def test_pieces_of_a_word_where_it_does_not_fit():
    assert split_long("abcdefgh", characters, 3) == ["ab", "cd", "ef", "gh"]


def test_a_word_far_too_long_is_refused():
    """D6: a word of a million characters was translated in parts for more than 100 s."""
    assert len(split_long("a" * 100_000, characters, 1000)) == 128
    message = r"line 3: a word: 1,000,000 characters, allowed: up to 100,000 \(--limit word=N raises it\)"
    with pytest.raises(DataError, match=message):
        split_long("b c. " + "a" * 10**6, characters, 100, "line 3")
    with raised({"word": 10**6}):
        assert len(split_long("a" * 10**6, characters, 1000)) == 1024


@given(st.text("ab .!?\n", max_size=60), st.integers(1, 20))
def test_parts_fit_and_nothing_is_lost(text, most):
    for measure in (words, characters):
        parts = split_long(text, measure, most)
        assert "".join("".join(parts).split()) == "".join(text.split())
        assert all(size <= most for size in measure(parts))
