"""Images from files of every kind, and one line for each thing that can be wrong with them."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headway.data import image_decoding
from headway.data.image_decoding import EncodedImage, decode, decode_each
from headway.data.images import ImageReading, ImageStore, class_subset, held_out, load_images
from headway.errors import DataError
from headway.limits import raised

parquet = pytest.importorskip("pyarrow.parquet")
arrow = pytest.importorskip("pyarrow")


def png(seed: int = 0, size: tuple[int, int] = (12, 10), **more) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return encoded(Image.fromarray(pixels), **more)


def encoded(image: Image.Image, kind: str = "PNG", **more) -> bytes:
    file = BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


def folder(path: Path, *, classes=("cat", "dog"), each=5, splits=("",)) -> Path:
    seed = 0
    for split in splits:
        for name in classes:
            (path / split / name).mkdir(parents=True)
            for n in range(each):
                seed += 1
                (path / split / name / f"{n}.png").write_bytes(png(seed))
    return path


@pytest.fixture
def read(tmp_path):
    def reading(path, size=8, progress=lambda what, done, total: None, **more):
        return load_images(path, ImageReading(size=size, cache=tmp_path / "cache", **more), progress)

    return reading


def decoded(data: bytes, size: int = 4):
    return decode(EncodedImage("x", 0, data), size)


# --- one picture ---------------------------------------------------------------------------------------------------


def test_a_picture_of_the_size_keeps_its_pixels():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)
    assert np.array_equal(decoded(encoded(Image.fromarray(pixels)), 9), pixels.transpose(2, 0, 1))


def test_the_shorter_side_is_resized_and_the_centre_cut_out():
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = (200, 100, 50)
    assert decoded(encoded(Image.fromarray(pixels)), 10).reshape(3, -1).std(1).max() == 0
    whole = Image.fromarray(np.random.default_rng(1).integers(0, 256, (20, 40, 3), np.uint8))
    shorter = whole.resize((20, 10), Image.Resampling.BICUBIC)
    expected = np.asarray(shorter.crop((5, 0, 15, 10))).transpose(2, 0, 1)
    assert np.abs(decoded(encoded(whole), 10).astype(int) - expected).max() <= 1


def test_a_long_thin_picture_needs_no_more_memory_than_it_has():
    assert decoded(encoded(Image.new("L", (60_000, 1), 7)), 64).shape == (3, 64, 64)


@pytest.mark.parametrize(
    ("image", "colour"),
    [
        (Image.new("L", (5, 5), 90), (90, 90, 90)),
        (Image.new("1", (5, 5), 1), (255, 255, 255)),
        (Image.new("RGBA", (5, 5), (10, 20, 30, 0)), (255, 255, 255)),
        (Image.new("RGBA", (5, 5), (10, 20, 30, 255)), (10, 20, 30)),
        (Image.new("LA", (5, 5), (60, 255)), (60, 60, 60)),
        (Image.new("RGB", (5, 5), (10, 20, 30)).convert("P"), (10, 20, 30)),
        (Image.fromarray(np.full((5, 5), 257 * 80, np.uint16)), (80, 80, 80)),
    ],
)
def test_every_mode_becomes_three_colours(image, colour):
    found = decoded(encoded(image)).reshape(3, -1)
    assert np.abs(found.astype(int) - np.array(colour)[:, None]).max() <= 26 * (image.mode == "P")


def test_cmyk_and_a_transparent_palette_and_a_moving_picture():
    cmyk = decoded(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95)).reshape(3, -1).mean(1)
    assert cmyk[0] > 220
    assert cmyk[1:].max() < 40
    clear = decoded(encoded(Image.new("P", (5, 5), 0), transparency=0))
    assert clear.min() == 255
    frames = [Image.new("RGB", (5, 5), colour) for colour in ("red", "blue")]
    first = decoded(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])).reshape(3, -1).mean(1)
    assert first[0] > 200 > 50 > first[2]


def test_a_picture_lies_as_exif_says():
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:4] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90°
    found = decoded(encoded(Image.fromarray(pixels), exif=exif), 8)[0]
    assert found[:, 4:].min() == 255
    assert found[:, :4].max() == 0


def bomb() -> bytes:
    """A PNG whose header claims more pixels than are allowed; there is next to nothing behind it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 10_001, 10_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


