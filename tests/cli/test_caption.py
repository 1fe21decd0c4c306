"""Train on a folder with captions, evaluate, caption: the commands end to end, and what their mistakes get."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import headway
from headway.cli import main
from headway.training.log import read_log
from tests.captioned import write_pictures

MODELS = {
    "captioner-rnn": "image 16;widths 4,8;width 8;decoder.hidden 8;attention.width 4",
    "captioner-vit": "image 16;patch 8;width 16;inner 16;heads 2;encoder_layers 1;decoder_layers 1",
}
QUICK = "steps 4;schedule.warmup 150;evaluate_every 2;save_every 2;batch_tokens 4;device cpu"


def words(prefix: str, pairs: str) -> list[str]:
    return [word for pair in pairs.split(";") for word in f"--{prefix}.{pair}".split()]


def train_words(preset: str, folder: Path, *more: str) -> list[str]:
    where = ["--data", str(folder / "data"), "--out", str(folder / preset), "--data.cache", str(folder / "cache")]
    sizes = ["--task.size", "16", *words("model", MODELS[preset]), *words("train", QUICK)]
    return ["train", preset, *where, *sizes, *more]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caption")
    write_pictures(folder / "data", 24)
    for preset in MODELS:
        assert main(train_words(preset, folder)) == 0
    return folder


@pytest.mark.parametrize("preset", MODELS)
def test_the_run_folder_and_its_evaluation(desk, preset, tmp_path, capsys):
    run = desk / preset
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["vocab"] > 10
    assert (run / "tokenizer.json").exists()
    last = read_log(run / "log.jsonl")[-1]
    assert set(last) == {"step", "val_loss", "val_exact_match"}
    said = tmp_path / "said.txt"
    assert main(["evaluate", str(run), "--split", "train", "--json", "--beam", "2", "--out", str(said)]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {"bleu4", "cider", "exact_match", "sentences", "loss", "perplexity", "tokens"} <= set(values)
    assert values["sentences"] == 22 == len(said.read_text().splitlines())
    assert main(["evaluate", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "CIDEr-D" in shown
    assert "reference" in shown


@pytest.mark.parametrize("preset", MODELS)
def test_caption_speaks_to_people_and_machines(desk, preset, tmp_path, capsys):
    files = [str(desk / "data" / f"{n}.png") for n in range(3)]
    picture = tmp_path / "said.png"
    assert main(["caption", str(desk / preset), *files, "--out", str(picture)]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == files
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["caption", str(desk / preset), *files, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["images"] == 3
    assert [row["caption"] for row in values["captions"]] == [line[1] for line in lines]
    assert all(row["log_probability"] < 0 for row in values["captions"])
    found = headway.load(desk / preset, device="cpu")
    assert [each.text for each in found.caption(files, beam=1)] == [found.caption([f], beam=1)[0].text for f in files]


@pytest.mark.parametrize("preset", MODELS)
def test_where_each_word_looked(desk, preset, tmp_path, capsys):
    files, picture = [str(desk / "data" / f"{n}.png") for n in range(9)], tmp_path / "looks.png"
    assert main(["caption", str(desk / preset), *files, "--attention", str(picture)]) == 0
    assert "the first 8 of 9 images" in capsys.readouterr().err
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = headway.load(desk / preset, device="cpu")
    (caption,) = found.caption(files[:1])
    (look,) = found.pipeline.attention_maps([caption])
    assert look.words == tuple(found.tokenizer.token(each) for each in caption.tokens)
    sides = {"captioner-rnn": (4, 4), "captioner-vit": (2, 2)}[preset]
    assert look.weights.shape == (len(look.words), *sides)
    assert look.weights.sum((1, 2)) == pytest.approx(1, abs=1e-5)


def test_without_attention_there_is_nothing_to_draw(tmp_path, capsys):
    write_pictures(tmp_path / "data", 8)
    assert main(train_words("captioner-rnn", tmp_path, "--model.attention", "none")) == 0
    image = str(tmp_path / "data" / "0.png")
    assert main(["caption", str(tmp_path / "captioner-rnn"), image, "--attention", str(tmp_path / "a.png")]) == 2
    assert "has no attention" in capsys.readouterr().err


@pytest.mark.parametrize("preset", MODELS)
def test_resumed_equals_uninterrupted(desk, preset, tmp_path):
    (tmp_path / "data").symlink_to(desk / "data")
    assert main(train_words(preset, tmp_path, "--train.steps", "2")) == 0
    assert main(train_words(preset, tmp_path, "--resume")) == 0
    name = "checkpoints/step-00000004/model.safetensors"
    assert (tmp_path / preset / name).read_bytes() == (desk / preset / name).read_bytes()


def test_mistakes_get_one_line(desk, tmp_path, capsys):
    run, image = str(desk / "captioner-rnn"), str(desk / "data" / "0.png")

    def fails(code: int, *argv: str) -> str:
        assert main(list(argv)) == code
        err = capsys.readouterr().err
        assert err.strip().count("\n") == 0
        return err

    assert "a name that ends in .png" in fails(2, "caption", run, image, "--out", "said.jpg")
    (tmp_path / "fake.png").write_bytes(b"nothing")
    assert "fake.png: not a readable image" in fails(3, "caption", run, str(tmp_path / "fake.png"))
    assert "is a captioner: it cannot classify; it can caption, evaluate" in fails(2, "classify", run, image)
    assert "is a captioner: it cannot translate" in fails(2, "translate", run, "a dog")
    assert "is a captioner: it cannot generate" in fails(2, "generate", run)
    assert "missing.png" in fails(3, "verify", run, "missing.png")
    assert "--plot is not supported by a captioner" in fails(2, "evaluate", run, "--plot", "a.png")
    assert "expected the same" in fails(2, *train_words("captioner-rnn", tmp_path, "--task.size", "20"))
