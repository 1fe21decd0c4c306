"""Tokens that a vocabulary does not hold are counted and told by every command that encodes a text."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import pytest

import headway
from headway.cli import main
from headway.data.tokenizers import Bpe, Tokenizer, Unigram, Word
from headway.data.unknown_tokens import uncounted, unknown_told
from headway.errors import UnknownTokensWarning
from headway.runs.import_folder import import_folder
from tests.cli.test_commands import QUICK, cache, translator  # noqa: F401
from tests.cli.test_generate import word_pieces

ALL = "is not in the vocabulary: read as"
KNOWN = "the cat number 3 sleeps"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A language model, a masked model and a text classifier, each with a vocabulary of words."""
    home = tmp_path_factory.mktemp("unknown")
    (home / "book.txt").write_text("the cat sleeps\nthe dog runs\n\n" * 60)
    (home / "reviews.tsv").write_text("label\ttext\n" + "good\tthe cat sleeps\nbad\tthe dog runs\n" * 20)
    quick = [*QUICK, "--data.cache", str(home / "cache"), "--data.tokenizer", "word", "--train.accumulate", "1"]
    quick += ["--train.batch_tokens", "128", "--train.precision", "fp32"]
    small = ["width=16", "layers=1", "heads=2", "inner=32"]
    made = {
        "language": ("gpt-char", "book.txt", ["--task.context=8", *(f"--model.{each}" for each in small)]),
        "masked": ("bert-base", "book.txt", ["--task.length=8", *(f"--model.bert.{each}" for each in small)]),
        "classes": ("longformer-needle", "reviews.tsv", [
            "--task.length=16", *(f"--model.encoder.{each}" for each in (*small, "context=16", "windows.radius=3")),
        ]),
    }  # fmt: skip
    for name, (preset, data, sizes) in made.items():
        words = ["train", preset, "--data", str(home / data), "--out", str(home / name), *sizes, *quick]
        assert main(words) == 0, name
    return home


def told(*words: object, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main([*map(str, words), "--device", "cpu"]) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "language", "the zebra", "--max-tokens", "2"],
        ["score", "language", "the zebra"],
        ["look", "language", "the zebra", "-o", "page.html"],
        ["embed", "masked", "the zebra"],
        ["look", "masked", "the zebra", "-o", "page.html"],
        ["classify", "classes", "the zebra"],
        ["look", "classes", "the zebra", "-o", "page.html"],
    ],
)
def test_a_command_tells_of_unknown_tokens_once(runs, words, capsys, tmp_path, monkeypatch):
    """TRIALS B bug 5: unknown tokens were silent in `embed` and `generate`."""
    monkeypatch.chdir(tmp_path)
    command, run, text, *rest = words
    expected = f"headway: note: 1 token in 1 line {ALL} <unk> (50.0% of all)\n"
    assert told(command, runs / run, text, *rest, capsys=capsys) == expected
    assert ALL not in told(command, runs / run, "the cat", *rest, capsys=capsys)


@pytest.mark.parametrize("run", ["language", "masked"])
def test_an_evaluation_counts_the_split_it_reads_also_when_it_is_kept(runs, run, capsys):
    (runs / "other.txt").write_text("the cat sleeps\nthe zebra runs\n" * 5)
    for _ in range(2):  # the second time its tokens are read from the cache
        said = told("evaluate", runs / run, "--data", runs / "other.txt", "--json", capsys=capsys)
        assert said == f"headway: note: 5 tokens {ALL.replace('is', 'are', 1)} <unk> (16.7% of all)\n"
    assert ALL not in told("evaluate", runs / run, "--json", capsys=capsys)


def test_an_evaluation_of_a_classifier_counts_its_split(runs, capsys):
    (runs / "other.tsv").write_text("label\ttext\n" + "good\tthe zebra sleeps\n" * 20)
    said = told("evaluate", runs / "classes", "--data", runs / "other.tsv", "--json", capsys=capsys)
    assert "not in the vocabulary: read as <unk> (33.3% of all)" in said


def test_a_translation_counts_each_line_once(translator, capsys, monkeypatch, tmp_path):  # noqa: F811
    lines = [KNOWN, "zebra cat zebra", "the emu " + "cat " * 300]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert "note: 3 tokens in 2 lines are not in the vocabulary" in told("translate", translator, capsys=capsys)
    page = tmp_path / "page.html"
    assert "note: 2 tokens in 1 line are" in told("look", translator, lines[1], "-o", page, capsys=capsys)
    assert "note: 1 token in 1 line is" in told("score", translator, f"{KNOWN}\tle zèbre", capsys=capsys)


def test_an_imported_tokenizer_is_counted_by_its_own_name(tmp_path, capsys):
    import_folder(word_pieces(tmp_path / "a"), tmp_path / "run")
    words = ["generate", tmp_path / "run", "[HEAVY] AB", "--max-tokens", "2"]
    assert "read as [UNK] (75.0% of all)" in told(*words, capsys=capsys)


def test_python_is_advised_once_a_call(translator):  # noqa: F811
    run = headway.load(translator, device="cpu")
    with pytest.warns(UnknownTokensWarning, match="3 tokens in 2 lines are not in the vocabulary") as caught:
        run.translate([KNOWN, "zebra emu", "the ibis"])
    assert [each.filename for each in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.translate([KNOWN])


@pytest.mark.parametrize("config", [Word(), Bpe(vocab=40), Unigram(vocab=21)])
def test_every_kind_of_vocabulary_knows_its_unknown_token(config):
    tokenizer = Tokenizer.train(config, ["to be or not to be, that is the question"] * 8)
    notes: list[str] = []
    with unknown_told(notes.append):
        tokenizer.encode("to be")
        with unknown_told(notes.append):
            tokenizer.encode("日")
        with uncounted():
            tokenizer.encode("日 日")
        assert notes == []
    assert len(notes) == 1
    assert notes[0].startswith("1 token in 1 line is not in the vocabulary: read as <unk>")