BAD = {
    "cut short": (png()[:-60], "not a readable image"),
    "a text": (b"hello there", "not a readable image (none of PNG"),
    "empty": (b"", "an empty file, expected an image"),
    "a bomb": (bomb(), "10,001 × 10,000: 100,010,000 pixels, allowed: up to 100,000,000 (--limit pixels=N"),
    "floats": (encoded(Image.new("F", (5, 5)), "TIFF"), "32-bit floats, allowed: 8 or 16 bits"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_picture_is_named(name):
    data, wrong = BAD[name]
    with pytest.raises(DataError) as error:
        decoded(data)
    assert str(error.value).startswith("x: ")
    assert wrong in str(error.value)


# --- sets ----------------------------------------------------------------------------------------------------------


def test_a_folder_for_each_class(tmp_path, read):
    images = read(folder(tmp_path / "pets", each=20))
    assert images.classes == ("cat", "dog")
    assert {name: len(store) for name, store in images.splits.items()} == {"train": 36, "val": 4}
    assert images.splits["val"].labels.tolist() == [0, 0, 1, 1]
    assert images.splits["train"].pixels.shape == (36, 3, 8, 8)
    own = {store.pixels[n].tobytes() for store in images.splits.values() for n in range(len(store))}
    assert len(own) == 40


def test_splits_as_folders(tmp_path, read):
    path = folder(tmp_path / "pets", splits=("train", "valid", "test"))
    assert set(read(path).splits) == {"train", "val", "test"}
    (path / "test" / "cow").mkdir()
    (path / "test" / "cow" / "a.png").write_bytes(png())
    with pytest.raises(DataError, match=r"test/cow: unknown class; classes: cat, dog"):
        read(path)


def test_another_split_may_validate(tmp_path, read):
    path = folder(tmp_path / "pets", splits=("train", "test"))
    images = read(path, val="test")
    assert len(images.splits["train"]) == 10
    assert np.array_equal(images.splits["val"].pixels, images.splits["test"].pixels)
    with pytest.raises(DataError, match=r"data.val='exam', splits: train, test"):
        read(path, val="exam")


def test_the_tenth_is_found_by_content_alone():
    digests = [bytes([n]) for n in (5, 1, 4, 2, 3, 9, 8, 7, 6, 0)]
    labels = np.zeros(10, np.int64)
    assert np.flatnonzero(held_out(digests, labels)).tolist() == [9]
    assert np.flatnonzero(held_out(digests[::-1], labels)).tolist() == [0]
    copies = [b"a", b"a", b"b", b"c"]
    assert held_out(copies, labels[:4]).tolist() == [True, True, False, False]
    assert held_out([b"a", b"a"], labels[:2]).sum() == 1  # one is left to train on
    assert held_out(digests, np.arange(10) % 2).sum() == 2


def test_images_are_decoded_once(tmp_path, read, monkeypatch):
    path = folder(tmp_path / "pets")
    seen = []
    first = read(path, progress=lambda what, done, total: seen.append((what, done, total)))
    assert ("reading train", 10, 10) in seen
    assert ("decoding val", 2, 2) in seen
    monkeypatch.setattr("headway.data.images.decode_each", None)
    again = read(path)
    assert np.array_equal(first.splits["train"].pixels, again.splits["train"].pixels)
    assert first.contents == again.contents
    with pytest.raises(TypeError):
        read(path, size=9)  # another size is another store
    moved = path.rename(tmp_path / "elsewhere")
    assert read(moved).contents == first.contents


def rows(path: Path, labels, images=None, **more) -> Path:
    path.parent.mkdir(exist_ok=True)
    images = [{"bytes": png(n), "path": None} for n in range(len(labels))] if images is None else images
    parquet.write_table(arrow.table({"img": images, "label": labels}), path, **more)
    return path


def test_parquet(tmp_path, read):
    rows(tmp_path / "set" / "train.parquet", [0, 1, 2] * 4)
    rows(tmp_path / "set" / "test.parquet", [2, 1, 0])
    images = read(tmp_path / "set")
    assert images.classes == ("0", "1", "2")
    assert images.splits["test"].labels.tolist() == [2, 1, 0]
    assert np.array_equal(images.splits["test"].pixels[1], decoded(png(1), 8))
    (tmp_path / "set" / "classes.txt").write_text("ant\nbee\ncat\n")
    assert read(tmp_path / "set").classes == ("ant", "bee", "cat")
    assert read(tmp_path / "set", classes=("x", "y", "z")).classes == ("x", "y", "z")
    named = rows(tmp_path / "set" / "words.parquet", ["b", "a"] * 4, [png(n) for n in range(8)])
    assert read(named).classes == ("a", "b")


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [
        ([0, 1, 5, 0, 1, 5], r"3 classes without names, one of them 5; expected 0 to 2"),
        ([0, 1, -1, 0, 1, -1], r"3 classes without names, one of them -1; expected 0 to 2"),
        ([0, 0, 0], r"1 class \(0\), expected at least 2"),
        ([0, 0, 1], r"class '1' has 1 image in train, expected at least 2"),
        ([0, None, 1], r"row 2: label None, expected a whole number from 0"),
        ([0.5, 1.0], r"row 1: label 0.5, expected a whole number from 0"),
    ],
)
def test_labels_out_of_range(tmp_path, read, labels, wrong):
    with pytest.raises(DataError, match=wrong):
        read(rows(tmp_path / "set.parquet", labels))


def test_files_that_are_not_parquet_are_refused(tmp_path, read):
    path = tmp_path / "set.parquet"
    path.write_bytes(b"PAR1 or not")
    with pytest.raises(DataError, match=r"set.parquet: not a readable parquet file"):
        read(path)
    parquet.write_table(arrow.table({"pixels": [1], "label": [0]}), path)
    with pytest.raises(DataError, match=r"no column with the image \(image, img, picture\); there are: pixels, label"):
        read(path)
    rows(path, [0, 1], [{"bytes": None, "path": "a.png"}] * 2)
    with pytest.raises(DataError, match=r"row 1: the image is a NoneType, expected the bytes of a file"):
        read(path)
    rows(path, [0, 0, 1, 1])
    with pytest.raises(DataError, match=r"row 3: label 1, allowed: 0 to 0"):
        read(path, classes=("one",))


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def digits(path: Path) -> Path:
    path.mkdir()
    random = np.random.default_rng(0)
    for name, count in (("train", 20), ("t10k", 6)):
        pixels = random.integers(0, 256, (count, 8, 8), np.uint8)
        (path / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pixels)))
        (path / f"{name}-labels-idx1-ubyte").write_bytes(idx((np.arange(count) % 2).astype(np.uint8)))
    return path


