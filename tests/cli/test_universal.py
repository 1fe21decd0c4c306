"""A Universal Transformer from the command line: trained, evaluated, decoded, verified, asked how long it thought."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headway
from headway.cli import main
from headway.errors import ConfigError, DataError
from tests.cli.test_commands import QUICK, parallel, train_words

SIZES = "width 16", "inner 32", "heads 2", "halting.steps 4", "halting.bias -2", "offsets offsets"
TINY = [word for key in SIZES for word in f"--model.{key}".split()]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("universal")


@pytest.fixture(scope="module")
def run(home) -> Path:
    data = ["--data", str(parallel(home / "data")), "--source", "en", "--target", "fr"]
    cache = ["--data.cache", str(home / "cache")]
    assert main(["train", "universal-tiny", *data, "--out", str(home / "run"), *TINY, *QUICK, *cache]) == 0
    return home / "run"


def test_evaluate_says_how_long_tokens_were_thought_about(run, capsys):
    assert main(["evaluate", str(run), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert 1 <= values["mean_steps_encoder"] <= 4
    assert 1 <= values["mean_steps_decoder"] <= 4
    assert main(["evaluate", str(run)]) == 0
    assert "mean_steps_decoder" in capsys.readouterr().out


def test_beam_search_and_verify_take_it_as_any_other(run, capsys):
    assert main(["translate", str(run), "the cat number 3 sleeps", "the cat", "--beam", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["verify", str(run), "--json"]) == 0
    assert not json.loads(capsys.readouterr().out).get("bugs")


def test_the_thought_behind_a_line(run):
    found = headway.load(run, device="cpu")
    (thought,) = found.ponder(["the cat number 3 sleeps"], ["le chat"])
    assert thought.source == ("the", "cat", "number", "3", "sleeps", "</s>")
    assert thought.target == ("le", "chat", "</s>")
    assert [len(thought.source_steps), len(thought.target_steps)] == [6, 3]
    assert all(1 <= steps <= 4 for steps in (*thought.source_steps, *thought.target_steps))
    own = found.ponder(["the cat"])[0]
    assert own == found.ponder(["the cat"], found.translate(["the cat"]))[0]
    with pytest.raises(DataError, match="an empty line"):
        found.ponder([""], ["le"])
    with pytest.raises(DataError, match="1 lines and 2 translations"):
        found.ponder(["the"], ["le", "le"])


def test_a_model_of_fixed_depth_has_nothing_to_tell(home, run):
    out, cache = home / "plain", ["--data.cache", str(home / "cache")]
    assert main(train_words(home / "data", out, cache)) == 0
    with pytest.raises(ConfigError, match="has a fixed depth"):
        headway.load(out, device="cpu").ponder(["the cat"])


def test_a_masked_model_in_a_loop(home, capsys):
    (home / "book.txt").write_text("to be or not to be, that is the question.\n" * 40)
    sizes = [word for key in SIZES[:5] for word in f"--model.bert.{key}".split()]
    data = ["--data", str(home / "book.txt"), "--data.tokenizer", "word", "--task.length", "16"]
    quick = [*QUICK, "--train.accumulate", "1", "--data.cache", str(home / "cache")]
    assert main(["train", "universal-bert", *data, "--out", str(home / "masked"), *sizes, *quick]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(home / "masked"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert 1 <= values["mean_steps_encoder"] <= 4
    assert "mean_steps_decoder" not in values


def test_settings_that_make_no_sense_are_refused_by_name(home, capsys):
    for setting, said in (
        ("halting.steps 0", "halting.steps=0"),
        ("halting.threshold 1.0", "halting.threshold=1.0, allowed: above 0 and below 1"),
        ("halting.mixture mean", "interpolated, accumulated"),
        ("halting forever", "adaptive, fixed"),
    ):
        key, value = setting.split()
        assert main(["train", "universal-tiny", "--data", "addition", f"--model.{key}", value]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow  # a thousand steps: the look-up that holds at any length is not found before
def test_reversing_is_learnt_at_40_digits_and_holds_at_400(home, capsys):
    quick = ["--train.steps", "1000", "--data.cache", str(home / "cache"), "--train.device", "cpu"]
    assert main(["train", "universal-digits", "--data", "reverse-digits", "--out", str(home / "digits"), *quick]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(home / "digits"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forced_accuracy"] > 0.4  # chance is 0.1, 4,500 steps give 0.99
