from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from headway.data.boxes import BoxReading
from headway.data.coco_boxes import box_files
from headway.data.datasets import load_boxes
from headway.errors import DataError

NAN = float("nan")
CATEGORIES = [{"id": 7, "name": "cat"}, {"id": 3, "name": "dog"}]


def silent(what, done, total):
    pass


def reading(folder, **more):
    return BoxReading(size=40, cache=folder / "cache", **more)


def write(folder, *, images=3, name="train.json", **changes):
    """Grey pictures of 80 x 60 pixels with a cat each, and a tree of annotations."""
    folder.mkdir(exist_ok=True)
    entries, annotations = [], []
    for n in range(images):
        pixels = np.full((60, 80, 3), 90 + n, np.uint8)
        (folder / "images").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / "images" / f"{n}.png")
        entries.append({"id": n, "file_name": f"{n}.png"})
        annotations.append({"image_id": n, "category_id": 7, "bbox": [10, 20, 30, 10], "area": 250.0, **changes})
    tree = {"images": entries, "annotations": annotations, "categories": [dict(each) for each in CATEGORIES]}
    (folder / name).write_text(json.dumps(tree))
    return tree


def save(folder, tree):
    (folder / "train.json").write_text(json.dumps(tree))


def test_images_are_fitted_and_boxes_stay_in_pixels_of_the_original(tmp_path):
    write(tmp_path, name="instances_train2017.json")
    found = load_boxes(tmp_path, reading(tmp_path), silent)
    assert found.classes == ("cat", "dog")
    assert {name: len(store) for name, store in found.splits.items()} == {"train": 2, "val": 1}
    train = found.splits["train"]
    assert train.pixels.shape == (2, 3, 40, 40)
    assert (train.pixels[:, :, 31:] == 128).all()
    assert train.scales.tolist() == [0.5, 0.5]
    assert train.boxes.tolist() == [[10, 20, 30, 10]] * 2
    assert train.areas.tolist() == [250.0] * 2
    np.testing.assert_allclose(train.targets(2)[0], [[0.3125, 0.3125, 0.375, 0.125, 0], [0, 0, 0, 0, -1]])
    again = load_boxes(tmp_path, reading(tmp_path), silent)
    assert again.contents == found.contents


def test_an_image_without_objects_and_a_crowd(tmp_path):
    tree = write(tmp_path, images=4)
    tree["annotations"][1] = {**tree["annotations"][0], "category_id": 3, "iscrowd": 1}
    del tree["annotations"][1]["area"]
    (tmp_path / "val.json").write_text(json.dumps(tree))
    val = load_boxes(tmp_path, reading(tmp_path), silent).splits["val"]
    assert np.diff(val.starts).tolist() == [2, 0, 1, 1]
    assert val.crowds.tolist() == [0, 1, 0, 0]
    assert val.classes.tolist() == [0, 1, 0, 0]
    assert val.areas.tolist() == [250, 300, 250, 250]
    assert (val.objects, val.most) == (3, 1)
    assert (val.targets(1)[1, :, 4] == -1).all()


