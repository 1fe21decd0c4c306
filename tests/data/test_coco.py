from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from headway.data.datasets import load_poses
from headway.errors import DataError

NAN = float("nan")


def silent(what, done, total):
    pass


def write(folder, *, people=3, name="train.json", **changes):
    """Grey pictures with a white pixel where the nose is."""
    folder.mkdir(exist_ok=True)
    images, annotations = [], []
    for n in range(people):
        pixels = np.full((60, 80, 3), 90, np.uint8)
        pixels[20 + n, 30] = 255
        (folder / "train").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / "train" / f"{n}.png")
        images.append({"id": n, "file_name": f"{n}.png"})
        points = [30, 20 + n, 2, *[0] * 48]
        annotations.append({"image_id": n, "keypoints": points, "bbox": [14, 4, 32, 32], "area": 500.0, **changes})
    tree = {"images": images, "annotations": annotations}
    (folder / name).write_text(json.dumps(tree))
    return tree


def test_people_are_cut_out_with_their_keypoints(tmp_path):
    write(tmp_path, name="person_keypoints_train2017.json")
    found = load_poses(tmp_path, 40, tmp_path, silent)
    assert {name: len(store) for name, store in found.splits.items()} == {"train": 2, "val": 1}
    train = found.splits["train"]
    assert train.pixels.shape == (2, 3, 40, 40)
    for n in range(2):
        x, y, seen = train.keypoints[n, 0]
        assert seen == 2
        assert train.pixels[n, 0, int(y), int(x)] == 255  # the square is as large as the picture: nothing is resized
        assert (train.keypoints[n, 1:] == 0).all()
    np.testing.assert_allclose(train.areas, 500)
    half = load_poses(tmp_path, 20, tmp_path, silent).splits["train"]
    np.testing.assert_allclose(half.areas, 125)
    np.testing.assert_allclose(half.keypoints[:, 0, :2], train.keypoints[:, 0, :2] / 2)


