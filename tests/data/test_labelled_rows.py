"""Rows of texts with labels: every form of data, every kind of label, and a line for what is wrong with a row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headway.data.config import DataConfig
from headway.data.labelled_rows import LabelledRow, load_rows
from headway.data.labelled_text import load_labelled_texts
from headway.data.tokenizers import Word
from headway.errors import DataError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def rows_of(spec: Path, kind: str = "single", split: str = "train", **settings) -> list[LabelledRow]:
    return list(load_rows(DataConfig(spec=str(spec), **settings), kind).splits[split])


def texts_of(spec: Path, kind: str = "single", **settings):
    data = DataConfig(spec=str(spec), tokenizer=Word(), cache=str(spec.parent / "cache"), **settings)
    return load_labelled_texts(data, None, room=16, kind=kind)


def refusal(spec: Path, kind: str = "single", **settings) -> str:
    with pytest.raises(DataError) as caught:
        texts_of(spec, kind, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def table(path: Path, rows: list[dict]) -> Path:
    """The same rows in the format that the name says."""
    columns = list(rows[0])
    if path.suffix == ".jsonl":
        return write(path, "".join(json.dumps(row) + "\n" for row in rows))
    if path.suffix == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
        return path
    tab = "\t" if path.suffix == ".tsv" else ";"
    lines = [tab.join(columns), *(tab.join(str(row[name]) for name in columns) for row in rows)]
    return write(path, "".join(f"{line}\n" for line in lines))


every_format = pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])


@every_format
def test_a_pair_with_a_class_or_a_number(tmp_path, suffix):
    rows = [{"a": f"one {n}", "b": f"two {n}", "y": f"c{n % 2}", "z": n + 0.5} for n in range(20)]
    path = table(tmp_path / f"x{suffix}", rows)
    named = {"text": "a", "text2": "b"}
    assert rows_of(path, label="y", **named)[3] == LabelledRow(("c1",), ("one 3", "two 3"))
    assert rows_of(path, "number", label="z", **named)[3] == LabelledRow(("3.5",), ("one 3", "two 3"))
    found = texts_of(path, label="y", **named)
    pair = found.splits["train"].tokens(3), found.splits["train"].second(3)
    assert [found.tokenizer.decode(ids.tolist()) for ids in pair] == ["one 3", "two 3"]
    assert texts_of(path, "number", label="z", **named).splits["train"].labels[:3].tolist() == [0.5, 1.5, 2.5]


@every_format
def test_several_labels_in_a_cell_or_in_columns(tmp_path, suffix):
    """A separator or a JSON list in one column, or several 0/1 columns: the same labels."""
    sets = [("b", "a"), (), ("c",), ("a",)] * 5
    flags = [{name: int(name in each) for name in "abc"} for each in sets]
    rows = [
        {"t": f"t {n}", "bar": "|".join(each), "semi": "; ".join(each), "list": json.dumps(each), **flag}
        for n, (each, flag) in enumerate(zip(sets, flags, strict=True))
    ]
    path = table(tmp_path / f"x{suffix}".replace(".csv", ".tsv"), rows)
    assert [row.labels for row in rows_of(path, "multi", text="t", label="bar")][:4] == sets[:4]
    assert [row.labels for row in rows_of(path, "multi", text="t", label="semi", separator=";")][:4] == sets[:4]
    assert [row.labels for row in rows_of(path, "multi", text="t", label="list")][:4] == sets[:4]
    columns = texts_of(path, "multi", text="t", label="a,b,c")
    cells = texts_of(path, "multi", text="t", label="bar")
    assert columns.classes == cells.classes == ("a", "b", "c")
    assert np.array_equal(columns.splits["train"].labels, cells.splits["train"].labels)
    assert columns.splits["train"].labels[0].tolist() == [1, 1, 0]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_lists_of_names_are_labels(tmp_path, suffix):
    rows = [{"text": f"t {n}", "tags": ["x"] if n % 2 else ["x", "y"]} for n in range(20)]
    path = table(tmp_path / f"x{suffix}", rows)
    assert rows_of(path, "multi", label="tags")[0].labels == ("x", "y")


def classes(root: Path, names=("neg", "pos"), count: int = 10) -> Path:
    for name in names:
        for n in range(count):
            write(root / name / f"{n:02}.txt", f"{name} text\nnumber {n}\n")
    return root


def test_a_folder_for_each_class(tmp_path):
    root = classes(tmp_path / "films")
    train, val = (rows_of(root, split=split) for split in ("train", "val"))
    assert train[0] == LabelledRow(("neg",), ("neg text\nnumber 0",))
    assert [row.labels[0] for row in val] == ["neg", "pos"]
    assert [row.texts[0][-1] for row in val] == ["9", "9"]
    assert len(train) == 18
    split = tmp_path / "split"
    classes(split / "train")
    classes(split / "test", count=2)
    assert len(rows_of(split, split="test")) == 4
    assert "a folder for each class" in refusal(root, "multi")
    assert "data.text2=b is for tables" in refusal(root, text2="b")


def test_the_digest_of_a_table_is_what_it_was(tmp_path):
    """Runs that were begun before pairs and several labels can be resumed."""
    from headway.data.digests import split_digests
    from headway.data.text_files import load_parallel

    path = table(tmp_path / "x.tsv", [{"label": f"c{n % 2}", "text": f"text {n}"} for n in range(20)])
    assert texts_of(path).contents == split_digests(load_parallel(path, "label", "text"))


def test_numbers_in_order_are_held_out_in_turn(tmp_path):
    path = table(tmp_path / "x.csv", [{"text": f"t {n}", "label": n / 4} for n in range(40)])
    found = texts_of(path, "number")
    assert found.splits["val"].labels.tolist() == [9 / 4, 19 / 4, 29 / 4, 39 / 4]
    assert found.notes == ("the rows are sorted by label: every tenth row is held out for validation",)
    mixed = [{"text": f"t {n}", "label": (n * 7) % 40 / 4} for n in range(40)]
    assert texts_of(table(tmp_path / "y.csv", mixed), "number").splits["val"].labels.tolist() == [
        row["label"] for row in mixed[-4:]
    ]


def test_a_label_that_only_the_last_rows_have_stays_in_train(tmp_path):
    rows = [{"text": f"t {n}", "label": "a|b" if n % 2 else "b"} for n in range(19)] + [
        {"text": "t", "label": "a|rare"}
    ]
    found = texts_of(table(tmp_path / "x.csv", rows), "multi")
    assert found.classes == ("a", "b", "rare")
    assert len(found.splits["val"].labels) == 1


def test_a_class_with_a_single_text_is_trained_on_and_told(tmp_path):
    rows = [{"text": f"t {n}", "label": f"c{n % 2}"} for n in range(29)] + [{"text": "t", "label": "odd"}]
    found = texts_of(table(tmp_path / "x.csv", rows))
    assert found.classes == ("c0", "c1", "odd")
    assert 2 not in found.splits["val"].labels
    told = "1 of 3 classes have a single text in train ('odd'): it is trained on, and val may not measure the class"
    assert told in found.notes


@every_format
def test_an_empty_text_names_its_row(tmp_path, suffix):
    rows = [{"text": f"t {n}" if n != 3 else " ", "label": f"c{n % 2}"} for n in range(20)]
    path = table(tmp_path / f"x{suffix}", rows)
    told = f"x{suffix}: row 4: the text is empty; remove it, or pass --data.skip_bad true to leave such rows out"
    assert refusal(path).endswith(told)
    found = texts_of(path, skip_bad=True)
    assert sum(len(each.labels) for each in found.splits.values()) == 19
    assert "left out: 1 row without a text or a label, or with other columns" in found.notes


def test_a_row_with_other_columns_can_be_left_out(tmp_path):
    rows = "".join(f"{n},t {n},c{n % 2}\n" for n in range(20))
    (tmp_path / "x.csv").write_text(f"id,text,label\n{rows}20,cut\n21,t 21,c1,more\n22,t 22,c0\n")
    told = "x.csv: line 22 has 2 columns, expected 3; remove it, or pass --data.skip_bad true to leave such rows out"
    assert refusal(tmp_path / "x.csv").endswith(told)
    found = texts_of(tmp_path / "x.csv", skip_bad=True)
    assert sum(len(each.labels) for each in found.splits.values()) == 21
    assert "left out: 2 rows without a text or a label, or with other columns" in found.notes


def test_labels_that_are_written_differently_are_told(tmp_path):
    rows = [{"text": f"t {n}", "label": ("Good" if n == 4 else "good ") if n % 2 == 0 else "bad"} for n in range(20)]
    told = (
        "classes that differ in case or spaces only: 'Good' and 'good '; if they are one, write them alike in the data"
    )
    assert told in texts_of(table(tmp_path / "x.csv", rows)).notes


def test_an_empty_second_text_is_told_apart(tmp_path):
    rows = [{"a": "x", "b": "y" if n else "", "label": f"c{n % 2}"} for n in range(9)]
    assert "row 1: the second text is empty" in refusal(table(tmp_path / "x.tsv", rows), text="a", text2="b")


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("single", None, "row 2: the label is empty, expected a class"),
        ("single", float("nan"), "row 2: the label is nan, expected a class"),
        ("number", None, "row 2: the label is empty, expected a number"),
        ("number", float("nan"), "row 2: the label is nan, expected a finite number"),
        ("multi", float("nan"), "row 2: the label is NaN, expected names separated by '|'"),
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_a_label_that_is_missing_or_nan_names_its_row(tmp_path, suffix, kind, value, told):
    rows = [{"text": f"t {n}", "label": n % 2 + 0.0} for n in range(9)]
    rows[1]["label"] = "" if value is None and suffix == ".csv" else value
    path = table(tmp_path / f"x{suffix}", rows)
    assert told in refusal(path, kind)
    assert len(rows_of(path, kind, skip_bad=True)) < 9


def test_numbers_where_classes_are_expected_say_what_to_pass(tmp_path):
    path = table(tmp_path / "x.csv", [{"text": f"t {n}", "label": n / 7} for n in range(20)])
    assert "the labels are numbers" in refusal(path)
    assert "pass --task.labels number to predict the number" in refusal(path)
    stars = table(tmp_path / "y.csv", [{"text": f"t {n}", "label": n % 5 + 1} for n in range(20)])
    assert texts_of(stars).classes == ("1", "2", "3", "4", "5")
    ids = table(tmp_path / "z.csv", [{"text": f"t {n}", "label": n} for n in range(300)])
    assert "the labels are numbers" in refusal(ids)


def test_classes_where_numbers_are_expected_say_what_to_pass(tmp_path):
    path = table(tmp_path / "x.csv", [{"text": f"t {n}", "label": "good"} for n in range(9)])
    assert "row 1: the label 'good' is not a number; --task.labels single is for classes" in refusal(path, "number")


def test_a_label_column_that_is_missing_is_named_with_those_there_are(tmp_path):
    path = table(tmp_path / "x.csv", [{"text": f"t {n}", "sentiment": "good"} for n in range(9)])
    assert "no column 'label'; there are: text, sentiment" in refusal(path)
    rows = [{"text": f"t {n}", "sentiment": "good"} for n in range(9)]
    assert "no key 'label'; there are: 'text', 'sentiment'" in refusal(table(tmp_path / "x.jsonl", rows))
    assert "no column 'c'; there are: text, sentiment" in refusal(path, "multi", label="sentiment,c")


def test_other_things_that_cannot_be(tmp_path):
    path = table(tmp_path / "x.csv", [{"text": f"t {n}", "a": 2, "b": 1} for n in range(9)])
    assert "row 1: column 'a' is '2', expected 0 or 1" in refusal(path, "multi", label="a,b")
    assert "column 'text' is named twice" in refusal(path, label="text")
    one = table(tmp_path / "one.csv", [{"text": "t", "label": "a"}])
    assert "1 row, expected at least 2" in refusal(one)
    alone = table(tmp_path / "alone.csv", [{"text": f"t {n}", "label": f"a{n}|b{n}"} for n in range(4)])
    assert "each has a unique label" in refusal(alone, "multi")
