"""`coreference`: one antecedent, no cue in its position, no combination in two splits."""

from __future__ import annotations

from headway.data.synthetic import coreference
from headway.data.synthetic.coreference import COUNTS, SITUATIONS, sentences

NOUNS = {noun for each in SITUATIONS for noun in (*each.doers, *each.things)}
DECIDING = {word for each in SITUATIONS for word in (*each.of_doer, *each.of_thing)}


def combination(words: tuple[str, ...]) -> tuple[frozenset[str], str]:
    said = next(word for word, before in zip(words[1:], words, strict=False) if before == "too")
    return frozenset(NOUNS & set(words)), said


def test_every_sentence_has_two_nouns_and_one_antecedent():
    for split in COUNTS:
        for words, tags in sentences(split):
            nouns = [place for place, word in enumerate(words) if word in NOUNS and words[place - 1] == "the"]
            assert len(nouns) == 2, words
            marked = [place for place, tag in enumerate(tags) if tag != "O"]
            assert marked == [marked[0], marked[0] + 1]
            assert marked[1] in nouns
            assert (tags[marked[0]], tags[marked[1]]) == ("B-ANTECEDENT", "I-ANTECEDENT")
            assert words.count("it") == 1


def test_the_deciding_word_can_be_said_of_one_noun_only():
    for each in SITUATIONS:
        assert not set(each.of_doer) & set(each.of_thing)
        assert not set(each.doers) & set(each.things)


def test_the_first_noun_is_right_half_of_the_time():
    for split in COUNTS:
        right = 0
        for words, tags in sentences(split):
            first = next(place for place, word in enumerate(words) if word in NOUNS and words[place - 1] == "the")
            right += tags[first] != "O"
        assert abs(right / COUNTS[split] - 0.5) < 0.03, split


def test_no_combination_is_in_two_splits():
    seen = {split: {combination(words) for words, _ in sentences(split)} for split in COUNTS}
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["val"]
    assert not seen["val"] & seen["test"]


def test_it_is_the_same_each_time():
    before = sentences("val")
    coreference.sentences.cache_clear()
    assert sentences("val") == before
