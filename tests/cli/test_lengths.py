"""`headway evaluate --lengths`, `headway lab positions` and `longformer-needle`, from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headway.cli import main

QUICK = ["--train.steps", "2", "--train.evaluate_every", "2", "--train.save_every", "2", "--train.device", "cpu"]
SMALL = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2"]
TEXT = "to be or not to be, that is the question.\nwhether it is nobler\n\n" * 120


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lengths")
    (folder / "book.txt").write_text(TEXT)
    return folder


@pytest.fixture(scope="module")
def cache(home) -> list[str]:
    return ["--data.cache", str(home / "cache")]


@pytest.fixture(scope="module")
def writer(home, cache) -> Path:
    arguments = ["train", "gpt-char", "--data", str(home / "book.txt"), "--out", str(home / "writer")]
    assert main([*arguments, *SMALL, *QUICK, *cache]) == 0
    return home / "writer"


@pytest.fixture(scope="module")
def guesser(home, cache) -> Path:
    sizes = ["width=16", "inner=32", "heads=2", "layers=1", "context=64", "windows.radius=3"]
    settings = [f"--model.longformer.{size}" for size in sizes]
    data = ["--data", str(home / "book.txt"), "--data.tokenizer", "word", "--task.length", "32"]
    quick = [*QUICK, "--train.accumulate", "1", "--train.batch_tokens", "128", "--train.precision", "fp32"]
    assert main(["train", "longformer", *data, "--out", str(home / "guesser"), *settings, *quick, *cache]) == 0
    return home / "guesser"


@pytest.fixture(scope="module")
def finder(home, cache) -> Path:
    sizes = ["width=16", "inner=16", "heads=2", "layers=1", "context=256", "windows.radius=4"]
    settings = ["--task.length", "256", "--train.batch_tokens", "1024", *(f"--model.encoder.{size}" for size in sizes)]
    assert main(["train", "longformer-needle", "--out", str(home / "finder"), *settings, *QUICK, *cache]) == 0
    return home / "finder"


def values(arguments: list[object], capsys) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["evaluate", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(arguments: list[object], capsys, code: int) -> str:
    """The one line an error is."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "\n" not in captured.err.strip()  # where training was about to begin, its bar left an empty line
    return captured.err


def test_loss_by_length_for_machines(writer, capsys):
    found = values([writer, "--lengths", "16,64,128"], capsys)
    assert found["lengths"] == [16, 64, 128]
    assert found["trained_length"] == 64
    assert found["loss_by_length"][2] is None
    assert found["loss_by_length"][1] == pytest.approx(values([writer], capsys)["loss"])
    assert found["sliding_stride_by_length"] == [8, 32, None]
    assert found["refused_by_length"][2] == "a sequence of up to 128 tokens, the learned positions end at 64"


def test_loss_by_length_for_people_with_a_picture(writer, home, capsys):
    capsys.readouterr()
    picture = home / "lengths.png"
    assert main(["evaluate", str(writer), "--lengths", "32,128", "--stride", "7", "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "trained at 64 tokens" in out
    assert "refused" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("lengths", "code", "told"),
    [
        ("many", 2, "--lengths 'many': expected whole numbers from 1"),
        ("0,8", 2, "a window of 0 tokens"),
        ("8,9999", 3, "--lengths 9999: split 'val' has"),
    ],
)
def test_lengths_that_make_no_sense_are_one_line(writer, capsys, lengths, code, told):
    assert told in refused(["evaluate", writer, "--lengths", lengths], capsys, code)


def test_a_longformer_trained_with_masked_tokens(guesser, home, capsys):
    found = values([guesser], capsys)
    assert found["tokens"] > 0
    assert "next_sentence_accuracy" not in found
    by_length = values([guesser, "--lengths", "8,32,96"], capsys)
    assert by_length["loss_by_length"][1] == pytest.approx(found["loss"])
    assert by_length["sliding_loss_by_length"] == [None] * 3
    assert by_length["refused_by_length"][2].endswith("the learned positions end at 64")
    picture = home / "masked.png"
    assert main(["evaluate", str(guesser), "--lengths", "8,32", "--plot", str(picture)]) == 0
    assert picture.exists()
    assert "--plot is not supported by a masked model" in refused(["evaluate", guesser, "--plot", picture], capsys, 2)


def test_a_longformer_and_pairs_of_sentences_do_not_go_together(home, cache, capsys):
    arguments = ["train", "longformer", "--data", home / "book.txt", "--out", home / "pairs", "--task.rows", "pairs"]
    assert "task.rows=pairs with this model, allowed: running" in refused([*arguments, *cache], capsys, 2)
    arguments = ["train", "bert-base", "--data", home / "book.txt", "--out", home / "runs", "--task.rows", "running"]
    assert "task.rows=running with this model, allowed: pairs" in refused([*arguments, *cache], capsys, 2)


def test_a_classifier_of_long_documents(finder, home, capsys):
    found = values([finder], capsys)
    assert found["split"] == "test"
    assert found["texts"] == 1024
    assert found["accuracy_low"] <= found["accuracy"] <= found["accuracy_high"]
    assert found["classes"] == ["enough", "short"]
    capsys.readouterr()
    said, picture = home / "said.txt", home / "classes.png"
    assert main(["evaluate", str(finder), "--split", "val", "--out", str(said), "--plot", str(picture)]) == 0
    assert "nats a text" in capsys.readouterr().out
    assert len(said.read_text().splitlines()) == 512
    assert picture.exists()


def test_a_classifier_and_a_longformer_of_running_text_are_verified(finder, guesser, capsys):
    for run in (finder, guesser):
        capsys.readouterr()
        assert main(["verify", str(run), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bugs"] == ""


def test_a_classifier_is_resumed(finder, home, cache, capsys):
    sizes = ["width=16", "inner=16", "heads=2", "layers=1", "context=256", "windows.radius=4"]
    settings = ["--task.length", "256", "--train.batch_tokens", "1024", *(f"--model.encoder.{size}" for size in sizes)]
    shutil.copytree(finder, home / "again")
    more = [word if word != "2" else "4" for word in QUICK]
    arguments = ["train", "longformer-needle", "--out", str(home / "again"), *settings, *more, *cache, "--resume"]
    assert main(arguments) == 0
    assert "resuming at step 2" in capsys.readouterr().err
    assert values([home / "again", "--split", "val"], capsys)["last_step"] == 4
    assert "--resume with task.length=512, the run has 256" in refused([*arguments, "--task.length", "512"], capsys, 2)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            ["evaluate", "--lengths", "8"],
            "--lengths is not supported by a text classifier",
        ),
        (["generate"], "is a text classifier: it cannot generate; it can classify"),
        (["translate", "a"], "is a text classifier: it cannot translate; it can classify"),
        (["classify", "--out", "a.png"], "--out draws images"),
        (["embed", "a"], "it cannot embed"),
        (["export", "--out", "x"], "Longformer counts positions from the padding id"),
    ],
)
def test_what_a_text_classifier_does_not_do_is_told(finder, capsys, command, told):
    name, *rest = command
    assert told in refused([name, finder, *rest], capsys, 2)


