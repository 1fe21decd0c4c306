"""The commands end to end on small data of the user's own, and what their mistakes get."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
import yaml

import headway
from headway.cli import main

TINY = [
    word for key in ("width 16", "inner 32", "heads 2", "encoder_layers 1", "decoder_layers 1")
    for word in f"--model.{key}".split()
]  # fmt: skip
QUICK = [
    word for key in ("steps 6", "evaluate_every 3", "save_every 3", "average 0", "device cpu")
    for word in f"--train.{key}".split()
]  # fmt: skip


@pytest.fixture
def cache(tmp_path):
    return ["--data.cache", str(tmp_path / "cache")]


def parallel(folder: Path, lines: int = 40) -> Path:
    folder.mkdir(exist_ok=True)
    for split in ("train", "val", "test"):
        english = [f"the cat number {n % 7} sleeps" for n in range(lines)]
        french = [f"le chat numéro {n % 7} dort" for n in range(lines)]
        (folder / f"{split}.en").write_text("\n".join(english) + "\n")
        (folder / f"{split}.fr").write_text("\n".join(french) + "\n")
    return folder


def train_words(data: Path, out: Path, cache: list[str]) -> list[str]:
    languages = ["--source", "en", "--target", "fr", "--data.tokenizer", "word"]
    return ["train", "transformer-tiny", "--data", str(data), "--out", str(out), *languages, *TINY, *QUICK, *cache]


@pytest.fixture
def translator(tmp_path, cache, capsys):
    data, out = parallel(tmp_path / "data"), tmp_path / "run"
    assert main(train_words(data, out, cache)) == 0
    assert capsys.readouterr().out.strip() == str(out)
    return out


@pytest.fixture
def writer(tmp_path, cache, capsys):
    book, out = tmp_path / "book.txt", tmp_path / "writer"
    book.write_text("to be or not to be, that is the question.\n" * 40)
    sizes = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2"]
    assert main(["train", "gpt-char", "--data", str(book), "--out", str(out), *sizes, *QUICK, *cache]) == 0
    capsys.readouterr()
    return out


def test_the_run_folder_has_its_shape(translator):
    names = {path.name for path in translator.iterdir()}
    assert {
        "config.yaml",
        "tokenizer.json",
        "log.jsonl",
        "curves.png",
        "checkpoints",
        "best.json",
        "latest.json",
    } <= names
    step = translator / "checkpoints" / "step-00000006"
    assert {path.name for path in step.iterdir()} == {
        "model.safetensors", "trainer.safetensors", "trainer.json", "MANIFEST.json",
    }  # fmt: skip
    assert yaml.safe_load((translator / "config.yaml").read_text())["model"]["width"] == 16


def test_evaluate_speaks_to_machines_and_people(translator, capsys):
    assert main(["evaluate", str(translator), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["split"] == "test"
    assert {"loss", "bleu", "bleu_signature", "bleu_tokenized_lower", "chrf", "exact_match", "sentences"} <= set(values)
    assert main(["evaluate", str(translator), "--split", "val", "--beam", "2"]) == 0
    assert "bleu_signature" in capsys.readouterr().out
    assert main(["evaluate", str(translator), "--split", "exam"]) == 3
    assert "no split 'exam', there are test, train, val" in capsys.readouterr().err


def test_translate_gives_a_line_for_a_line(translator, capsys, monkeypatch):
    lines = ["the cat number 3 sleeps", "", "cat the the"]
    assert main(["translate", str(translator), *lines]) == 0
    direct = capsys.readouterr().out.splitlines()
    assert len(direct) == 3
    assert direct[1] == ""
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    assert main(["translate", str(translator)]) == 0
    assert capsys.readouterr().out.splitlines() == direct
    assert headway.load(translator).translate(lines) == direct
    assert main(["translate", str(translator), "the cat", "--n-best", "2", "--beam", "3"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2"]


def test_generate_streams_and_repeats_itself_by_seed(writer, capsys):
    said = []
    for seed in ("1", "1", "2"):
        assert main(["generate", str(writer), "--prompt", "to be", "--max-tokens", "90", "--seed", seed]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2]
    assert said[0].startswith("to be")
    assert len(said[0]) == len("to be") + 90 + 1


def test_score_names_the_line_and_byte_that_is_not_utf8(writer, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"to be\nto \xff be\n")))
    assert main(["score", str(writer), "--device", "cpu"]) == 3
    found = capsys.readouterr()
    assert len(found.out.splitlines()) == 1
    assert "line 2, byte 4: invalid UTF-8" in found.err


def test_score_adds_up(writer, translator, capsys):
    assert main(["score", str(writer), "to be or not", "--tokens"]) == 0
    first, *tokens = capsys.readouterr().out.splitlines()
    total, count, text = first.split("\t")
    assert text == "to be or not"
    assert int(count) == len(tokens) == len(text) - 1
    assert float(total) == pytest.approx(sum(float(line.split("\t")[0]) for line in tokens), abs=1e-2)
    assert main(["score", str(translator), "the cat\tle chat"]) == 0
    assert float(capsys.readouterr().out.split("\t")[0]) < 0
    assert main(["score", str(translator), "the cat"]) == 3


def test_evaluate_a_language_model(writer, capsys):
    assert main(["evaluate", str(writer), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {"loss", "perplexity", "bits_per_byte", "tokens"} <= set(values)
    assert values["tokens"] == 42 * 40 - int(0.9 * 42 * 40) - 1


def test_a_run_is_not_overwritten_and_is_resumed_on_request(writer, tmp_path, cache, capsys):
    again = ["train", "gpt-char", "--data", str(tmp_path / "book.txt"), "--out", str(writer), *cache]
    sizes = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2"]
    assert main([*again, *sizes, *QUICK]) == 2
    assert "holds a run already (step 6); pass --resume to continue it" in capsys.readouterr().err
    longer = [word if word != "6" else "9" for word in QUICK]
    assert main([*again, *sizes, *longer, "--resume"]) == 0
    assert "resuming at step 6" in capsys.readouterr().err
    assert json.loads((writer / "latest.json").read_text()) == {"step": 9}
    other = [word if word != "16" else "32" for word in sizes]
    assert main([*again, *other, *longer, "--resume"]) == 2
    remedy = f"leave the option out to keep that, or pass --out for another folder than {writer}"
    assert f"--resume with model.width=32, the run has 16; {remedy}\n" in capsys.readouterr().err
    assert main([*again, "--config", str(writer / "config.yaml"), "--resume"]) == 0


def test_a_character_that_only_the_held_out_part_has_is_named_with_split_and_remedy(tmp_path, cache, capsys):
    book = tmp_path / "book.txt"
    book.write_text("abc\n" * 300 + "S\n")
    assert main(["train", "gpt-char", "--data", str(book), "--out", str(tmp_path / "r"), *QUICK, *cache]) == 3
    missing = "character 'S' (U+0053) does not occur in the training split"
    remedy = "add it there, or use --data.tokenizer byte-bpe"
    assert f"headway: {book}, val split: {missing}; {remedy}\n" in capsys.readouterr().err


def test_resume_without_a_checkpoint_starts_and_says_so(tmp_path, cache, capsys):
    book = tmp_path / "book.txt"
    book.write_text("abc " * 300)
    sizes = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2"]
    assert (
        main(
            ["train", "gpt-char", "--data", str(book), "--out", str(tmp_path / "r"), *sizes, *QUICK, *cache, "--resume"]
        )
        == 0
    )
    assert "starting at step 0" in capsys.readouterr().err


def test_a_config_file_and_what_is_printed_of_it(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text("model:\n  width: 32\n  position: {type: rotary, base: 500.0}\ntrain:\n  steps: 7\n")
    asked = ["train", "gpt-char", "--config", str(file), "--train.steps", "9"]
    assert main([*asked, "--print_config"]) == 0
    printed = capsys.readouterr().out
    assert main([*asked, "--print-config"]) == 0
    assert capsys.readouterr().out == printed
    shown = yaml.safe_load(printed)
    assert shown["model"]["width"] == 32
    assert shown["model"]["position"] == {"type": "rotary", "base": 500.0, "layout": "interleaved"}
    assert shown["train"]["steps"] == 9


@pytest.mark.parametrize(
    ("spoil", "code", "message"),
    [
        (lambda d: (d / "train.fr").unlink(), 3, "train.fr|no 'train'|train"),
        (lambda d: (d / "train.fr").write_text("une\n"), 3, r"train\.en.*40.*train\.fr.*1|40.*1"),
        (lambda d: (d / "train.en").write_text(""), 3, r"train\.en"),
        (lambda d: (d / "train.en").write_bytes(b"ok\nbad \xff byte\n" * 20), 3, r"train\.en: line 2, byte 5"),
        (lambda d: (d / "train.en").write_bytes(b"nul \0 here\n" * 40), 3, r"train\.en.*line 1"),
        (lambda d: [(d / f"val.{side}").write_text("") for side in ("en", "fr")], 3, "val"),
    ],
)
def test_bad_data_gets_one_line_and_its_code(tmp_path, cache, capsys, spoil, code, message):
    data = parallel(tmp_path / "data")
    spoil(data)
    out = tmp_path / "run"
    assert main(train_words(data, out, cache)) == code
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    assert re.search(message, error), error
    assert not (out / "checkpoints").exists()


def test_data_with_a_bom_and_windows_line_ends_is_read(tmp_path, cache):
    data = parallel(tmp_path / "data")
    for path in data.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    out = tmp_path / "run"
    assert main(train_words(data, out, cache)) == 0
    assert "\r" not in (out / "tokenizer.json").read_text()
    assert "\ufeff" not in (out / "tokenizer.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "gpt-char"], 2, "no data: --data takes a built-in name"),
        (["train", "gpt-char", "--data", "nowhere.txt"], 3, "nowhere.txt"),
        (["train", "gpt-char", "--data", "pydosc"], 3, "pydocs"),
        (["train", "gpt-chra", "--data", "pydocs"], 2, "did you mean gpt-char"),
        (["train", "gpt-char", "--data", "pydocs", "--model.positon", "rotary"], 2, "did you mean position"),
        (["train", "gpt-char", "--data", "pydocs", "--train.steps", "0"], 2, "train.steps=0"),
        (["train", "gpt-char", "--data", "pydocs", "--train.steps"], 2, "--train.steps needs a value"),
        (["train", "gpt-char", "--config", "nowhere.yaml", "--data", "pydocs"], 2, "nowhere.yaml"),
        (["evaluate", "nowhere"], 4, "nowhere: no such run"),
        (["classify", __file__, "runs/shapes"], 4, "test_commands.py: a file, expected a run folder"),
        (["translate", "nowhere", "x"], 4, "nowhere: no such run"),
    ],
)
def test_mistakes_on_the_command_line(tmp_path, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_a_model_asked_for_what_it_does_not_do(writer, translator, capsys):
    assert main(["translate", str(writer), "x"]) == 2
    assert "it cannot translate; it can generate" in capsys.readouterr().err
    assert main(["generate", str(translator), "--prompt", "x"]) == 2
    assert main(["generate", str(writer), "--prompt", "Ω"]) == 3
