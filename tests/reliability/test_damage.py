"""Damage to bytes and documents: it is there, it is what it says, and the same seed gives the same."""

from __future__ import annotations

import io
import json
import random
import zlib
from collections.abc import Callable

import pytest
import yaml
from PIL import Image
from safetensors.torch import save

from headway.documents import parse_json
from headway.reliability import binary_files, damage, document_damage
from headway.reliability.data_samples import SAMPLES
from headway.reliability.model_folders import gpt2_tensors

DATA = bytes(range(256)) * 40
SEEDS = range(40)
TREE = {
    "train": {"steps": 3, "rate": 0.1, "names": ["a", "b"]},
    "model": {"type": "gpt", "bias": True, "position": None},
}
JSON = json.dumps(TREE).encode()
YAML = yaml.safe_dump(TREE).encode()
LINES = b"".join(json.dumps({"step": n, "loss": 1.5}).encode() + b"\n" for n in range(8))


def png() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(made, "PNG")
    return made.getvalue()


def jpeg() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(made, "JPEG")
    return made.getvalue()


FORMATS: list[tuple[damage.Damage, bytes]] = [
    (document_damage.damage_json, JSON),
    (document_damage.damage_yaml, YAML),
    (document_damage.damage_lines, LINES),
    (document_damage.damage_json_lines, LINES),
    (binary_files.damage_png, png()),
    (binary_files.damage_jpeg, jpeg()),
    (binary_files.damage_wav, b"RIFF" + bytes(4) + b"WAVEfmt \x10\0\0\0\1\0\1\0" + bytes(12) + b"data" + bytes(40)),
    (binary_files.damage_idx, b"\0\0\x08\x03" + bytes(3 * 4) + bytes(12)),
    (binary_files.damage_gzip, b"\x1f\x8b\x08" + bytes(30)),
    (binary_files.damage_safetensors, save(gpt2_tensors())),
]


def test_a_flip_is_one_bit():
    for seed in SEEDS:
        found = damage.flip_bit(DATA, random.Random(seed))
        assert sum((a ^ b).bit_count() for a, b in zip(DATA, found, strict=True)) == 1


@pytest.mark.parametrize("size", [0, 1, 2, 17, 4096, 10_000])
def test_damage_to_bytes_changes_them(size):
    for seed in SEEDS:
        _, found = damage.damaged(bytes(size), random.Random(seed))
        assert found != bytes(size)
        assert len(found) < size + 100


def test_pages_are_zeroed_and_duplicated_in_place():
    kinds = {damage.zero_page: 0, damage.duplicate_page: 0}
    for seed in SEEDS:
        for kind in kinds:
            found = kind(DATA, random.Random(seed))
            assert len(found) == len(DATA)
            changed = [n // damage.PAGE for n, (a, b) in enumerate(zip(DATA, found, strict=True)) if a != b]
            assert len(set(changed)) <= 1
            kinds[kind] += bool(changed)
    assert kinds[damage.zero_page] == len(SEEDS)


@pytest.mark.parametrize(("kind", "data"), FORMATS, ids=lambda each: getattr(each, "__name__", ""))
def test_damage_by_format_depends_on_the_seed_alone_and_is_mostly_damage(kind, data):
    found = [kind(data, random.Random(seed)) for seed in SEEDS]
    assert found == [kind(data, random.Random(seed)) for seed in SEEDS]
    assert sum(each != data for each in found) > 0.8 * len(SEEDS)
    assert len(set(found)) > len(SEEDS) / 3


def test_most_damaged_documents_are_documents_still():
    """Else the code behind the parser would not be tried."""
    valid = 0
    for seed in SEEDS:
        try:
            parse_json(document_damage.damage_json(JSON, random.Random(seed)), "", nonfinite=True, large_integers=True)
            valid += 1
        except Exception:
            pass
    assert valid > len(SEEDS) / 2


def test_damaged_images_have_right_checksums():
    """Else every one of them would be refused for its checksum, and no size would be looked at."""
    for seed in SEEDS:
        data, at = binary_files.damage_png(png(), random.Random(seed)), 8
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            assert zlib.crc32(data[at + 4 : at + 8 + size]).to_bytes(4, "big") == data[at + 8 + size : at + 12 + size]
            at += 12 + size


@pytest.mark.parametrize("sample", [each for each in SAMPLES if each.available], ids=lambda each: each.name)
def test_every_file_of_every_data_set_is_damaged(sample, tmp_path):
    sample.write(tmp_path)
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert files
    for path in {each.suffix: each for each in files}.values():
        how: Callable[[bytes, random.Random], bytes] = sample.damage_of(path)
        data = path.read_bytes()
        assert any(how(data, random.Random(seed)) != data for seed in range(4))
