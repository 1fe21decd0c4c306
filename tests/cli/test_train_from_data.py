"""`headway train` with what the data tells: without a preset, languages or a vocabulary size."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from headway.cli import main
from headway.cli.commands.train import resolve
from headway.cli.parser import parse
from headway.presets.propose import fitted_recipe
from tests.tasks.test_proposals import corpus, photos, reviews, write

QUICK = ["--train.steps", "2", "--train.evaluate_every", "2", "--train.save_every", "2", "--train.device", "cpu"]
SIZES = ("encoder_layers=1", "decoder_layers=1", "width=16", "inner=16", "heads=2")
TINY = [f"--model.{size}" for size in SIZES]


def train(*words: str, cache: Path) -> int:
    return main(["train", *words, *QUICK, "--data.cache", str(cache)])


def test_a_vocabulary_is_fitted_to_the_text_unless_its_size_is_set(tmp_path, capsys):
    """`headway train transformer-tiny --data phrases` failed: 9,712 pieces were more than its text gives."""
    data = corpus(tmp_path / "corpus", "train.en", "train.de")
    words = ["transformer-tiny", "--data", str(data), *TINY]
    assert train(*words, "--out", str(tmp_path / "run"), cache=tmp_path / "cache") == 0
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "vocabulary: asked" in line]
    assert "vocabulary: asked 9,712, the text gives " in told
    size = int(told.partition("gives ")[2].split()[0].replace(",", ""))
    tokens = json.loads((tmp_path / "run" / "tokenizer.json").read_text())
    assert len(tokens["model"]["vocab"]) == size
    assert train(*words, "--out", str(tmp_path / "run"), "--resume", cache=tmp_path / "cache") == 0
    assert "vocabulary: asked" not in capsys.readouterr().err
    assert train(*words, "--out", str(tmp_path / "b"), "--data.tokenizer.vocab", "9712", cache=tmp_path / "cache") == 3
    assert "a vocabulary of 9712 is more than the training text gives" in capsys.readouterr().err


def test_from_a_table_to_a_classifier_without_naming_a_preset(tmp_path, capsys, monkeypatch):
    """TRIALS B bug 2 and bug 10: a CSV of reviews was refused, and a trained classifier could not classify."""
    monkeypatch.chdir(tmp_path)
    reviews(Path("reviews.csv"), count=40)
    small = [f"--model.encoder.{pair}" for pair in ("width=16", "inner=16", "heads=2", "layers=1")]
    assert train("--data", "reviews.csv", *small, cache=tmp_path / "cache") == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == "runs/reviews"
    lines = captured.err.splitlines()
    assert "reviews.csv: texts with classes, by the columns review and sentiment (neg, pos)" in lines[0]
    assert lines[1].startswith("headway: the same as: headway train bert-classifier --data reviews.csv --data.text")
    assert main(["evaluate", "runs/reviews", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["texts"] == 4
    assert main(["classify", "runs/reviews", "a great film", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"][0]["class"] in ("neg", "pos")


@pytest.mark.parametrize("kind", ["pairs", "reviews", "photos", "book", "accents"])
def test_the_command_that_is_told_says_the_same(tmp_path, kind, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = {
        "pairs": lambda: corpus(Path("my corpus"), "train.en", "train.de"),
        "reviews": lambda: reviews(Path("reviews.csv")),
        "photos": lambda: photos(Path("photos")),
        "book": lambda: write(Path("book.txt"), "It was the best of times.\n" * 50),
        "accents": lambda: write(Path("book.txt"), "It was the best of times.\n" * 50 + "č"),
    }[kind]()
    for own in (["--train.seed", "7"], ["--train.steps", "77"], ["--data.tokenizer", "word", "--train.clip", "2"]):
        chosen = resolve(parse(["train", "--data", str(data), *own]))
        told = next(line for line in capsys.readouterr().err.splitlines() if "the same as: " in line)
        assert resolve(parse(shlex.split(told.partition("the same as: headway ")[2]))) == chosen
        assert shlex.join(own) in told


def test_words_before_and_after_the_preset(capsys):
    for words in (
        ["gpt-char", "--data", "pydocs", "--train.steps", "3"],
        ["--data", "pydocs", "gpt-char", "--train.steps", "3"],
        ["--train.steps", "3", "--data", "pydocs", "gpt-char"],
        ["--train.steps=3", "gpt-char", "--data=pydocs"],
    ):
        arguments = parse(["train", *words])
        assert arguments.preset == "gpt-char"
        assert resolve(arguments).train.steps == 3
    assert parse(["train", "--data", "pydocs", "--train.steps", "3"]).preset is None


def test_neither_preset_nor_data_and_data_that_is_not_recognised_are_a_line(tmp_path, capsys):
    assert main(["train"]) == 2
    assert "no PRESET and no --data" in capsys.readouterr().err
    (tmp_path / "x.pdf").write_bytes(b"\0\xff")
    assert main(["train", "--data", str(tmp_path / "x.pdf")]) == 3
    error = capsys.readouterr().err.strip()
    assert "not recognised as data to train on" in error
    assert "\n" not in error


def test_a_file_as_a_language_is_answered_by_its_ending_and_the_folder(tmp_path, capsys):
    corpus(tmp_path, "train.en", "train.de.gz")
    for option, language in (("--source", "en"), ("--target", "de.gz")):
        assert main(["train", option, str(tmp_path / f"train.{language}")]) == 2
        error = capsys.readouterr().err
        assert (
            f"a file, expected the ending of the files ({language[:2]}) or a column; --data takes the folder" in error
        )


def test_a_classifier_names_its_own_data_in_errors(tmp_path, capsys):
    """TRIALS B bug 10: "parallel text is a folder or a file that ends with …" for a classifier."""
    path = write(tmp_path / "x.txt", "a text\n")
    assert train("longformer-needle", "--data", str(path), "--out", str(tmp_path / "run"), cache=tmp_path) == 3
    error = capsys.readouterr().err
    assert "expected texts with classes: a folder or a file that ends with .tsv, .csv" in error
    assert "parallel" not in error


@pytest.mark.parametrize("option", ["--data.text", "--data.label"])
def test_a_column_that_is_not_there_is_named(option, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reviews(Path("reviews.csv"))
    assert main(["train", "--data", "reviews.csv", option, "txt", "--dry-run"]) == 3
    assert "reviews.csv: no column 'txt'; there are: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "step"),
    [
        (["book.txt"], 2, "book.txt is data, not a preset: headway train --data book.txt"),
        (["--data", "book.txt", "reviews.csv"], 2, "--data book.txt and reviews.csv: one path is read"),
        (
            ["transformer-tiny", "--data", "reviews.csv", "--dry-run"], 3,
            "; reviews.csv looks like texts with classes, by the columns review and sentiment",
        ),
        (["bert-classifier", "--data", "book.txt", "--dry-run"], 3, "expected texts with classes"),
    ],
)  # fmt: skip
def test_data_in_the_place_of_a_preset_and_a_preset_for_other_data(words, code, step, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reviews(Path("reviews.csv"))
    write(Path("book.txt"), "to be or not to be\n" * 9)
    assert main(["train", *words]) == code
    error = capsys.readouterr().err
    assert step in error
    assert error.count("\n") == 1
    assert ("headway train --data reviews.csv trains what suits that" in error) == ("looks like" in step)


def test_two_files_with_as_many_lines_may_be_translations(tmp_path):
    for name in ("english.txt", "french.txt.gz"):
        write(tmp_path / name, "".join(f"line {n}\n" for n in range(30)))
    (told,) = fitted_recipe(None, {"data.spec": str(tmp_path)}).notes
    assert told.startswith(
        "english.txt, french.txt.gz have 30 lines each: if they are translations of each other, name"
    )
    assert "train.english and train.french," in told
    write(tmp_path / "english.txt", "one more\n" * 31)
    assert fitted_recipe(None, {"data.spec": str(tmp_path)}).notes == ()


def test_data_that_the_folder_lacks_is_looked_for_where_the_run_began(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("book.txt"), "to be or not to be\n" * 20)
    assert (
        train(
            "gpt-char",
            "--data",
            "book.txt",
            "--model.width=16",
            "--model.layers=1",
            "--model.context=8",
            "--out",
            "runs/book",
            cache=tmp_path,
        )
        == 0
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    capsys.readouterr()
    assert main(["evaluate", "../runs/book"]) == 3
    assert "was trained on 'book.txt', seen from the folder in which" in capsys.readouterr().err


def test_the_same_command_with_a_budget_does_not_decide_the_steps_twice(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reviews(Path("reviews.csv"))
    arguments = parse(["train", "--data", "reviews.csv", "--budget", "10m", "--print-config"])
    resolve(arguments)
    told = next(line for line in capsys.readouterr().err.splitlines() if "the same as: " in line)
    assert "--budget 10m" in told
    assert "--train.steps" not in told
