from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from headway.data.datasets import load_poses
from headway.errors import DataError


def silent(what, done, total):
    pass


def write(folder, *, people=3, name="train.json", **changes):
    """Grey pictures with a white pixel where the nose is."""
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
        ({"keypoints": [1, 1, 2]}, "train.json: person 1: ValueError"),
        ({"bbox": [0, 0, 0, 0]}, "person 1: bbox .* expected both above 0"),
        ({"bbox": [0, 0, 1e9, 5]}, r"the image has \(80, 60\) pixels"),
        ({"bbox": [0, 0, float("nan"), 5]}, "expected both above 0"),
        ({"image_id": 99}, "person 1: KeyError: 99"),
        ({"keypoints": [0] * 51}, "no person with a labelled keypoint"),
        ({"keypoints": None}, "not COCO's keypoints"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, changes, wrong):
    write(tmp_path, **changes)
    with pytest.raises(DataError, match=wrong):
        load_poses(tmp_path, 20, tmp_path, silent)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no train\.json with keypoints; there are: nothing"):
        load_poses(tmp_path, 20, tmp_path, silent)
    write(tmp_path)
    (tmp_path / "train" / "1.png").unlink()
    with pytest.raises(DataError, match=r"1\.png: no such image in"):
        load_poses(tmp_path, 20, tmp_path, silent)
    with pytest.raises(DataError, match="no such file, folder or built-in set; did you mean figures"):
        load_poses("figure", 20, tmp_path, silent)
