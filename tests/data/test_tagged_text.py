"""Tagged sentences from files: columns, JSON lines, splits, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.data.tagged_text import load_tagged, looks_tagged
from headway.errors import DataError

PEOPLE = "John B-PER\nSmith I-PER\nsleeps O\n\nVienna B-LOC\nis O\nold O\n\n"


def load(path: Path, **changes):
    return load_tagged(str(path), **{"word": "text", "tag": "label", **changes})


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_columns_are_sentences_with_the_last_tenth_as_val(tmp_path):
    found = load(write(tmp_path / "a.conll", PEOPLE * 10))
    assert [len(each) for each in found.splits.values()] == [18, 2]
    first = found.splits["train"][0]
    assert first[:2] == (("John", "Smith", "sleeps"), ("B-PER", "I-PER", "O"))


def test_a_file_may_lack_the_last_blank_line_and_have_several(tmp_path):
    found = load(write(tmp_path / "a.conll", "\n\na O\n\n\n\nb O\n\nc O"))
    assert [each.words for split in found.splits.values() for each in split] == [("a",), ("b",), ("c",)]


def test_the_files_of_conll_2003_by_their_own_names(tmp_path):
    rows = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP I-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP I-PER\n\n"
    for name in ("eng.train", "eng.testa", "eng.testb"):
        write(tmp_path / name, rows)
    (tmp_path / "README").write_text("about")
    found = load(tmp_path, scheme="iob1")
    assert list(found.splits) == ["train", "val", "test"]
    assert found.splits["test"][0][:2] == (("EU", "rejects"), ("B-ORG", "O"))
    chunks = load(tmp_path, tag="3")
    assert chunks.splits["train"][0].tags == ("B-NP", "B-VP")


def test_iob1_has_a_b_only_between_two_entities_of_a_type(tmp_path):
    path = write(tmp_path / "a.conll", "a I-X\nb B-X\nc I-X\nd I-Y\ne O\nf I-Y\n\na O\n")
    found = load(path, scheme="iob1").splits["train"][0]
    assert found.tags == ("B-X", "B-X", "I-X", "B-Y", "O", "B-Y")


def test_universal_dependencies_have_their_own_columns(tmp_path):
    words = "1-2\tim\t_\t_\n1\tin\tin\tADP\n2\tdem\tder\tDET\n2.1\tx\t_\t_\n3\tHaus\tHaus\tNOUN\n"
    rows = f"# text = im Haus\n{words}\n"
    found = load(write(tmp_path / "a.conllu", rows * 2)).splits["train"][0]
    assert found[:2] == (("in", "dem", "Haus"), ("ADP", "DET", "NOUN"))


def test_json_lines_and_columns_have_the_same_digest(tmp_path):
    rows = [{"tokens": ["John", "sleeps"], "tags": ["B-PER", "O"]}, {"tokens": ["x"], "tags": ["O"]}]
    left = load(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    right = load(write(tmp_path / "a.conll", "John B-PER\nsleeps O\n\nx O\n"))
    assert left.fingerprint("train") == right.fingerprint("train")
    assert left.fingerprint("val") != right.fingerprint("train")


@pytest.mark.parametrize(
    ("name", "text", "changes", "told"),
    [
        (
            "a.conll",
            "a O\nb I-PER\n\nc O\n",
            {},
            r"line 1: word 2 \('b'\) has the tag 'I-PER' after 'O', expected B-PER",
        ),
        ("a.conll", "a B-X\nb I-PER\n\nc O\n", {}, "'I-PER' after 'B-X'"),
        ("a.conll", "a O\nb\n\n", {}, "line 2 has 1 column, expected 2 as in the lines before"),
        ("a.conll", "a\nb\n", {}, "line 1 has 1 column, expected at least 2, a word and its tag"),
        ("a.conll", "a O\n", {"tag": "3"}, "line 1 has 2 columns; --data.label 3 is not there"),
        ("a.conll", "a O\n", {"tag": "ner"}, "--data.label ner: columns of a CoNLL file go by number"),
        ("a.conll", "a O\n", {"tag": "1"}, "words and tags are both column 1"),
        ("a.conll", "a O\n", {}, "1 sentence, expected at least 2"),
        ("a.conll", "\n\n", {}, "no sentence, expected at least 1"),
        ("a.conll", "a NN\n\nb NN\n", {"scheme": "iob2"}, "'NN' is not a tag of entities .* --task.scheme plain"),
        ("a.jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}', {}, "line 1: 2 words and 1 tag, expected one a word"),
        ("a.jsonl", '{"tokens": "a", "tags": ["O"]}', {}, "line 1: tokens is a str, expected a list of strings"),
        ("a.jsonl", '{"tokens": ["a"]}', {}, "no key 'tags' or 'ner_tags'"),
        ("a.jsonl", '{"tokens": [""], "tags": ["O"]}', {}, "'' in tokens, expected strings that are not empty"),
        ("a.jsonl", '{"tokens": [null], "tags": ["O"]}', {}, "None in tokens"),
        ("a.jsonl", "[1]", {}, "a JSON list, expected an object"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, name, text, changes, told):
    with pytest.raises(DataError, match=told) as caught:
        load(write(tmp_path / name, text), **changes)
    assert "\n" not in str(caught.value)


def test_a_folder_without_train_and_a_split_twice_are_told(tmp_path):
    write(tmp_path / "test.conll", PEOPLE)
    with pytest.raises(DataError, match=r"no train\.conll.*there are: test\.conll"):
        load(tmp_path)
    for name in ("train.conll", "dev.conll", "valid.conll"):
        write(tmp_path / name, PEOPLE)
    with pytest.raises(DataError, match=r"dev\.conll and valid\.conll are the same split"):
        load(tmp_path)


def test_only_columns_that_end_in_tags_look_tagged(tmp_path):
    assert looks_tagged(write(tmp_path / "a.txt", PEOPLE))
    for text in ("two words\ntwo words\n\nhere too\n", "a O\n", "", "a B-X\nb c O\n\n"):
        assert not looks_tagged(write(tmp_path / "b.txt", text))


TEXT = "Dr. Anna Smith left New York-based Acme."


def spans(path: Path, *rows, **changes):
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    return load(write(path / "spans.jsonl", "".join(f"{line}\n" for line in lines)), **changes)


@pytest.mark.parametrize(
    ("key", "form"),
    [
        ("entities", lambda a, b, label: {"start": a, "end": b, "label": label}),
        ("spans", lambda a, b, label: {"start": a, "end": b, "label": label, "token_start": 0}),
        ("label", lambda a, b, label: [a, b, label]),
        ("labels", lambda a, b, label: {"start_offset": a, "end_offset": b, "label": label}),
        ("label", lambda a, b, label: {"start": a, "end": b, "labels": [label], "text": "unused"}),
    ],
)
def test_spans_of_characters_become_words_with_tags(tmp_path, key, form):
    given = [form(20, 28, "LOC"), form(4, 14, "PER"), form(35, 39, "ORG")]
    found = spans(tmp_path, {"text": TEXT, key: given}, {"text": "no one", key: []}).splits["train"][0]
    assert list(zip(*found[:2], strict=True)) == [
        ("Dr", "O"), (".", "O"), ("Anna", "B-PER"), ("Smith", "I-PER"), ("left", "O"), ("New", "B-LOC"),
        ("York", "I-LOC"), ("-based", "O"), ("Acme", "B-ORG"), (".", "O"),
    ]  # fmt: skip


def test_entities_beside_each_other_begin_anew(tmp_path):
    row = {"text": "ab cd ef", "entities": [[0, 2, "X"], [3, 5, "X"], [5, 8, "Y"]]}
    found = spans(tmp_path, row, row).splits["train"][0]
    assert found[:2] == (("ab", "cd", "ef"), ("B-X", "B-X", "B-Y"))
    letters = spans(tmp_path, row, row, words="characters").splits["train"][0]
    assert letters[:2] == (tuple("abcdef"), ("B-X", "I-X", "B-X", "I-X", "B-Y", "I-Y"))


@pytest.mark.parametrize(
    ("entities", "told"),
    [
        (
            [[4, 14, "PER"], [9, 24, "LOC"]],
            r"line 1: the entities 'Anna Smith' \(PER, 4 to 14\) and 'Smith left New ' \(LOC, 9 to 24\) overlap",
        ),
        ([[4, 14, "PER"], [4, 14, "PER"]], "overlap, and a word has one tag: keep one of them"),
        ([[4, 99, "PER"]], r"line 1: the span 4 to 99 \(PER\) of a text of 40 characters"),
        ([[14, 15, "PER"]], r"the span 14 to 15 \(PER\) has no word in it"),
        ([[9, 4, "PER"]], "the span 9 to 4"),
        ([[4, 14]], r"\[4, 14\] is not a span, expected start, end and label"),
        ([{"start": 4, "end": 14}], "is not a span"),
        ([[True, 14, "PER"]], "is not a span"),
    ],
)
def test_a_span_that_is_none_and_two_that_overlap_are_errors(tmp_path, entities, told):
    with pytest.raises(DataError, match=told):
        spans(tmp_path, {"text": TEXT, "entities": entities})
