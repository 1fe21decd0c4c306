"""`headway prepare`, and training, resuming and judging a run from a store."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.cli import main
from headway.data.prepared_store import open_store
from headway.data.tokenizers import ByteBpe, Tokenizer
from headway.training.checkpoints import Checkpoints

TINY = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2", "--model.context", "16"]
QUICK = ["--train.evaluate_every", "3", "--train.save_every", "3", "--train.device", "cpu", "--train.average", "0"]
SMALL = ["--data.tokenizer.vocab", "300"]


@pytest.fixture
def book(tmp_path) -> Path:
    draw = random.Random(0)
    words = ["to", "be", "or", "not", "that", "is", "the", "question", "and", "an", "answer"]
    path = tmp_path / "book.txt"
    path.write_text("".join(" ".join(draw.choices(words, k=9)) + ".\n" for _ in range(400)))
    return path


@pytest.fixture
def store(book, tmp_path, capsys) -> Path:
    folder = tmp_path / "store"
    assert main(["prepare", str(book), "--out", str(folder), "--workers", "1", *SMALL]) == 0
    assert capsys.readouterr().out.strip() == str(folder)
    return folder


def trained(store: Path, out: Path, steps: int = 6, *more: str) -> int:
    words = ["train", "gpt-char", "--data", str(store), "--out", str(out), "--train.steps", str(steps)]
    return main([*words, *TINY, *QUICK, *more])


def test_a_run_is_trained_judged_and_resumed_from_a_store(store, tmp_path, capsys):
    run, whole = tmp_path / "run", tmp_path / "whole"
    assert trained(store, whole) == 0
    shutil.copytree(whole, run)
    shutil.rmtree(Checkpoints(run).path(6))
    assert trained(store, run, 6, "--resume") == 0
    one, two = (headway.load(each, device="cpu").model.state_dict() for each in (run, whole))
    assert all(torch.equal(one[name], two[name]) for name in one)
    digests = json.loads((run / "data.json").read_text())
    assert digests == open_store(store).digests
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == open_store(store).splits["val"].total - 1
    assert main(["verify", str(run)]) == 0
    assert main(["generate", str(run), "to be", "--max-tokens", "4"]) == 0


def test_the_validation_of_a_store_is_that_of_its_text(store, book, tmp_path):
    """The same tokens, whether they are in a store or the text is read: the same loss to the bit."""
    assert trained(store, tmp_path / "run", 3) == 0
    run = headway.load(tmp_path / "run", device="cpu")
    opened = open_store(store)
    lines = book.read_text().splitlines(keepends=True)
    text = opened.tokenizer.decode(next(iter(opened.splits["val"].pieces())).tolist())
    folder = tmp_path / "divided"
    folder.mkdir()
    (folder / "val.txt").write_text(text)
    (folder / "train.txt").write_text("".join(lines)[: -len(text)])
    assert run.evaluate(str(folder), split="val").values["loss"] == run.evaluate(split="val").values["loss"]


def test_without_a_preset_a_store_is_recognised(store, tmp_path, capsys):
    assert main(["train", "--data", str(store), "--out", str(tmp_path / "run"), "--dry-run", *TINY]) == 0
    shown = capsys.readouterr()
    assert "prepared text store" in shown.err
    assert "asked" not in shown.err, "the vocabulary is the store's"


def test_json_has_what_was_read_and_skipped(tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(json.dumps({"body": f"row {max(n - 10, 0)} of a table"}) + "\n" for n in range(50)) + '{"x": 1}\n'
    )
    words = ["prepare", str(rows), "--out", str(tmp_path / "store"), "--data.text", "body", *SMALL, "--workers", "1"]
    assert main([*words, "--json"]) == 3
    assert "line 5: no key 'body'; there are: 'x'" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "store")
    assert main([*words, "--json", "--deduplicate", "--data.skip_bad", "true"]) == 0
    shown = capsys.readouterr()
    values = json.loads(shown.out)
    assert (values["documents"], values["duplicates"], values["bad"], values["empty"]) == (40, 10, 1, 0)
    assert values["tokens"] == values["train_tokens"] + values["val_tokens"]
    assert "skipped: " in shown.err


def test_the_tokenizer_of_a_file_or_a_run(store, book, tmp_path, capsys):
    assert trained(store, tmp_path / "run", 3) == 0
    for number, source in enumerate((tmp_path / "run", store / "tokenizer.json")):
        again = tmp_path / f"again-{number}"
        words = ["prepare", str(book), "--out", str(again), "--tokenizer", str(source), "--workers", "1"]
        assert main(words) == 0
        assert open_store(again).digests == open_store(store).digests
    other = tmp_path / "other"
    assert main(["prepare", str(book), "--out", str(other), "--data.tokenizer.vocab", "280", "--workers", "1"]) == 0
    capsys.readouterr()
    assert (
        main(["train", "gpt-char", "--init", str(tmp_path / "run"), "--data", str(other), "--out", str(tmp_path / "f")])
        == 3
    )
    assert "was prepared with another tokenizer, of 280 tokens; the run has one of " in capsys.readouterr().err
    assert main(["train", "--out", str(tmp_path / "run"), "--resume", "--data", str(other)]) == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["BOOK"], 2, "no --out: the folder for the store"),
        (
            ["BOOK", "--out", "new", "--data.share", "0.5"],
            2,
            "--data.share: not a setting of prepare; allowed: --data.text",
        ),
        (["BOOK", "--out", "new", "--tokenizer", "nothing"], 4, "nothing: no such run"),
        (["missing.txt", "--out", "new"], 3, "missing.txt: no such file or folder"),
        (["STORE", "--out", "new"], 2, "is a prepared store already"),
        (["BOOK", "--out", "BOOK"], 2, "book.txt"),
    ],
)
def test_mistakes_are_one_line(words, code, message, store, book, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [{"BOOK": str(book), "STORE": str(store)}.get(word, word) for word in words]
    assert main(["prepare", *given, "--workers", "1"]) == code
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert not (tmp_path / "new").exists()


def test_verify_names_what_is_damaged(store, tmp_path, capsys):
    assert main(["prepare", str(store), "--verify"]) == 0
    ids = store / "part-000000" / "ids.u16"
    content = bytearray(ids.read_bytes())
    content[5] ^= 4
    ids.write_bytes(content)
    assert main(["prepare", str(store), "--verify"]) == 3
    assert "part-000000: ids.u16 is damaged at byte 0" in capsys.readouterr().err
    assert trained(store, tmp_path / "run") == 3
    assert "part-000000: ids.u16 is damaged at byte 0" in capsys.readouterr().err


def test_other_tasks_do_not_read_a_store(store, tmp_path, capsys):
    assert main(["train", "bert-base", "--data", str(store), "--out", str(tmp_path / "run")]) == 3
    assert "a prepared store, which only language models are trained on" in capsys.readouterr().err


def test_nanogpt_files_are_trained_on(store, tmp_path, capsys):
    folder = tmp_path / "ids"
    folder.mkdir()
    tokenizer = Tokenizer.train(ByteBpe(vocab=256), ["text"], specials=())
    for name in ("train", "val"):
        np.asarray(tokenizer.encode("to be or not to be; " * 40), np.uint16).tofile(folder / f"{name}.bin")
    assert trained(folder, tmp_path / "run", 3) == 3
    assert "ids without a tokenizer; put its tokenizer.json beside them" in capsys.readouterr().err
    (folder / "tokenizer.json").write_text(tokenizer.to_json())
    assert trained(folder, tmp_path / "run", 3) == 0
    assert Checkpoints(tmp_path / "run").steps() == [3]


def test_ranks_train_from_a_store_to_the_same_weights(store, tmp_path):
    pytest.importorskip("torch.distributed")
    shared = ["--train.accumulate", "2"]
    assert trained(store, tmp_path / "one", 3, *shared) == 0
    assert trained(store, tmp_path / "two", 3, *shared, "--nproc", "2") == 0
    one, two = (headway.load(tmp_path / name, device="cpu").model.state_dict() for name in ("one", "two"))
    assert all(torch.equal(one[name], two[name]) for name in one)
