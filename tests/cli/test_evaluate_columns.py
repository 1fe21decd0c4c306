"""`headway evaluate` on other data: columns of other names, and lines of progress."""

from __future__ import annotations

import json

import pytest

from headway.cli import main
from headway.cli.progress import EVERY, progress_lines

ROWS = [(f"a good day number {n}", "yes") if n % 2 else (f"a bad night number {n}", "no") for n in range(24)]


def table(path, text, label):
    path.write_text("\n".join([f"{text},{label}", *(f"{a},{b}" for a, b in ROWS)]) + "\n")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    words = ["train", "bert-classifier", "--data", str(table(folder / "own.csv", "review", "sentiment"))]
    words += ["--data.text", "review", "--data.label", "sentiment", "--out", str(folder / "run")]
    words += ["--data.cache", str(folder / "cache"), "--train.steps", "2", "--train.device", "cpu"]
    words += [
        "--model.encoder.width",
        "16",
        "--model.encoder.inner",
        "16",
        "--model.encoder.layers",
        "1",
        "--model.encoder.heads",
        "2",
    ]
    assert main(words) == 0
    return folder / "run"


def test_other_column_names_are_named(run, tmp_path, capsys):
    other = table(tmp_path / "other.csv", "foo", "bar")
    assert main(["evaluate", str(run), "--data", str(other), "--device", "cpu"]) == 3
    said = capsys.readouterr().err
    assert "there are: foo, bar" in said
    assert "--text COLUMN --text2 COLUMN --label COLUMN" in said
    named = ["--text", "foo", "--label", "bar", "--json", "--device", "cpu"]
    assert main(["evaluate", str(run), "--data", str(other), *named]) == 0
    assert json.loads(capsys.readouterr().out)["texts"] == len(ROWS)


def test_progress_is_a_line_now_and_then(capsys):
    moments = iter([0.0, 1.0, EVERY + 1, EVERY + 2, 3 * EVERY])
    progress = progress_lines(now=lambda: next(moments))
    for done in (1, 2, 3, 4):
        progress("translating", done, 4)
    assert capsys.readouterr().err == "headway: translating: 2 of 4 after 31 s\n"
