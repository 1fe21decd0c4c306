from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from headway.data import datasets
from headway.data.datasets import BUILT_IN, Dataset, find_dataset, load_images, load_parallel, load_text
from headway.data.images import ImageReading
from headway.data.python_docs import docstrings, file_docstrings, pydocs
from headway.data.text_files import ParallelText, PlainText
from headway.data.tokenizers import Tokenizer, Word
from headway.errors import ConfigError, DataError

GENERATED = ("reverse", "copy", "addition")


def error(call, *arguments):
    with pytest.raises(DataError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def sources(text, split):
    return [source for source, _ in text.pairs(split)]


@pytest.mark.parametrize("name", GENERATED)
def test_generated_sets_have_their_sizes_and_hold_out_what_is_new(name):
    text = load_parallel(name, "en", "fr")
    assert text.count("train") == 50_000
    held_out = [split for split in text.splits if split != "train"]
    assert {text.count(split) for split in held_out} == {1_000}
    lines = [line for split in held_out for line in sources(text, split)]
    assert len(set(lines)) == len(lines)
    assert not set(lines) & set(sources(text, "train"))


@pytest.mark.parametrize(("name", "answer"), [("reverse", lambda words: words[::-1]), ("copy", lambda words: words)])
def test_sequences(name, answer):
    text = load_parallel(name, "source", "target")
    for split, shortest, longest in (("train", 1, 25), ("val", 2, 30), ("test", 2, 30), ("long", 26, 30)):
        pairs = [(source.split(), target.split()) for source, target in text.pairs(split)]
        assert all(answer(source) == target for source, target in pairs)
        lengths = {len(source) for source, _ in pairs}
        assert lengths == set(range(shortest, longest + 1))
        assert {word for source, _ in pairs for word in source} == set(map(str, range(50)))


def test_sums_are_right_and_not_held_out_the_other_way_round():
    text = load_parallel("addition", "source", "target")
    seen = set()
    for split in text.splits:
        sums = [[int(part.replace(" ", "")) for part in source.split("+")] for source in sources(text, split)]
        assert [str(a + b) for a, b in sums] == [target.replace(" ", "") for _, target in text.pairs(split)]
        assert max(max(pair) for pair in sums) < 10**5
        assert split == "train" or not {frozenset(pair) for pair in sums} & seen
        seen |= {frozenset(pair) for pair in sums}
    assert next(text.pairs("test"))[0].split()[0].isdigit()


@pytest.mark.parametrize("name", ["reverse-digits", "copy-digits", "reverse-long", "copy-long"])
def test_sets_that_are_tested_at_ten_times_the_length(name):
    text = load_parallel(name, "source", "target")
    shortest, words = (3, 10) if name.endswith("digits") else (2, 50)
    assert {split: text.count(split) for split in text.splits} == {"train": 100_000, "val": 500, "test": 100}
    for split, lengths in (("train", range(1, 41)), ("val", range(shortest, 41)), ("test", [400])):
        pairs = [(source.split(), target.split()) for source, target in text.pairs(split)]
        assert all((source if "copy" in name else source[::-1]) == target for source, target in pairs)
        assert {len(source) for source, _ in pairs} == set(lengths)
        assert {word for source, _ in pairs for word in source} == set(map(str, range(words)))
    assert not set(sources(text, "val")) & set(sources(text, "train"))


def test_generated_sets_never_change():
    names = (*GENERATED, "reverse-digits", "copy-digits", "reverse-long", "copy-long")
    digests = {name: load_parallel(name, "", "").fingerprint("test")[0][:8] for name in names}
    assert digests == {
        "reverse": "302ba797", "copy": "e56f0fb5", "addition": "8940431d", "reverse-digits": "45f65e36",
        "copy-digits": "6dcb729e", "reverse-long": "1628dff3", "copy-long": "94274852",
    }  # fmt: skip


def test_the_sentences_of_the_decks():
    text = load_text("deck-sentences")
    lines = "".join(text.chunks("train")).splitlines()
    assert len(lines) == 6
    assert list(text.chunks("val")) == list(text.chunks("train"))
    assert len({word for line in lines[:3] for word in line.split()}) == 12
    words = Tokenizer.train(Word(), lines[3:])
    assert words.size == 4 + 7
    assert [words.token(index) for index in range(4, 11)] == ["I", "John", "Mary", "dogs", "like", "likes", "movies"]


@pytest.mark.parametrize(("name", "least"), [("pydocs", 300_000), ("docstrings", 1_000_000)])
def test_texts_of_python_hold_out_paragraphs_never_seen(name, least):
    text = load_text(name)
    sizes = {split: text.count(split) for split in text.splits}
    assert list(sizes) == ["train", "val", "test"]
    assert sizes["train"] > least
    assert all(size / sum(sizes.values()) > 0.05 for size in sizes.values())
    parts = {
        split: {part.strip() for part in "".join(text.chunks(split)).split("\n\n") if len(part.strip()) > 40}
        for split in sizes
    }
    assert not parts["train"] & (parts["val"] | parts["test"])
    assert not parts["val"] & parts["test"]


def test_a_python_without_its_reference(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    assert "without pydoc_data" in error(pydocs.__wrapped__)


def test_docstrings_of_a_file_are_read_in_order(tmp_path):
    methods = 'class A:\n    "Class."\n    def f(self):\n        "Method."\n'
    (tmp_path / "a.py").write_text(f'"""Module."""\n{methods}async def g():\n    "Last."\n')
    assert list(file_docstrings(tmp_path / "a.py")) == ["Module.", "Class.", "Method.", "Last."]
    (tmp_path / "b.py").write_text("print 'of another Python'\n")
    assert list(file_docstrings(tmp_path / "b.py")) == []


def test_a_python_without_its_sources(monkeypatch, tmp_path):
    monkeypatch.setattr("headway.data.python_docs.ast.__file__", str(tmp_path / "ast.py"))
    assert "no sources of the standard library" in error(docstrings.__wrapped__)


def test_a_set_between_two_languages_goes_both_ways(monkeypatch):
    few = {"train": [("a dog", "un chien"), ("a cat", "un chat")], "unseen": [("a bird", "un oiseau")]}
    text = ParallelText(name="phrases", source="en", target="fr", splits=few)
    monkeypatch.setattr(datasets, "BUILT_IN", (Dataset("phrases", "parallel text", lambda: text),))
    assert load_parallel("phrases", "en", "fr") is text
    back = load_parallel("phrases", "fr", "en")
    assert (back.source, back.target) == ("fr", "en")
    assert list(back.pairs("unseen")) == [("un oiseau", "a bird")]
    assert "between en and fr; got source='en', target='de'" in error(load_parallel, "phrases", "en", "de")


def test_a_built_in_name_wins_over_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pydocs").write_text("not these\n")
    assert load_text("pydocs").count("val") > 1000
    assert load_text("./pydocs").count("train") == 9


def test_what_is_neither_name_nor_path_gets_the_nearest_name(tmp_path):
    message = error(load_parallel, "phrase", "en", "fr")
    assert message.startswith(
        "'phrase': no such file, folder or built-in set; did you mean phrases? built-in: phrases,"
    )
    assert "did you mean pydocs?" in error(load_text, "pydoc")
    assert "did you mean" not in error(load_text, tmp_path / "x" / "y.txt")
    assert "no data named, expected a path or a built-in set" in error(load_text, "")
    for odd in ("a" * 5000, "a\0b", "~nobody-at-all/x"):
        assert "no such file" in error(load_text, odd)


def test_the_wrong_kind_of_text_is_said(tmp_path):
    assert "pydocs is plain text, expected parallel text" in error(load_parallel, "pydocs", "en", "fr")
    for name in (entry.name for entry in BUILT_IN if entry.kind == "parallel text"):
        assert f"{name} is parallel text, expected plain text" in error(load_text, name)


def test_a_set_may_be_of_several_kinds(tmp_path):
    assert find_dataset("shapes", "images").kind == "images"
    assert find_dataset("shapes", "images with captions").kind == "images with captions"
    assert "shapes is images, expected sounds: tones or a path" in error(find_dataset, "shapes", "sounds")
    assert find_dataset(tmp_path, "images") is None


STORY = PlainText(name="story", splits={"train": ("once",), "val": ("upon",)})
PLUGIN = Dataset("story", "plain text", lambda: STORY)


def make_plugin() -> Dataset:
    return PLUGIN


@pytest.fixture
def register(monkeypatch):
    """A function that registers `module:attribute` under a name of the group headway.datasets."""

    def add(**points: str) -> None:
        found = {name: EntryPoint(name, value, datasets.GROUP) for name, value in points.items()}
        monkeypatch.setattr(datasets, "plugins", lambda group: found)
        monkeypatch.setattr("headway.config.plugins", lambda group: found)

    return add


@pytest.mark.parametrize("attribute", ["PLUGIN", "make_plugin"])
def test_an_installed_package_adds_a_data_set(register, attribute):
    register(story=f"{__name__}:{attribute}")
    assert load_text("story") is STORY
    assert "story is plain text, expected parallel text: phrases," in error(load_parallel, "story", "en", "fr")
    assert "did you mean story?" in error(load_text, "stroy")
    message = error(load_images, "story", ImageReading(size=8, cache=None), None)
    assert "story is plain text, expected images: shapes or a path" in message


def test_a_built_in_name_and_a_path_win_over_a_plugin(register, tmp_path, monkeypatch):
    register(pydocs=f"{__name__}:PLUGIN", story=f"{__name__}:PLUGIN")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story").write_text("not this one\n")
    assert load_text("pydocs") is pydocs()
    assert load_text("story").count("train") == 11


@pytest.mark.parametrize(
    ("value", "words"),
    [("nowhere.at.all:X", "cannot be loaded: ModuleNotFoundError"), (f"{__name__}:STORY", "expected a Dataset")],
)
def test_a_plugin_that_is_not_a_data_set_is_named(register, value, words):
    register(story=value)
    with pytest.raises(ConfigError, match=f"plugin 'story'.*{words}"):
        load_text("story")
    assert "pydocs is plain text" in error(load_parallel, "pydocs", "en", "fr")  # a broken plugin breaks no other set
