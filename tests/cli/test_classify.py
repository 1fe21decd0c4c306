"""Train on a folder of images, evaluate, classify: the commands end to end, and what their mistakes get."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from PIL import Image

import headway
from headway.cli import main
from headway.data import image_decoding
from headway.data.synthetic.shapes import SHAPES, scenes
from headway.inspection.page import head_ablation
from headway.nn.patches import Patches
from headway.tasks.image_classification.patches import image_patches
from headway.training.log import read_log
from tests.pages import payload_of

TINY = [
    word for key in ("width 16", "inner 32", "heads 2", "layers 1", "image 16")
    for word in f"--model.{key}".split()
]  # fmt: skip
QUICK = [
    word for key in ("steps 4", "evaluate_every 2", "save_every 2", "batch_tokens 8", "device cpu")
    for word in f"--train.{key}".split()
]  # fmt: skip


def pictures(folder: Path, each: int = 6) -> Path:
    """A folder for each of three shapes, as PNG of another size than the run's."""
    drawn = scenes(each * 40, size=20, seed=0)
    for label in range(3):
        (folder / SHAPES[label]).mkdir(parents=True)
        for n, pixels in enumerate(drawn.pixels[drawn.shapes == label][:each]):
            Image.fromarray(pixels.transpose(1, 2, 0)).save(folder / SHAPES[label] / f"{n}.png")
    return folder


def train_words(tmp_path: Path, *more: str) -> list[str]:
    data, cache = str(tmp_path / "data"), str(tmp_path / "cache")
    where = ["--data", data, "--out", str(tmp_path / "run"), "--data.cache", cache, "--task.size", "16"]
    return ["train", "sl-vit", *where, *TINY, *QUICK, *more]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    pictures(folder / "data")
    assert main(train_words(folder)) == 0
    return folder / "run"


def test_the_run_folder_has_its_shape(run):
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "data.json", "log.jsonl", "curves.png", "checkpoints", "best.json", "latest.json"} <= names
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["data"]["classes"] == ["circle", "square", "triangle"]
    assert config["model"]["classes"] == 3
    assert config["task"]["augment"]["policy"] == {"type": "auto-augment", "fill": 128.0}
    last = read_log(run / "log.jsonl")[-1]
    assert set(last) == {"step", "val_loss", "val_accuracy"}