def test_the_lab_compares_positions_and_goes_on_where_it_stopped(home, cache, capsys):
    arguments = ["lab", "positions", "--data", home / "book.txt", "--runs", home / "positions", "--steps", "4"]
    arguments += ["--kinds", "learned,alibi", "--model.context", "16", "--task.context", "16", *SMALL, *cache]
    arguments += ["--train.evaluate_every", "2", "--train.save_every", "2", "--train.device", "cpu", "--json"]
    arguments += ["--out", home / "labs"]
    main([*map(str, arguments)])
    first = json.loads(capsys.readouterr().out)["tables"]
    assert first[0]["title"].endswith("trained at 16: blocks that do not overlap")
    assert first[0]["header"] == ["positions", "8", "16", "32", "64", "128"]
    assert [row.count("not supported") for row in first[0]["rows"]] == [3, 0]
    assert first[2]["header"] == ["positions", "2", "4"]
    written = (home / "positions/alibi-0/config.yaml").stat().st_mtime_ns
    main([*map(str, arguments), "--seeds", "2"])
    second = json.loads(capsys.readouterr().out)["tables"]
    assert (home / "positions/alibi-0/config.yaml").stat().st_mtime_ns == written
    assert "±" in second[0]["rows"][1][1]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--kinds", "learned,sideways"], "sideways"),
        (["--train.seed", "3"], "--train.seed 3: use --seed for it in this lab"),
        (["--task.context", "64"], "task.context=64, model.context=32: expected the same"),
    ],
)
def test_what_the_lab_refuses(home, capsys, more, told):
    arguments = ["lab", "positions", "--data", home / "book.txt", "--runs", home / "refused", *more]
    assert told in refused(arguments, capsys, 2)
    assert not (home / "refused").exists()


def test_a_text_shorter_than_the_context_is_evaluated_at_the_lengths_asked_for(writer, home, capsys):
    """TRIALS B bug 3: `--lengths 512` was refused for 1,048 tokens, since the context is 8,192."""
    (home / "short.txt").write_text(TEXT[:40])
    assert main(["evaluate", str(writer), "--data", str(home / "short.txt"), "--lengths", "8,39", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["split"], found["lengths"], found["refused_by_length"]) == ("test", [8, 39], [None, None])
    assert main(["evaluate", str(writer), "--data", str(home / "short.txt"), "--lengths", "40"]) == 3
    assert "--lengths 40: split 'test' has 40 tokens, allowed: 1 to 39" in capsys.readouterr().err


@pytest.mark.parametrize("stride", [None, 20, 64])
def test_a_text_shorter_than_the_context_is_one_window_and_the_report_says_so(writer, home, capsys, stride):
    (home / "short.txt").write_text(TEXT[:40])
    words = ["evaluate", str(writer), "--data", str(home / "short.txt")]
    words += [] if stride is None else ["--stride", str(stride)]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tokens"] == 39
    assert found["loss"] == pytest.approx(found["sliding_loss"])
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "blocks of 39" in shown
    assert "The text is shorter than the context of 64." in shown


def test_all_of_other_data_is_evaluated_and_its_end_can_be(writer, home, capsys):
    (home / "other.txt").write_text(TEXT[:400])
    words = ["evaluate", str(writer), "--data", str(home / "other.txt"), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == 399
    assert main([*words, "--split", "val"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == 39
