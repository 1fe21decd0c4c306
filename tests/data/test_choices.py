"""Multiple-choice questions from files: the forms there are, the right choice in all its spellings, what is wrong."""

from __future__ import annotations

import csv
import json

import pytest

from headway.data.choices import choice_columns, load_choices
from headway.data.datasets import coreference_choice
from headway.errors import DataError

ROWS = [
    {
        "context": f"horse {n} sleeps .",
        "question": "who sleeps ?",
        "choices": [f"horse {n}", "cow", "goat"],
        "answer": 0,
    }
    for n in range(20)
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def write_table(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",", lineterminator="\n").writerows(
            [header, *rows]
        )
    return str(path)


def test_the_last_tenth_of_contexts_is_val_and_other_data_is_test(tmp_path):
    path = write(tmp_path / "a.jsonl", [*ROWS, {**ROWS[-1], "question": "where ?"}])
    found = load_choices(path)
    assert {split: len(each) for split, each in found.splits.items()} == {"train": 18, "val": 3}
    assert not {each.context for each in found.splits["train"]} & {each.context for each in found.splits["val"]}
    assert len(load_choices(path, whole=True).splits["test"]) == 21


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_table_gives_the_questions_of_jsonl(tmp_path, suffix):
    header = ["id", "context", "question", "choice_b", "choice_a", "choice_c", "label"]
    rows = [[n, r["context"], r["question"], "cow", f"horse {n}", "goat", f"horse {n}"] for n, r in enumerate(ROWS)]
    found = load_choices(write_table(tmp_path / f"a{suffix}", header, rows))
    expected = load_choices(write(tmp_path / "a.jsonl", ROWS))
    for split in ("train", "val"):
        assert [each[1:] for each in found.splits[split]] == [each[1:] for each in expected.splits[split]]
        assert found.fingerprint(split) == expected.fingerprint(split)


def test_cells_that_are_empty_are_no_choices(tmp_path):
    header = ["question", "option1", "option2", "option3", "answer"]
    rows = [["which ?", "a", "b", "", "B"], ["what ?", "a", "b", "c", "2"]] * 2
    found = load_choices(write_table(tmp_path / "a.csv", header, rows), whole=True).splits["test"]
    assert [each.choices for each in found[:2]] == [("a", "b"), ("a", "b", "c")]


@pytest.mark.parametrize(
    ("choices", "answer", "right"),
    [
        (["x", "y", "z"], 1, 1),
        (["x", "y", "z"], "1", 1),
        (["x", "y", "z"], "B", 1),
        (["x", "y", "z"], " z ", 2),
        (["3", "2", "1"], "1", 2),  # a text before a number
        ({"text": ["x", "y"], "label": ["B", "A"]}, "A", 1),  # a label before a letter
    ],
)
def test_the_right_choice_goes_by_label_text_letter_or_number(tmp_path, choices, answer, right):
    row = {"question": "which ?", "choices": choices, "answerKey": answer}
    path = write(tmp_path / "a.jsonl", [row])
    assert load_choices(path, whole=True).splits["test"][0].right == right


def test_swag_and_race_are_read_by_their_own_names(tmp_path):
    swag = {"sent1": "he sits .", "sent2": "she", "ending0": "runs", "ending1": "sits", "label": 1}
    header = list(swag)
    path = write_table(tmp_path / "swag.csv", header, [[swag[key] for key in header]])
    assert load_choices(path, whole=True).splits["test"][0][1:] == ("he sits .", "she", ("runs", "sits"), 1)
    race = {"article": "a b c", "question": "what ?", "options": ["a", "d"], "answer": "A"}
    path = write(tmp_path / "race.jsonl", [race])
    assert load_choices(path, whole=True).splits["test"][0][1:] == ("a b c", "what ?", ("a", "d"), 0)


def test_choice_columns_are_in_the_order_of_their_numbers():
    assert choice_columns(["choice10", "id", "Choice2", "choice1"]) == ["choice1", "Choice2", "choice10"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"answer": 3}, "3 as answer, expected the text of a choice, its letter from A, or its number from 0 to 2"),
        ({"answer": True}, "True as answer"),
        ({"answer": "D"}, "'D' as answer"),
        ({"answer": None}, "None as answer"),
        ({"choices": ["a"]}, "1 choice, expected 2 to 26"),
        ({"choices": ["a"] * 27}, "27 choices, expected 2 to 26"),
        ({"choices": ["a", "b", "a"]}, "the choice 'a' is there twice"),
        ({"choices": ["a", " "]}, "an empty choice"),
        ({"choices": "ab"}, "'ab' as choices, expected a list of strings"),
        ({"choices": ["a", 1]}, "choices is a int, expected a string"),
        ({"context": " ", "question": ""}, "neither a context nor a question"),
        ({"context": 7}, "context is a int, expected a string"),
    ],
)
def test_what_is_wrong_with_a_row_is_told_or_left_out(tmp_path, change, told):
    path = write(tmp_path / "a.jsonl", [*ROWS, {**ROWS[0], **change}])
    with pytest.raises(DataError) as error:
        load_choices(path)
    assert f"{path}: line 21: " in str(error.value)
    assert told in str(error.value)
    found = load_choices(path, skip_bad=True)
    assert sum(map(len, found.splits.values())) == 20
    assert len(found.notes) == 1
    assert "1 row left out" in found.notes[0]


@pytest.mark.parametrize("key", ["choices", "answer"])
def test_a_missing_key_is_named(tmp_path, key):
    row = {name: value for name, value in ROWS[0].items() if name != key}
    with pytest.raises(DataError, match=rf"line 1: no key '{key}'; there are: 'context', 'question'"):
        load_choices(write(tmp_path / "a.jsonl", [row]))


def test_a_table_without_choices_or_with_a_short_row_is_told(tmp_path):
    path = write_table(tmp_path / "a.csv", ["question", "choice1", "answer"], [["a", "b", "0"]])
    with pytest.raises(DataError, match="1 column of choices, expected at least 2, named choice1"):
        load_choices(path)
    path = write_table(tmp_path / "a.csv", ["question", "choice1", "choice2", "answer"], [["a", "b", "0"]])
    with pytest.raises(DataError, match="line 2 has 3 columns, expected 4"):
        load_choices(path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match=r"not a file of multiple-choice questions; allowed: \.jsonl, \.csv, \.tsv"):
        load_choices(str(tmp_path / "a.txt"))


def test_the_built_in_choices_are_told_by_the_whole_sentence_alone():
    from headway.data.synthetic import coreference

    found = coreference_choice()
    doers = {noun for each in coreference.SITUATIONS for noun in each.doers}
    for split, questions in found.splits.items():
        assert len(questions) == coreference.COUNTS[split]
        for each, (words, tags) in zip(questions, coreference.sentences(split), strict=True):
            assert each.context == " ".join(words)
            assert len(set(each.choices)) == 4
            assert sum(choice in each.context for choice in each.choices) == 2
            assert sum(choice.removeprefix("the ") in doers for choice in each.choices) == 2
            right = " ".join(word for word, tag in zip(words, tags, strict=True) if tag != "O")
            assert each.choices[each.right] == right
    right = [each.right for each in found.splits["train"]]
    assert all(0.23 < right.count(n) / len(right) < 0.27 for n in range(4))
