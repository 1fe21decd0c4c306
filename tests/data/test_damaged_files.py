"""Every reader of data meets files that were changed at random: it reads them, or refuses them in one line."""

from __future__ import annotations

import gzip
import json
import random
import re
import struct
import warnings
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from headway.data.config import DataConfig
from headway.data.datasets import load_captions, load_images, load_parallel, load_poses, load_text
from headway.data.images import ImageReading
from headway.data.labelled_text import load_labelled_texts
from headway.data.spectrograms import Spectrogram
from headway.data.tokenizers import Bpe, ByteBpe, Characters, Tokenizer, Unigram, Word
from headway.errors import DataError
from tests.data.test_vocabularies import LINES

COUNT = 20  # files of each kind; thousands were tried when the readers were written
SOUND = Spectrogram(rate=8000, seconds=0.05, window=128)
NUMBERS = (b"NaN", b"1e400", b"-1", b"9" * 30, b"Infinity", b"1e30", b"null", b'"x"', b"[]", b"{}", b"true")
PIECES = (b"[" * 70, b"{", b'"', b"\n", b"\t", b"\0", b"\xff", b"\xed\xa0\x80", b"../", b"/", b"\x1b]0;x\x07", b",")


def damaged(data: bytes, drawn: random.Random) -> bytes:
    """The content with one to three changes: bits, bytes, sizes, numbers, parts missing, repeated or inserted."""
    found = bytearray(data)
    for _ in range(drawn.choice((1, 1, 1, 2, 3))):
        at = drawn.randrange(len(found) or 1)
        way = drawn.randrange(7)
        numbers = list(re.finditer(rb"-?\d+(\.\d+)?", bytes(found)))
        if way == 0 and found:
            found[at] ^= 1 << drawn.randrange(8)
        elif way == 1:
            del found[at:]
        elif way == 2:
            del found[at : at + drawn.randrange(1, 40)]
        elif way == 3:
            found[at:at] = found[at : at + drawn.randrange(1, 200)] * drawn.choice((1, 50))
        elif way == 4:
            found[at : at + 4] = drawn.choice(
                (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f")
            )
        elif way == 5 and numbers:
            number = drawn.choice(numbers)
            found[number.start() : number.end()] = drawn.choice(NUMBERS)
        else:
            found[at:at] = drawn.choice(PIECES)
    return bytes(found)


def picture(kind: str = "PNG") -> bytes:
    file = BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)).save(file, kind)
    return file.getvalue()


