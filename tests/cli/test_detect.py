"""Train a detector on people and on a user's own boxes, evaluate it, draw what it finds: the commands end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import headway
from headway.cli import main
from headway.data import boxes
from headway.data.synthetic.scattered import scattered_figures
from headway.errors import ConfigError
from headway.training.log import read_log
from tests.pages import payload_of

QUICK = [
    word for key in ("steps 4", "evaluate_every 2", "save_every 2", "batch_tokens 4", "device cpu")
    for word in f"--train.{key}".split()
]  # fmt: skip
TINY = [
    word for key in ("width 16", "inner 32", "heads 2", "encoder_layers 1", "decoder_layers 1", "image 32", "queries 4")
    for word in f"--model.{key}".split()
] + ["--model.patches.widths", "4,8,16"]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "FIGURES", {"train": 12, "val": 4, "test": 5})
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("detect")
    where = ["--out", str(folder / "run"), "--data.cache", str(folder / "cache")]
    assert main(["train", "detr-shapes", "--data", "figures", *where, *TINY, *QUICK]) == 0
    pixels = scattered_figures(1, size=48, seed=5).pixels[0].transpose(1, 2, 0)
    Image.fromarray(pixels[:30]).save(folder / "people.png")  # wider than high
    (folder / "other").mkdir()
    Image.fromarray(pixels).save(folder / "other" / "people.png")
    return folder / "run"


def test_a_detector_is_evaluated_as_coco_does(run, tmp_path, capsys):
    assert main(["evaluate", str(run), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["split"], values["images"]) == ("test", 5)
    assert 0 <= values["ap"] <= values["ap50"] <= 1
    assert values["ap_large"] is None
    assert list(values["ap_by_class"]) == ["person"]
    plot, lines = tmp_path / "curves.png", tmp_path / "found.txt"
    assert main(["evaluate", str(run), "--plot", str(plot), "--out", str(lines)]) == 0
    assert "recall of one detection" in " ".join(capsys.readouterr().out.split())
    assert Image.open(plot).size[0] > 1000
    assert lines.read_text().count("\n") == 5
    assert set(read_log(run / "log.jsonl")[-1]) == {"step", "val_loss", "val_ap", "val_ap50"}


def test_objects_are_listed_drawn_and_written(run, tmp_path, capsys):
    files = [str(run.parent / "people.png"), str(run.parent / "other" / "people.png")]
    words = ["detect", str(run), *files, "--threshold", "0"]
    assert main([*words, "--out", str(tmp_path / "drawn")]) == 0
    said = capsys.readouterr()
    assert said.err == f"headway: 2 pictures in {tmp_path / 'drawn'}\n"
    lines = [line.split("\t") for line in said.out.splitlines()]
    assert [line[0] for line in lines] == files
    assert all(len(line) == 5 for line in lines)  # the file and four queries
    assert sorted(each.name for each in (tmp_path / "drawn").iterdir()) == ["people-2.png", "people.png"]
    assert np.asarray(Image.open(tmp_path / "drawn" / "people.png")).std() > 10
    assert main([*words, "--json", "--out", str(tmp_path / "found.json")]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values == json.loads((tmp_path / "found.json").read_text())
    (wide, square) = values["detections"]
    assert (wide["width"], wide["height"]) == (48, 30)
    found = headway.load(run).detect(files, threshold=0.0)
    assert [each["box"] for each in wide["objects"]] == found[0].boxes.tolist()
    assert [each["score"] for each in wide["objects"]] == sorted(found[0].scores.tolist(), reverse=True)
    corners = np.array([each["box"] for each in wide["objects"] + square["objects"]])
    assert (corners >= 0).all()
    assert (found[0].boxes[:, 1] + found[0].boxes[:, 3] <= 30 + 1e-9).all()
    assert main(["detect", str(run), files[0], "--threshold", "1"]) == 0
    assert capsys.readouterr().out == f"{files[0]}\n"


def test_a_detector_has_a_page(run, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["look", str(run), str(run.parent / "people.png"), "-o", str(page)]) == 0
    payload = payload_of(page)
    assert (payload["kind"], payload["given"]) == ("detection", "people.png")
    assert payload["output"]["words"].items() >= {"1": "no object"}.items()
    assert payload["sequences"]["queries"]["tokens"] == ["query 1", "query 2", "query 3", "query 4"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["detect", "RUN", "nowhere.png"], 3, "nowhere.png: no such file"),
        (["detect", "RUN", "FILE", "--out", "x.svg"], 2, "x.svg, allowed: a folder, or a name that ends in .json"),
        (["detect", "RUN", "FILE", "--out", "-"], 2, "--out -: standard output has the objects; name a file"),
        (["detect", "RUN", "FILE", "--out", "HERE"], 2, "exists already and is not empty"),
        (["detect", "RUN", "FILE", "--out", "no/x.json"], 5, "the folder no does not exist"),
        (["classify", "RUN", "FILE"], 2, "is an object detector: it cannot classify; it can detect, evaluate"),
        (["export", "RUN", "--out", "folder"], 2, "is an object detector: it cannot export; it can detect, evaluate"),
        (["export", "RUN", "--out", "folder"], 2, "(DetrForObjectDetection of transformers has a ResNet, norms after"),
        (["evaluate", "RUN", "--data", "shapes"], 3, "the run knows person"),
        (["evaluate", "RUN", "--split", "unseen"], 3, "no split 'unseen', there are train, val, test"),
    ],
)  # fmt: skip
def test_mistakes_with_a_detector(run, capsys, words, code, message, monkeypatch):
    monkeypatch.setattr(boxes, "COUNTS", {"train": 2, "val": 2})
    named = {"RUN": str(run), "FILE": str(run.parent / "people.png"), "HERE": str(run.parent)}
    assert main([named.get(word, word) for word in words]) == code
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_threshold_outside_0_to_1_is_refused(run, capsys):
    file = str(run.parent / "people.png")
    with pytest.raises(SystemExit):
        main(["detect", str(run), file, "--threshold", "2"])
    assert "argument --threshold: 2: must be at most 1" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"threshold=-0.1, allowed: 0 to 1"):
        headway.load(run).detect([file], threshold=-0.1)


def coco(folder: Path, *, objects: int = 2) -> Path:
    """Pictures of 40 x 30 pixels with white squares, and their boxes."""
    folder.mkdir()
    images, annotations = [], []
    for n in range(6):
        pixels = np.full((30, 40, 3), 60 + n, np.uint8)
        for k in range(objects):
            pixels[4:12, 3 + 7 * k : 8 + 7 * k] = 255
            annotations.append({"image_id": n, "category_id": 1, "bbox": [3 + 7 * k, 4, 5, 8]})
        Image.fromarray(pixels).save(folder / f"{n}.png")
        images.append({"id": n, "file_name": f"{n}.png"})
    tree = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "square"}]}
    (folder / "train.json").write_text(json.dumps(tree))
    return folder


def test_own_boxes_are_recognised_trained_on_and_evaluated(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coco(tmp_path / "squares")
    where = ["--out", "run", "--data.cache", "cache"]
    assert main(["train", "--data", "squares", *where, *TINY, *QUICK]) == 0
    assert "objects with boxes" in capsys.readouterr().err
    assert headway.load("run").config.model.classes == 1
    assert main(["evaluate", "run", "--data", "squares", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["split"], values["images"], values["objects"]) == ("train", 6, 12)
    coco(tmp_path / "many", objects=5)
    assert (
        main(["train", "detr-shapes", "--data", "many", "--out", "other", "--data.cache", "cache", *TINY, *QUICK]) == 2
    )
    said = capsys.readouterr().err
    assert "has 5 objects, model.queries=4: each object needs a query; pass --model.queries 5 or more" in said