def test_a_finished_runs_classes_are_kept(tmp_path):
    write(tmp_path)
    found = load_boxes(tmp_path, reading(tmp_path, classes=("bird", "dog", "cat"), to_train=False), silent)
    assert list(found.splits) == ["train"]
    assert found.splits["train"].classes.tolist() == [2, 2, 2]
    with pytest.raises(DataError, match=r"categories\[0\]: name='cat', expected one of bird, dog"):
        load_boxes(tmp_path, reading(tmp_path, classes=("bird", "dog")), silent)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"bbox": [60, 20, 30, 10]}, r"\[0\]: bbox=\[60.0, 20.0, 30.0, 10.0\], expected a box inside its image"),
        ({"bbox": [-3, 20, 30, 10]}, "expected a box inside its image of 80 × 60 pixels"),
        ({"bbox": [10, 55, 30, 10]}, "expected a box inside its image of 80 × 60 pixels"),
        ({"bbox": [80.5, 1, 0.4, 1]}, "expected a box inside its image of 80 × 60 pixels"),
        ({"bbox": [10, 20, 0, 10]}, "expected a width and a height above 0"),
        ({"bbox": [10, 20, 5, -1]}, "expected a width and a height above 0"),
        ({"bbox": [NAN, 20, 5, 5]}, r"bbox\[0\]=nan, expected a finite number"),
        ({"bbox": [1e12, 20, 5, 5]}, r"bbox\[0\]=1000000000000.0, expected at most 1,000,000"),
        ({"bbox": [1, 2, 3]}, "bbox: 3 entries, expected 4"),
        ({"bbox": "all"}, "bbox='all', expected a list"),
        ({"category_id": 99}, "category_id=99, expected the id of one of categories"),
        ({"category_id": None}, "category_id=None, expected a whole number or a string"),
        ({"image_id": 99}, "image_id=99, expected the id of one of images"),
        ({"iscrowd": 2}, "iscrowd=2, expected a whole number from 0 to 1"),
        ({"area": 0}, "area=0, expected a finite number above 0"),
        ({"iscrowd": 1}, "no object that is not a crowd, expected at least 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, changes, wrong):
    write(tmp_path, **changes)
    with pytest.raises(DataError, match=wrong) as caught:
        load_boxes(tmp_path, reading(tmp_path), silent)
    assert "\n" not in str(caught.value)
    assert "train.json" in str(caught.value)


def test_a_box_that_stands_out_by_rounding_is_cut(tmp_path):
    write(tmp_path, bbox=[-0.5, 20, 81.0, 40.7])
    train = load_boxes(tmp_path, reading(tmp_path), silent).splits["train"]
    np.testing.assert_allclose(train.boxes[0], [0, 20, 80, 40])


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda tree: tree.pop("categories"), "not COCO's instances: no list 'categories'"),
        (lambda tree: tree["categories"].clear(), "no categories, expected at least 1"),
        (lambda tree: tree["images"].clear(), "no images, expected at least 1"),
        (lambda tree: tree["categories"].append({"id": 7, "name": "x"}), "id=7, expected an id that no other category"),
        (lambda tree: tree["categories"].append({"id": 8, "name": "cat"}), "name='cat', expected a name that no other"),
        (lambda tree: tree["images"].append(tree["images"][0]), "id=0, expected an id that no other image has"),
        (lambda tree: tree["images"][0].update(file_name="9.png"), r"images\[0\]: '9\.png': no such image in"),
        (lambda tree: tree["images"][0].update(file_name="../9.png"), "leads out of"),
        (lambda tree: tree["images"].__setitem__(0, 3), r"images\[0\] is 3, expected an object"),
    ],
)
def test_a_tree_that_is_wrong_is_named(tmp_path, change, wrong):
    tree = write(tmp_path)
    change(tree)
    save(tmp_path, tree)
    with pytest.raises(DataError, match=wrong) as caught:
        load_boxes(tmp_path, reading(tmp_path), silent)
    assert "\n" not in str(caught.value)


def test_what_is_missing_or_damaged_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no train\.json with COCO's instances; there are: nothing"):
        load_boxes(tmp_path, reading(tmp_path), silent)
    write(tmp_path, images=1)
    with pytest.raises(DataError, match="1 image, expected at least 2"):
        load_boxes(tmp_path, reading(tmp_path), silent)
    write(tmp_path)
    (tmp_path / "images" / "1.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"1\.png: not a readable image"):
        load_boxes(tmp_path, reading(tmp_path), silent)
    assert [each for each in (tmp_path / "cache").glob("*") if "draft" in each.name] == []
    with pytest.raises(DataError, match="pydocs is plain text, expected objects with boxes: shapes, figures or a path"):
        load_boxes("pydocs", reading(tmp_path), silent)


def test_a_file_with_boxes_is_recognised(tmp_path):
    write(tmp_path)
    assert box_files(tmp_path) == {"train": tmp_path / "train.json"}
    (tmp_path / "train.json").write_text('{"annotations": [{"keypoints": [], "bbox": []}]}')
    assert box_files(tmp_path) == {}