def test_crowds_and_the_unlabelled_are_left_out(tmp_path):
    tree = write(tmp_path, people=5)
    tree["annotations"][0]["iscrowd"] = 1
    tree["annotations"][1]["keypoints"] = [0] * 51
    (tmp_path / "train.json").write_text(json.dumps(tree))
    assert sum(map(len, load_poses(tmp_path, 20, tmp_path, silent).splits.values())) == 3


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"keypoints": [1, 1, 2]}, r"train.json: annotations\[0\]: keypoints: 3 entries, expected 51"),
        ({"keypoints": [NAN, 1, 2, *[0] * 48]}, r"annotations\[0\]: keypoints\[0\]=nan, expected a finite number"),
        ({"keypoints": [1, 1e300, 2, *[0] * 48]}, r"keypoints\[1\]=1e\+300, expected at most 1,000,000"),
        ({"keypoints": [[1], 1, 2, *[0] * 48]}, r"keypoints\[0\]=\[1\], expected a finite number"),
        ({"bbox": [0, 0, 0, 0]}, r"bbox=\[0.0, 0.0, 0.0, 0.0\], expected a width and a height of at least a pixel"),
        ({"bbox": [0, 0, 1e-300, 0]}, "expected a width and a height of at least a pixel"),
        ({"bbox": [0, 0, -5, -5]}, "expected a width and a height of at least a pixel"),
        ({"bbox": [0, 0, 1e5, 5]}, r"expected a box in the image, which has \(80, 60\) pixels"),
        ({"bbox": [0, 0, NAN, 5]}, r"bbox\[2\]=nan, expected a finite number"),
        ({"bbox": [NAN, 0, 5, 5]}, r"bbox\[0\]=nan, expected a finite number"),
        ({"bbox": [float("inf"), 0, 5, 5]}, r"bbox\[0\]=inf, expected a finite number"),
        ({"bbox": [1e30, 0, 5, 5]}, r"bbox\[0\]=1e\+30, expected at most 1,000,000"),
        ({"bbox": [1e12, 0, 5, 5]}, r"bbox\[0\]=1000000000000.0, expected at most 1,000,000"),
        ({"bbox": [5000, 0, 5, 5]}, "expected a box in the image"),
        ({"bbox": [1, 2, 3]}, "bbox: 3 entries, expected 4"),
        ({"area": float("inf")}, "area=inf, expected a finite number above 0"),
        ({"area": 1e299}, r"area=1e\+299, expected at most"),
        ({"area": 0}, "area=0, expected a finite number above 0"),
        ({"image_id": 99}, "image_id=99, expected the id of one of images"),
        ({"image_id": [1]}, r"image_id=\[1\], expected a whole number or a string"),
        ({"keypoints": [0] * 51}, "no person with a labelled keypoint"),
        ({"keypoints": None}, "keypoints=None, expected a list"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, changes, wrong):
    """D8: a box at NaN, infinity, 1e30 or 1e12 gave a traceback, NaN keypoints and an infinite area were accepted."""
    write(tmp_path, **changes)
    with pytest.raises(DataError, match=wrong) as caught:
        load_poses(tmp_path, 20, tmp_path, silent)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[" * 100_000, "train.json: (nested more than 64 levels deep|not JSON)"),
        ('{"images": ' * 100_000, "train.json: (nested more than 64 levels deep|not JSON)"),
        ("[]", "not COCO's keypoints: no list 'images'"),
        ('{"images": [3], "annotations": []}', r"images\[0\] is 3, expected an object"),
        ('{"images": [{"id": 1}], "annotations": []}', r"images\[0\]: file_name: missing"),
        ('{"images": [], "images": [], "annotations": []}', "duplicate key 'images'"),
        ("\ufeff{", "not JSON"),
        ("\xff", "not JSON"),
    ],
)
def test_a_file_that_is_no_coco_is_one_line(tmp_path, text, wrong):
    """D8: 100,000 brackets gave a traceback."""
    (tmp_path / "train.json").write_text(text)
    with pytest.raises(DataError, match=wrong) as caught:
        load_poses(tmp_path, 20, tmp_path, silent)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", ["absolute", "up", "up inside", "link", "folder link", "NUL", "long"])
def test_no_image_outside_the_folder_is_read(tmp_path, way):
    """D9: absolute names, .. and links were followed, and the error showed the first bytes of the file."""
    tree = write(tmp_path / "data", people=2)
    secret = tmp_path / "outside" / "secret.png"
    secret.parent.mkdir()
    secret.write_bytes(b"root:x:0:0")
    (tmp_path / "data" / "linked.png").symlink_to(secret)
    (tmp_path / "data" / "folder").symlink_to(secret.parent)
    names = {
        "absolute": str(secret), "up": "../outside/secret.png", "up inside": "train/../train/0.png",
        "link": "linked.png", "folder link": "folder/secret.png", "NUL": "a\0b.png", "long": "a" * 5000,
    }  # fmt: skip
    tree["images"][0]["file_name"] = names[way]
    (tmp_path / "data" / "train.json").write_text(json.dumps(tree))
    wrong = "cannot be a file name" if way in ("NUL", "long") else "leads out of"
    with pytest.raises(DataError, match=rf"train.json: annotations\[0\]: .*{wrong}") as caught:
        load_poses(tmp_path / "data", 20, tmp_path, silent)
    assert "x:0" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no train\.json with keypoints; there are: nothing"):
        load_poses(tmp_path, 20, tmp_path, silent)
    write(tmp_path)
    (tmp_path / "train" / "1.png").unlink()
    with pytest.raises(DataError, match=r"train\.json: annotations\[1\]: '1\.png': no such image in"):
        load_poses(tmp_path, 20, tmp_path, silent)
    with pytest.raises(DataError, match="no such file, folder or built-in set; did you mean figures"):
        load_poses("figure", 20, tmp_path, silent)
