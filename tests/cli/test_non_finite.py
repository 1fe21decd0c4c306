"""NaN and limits on the command line: exit codes, line numbers, what is left on disk."""

from __future__ import annotations

import io

import pytest

from headway.cli import main
from headway.data.tokenizers import Tokenizer
from headway.errors import NonFiniteOutputError
from headway.reliability.runs import TINY, make
from headway.tasks.translation import search as translation

SMALL = (
    "--data reverse --data.tokenizer word --model.width 16 --model.heads 2 --model.inner 32 --model.encoder_layers 1 "
    "--model.decoder_layers 1 --train.batch_tokens 64 --train.device cpu --train.schedule constant"
)
TRAIN = ["train", "transformer-tiny", *SMALL.split()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translation")
    with TINY["translation"].short():
        return make(TINY["translation"], folder / "run", folder / "cache")


@pytest.mark.parametrize("steps", ["1", "3"])
def test_training_that_overflows_ends_with_6_and_commits_nothing(tmp_path, capsys, steps):
    """D2: with three steps a checkpoint of NaN was called sound, with one step the exit code was 0."""
    words = ["--train.steps", steps, "--train.save_every", "1", "--train.learning_rate", "1e38"]
    with TINY["translation"].short():
        cache = ["--data.cache", str(tmp_path / "cache"), "--out", str(tmp_path / "run")]
        assert main([*TRAIN, *words, *cache]) == 6
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(
        "headway: step 1: target_embedding.weight is NaN or infinite and was not saved; there is no "
    )
    assert not list((tmp_path / "run").glob("checkpoints/step-*"))
    assert not (tmp_path / "run" / "best.json").exists()


@pytest.mark.parametrize(
    "setting",
    ["learning_rate=nan", "learning_rate=-inf", "learning_rate=-1e308", "seed=-1", "optimiser.beta1=-1e308", "clip=-1"],
)
def test_a_setting_of_training_out_of_range_ends_with_2(tmp_path, capsys, setting):
    """D2, D8."""
    assert main([*TRAIN, f"--train.{setting}", "--out", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("headway: ")
    assert told.count("\n") == 1
    assert "allowed: " in told
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_the_message_has_the_number_of_the_line(run, monkeypatch, capsys):
    """Lines that are empty or split into parts count as the lines that they are."""
    real = translation.beam_search

    def beam_search(model, source, *arguments):
        for row, tokens in enumerate(source.tokens.tolist()):
            if tokens[: int(source.lengths[row]) - 1] == bad:
                raise NonFiniteOutputError(row, 2)
        return real(model, source, *arguments)

    tokenizer = Tokenizer.from_json((run / "tokenizer.json").read_text())
    bad = tokenizer.encode("1 2 3")
    lines = ["3 1 2", "", " ".join(["1", "2", "4"] * 200), "1 2 3", "4 5"]
    monkeypatch.setattr(translation, "beam_search", beam_search)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    assert main(["translate", str(run), "--max-extra", "1", "--beam", "1"]) == 6
    said = capsys.readouterr()
    assert said.out == ""
    assert "headway: line 4, token 2: the model's output is NaN or infinite; the weights have diverged" in said.err


@pytest.mark.parametrize(
    "words",
    [
        ["--beam", "10000000", "--n-best", "10000000"],
        ["--beam", "5000"],
        ["--n-best", "3"],
        ["--max-extra", "1000000000"],
        ["--length-penalty", "1e308"],
        ["--length-penalty=-1e308"],
        ["--length-penalty", "nan"],
        ["--length-penalty", "inf"],
        ["--groups", "2", "--diversity", "nan"],
        ["--groups", "2", "--diversity", "1e308"],
    ],
)
def test_a_search_out_of_proportion_ends_with_2(run, capsys, words):
    """D6, D8, D9."""
    try:
        code = main(["translate", str(run), "3 1 2", *words])
    except SystemExit as stop:  # refused by the parser
        code = stop.code
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert said.err.startswith("headway: ")
    assert said.err.count("\n") == 1