def test_evaluate_speaks_to_machines_and_people(run, tmp_path, capsys):
    said, plot = tmp_path / "said.tsv", tmp_path / "plot.png"
    assert main(["evaluate", str(run), "--split", "train", "--json", "--out", str(said), "--plot", str(plot)]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {"accuracy", "accuracy_low", "accuracy_high", "images", "loss", "last_accuracy", "last_step"} <= set(values)
    assert values["images"] == 15
    assert values["last_step"] == 4
    lines = [line.split("\t") for line in said.read_text().splitlines()]
    assert sum(a == b for a, b, _ in lines) / 15 == values["accuracy"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert main(["evaluate", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "95 % interval" in shown
    assert re.search(r"square\s+\d", shown)


def test_other_images_are_all_judged(run, tmp_path, capsys):
    other = pictures(tmp_path / "other", each=4)
    for path in (other / "square").iterdir():
        path.unlink()
    (other / "square").rmdir()
    assert main(["evaluate", str(run), "--data", str(other), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["images"] == 8
    assert values["accuracy_by_class"][1] is None
    (other / "circle").rename(other / "blob")
    assert main(["evaluate", str(run), "--data", str(other)]) == 3
    assert "blob: unknown class; classes: circle, square, triangle" in capsys.readouterr().err


def test_classify_gives_a_line_for_an_image(run, tmp_path, capsys):
    files = sorted(str(path) for path in (run.parent / "data").rglob("*.png"))[:3]
    out = tmp_path / "said.png"
    assert main(["classify", str(run), *files, "--top", "2", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == files
    assert all(len(line.split("\t")) == 3 for line in lines)
    assert Image.open(out).format == "PNG"
    assert main(["classify", str(run), *files, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["images"] == 3
    first = values["predictions"][0]
    assert first["class"] == next(iter(first["top"]))
    assert sum(first["top"].values()) == pytest.approx(1)
    found = headway.load(run).classify(files)
    assert found[0].top[0] == (first["class"], pytest.approx(first["probability"]))


def test_an_image_as_the_model_reads_it(run, tmp_path, capsys):
    file, picture = str(next((run.parent / "data").rglob("*.png"))), tmp_path / "patches.png"
    assert main(["classify", str(run), file, file, "--patches", str(picture)]) == 0
    assert "the first 1 of 2 images" in capsys.readouterr().err
    assert Image.open(picture).format == "PNG"
    found = headway.load(run)
    (pixels,) = (each.pixels for each in found.classify([file]))
    kind = found.config.model.patches
    assert (found.pipeline.patches(pixels).patches == image_patches(pixels, 4, kind, (0.2, 0.4, 0.6)).patches).all()
    read = image_patches(pixels, 4, kind, (0.2, 0.4, 0.6))
    assert read.patches.shape == (4, 4, 4, 4, 3)
    assert (read.patches[1, 2] == pixels[:, 4:8, 8:12].transpose(1, 2, 0)).all()
    assert read.copies.shape == (5, 3, 16, 16)
    assert (read.copies[0] == pixels).all()
    assert (read.copies[1][:, 2:, 2:] == pixels[:, :-2, :-2]).all()
    assert read.copies[1][:, 0, 0].tolist() == [51, 102, 153]
    assert image_patches(pixels, 4, Patches(), (0.2, 0.4, 0.6)).copies is None


def test_an_image_is_decoded_once_and_run_once_for_its_page(run, tmp_path, monkeypatch):
    file, page = str(next((run.parent / "data").rglob("*.png"))), tmp_path / "page.html"
    found, decoded, passes = headway.load(run, device="cpu"), [], []
    whole = image_decoding.decode
    counted = lambda *given, **named: decoded.append(given) or whole(*given, **named)  # noqa: E731
    monkeypatch.setattr(image_decoding, "decode", counted)
    found.model.patches.register_forward_hook(lambda *_: passes.append(1))
    explanation = found.pipeline.explain(file)
    assert (len(decoded), len(passes)) == (1, 0)
    explanation.forward()
    passes.clear()
    monkeypatch.setattr(head_ablation, "MAX_OPERATIONS", 0)  # which would run it again without each head
    found.look(file, page)
    assert (len(decoded), len(passes)) == (2, 1)
    assert payload_of(page)["said"] == found.classify([file])[0].top[0][0]


def test_look_refuses_a_model_without_attention(tmp_path, capsys):
    pictures(tmp_path / "data")
    small = ["--model.widths", "4,8", "--model.blocks", "1", "--task.size", "16"]
    where = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "run"), "--data.cache", str(tmp_path / "cache")]
    assert main(["train", "convnet", *where, *small, *QUICK]) == 0
    file = str(next((tmp_path / "data").rglob("*.png")))
    capsys.readouterr()
    assert main(["look", str(tmp_path / "run"), file, "-o", str(tmp_path / "page.html")]) == 2
    assert re.search("look needs attention; a Conv[nN]et has no attention layers", capsys.readouterr().err)
    assert main(["classify", str(tmp_path / "run"), file, "--patches", "p.png"]) == 2
    assert "does not read images as patches; only a vision transformer does" in capsys.readouterr().err


def test_what_a_classifier_does_not_do(run, capsys):
    assert main(["translate", str(run), "x"]) == 2
    assert "is an image classifier" in capsys.readouterr().err
    assert main(["generate", str(run), "--prompt", "x"]) == 2
    assert main(["score", str(run), "a\tb"]) == 2
    assert main(["evaluate", str(run), "--stride", "2"]) == 2
    assert "--stride is not supported by an image classifier" in capsys.readouterr().err


def test_a_classifier_is_verified_with_images_of_its_own(run, capsys):
    assert main(["verify", str(run), "--json"]) == 0
    said = capsys.readouterr()
    values = json.loads(said.out)
    assert (values["inputs"], values["batch"], values["cache"]) == (6, "rounding", "not applicable")
    assert said.err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere.png"], 3, "nowhere.png: no such file"),
        (["FAKE"], 3, "not a readable image"),
        (["FAKE", "--out", "x.svg"], 2, "--out x.svg, allowed: a name that ends in .png"),
        ([], 2, "no image:"),
    ],
)
def test_mistakes_of_classify(run, tmp_path, capsys, arguments, code, message):
    fake = tmp_path / "fake.png"
    fake.write_text("no image")
    assert main(["classify", str(run), *(str(fake) if word == "FAKE" else word for word in arguments)]) == code
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_bad_files_stop_training_or_are_left_out(tmp_path, capsys):
    pictures(tmp_path / "data")
    (tmp_path / "data" / "circle" / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert main(train_words(tmp_path)) == 3
    error = capsys.readouterr().err.strip()
    assert "cut.png: not a readable image" in error
    assert "\n" not in error
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert main(train_words(tmp_path, "--data.skip_bad", "true")) == 0
    told = capsys.readouterr().err
    assert re.search(r"left out   1 that cannot be read \(\S+\.png: ", told)


def test_training_goes_on_from_the_same_images_alone(tmp_path, capsys):
    pictures(tmp_path / "data")
    assert main(train_words(tmp_path)) == 0
    longer = [word if word != "4" else "6" for word in train_words(tmp_path)]
    assert main([*longer, "--resume"]) == 0
    assert "resuming at step 4" in capsys.readouterr().err
    Image.new("RGB", (20, 20), "red").save(tmp_path / "data" / "circle" / "new.png")
    assert main([*longer, "--resume"]) == 2
    assert "--resume with data whose" in capsys.readouterr().err


def test_sizes_must_agree(tmp_path, capsys):
    pictures(tmp_path / "data")
    assert main(train_words(tmp_path, "--task.size", "32")) == 2
    assert "task.size=32, model.image=16: expected the same" in capsys.readouterr().err
    assert main(["train", "gpt-char", "--data", "shapes", "--out", str(tmp_path / "text")]) == 3
    assert "shapes is images, expected plain text" in capsys.readouterr().err
    assert main(train_words(tmp_path, "--data", "pydocs")) == 3
    assert "pydocs is plain text, expected images: shapes or a path" in capsys.readouterr().err


def test_a_folder_of_images_is_answered_by_how_to_name_them(run, tmp_path, capsys):
    """It was "a folder, expected a file"."""
    folder = run.parent / "data" / SHAPES[0]
    assert main(["classify", str(run), str(folder)]) == 2
    error = capsys.readouterr().err
    assert f"{folder} is a folder, expected files: {folder / '*'} names them" in error
    assert f"`headway evaluate {run} --data FOLDER` measures on class folders" in error
    assert main(["classify", str(run), *map(str, folder.glob("*"))]) == 0
