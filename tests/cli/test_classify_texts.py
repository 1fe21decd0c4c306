"""`headway classify` on a text classifier: texts as arguments or from stdin."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import headway
from headway.cli import main

TEXTS = ["a fine film", "poor and bad"]


def reviews(folder: Path) -> Path:
    folder.mkdir()
    rows = [("good", "a fine film"), ("good", "fine and good"), ("bad", "poor and bad"), ("bad", "bad bad film")] * 4
    for split in ("train", "val"):
        (folder / f"{split}.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    sizes = ["width 16", "inner 32", "heads 2", "layers 1", "context 16"]
    small = [word for pair in sizes for word in f"--model.encoder.{pair}".split()]
    quick = ["steps 2", "evaluate_every 2", "save_every 2", "batch_tokens 64", "device cpu"]
    training = [word for pair in quick for word in f"--train.{pair}".split()]
    where = ["--data", str(reviews(folder / "data")), "--out", str(folder / "run"), "--data.cache", str(folder / "c")]
    assert main(["train", "longformer-needle", *where, "--task.length", "16", *small, *training]) == 0
    return folder / "run"


def test_a_line_for_each_text(run, capsys):
    assert main(["classify", str(run), *TEXTS, "--top", "1"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == TEXTS
    assert all(line[1].split()[0] in ("good", "bad") for line in lines)


def test_texts_from_stdin_for_machines(run, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(TEXTS) + "\n"))
    assert main(["classify", str(run), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["texts"] == 2
    assert [row["text"] for row in values["predictions"]] == TEXTS
    found = headway.load(run, device="cpu").classify(TEXTS)
    assert [each.text for each in found] == TEXTS
    assert [dict(each.top) for each in found] == [pytest.approx(row["top"]) for row in values["predictions"]]
    assert sum(values["predictions"][0]["top"].values()) == pytest.approx(1)


@pytest.mark.parametrize("flag", ["--out", "--patches"])
def test_pictures_are_of_images(run, flag, capsys):
    assert main(["classify", str(run), "a fine film", flag, "x.png"]) == 2
    error = capsys.readouterr().err.strip()
    assert f"{flag} draws images" in error
    assert "\n" not in error


def test_each_word_with_what_it_adds(run, capsys):
    assert main(["classify", str(run), "a fine film", "--words", "--top", "2"]) == 0
    first, *words = capsys.readouterr().out.splitlines()
    assert first.startswith("a fine film\t")
    assert [line.split("\t")[1] for line in words] == ["a", "fine", "film"]
    whole, without = headway.load(run, device="cpu").classify(["a fine film", "a film"])
    best, share = whole.top[0]
    assert float(words[1].split("\t")[0]) == pytest.approx(100 * (share - dict(without.top)[best]), abs=0.051)
    assert main(["classify", str(run), "a fine film", "--words", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["predictions"]
    assert [word for word, _ in row["words"]] == ["a", "fine", "film"]
    assert row["words"][1][1] == pytest.approx(share - dict(without.top)[best], abs=1e-6)


def test_an_evaluation_has_the_figures_of_simple_classifiers_beside_it(run, capsys):
    assert main(["evaluate", str(run), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["naive_bayes_accuracy"] == 1  # the words of this set tell its classes
    assert values["commonest_class_accuracy"] == 0.5
    assert main(["evaluate", str(run)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "accuracy of naive Bayes on the same tokens" in shown
    assert "naive Bayes is not worse than this model" in shown


def table(path: Path) -> Path:
    cells = [*TEXTS, "two\nlines", "", "bad"]
    rows = "".join(f'{n},"{text}"\n' for n, text in enumerate(cells))
    path.write_text(f"id,comment\n{rows}")
    return path


def test_the_rows_of_a_table_are_classified_by_their_column_of_texts(run, tmp_path, capsys):
    """The name of a CSV file was taken for a text, and the advice was to classify its lines, commas included."""
    path, out = table(tmp_path / "new.csv"), tmp_path / "said.jsonl"
    assert main(["classify", str(run), str(path), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert [line.split("\t")[0] for line in shown.out.splitlines()] == [*TEXTS, "two lines", "bad"]
    assert f"note: {path}: row 4 has no text and no answer\n" in shown.err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == [*TEXTS, "two\nlines", "bad"]
    found = headway.load(run, device="cpu").classify([row["text"] for row in rows])
    assert [dict(each.top) for each in found] == [pytest.approx(row["top"]) for row in rows]


def test_the_column_of_a_table_can_be_named_and_has_to_be_where_it_is_not_clear(run, tmp_path, capsys):
    path = tmp_path / "new.tsv"
    path.write_text("a long title\ta long comment\nfine and good\tbad bad film\n")
    assert main(["classify", str(run), str(path)]) == 3
    assert "no column text; there are: 1, 2; name the one to classify with --text" in capsys.readouterr().err
    assert main(["classify", str(run), str(path), "--text", "2"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["a long comment", "bad bad film"]
    assert main(["classify", str(run), str(path), "--text", "none"]) == 3
    other = tmp_path / "other.csv"
    other.write_text("id,comment\n1,fine and good\n2,bad bad film\n")
    capsys.readouterr()
    assert main(["classify", str(run), str(other)]) == 0
    said = f"note: {other} has no column text, as the run's training data had; its column comment is read\n"
    assert said in capsys.readouterr().err
    assert main(["classify", str(run), "a film", "--text", "2"]) == 2
    assert "--text 2 names a column of a table: pass one file" in capsys.readouterr().err