def test_idx_zipped_or_not(tmp_path, read):
    path = digits(tmp_path / "digits")
    images = read(path)
    assert {name: len(store) for name, store in images.splits.items()} == {"train": 18, "val": 2, "test": 6}
    grey = images.splits["test"].pixels[0]
    assert np.array_equal(grey[0], grey[2])


@pytest.mark.parametrize(
    ("file", "data", "wrong"),
    [
        ("t10k-labels-idx1-ubyte", idx(np.zeros(5, np.uint8)), r"6 images, t10k-labels-idx1-ubyte has 5 labels"),
        ("train-labels-idx1-ubyte", b"<html>", r"train-labels-idx1-ubyte: not an IDX file"),
        ("train-labels-idx1-ubyte", idx(np.zeros((2, 2), np.uint8)), r"in 2 dimensions, expected unsigned bytes"),
        ("train-labels-idx1-ubyte", idx(np.zeros(20, np.uint8))[:-3], r"need 20 bytes, there are 17"),
        ("t10k-images-idx3-ubyte.gz", b"\x1f\x8b broken", r"t10k-images-idx3-ubyte.gz: a truncated or damaged gzip"),
    ],
)
def test_files_that_are_not_idx_are_refused(tmp_path, read, file, data, wrong):
    path = digits(tmp_path / "digits")
    (path / file).write_bytes(data)
    with pytest.raises(DataError, match=wrong):
        read(path)


def test_idx_of_no_pixels_is_refused(tmp_path, read):
    """Images of 0 × 0 pixels were trained on."""
    path = digits(tmp_path / "digits")
    for shape in ((20, 0, 0), (20, 8, 0)):
        (path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(shape, np.uint8))))
        with pytest.raises(DataError, match="expected images of at least 1 × 1 pixel"):
            read(path)
    (path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros((1, 11, 10), np.uint8))))
    with raised({"pixels": 100}), pytest.raises(DataError, match="an image: 110 pixels, allowed: up to 100"):
        read(path)


@pytest.mark.parametrize("link", ["file", "class folder", "split"])
def test_class_folders_follow_no_link_out(tmp_path, read, link):
    """D9: a link in a class folder was followed to any file of the machine."""
    path = folder(tmp_path / "pets", splits=("train", "test"))
    elsewhere = folder(tmp_path / "elsewhere")
    if link == "file":
        (path / "train" / "cat" / "zero.png").symlink_to(path / "train" / "cat" / "0.png")
        assert len(read(path).splits["test"])  # a link inside the folder is followed
        (path / "train" / "cat" / "more.png").symlink_to(elsewhere / "cat" / "0.png")
    elif link == "class folder":
        shutil.rmtree(path / "train" / "cat")
        (path / "train" / "cat").symlink_to(elsewhere / "cat")
    else:
        shutil.rmtree(path / "test")
        (path / "test").symlink_to(elsewhere)
    with pytest.raises(DataError, match=r"leads out of .*pets, expected a file inside it"):
        read(path)
    (tmp_path / "link").symlink_to(elsewhere)
    assert len(read(tmp_path / "link").splits["train"])  # the data folder itself may be a link


