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


def test_a_file_of_objects_beside_the_lines(run, tmp_path, capsys):
    out = tmp_path / "said.jsonl"
    assert main(["classify", str(run), *TEXTS, "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert "2 predictions in" in said.err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert rows[0].keys() == {"text", "class", "probability", "top"}
    assert rows[0]["top"][rows[0]["class"]] == max(rows[0]["top"].values())


def test_an_empty_text_is_named_by_its_number(run, monkeypatch, capsys):
    monkeypatch.setattr("headway.cli.commands.classify.LINES_AT_ONCE", 2)
    monkeypatch.setattr("sys.stdin", io.StringIO("a film\nfine\nbad\n \n"))
    assert main(["classify", str(run)]) == 3
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert said.err == "headway: text 4: the text is empty: a classifier needs at least one token\n"


@pytest.mark.parametrize("flag", ["--out", "--patches"])
def test_pictures_are_of_images(run, flag, capsys):
    assert main(["classify", str(run), "a fine film", flag, "x.png"]) == 2
    error = capsys.readouterr().err.strip()
    assert f"{flag} draws images" in error
    assert ("name a FILE.jsonl" in error) == (flag == "--out")
    assert "\n" not in error


# --- pairs, several labels, numbers ---------------------------------------------------------------------------------

SIZES = ["width 16", "heads 2", "layers 1"]
KINDS = {  # the header and rows of a table, the preset, and an input
    "pair": ("premise,hypothesis,label", [f"a dog {n},an animal,{'yes' if n % 2 else 'no'}" for n in range(24)],
             "bert-classifier", "a dog\tan animal"),
    "multi": ("text,tags", [f"a film {n},{('fun', 'sad|long', 'fun|long')[n % 3]}" for n in range(30)],
              "gpt-classifier", "a film"),
    "number": ("text,score", [f"a film {n % 7},{n * 7 % 10 / 2 + 0.25}" for n in range(30)],
               "bert-classifier", "a film"),
    "folders": ("", ["good", "bad"], "bert-classifier", "a film"),
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    """A run trained for two steps on data that is recognised: its kind, its folder and an input."""
    folder = tmp_path_factory.mktemp(request.param)
    header, rows, preset, given = KINDS[request.param]
    if header:
        data = folder / "data.csv"
        data.write_text("".join(f"{line}\n" for line in (header, *rows)))
    else:
        data = folder / "data"
        for name in rows:
            (data / name).mkdir(parents=True)
            for n in range(10):
                (data / name / f"{n}.txt").write_text(f"a {name} film number {n}\n")
    small = [word for pair in SIZES for word in f"--model.encoder.{pair}".split()]
    quick = ["steps 2", "evaluate_every 1", "save_every 1", "batch_tokens 64", "device cpu"]
    training = [word for pair in quick for word in f"--train.{pair}".split()]
    where = ["--data", str(data), "--out", str(folder / "run"), "--data.cache", str(folder / "c")]
    words = ["--data.tokenizer", "word"]
    assert main(["train", preset, *where, "--task.length", "16", *small, *training, *words]) == 0
    return request.param, folder / "run", given


def test_what_was_recognised_is_in_the_config(made):
    kind, run, _ = made
    config = headway.load(run, device="cpu").config
    assert config.task.labels == {"pair": "single", "folders": "single"}.get(kind, kind)
    assert config.data.text2 == ("hypothesis" if kind == "pair" else "")
    assert config.data.classes == {
        "pair": ("no", "yes"), "multi": ("fun", "long", "sad"), "number": (), "folders": ("bad", "good"),
    }[kind]  # fmt: skip


def test_each_kind_is_classified_as_by_the_run(made, capsys):
    kind, run, given = made
    capsys.readouterr()
    assert main(["classify", str(run), given, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["predictions"]
    (found,) = headway.load(run, device="cpu").classify([given])
    assert found.to_json("text") == row
    keys = {"pair": {"text", "text2", "class", "probability", "top"}, "multi": {"text", "labels", "probabilities"}}
    assert row.keys() == keys.get(kind, {"text", "number"} if kind == "number" else keys["pair"] - {"text2"})
    assert main(["classify", str(run), given]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"{given}\t")
    if kind == "multi":
        assert {part.split()[0] for part in line.split("\t")[2:]} == {"fun", "long", "sad"}


def test_each_kind_is_evaluated_with_a_plot_and_lines(made, tmp_path, capsys):
    kind, run, _ = made
    plot, out = tmp_path / "plot.png", tmp_path / "out.txt"
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json", "--plot", str(plot), "--out", str(out)]) == 0
    values = json.loads(capsys.readouterr().out)
    first = {"multi": "micro_f1", "number": "rmse"}.get(kind, "accuracy")
    assert {first, f"last_{first}", "loss", "texts"} <= values.keys()
    assert plot.read_bytes()[:4] == b"\x89PNG"
    assert len(out.read_text().splitlines()) == values["texts"]
    assert main(["evaluate", str(run)]) == 0
    assert first in capsys.readouterr().out


def test_each_kind_has_a_page_is_verified_and_told(made, tmp_path, capsys):
    _, run, given = made
    page = tmp_path / "page.html"
    assert main(["look", str(run), given, "--out", str(page), "--device", "cpu"]) == 0
    assert page.read_text().lower().startswith("<!doctype html>")
    assert main(["verify", str(run), given, "--device", "cpu"]) == 0
    assert main(["verify", str(run), "--device", "cpu"]) == 0
    assert main(["info", str(run)]) == 0
    assert "text classifier" in capsys.readouterr().out


def test_a_pair_without_a_tab_is_told(made, capsys):
    kind, run, _ = made
    if kind != "pair":
        pytest.skip("one text")
    capsys.readouterr()
    assert main(["classify", str(run), "a dog\tan animal", "a dog"]) == 3
    told = "headway: text 2: 1 text, expected a pair: two texts with a tab between them\n"
    assert capsys.readouterr().err == told
