from __future__ import annotations

import json
import random

import pytest

from headway.config import parse, plain
from headway.data.datasets import DECK_SENTENCES
from headway.data.tokenizers import SPECIALS, Bpe, ByteBpe, Characters, Tokenizer, Unigram, Word
from headway.errors import ConfigError, DataError

SENNRICH = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
LINES = [
    "a man in a blue shirt is standing on a ladder cleaning a window .",
    "two young , white males are outside near many bushes .",
    "zwei junge weiße männer sind im freien in der nähe vieler büsche .",
    "ein mann in einem blauen hemd steht auf einer leiter und putzt ein fenster .",
    *DECK_SENTENCES,
]
KINDS = [Word(), Word(lower=True, min_count=2), Characters(), Bpe(vocab=100), ByteBpe(vocab=300), Unigram(vocab=60)]


def merges(tokenizer):
    return [tuple(pair) for pair in json.loads(tokenizer.to_json())["model"]["merges"]]


def tokens(tokenizer):
    return [tokenizer.token(index) for index in range(tokenizer.size)]


def error(config, lines, **options):
    with pytest.raises(DataError) as caught:
        Tokenizer.train(config, lines, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sennrichs_example():
    learned = merges(Tokenizer.train(Bpe(vocab=4 + 11 + 3), SENNRICH))
    assert learned[:2] == [("e", "s"), ("es", "t")]
    assert len(learned) == 3


@pytest.mark.parametrize(("config", "vocab"), [(Bpe, 100), (ByteBpe, 300)])
def test_the_first_merges_do_not_depend_on_how_many_follow(config, vocab):
    small, large = (merges(Tokenizer.train(config(vocab=size), LINES)) for size in (vocab, vocab + 30))
    assert len(large) == len(small) + 30
    assert large[: len(small)] == small


@pytest.mark.parametrize("config", KINDS, ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_the_order_of_lines_does_not_matter(config, ties):
    lines = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ijklm"] * 2 if ties else LINES
    if ties and isinstance(config, Unigram):
        config = Unigram(vocab=30)
    hashes = set()
    for seed in range(4):
        shuffled = random.Random(seed).sample(lines, len(lines))
        hashes.add(Tokenizer.train(config, shuffled).content_hash)
    assert len(hashes) == 1


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_special_tokens_come_first(config):
    tokenizer = Tokenizer.train(config, LINES)
    assert (tokenizer.pad, tokenizer.unk, tokenizer.start, tokenizer.stop) == (0, 1, 2, 3)
    assert tuple(tokens(tokenizer)[:4]) == SPECIALS
    assert len(set(tokens(tokenizer))) == tokenizer.size
    more = Tokenizer.train(config, LINES, specials=(*SPECIALS, "<mask>"))
    assert more.id("<mask>") == 4


def test_words_are_sorted():
    tokenizer = Tokenizer.train(Word(), DECK_SENTENCES[3:])
    assert tokens(tokenizer)[4:] == ["I", "John", "Mary", "dogs", "like", "likes", "movies"]
    assert tokens(Tokenizer.train(Word(min_count=2), DECK_SENTENCES[3:]))[4:] == ["likes", "movies"]
    assert tokens(Tokenizer.train(Word(lower=True), ["The the THE"]))[4:] == ["the"]


def test_characters_are_all_the_text_has():
    tokenizer = Tokenizer.train(Characters(), ["b a\n", "é\ta"], specials=())
    assert tokens(tokenizer) == ["\t", "\n", " ", "a", "b", "é"]


def test_only_kinds_that_meet_the_unknown_get_unk_unasked():
    assert tokens(Tokenizer.train(Word(), ["a b"], specials=())) == ["<unk>", "a", "b"]
    assert Tokenizer.train(Bpe(vocab=40), LINES[:1], specials=()).unk == 0
    assert Tokenizer.train(ByteBpe(vocab=256), ["a"], specials=()).size == 256


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Bpe(vocab=500), "bpe: a vocabulary of 500 is more than the training text gives "),
        (ByteBpe(vocab=500), "byte-bpe: a vocabulary of 500 is more than the training text gives "),
        (Unigram(vocab=500), "unigram: a vocabulary of 500 is more than the training text gives "),
        (Bpe(vocab=10), "bpe: a vocabulary of 10 is too small for the training text: its characters and the special"),
        (ByteBpe(vocab=259), "byte-bpe: a vocabulary of 259 is too small for the training text: 256 bytes and the"),
        (Unigram(vocab=10), "unigram: a vocabulary of 10 has no room for the text's characters"),
    ],
)
def test_a_vocabulary_the_text_does_not_give_is_refused(config, message):
    assert message in error(config, DECK_SENTENCES)


@pytest.mark.parametrize("config", [Bpe, ByteBpe, Unigram])
def test_the_largest_vocabulary_named_is_possible(config):
    largest = int(error(config(vocab=5000), DECK_SENTENCES).split(": ")[-1].split()[0])
    assert Tokenizer.train(config(vocab=largest), DECK_SENTENCES).size == largest


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_bad_training_text_gets_one_line(config):
    if not isinstance(config, ByteBpe):
        assert error(config, [])
        assert error(config, [""])
    assert "lone surrogate (U+D800)" in error(config, ["fine", "a\ud800b"])

    def lines():
        yield "fine"
        raise DataError("train.en: line 2")

    assert error(config, lines()) == "train.en: line 2"


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_a_million_characters_without_a_space_can_be_learned_from(config):
    assert Tokenizer.train(config, [*LINES * 3, "a" * 10**6]).size > 10


@pytest.mark.parametrize("config", KINDS, ids=str)
def test_configs_are_plain_data(config):
    assert parse(type(config), plain(config)) == config


def test_settings_that_make_no_sense():
    for config, settings in (
        (Word, {"min_count": 0}),
        (Bpe, {"vocab": 0}),
        (ByteBpe, {"vocab": -1}),
        (Unigram, {"vocab": 0}),
    ):
        with pytest.raises(ConfigError, match="expected at least 1"):
            config(**settings)
    for specials in (("<s>", "<s>"), ("x",)):
        with pytest.raises(ConfigError, match="expected distinct names"):
            Tokenizer.train(Word(), ["a"], specials=specials)
