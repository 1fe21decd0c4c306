"""Images with captions, as people keep them, and what is wrong with some."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headway.data.caption_files import find_captions
from headway.data.datasets import load_captions
from headway.data.images import ImageReading
from headway.data.synthetic import shapes
from headway.errors import DataError
from tests.captioned import write_pictures


def reading(cache: Path, **more: object) -> ImageReading:
    return ImageReading(size=16, cache=cache, **more)


def load(path: Path, tmp_path: Path, **more: object):
    return load_captions(path, reading(tmp_path / "cache", **more), lambda what, done, total: None)


@pytest.fixture
def folder(tmp_path):
    """Twelve images, each with a caption, and the first with another one."""
    return write_pictures(tmp_path / "flickr", 12)


def test_lines_with_numbers_as_flickr_has_them(folder, tmp_path):
    (folder / "captions.txt").unlink()
    (folder / "all.token.txt").write_text("0.png#0\ta  dog\n0.png#1\tone dog, running\n1.png#0\ta cat\n")
    found = find_captions(folder)["train"]
    assert [each.captions for each in found] == [("a dog", "one dog, running"), ("a cat",)]
    assert [each.file.name for each in found] == ["0.png", "1.png"]


def test_a_table_with_commas_and_quotes(folder, tmp_path):
    (folder / "captions.txt").write_text('image,caption\n0.png,"a dog, running"\n1.png,a cat\n')
    assert [each.captions for each in find_captions(folder)["train"]] == [("a dog, running",), ("a cat",)]


def test_coco(folder, tmp_path):
    (folder / "captions.txt").unlink()
    for split, numbers in (("train", range(9)), ("val", range(9, 12))):
        (folder / f"{split}2017").mkdir()
        for n in numbers:
            shutil.move(folder / f"{n}.png", folder / f"{split}2017" / f"{n}.png")
        tree = {
            "images": [{"id": 7 * n, "file_name": f"{n}.png"} for n in numbers],
            "annotations": [{"image_id": 7 * n, "caption": f"number {n}"} for n in numbers],
        }
        (folder / "annotations").mkdir(exist_ok=True)
        (folder / "annotations" / f"captions_{split}2017.json").write_text(json.dumps(tree))
    found = load(folder, tmp_path)
    assert {name: len(split) for name, split in found.splits.items()} == {"train": 9, "val": 3}
    assert found.splits["val"].captions == (("number 9",), ("number 10",), ("number 11",))
    alone = load(folder / "annotations" / "captions_val2017.json", tmp_path, to_train=False)
    assert len(alone.splits["val"]) == 3


def test_a_tenth_is_held_out_and_the_content_is_known(folder, tmp_path):
    found, again = load(folder, tmp_path), load(folder, tmp_path)
    assert {name: len(split) for name, split in found.splits.items()} == {"train": 11, "val": 1}
    assert found.splits["train"].pixels.shape == (11, 3, 16, 16)
    assert found.contents == again.contents
    text = (folder / "captions.txt").read_text()
    (folder / "captions.txt").write_text(text.replace("above", "over"))
    assert load(folder, tmp_path).contents != found.contents


def test_missing_files_are_one_line_and_counted(folder, tmp_path):
    for n in (3, 5):
        (folder / f"{n}.png").unlink()
    with pytest.raises(DataError, match=r"captions\.txt: line 4: names 3\.png.*; 2 of 12 images are missing; pass"):
        load(folder, tmp_path)
    found = load(folder, tmp_path, skip_bad=True)
    assert sum(map(len, found.splits.values())) == 10
    assert found.left_out == 2


def test_files_that_are_not_images_are_counted_with_their_captions(folder, tmp_path):
    (folder / "4.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"4\.png: not a readable image.*1 of 12 images are bad"):
        load(folder, tmp_path)
    found = load(folder, tmp_path, skip_bad=True)
    told = [line.split("\t") for line in (folder / "captions.txt").read_text().splitlines()]
    kept = {said for split in found.splits.values() for said, *_ in split.captions}
    assert kept == {said for name, said in told if name != "4.png#0"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("captions.txt", "0.png#0\ta dog\n1.png a cat\n", r"line 2: no tab, expected IMAGE<tab>CAPTION"),
        ("captions.txt", "0.png#0\t  \n", r"line 1: an empty caption"),
        ("captions.txt", "file,text\n0.png,a\n", r"line 1 has no columns image,caption, and no tab"),
        ("captions.csv", "image,caption\n0.png,a dog, a cat\n", r"line 2: 3 columns, expected 2"),
        ("captions.txt", "", r"line 1 has no columns"),
        ("captions.csv", "image,caption\n", r"no captions, expected at least 1"),
        ("captions.json", "{", r"not JSON"),
        ("captions.json", "{}", r"no list 'images'"),
        ("captions.json", '{"images": [{}], "annotations": []}', r"images\[0\] has no id"),
        ("captions.json", '{"images": [], "annotations": [{"image_id": 1, "caption": "a"}]}', r"image_id 1, which"),
    ],
)
def test_files_that_are_no_captions(folder, tmp_path, name, text, message):
    (folder / "captions.txt").unlink()
    (folder / name).write_text(text)
    with pytest.raises(DataError, match=message):
        load(folder, tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("captions.json", "[" * 100_000, r"captions\.json: (nested more than 64 levels|not JSON)"),
        ("captions.json", '{"images": [{"id": 1e400}], "annotations": []}', "too large a number"),
        ("captions.json", '{"images": [{"id": NaN}], "annotations": []}', "NaN is not a JSON number"),
        ("captions.csv", "image,caption\n0.png," + "a" * 200_000, r"line 2: not CSV \(field larger than"),
        ("captions.csv", 'image,caption\n0.png,"' + "a\n" * 140_000, "not CSV"),
        ("captions.txt", "root:x:0:0\n", "line 1 has no columns"),
    ],
)
def test_captions_that_cannot_be_read_are_one_line(folder, tmp_path, name, text, message):
    """D8, D9: 100,000 brackets and a long field gave tracebacks, and errors quoted the file."""
    (folder / "captions.txt").unlink()
    (folder / name).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        load(folder, tmp_path)
    assert "\n" not in str(caught.value)
    assert "x:0" not in str(caught.value)


@pytest.mark.parametrize("way", ["absolute", "up", "link", "folder link", "long"])
@pytest.mark.parametrize("coco", [False, True])
def test_no_image_outside_the_folder_is_read(folder, tmp_path, way, coco):
    """D9: names in a caption file were followed out of the folder, and the error showed the file's first bytes."""
    secret = tmp_path / "outside" / "secret.png"
    secret.parent.mkdir()
    secret.write_bytes(b"root:x:0:0")
    (folder / "linked.png").symlink_to(secret)
    (folder / "images").symlink_to(secret.parent)
    names = {
        "absolute": str(secret), "up": f"../{secret.parent.name}/secret.png", "link": "linked.png",
        "folder link": "secret.png", "long": "a" * 5000,
    }  # fmt: skip
    if coco:
        (folder / "captions.txt").unlink()
        image, caption = {"id": 1, "file_name": names[way]}, {"image_id": 1, "caption": "a dog"}
        (folder / "captions.json").write_text(json.dumps({"images": [image], "annotations": [caption]}))
    else:
        (folder / "captions.txt").write_text(f"{names[way]}#0\ta dog\n")
    wrong = "cannot be a file name" if way == "long" else "leads out of"
    with pytest.raises(DataError, match=wrong) as caught:
        load(folder, tmp_path, skip_bad=True)
    assert "x:0" not in str(caught.value)


def test_a_folder_without_captions_says_what_was_looked_for(folder, tmp_path):
    (folder / "captions.txt").unlink()
    with pytest.raises(DataError, match=r"no captions \(captions\*\.txt.*there are: 0\.png"):
        load(folder, tmp_path)
    with pytest.raises(DataError, match="phrases is parallel text, expected images with captions: shapes"):
        load_captions("phrases", reading(tmp_path), lambda what, done, total: None)
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "nowhere", tmp_path)


def test_the_built_in_scenes(tmp_path, monkeypatch):
    monkeypatch.setattr(shapes, "COUNTS", {"train": 30, "val": 5, "unseen": 5})
    monkeypatch.setattr(shapes, "CHUNK", 20)
    found, again = load("shapes", tmp_path), load("shapes", tmp_path)
    assert {name: split.pixels.shape for name, split in found.splits.items()} == {
        "train": (30, 3, 16, 16), "val": (5, 3, 16, 16), "unseen": (5, 3, 16, 16),
    }  # fmt: skip
    assert found.contents == again.contents
    pixels, said = shapes.captions(20, size=16, seed=0)
    assert (found.splits["train"].pixels[:20] == pixels).all()
    assert [text for (text,) in found.splits["train"].captions[:20]] == said