def sound(kind: int, bits: int, channels: int) -> bytes:
    waves = np.random.default_rng(0).standard_normal(200 * channels)
    body = waves.astype(f"<f{bits // 8}").tobytes() if kind == 3 else waves.tobytes()[: 25 * bits * channels]
    head = struct.pack("<HHIIHH", kind, channels, 8000, 1000 * channels * bits, channels * bits // 8, bits)
    chunks = b"fmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def table(**columns: list) -> bytes:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = BytesIO()
    parquet.write_table(arrow.table(columns), file)
    return file.getvalue()


def silent(what, done, total):
    pass


def read_text(folder, data, name="x.txt"):
    (folder / name).write_bytes(data)
    for chunk in load_text(folder / name).chunks("train"):
        assert chunk


def read_table(folder, data, name="x.tsv"):
    (folder / name).write_bytes(data)
    text = load_parallel(folder / name, "en", "de")
    assert text.count("train") + text.count("val") >= 2


def read_labelled(folder, data):
    (folder / "x.tsv").write_bytes(data)
    config = DataConfig(spec=str(folder / "x.tsv"), tokenizer=Word(), cache=str(folder / "cache"))
    load_labelled_texts(config, None, room=50)


def read_images(folder, data, name="x.png", **more):
    for kind in "ab":
        (folder / "set" / kind).mkdir(parents=True)
        for n in range(2):
            (folder / "set" / kind / f"{n}.png").write_bytes(picture())
            (folder / "set" / kind / f"{n}.wav").write_bytes(sound(1, 16, 1))
    (folder / "set" / "a" / name).write_bytes(data)
    load_images(folder / "set", ImageReading(size=8, cache=folder / "cache", **more), silent)


def read_image_table(folder, data):
    (folder / "x.parquet").write_bytes(data)
    load_images(folder / "x.parquet", ImageReading(size=8, cache=folder / "cache"), silent)


def read_idx(folder, data, name="train-images-idx3-ubyte"):
    images = b"\0\0\x08\3" + struct.pack(">III", 8, 4, 4) + bytes(128)
    (folder / "set").mkdir()
    (folder / "set" / "train-images-idx3-ubyte").write_bytes(images)
    (folder / "set" / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\1" + struct.pack(">I", 8) + bytes((0, 1) * 4))
    (folder / "set" / name).write_bytes(data)
    load_images(folder / "set", ImageReading(size=8, cache=folder / "cache"), silent)


def read_captions(folder, data, name="captions.txt"):
    for n in range(3):
        (folder / f"{n}.png").write_bytes(picture())
    (folder / name).write_bytes(data)
    load_captions(folder, ImageReading(size=8, cache=folder / "cache"), silent)


def read_people(folder, data):
    for n in range(3):
        (folder / f"{n}.png").write_bytes(picture())
    (folder / "train.json").write_bytes(data)
    load_poses(folder, 8, folder, silent)


def read_tokenizer(folder, data):
    tokenizer = Tokenizer.from_json(data.decode("utf-8", "replace"))
    text = "a man in the garden é中 <s> "
    tokenizer.decode(tokenizer.encode(text))
    tokenizer.encode_batch([text, "", "x" * 9000])


def captions() -> bytes:
    images = [{"id": n, "file_name": f"{n}.png"} for n in range(3)]
    return json.dumps(
        {"images": images, "annotations": [{"image_id": n, "caption": "a dog"} for n in range(3)]}
    ).encode()


def people() -> bytes:
    images = [{"id": n, "file_name": f"{n}.png"} for n in range(3)]
    person = {"keypoints": [5, 6, 2, *[0] * 48], "bbox": [2, 2, 9, 8], "area": 50.5, "iscrowd": 0}
    return json.dumps({"images": images, "annotations": [{"image_id": n, **person} for n in range(3)]}).encode()


TSV = "".join(f"{line}\t{line[::-1]}\n" for line in LINES).encode()
CASES = {
    "text": (read_text, "\n".join(LINES).encode(), {}),
    "zipped text": (read_text, gzip.compress("\n".join(LINES).encode()), {"name": "x.txt.gz"}),
    "tsv": (read_table, b"en\tde\n" + TSV, {}),
    "jsonl": (
        read_table,
        "".join(json.dumps({"en": line, "de": line}) + "\n" for line in LINES).encode(),
        {"name": "x.jsonl"},
    ),
    "parquet": (read_table, lambda: table(en=LINES, de=LINES), {"name": "x.parquet"}),
    "labelled": (read_labelled, "".join(f"{'ab'[n % 2]}\t{line}\n" for n, line in enumerate(LINES * 3)).encode(), {}),
    "png": (read_images, picture(), {}),
    "jpeg": (read_images, picture("JPEG"), {"name": "x.jpg"}),
    "tiff": (read_images, picture("TIFF"), {"name": "x.tif"}),
    "gif": (read_images, picture("GIF"), {"name": "x.gif"}),
    "images in parquet": (read_image_table, lambda: table(image=[picture()] * 8, label=["cat", "dog"] * 4), {}),
    "idx": (read_idx, b"\0\0\x08\3" + struct.pack(">III", 8, 4, 4) + bytes(128), {}),
    "idx labels": (
        read_idx,
        b"\0\0\x08\1" + struct.pack(">I", 8) + bytes((0, 1) * 4),
        {"name": "train-labels-idx1-ubyte"},
    ),
    "wav 16": (read_images, sound(1, 16, 2), {"name": "x.wav", "sound": SOUND}),
    "wav 24": (read_images, sound(1, 24, 1), {"name": "x.wav", "sound": SOUND}),
    "wav float": (read_images, sound(3, 32, 1), {"name": "x.wav", "sound": SOUND}),
    "captions": (read_captions, b"0.png#0\ta dog\n1.png#0\ta cat\n2.png#0\ta cow\n", {}),
    "captions in csv": (read_captions, b'image,caption\n0.png,"a dog"\n1.png,a cat\n', {"name": "captions.csv"}),
    "captions of coco": (read_captions, captions(), {"name": "captions.json"}),
    "people": (read_people, people(), {}),
    **{
        f"tokenizer {type(config).__name__}": (read_tokenizer, Tokenizer.train(config, LINES).to_json().encode(), {})
        for config in (Word(), Characters(), Bpe(vocab=120), ByteBpe(vocab=330), Unigram(vocab=60))
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path, name, capfd):
    read, content, options = CASES[name]
    content = content() if callable(content) else content
    (tmp_path / "sound").mkdir()
    read(tmp_path / "sound", content, **options)
    drawn = random.Random(name)
    refused = []
    for n in range(COUNT):
        (tmp_path / str(n)).mkdir()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(tmp_path / str(n), damaged(content, drawn), **options)
        except DataError as error:
            refused.append(str(error))
    assert refused
    assert all(message.isprintable() and len(message) < 2500 for message in refused)
    assert capfd.readouterr().err == ""
