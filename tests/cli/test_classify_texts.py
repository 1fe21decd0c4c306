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
