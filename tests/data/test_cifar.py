"""CIFAR's binary form: the same pixels and classes as written, and one line for a file of another size."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from headway.data.image_survey import survey_images
from headway.data.images import ImageReading, load_images
from headway.errors import DataError
from tools.cifar_sheets import binary_records, write_binary


def records(count: int, seed: int, labels: int = 1) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Classes (N,), pixels (N, 3, 32, 32), and the file that holds them; a second label byte is a coarse class."""
    random = np.random.default_rng(seed)
    classes = np.arange(count, dtype=np.uint8) % 2
    pixels = random.integers(0, 256, (count, 3, 32, 32), np.uint8)
    coarse = [np.full((count, labels - 1), 7, np.uint8)] if labels > 1 else []
    return classes, pixels, np.concatenate([*coarse, classes[:, None], pixels.reshape(count, -1)], 1).tobytes()


def ten(path: Path) -> tuple[np.ndarray, np.ndarray]:
    path.mkdir()
    for n in (1, 2):
        (path / f"data_batch_{n}.bin").write_bytes(records(10, n)[2])
    classes, pixels, data = records(6, 3)
    (path / "test_batch.bin.gz").write_bytes(gzip.compress(data))
    (path / "batches.meta.txt").write_text("airplane\nautomobile\n\n")
    return classes, pixels


@pytest.fixture
def read(tmp_path):
    return lambda path: load_images(path, ImageReading(size=32, cache=tmp_path / "cache"))


def test_pixels_and_classes_are_those_of_the_file(tmp_path, read):
    classes, pixels = ten(tmp_path / "ten")
    images = read(tmp_path / "ten")
    assert images.classes == ("airplane", "automobile")
    assert {name: len(store) for name, store in images.splits.items()} == {"train": 18, "val": 2, "test": 6}
    assert np.array_equal(images.splits["test"].labels, classes)
    assert np.array_equal(images.splits["test"].pixels, pixels)


def test_cifar_100_has_the_fine_classes(tmp_path, read):
    folder = tmp_path / "hundred"
    folder.mkdir()
    (folder / "train.bin").write_bytes(records(20, 1, labels=2)[2])
    classes, pixels, data = records(4, 2, labels=2)
    (folder / "test.bin").write_bytes(data)
    (folder / "fine_label_names.txt").write_text("apple\nbear\n")
    (folder / "coarse_label_names.txt").write_text("fruit\n")
    images = read(folder)
    assert images.classes == ("apple", "bear")
    assert np.array_equal(images.splits["test"].labels, classes)
    assert np.array_equal(images.splits["test"].pixels, pixels)


def test_a_file_of_another_size_is_refused(tmp_path, read):
    ten(tmp_path / "ten")
    (tmp_path / "ten" / "data_batch_2.bin").write_bytes(bytes(3073 * 2 + 5))
    with pytest.raises(DataError, match=r"data_batch_2.bin: 6,151 bytes, expected records of 3,073 bytes"):
        read(tmp_path / "ten")


def test_a_label_beyond_the_classes_is_refused(tmp_path, read):
    ten(tmp_path / "ten")
    (tmp_path / "ten" / "test_batch.bin.gz").write_bytes(gzip.compress(bytes([9]) + bytes(3072)))
    with pytest.raises(DataError, match=r"test_batch.bin.gz: image 1: label 9, allowed: 0 to 1"):
        read(tmp_path / "ten")


def test_training_without_a_preset_recognises_it(tmp_path):
    ten(tmp_path / "ten")
    found = survey_images(tmp_path / "ten")
    assert found is not None
    assert (found.sign, found.count, found.side) == ("the CIFAR file data_batch_1.bin", 20, 32)
    (tmp_path / "bins").mkdir()
    (tmp_path / "bins" / "train.bin").write_bytes(bytes(3074))  # nanoGPT's tokens have this name
    assert survey_images(tmp_path / "bins") is None


def test_sheets_become_the_binary_form(tmp_path):
    """Each row of a sheet is one image, pixel by pixel; the class names are CIFAR-10's."""
    classes, pixels, data = records(5, 4)
    sheet = pixels.reshape(5, 3, 1024).transpose(0, 2, 1)
    assert binary_records(sheet, classes.tolist()).tobytes() == data
    parts = {"data_batch_1": (sheet, classes.tolist()), "test_batch": (sheet, classes.tolist())}
    write_binary(tmp_path / "made", parts)
    assert (tmp_path / "made" / "data_batch_1.bin").read_bytes() == data
    assert (tmp_path / "made" / "batches.meta.txt").read_text().split()[:2] == ["airplane", "automobile"]
    with pytest.raises(SystemExit, match="5 images and 4 labels"):
        binary_records(sheet, classes.tolist()[:4])