def test_class_names_are_unicode_and_short_in_errors(tmp_path, read):
    os.makedirs(os.fsencode(tmp_path / "pets") + b"/\xff")
    with pytest.raises(DataError, match=r"the folder name '\\udcff' is not UTF-8"):
        read(tmp_path / "pets")
    for n in range(50):
        (tmp_path / "many" / "test" / f"\x1b]0;{n}\x07").mkdir(parents=True)
    folder(tmp_path / "many", splits=("train",))
    with pytest.raises(
        DataError, match=r"no folder has the name of a class; folders: .* and 30 more; classes: cat, dog"
    ):
        read(tmp_path / "many")


def test_errors_quote_nothing_of_the_file():
    """D9: an error showed the first bytes of a file."""
    with pytest.raises(DataError) as caught:
        decoded(b"root:x:0:0:root:/root:/bin/bash")
    assert "root" not in str(caught.value)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "I", "1", "CMYK"])
def test_a_large_picture_is_converted_in_bands(mode, monkeypatch):
    values = np.random.default_rng(0).integers(0, 256, (40, 30, 4), np.uint8)
    image = Image.fromarray(values).convert("RGBA" if mode == "RGBA" else "L")
    image = image if mode in ("RGBA", "I;16") else image.convert(mode)
    if mode == "I;16":
        image = Image.fromarray(values[..., 0].astype(np.uint16) * 257)
    data = encoded(image, "TIFF")
    whole = decoded(data, 30)
    monkeypatch.setattr(image_decoding, "BAND", 200)
    assert np.array_equal(decoded(data, 30), whole)


def test_large_pictures_are_decoded_one_at_a_time_and_in_order(monkeypatch):
    pictures = [EncodedImage(f"{n}", n, png(n, (30, 20) if n % 3 else (8, 8))) for n in range(10)]
    pictures[4] = EncodedImage("4", 4, png(4, (30, 20))[:200])
    expected = [found for _, found in decode_each(pictures, 8)]
    monkeypatch.setattr(image_decoding, "LARGE", 100)
    again = list(decode_each(pictures, 8))
    assert [picture.label for picture, _ in again] == list(range(10))
    assert str(expected[4]) == str(again[4][1])
    assert all(np.array_equal(a, b) for n, (a, (_, b)) in enumerate(zip(expected, again, strict=True)) if n != 4)


def test_bad_files_are_counted_or_left_out(tmp_path, read):
    path = folder(tmp_path / "pets", each=10)
    for n, (data, _) in enumerate(BAD.values()):
        (path / "cat" / f"bad-{n}.png").write_bytes(data)
    with pytest.raises(DataError, match=r"bad-\d.png: .*; 5 of 25 are bad; pass --data.skip_bad true to skip them"):
        read(path)
    images = read(path, skip_bad=True)
    assert [Path(each.partition(": ")[0]).name for each in images.left_out] == [f"bad-{n}.png" for n in range(5)]
    assert not images.unread
    (path / "cat" / "phone.HEIC").write_bytes(b"ftypheic")
    assert read(path, skip_bad=True).unread == "1 image in a format that is not read (.heic)"
    assert sum(map(len, images.splits.values())) == 20
    with pytest.raises(DataError, match="5 of 25 are bad"):  # a store that is there remembers
        read(path)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda path: path.mkdir(), r"no class folders with images, parquet, IDX or CIFAR files; there are: nothing"),
        (lambda path: None, r"no such file or folder"),
        (lambda path: path.write_text("x"), r"images are a folder, or a file that ends with .parquet"),
        (lambda path: folder(path, each=0), r"cat: no image \(.png, .*\), expected at least 1; there are: nothing"),
        (lambda path: folder(path, classes=("cat",)), r"1 class \(cat\), expected at least 2"),
        (lambda path: folder(path, each=1), r"class 'cat' has 1 image in train, expected at least 2"),
        (lambda path: folder(path, splits=("test",)), r"test: no image|unknown class|1 class|no image"),
    ],
)
def test_folders_that_are_no_set(tmp_path, read, make, wrong):
    make(tmp_path / "set")
    with pytest.raises(DataError, match=wrong):
        read(tmp_path / "set")


def test_a_share_is_of_each_class_and_part_of_a_larger_share():
    labels = np.repeat([0, 1, 2], [100, 50, 3])
    pixels = np.arange(len(labels), dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 1, 1), np.uint8)
    found = [class_subset(ImageStore(pixels, labels), share) for share in (0.1, 0.5, 1.0)]
    assert [np.bincount(each.labels).tolist() for each in found] == [[10, 5, 1], [50, 25, 2], [100, 50, 3]]
    seen = [set(each.pixels[:, 0, 0, 0].tolist()) for each in found]
    assert seen[0] < seen[1] < seen[2]
    assert np.array_equal(found[0].labels, labels[sorted(seen[0])])
