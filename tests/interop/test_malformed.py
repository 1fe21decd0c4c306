"""Thousands of damaged and hostile model folders: one line, exit code 7, nothing left behind, nothing else touched."""

from __future__ import annotations

import json
import random
import resource
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from headway.cli import main
from headway.interop.families import FAMILIES
from headway.interop.family import import_weights
from headway.interop.generation_settings import with_generation_settings
from headway.interop.model_folder import ModelFolder
from headway.training.checkpoints import Checkpoints
from tests.interop.folders import CONFIG, characters, write_gpt2

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARDS = 2
MEMORY = 300 * 2**20  # that the process may grow by, over all folders
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 2**63, 10**19, 1.5, -0.0, 1e308, "", "x", "8", "../x", "a.py", "\0",
    "é😀", "x" * 5000, [], [1], [None], [[]], {}, {"a": 1}, {"type": "x"}, [1, "a"], "NaN", "\n\nTraceback",
]  # fmt: skip
HOSTILE_JSON: list[bytes] = [
    b"", b"{", b"}", b"[]", b"null", b"3", b'"x"', b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"{}" * 2, b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"a":NaN}', b'{"a":Infinity}', b'{"a":' + b"9" * 5000 + b"}", b'{"a":1,"a":2}', b'{"\\ud800":1}',
    b'{"a":"\\udfff"}', b'{"a":1e999}', b"{'a':1}", b'{"a":1,}', b"\0" * 64, b'{"a":"\xff"}', b'{"a":"\\x"}',
    b"[" * 60 + b"]" * 60, b"{}\0",
]  # fmt: skip
Change = Callable[[Path, random.Random], None]


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def put_header(path: Path, header: object, body: bytes) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def weights_of(folder: Path, drawn: random.Random) -> Path:
    return drawn.choice(sorted(folder.glob("*.safetensors")))


def truncated(folder: Path, drawn: random.Random) -> None:
    path = weights_of(folder, drawn)
    data = path.read_bytes()
    end = drawn.choice([drawn.randrange(len(data)), drawn.randrange(16), len(data) - drawn.randrange(1, 9)])
    path.write_bytes(data[:end])


def grown(folder: Path, drawn: random.Random) -> None:
    path = weights_of(folder, drawn)
    path.write_bytes(path.read_bytes() + drawn.randbytes(drawn.randint(1, 64)))


def flipped(folder: Path, drawn: random.Random) -> None:
    """Some bits of the length or the header."""
    path = weights_of(folder, drawn)
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    for _ in range(drawn.randint(1, 4)):
        data[drawn.choice([drawn.randrange(8), 8 + drawn.randrange(length)])] ^= 1 << drawn.randrange(8)
    path.write_bytes(data)


def length_changed(folder: Path, drawn: random.Random) -> None:
    path = weights_of(folder, drawn)
    data = path.read_bytes()
    length = drawn.choice(
        [0, 1, 2, 7, 8, 2**20, 99_999_999, 100_000_000, 100_000_001, 2**32, 2**63, 2**64 - 1, len(data)]
    )
    path.write_bytes(struct.pack("<Q", length) + data[8:])


def entry_changed(folder: Path, drawn: random.Random) -> None:
    """One field of one tensor: another dtype, shape or place."""
    path = weights_of(folder, drawn)
    header, body = header_of(path)
    name = drawn.choice([key for key in header if key != "__metadata__"])
    entry, field = header[name], drawn.choice(["dtype", "shape", "data_offsets"])
    if field == "dtype":
        entry[field] = drawn.choice(["F16", "F64", "I32", "F8_E5M2", "C64", "U4", "f32", "BOOL", *ODD])
    else:
        values = list(entry[field]) or [1]
        at = drawn.randrange(len(values))
        values[at] = drawn.choice([values[at] + drawn.randint(-8, 8), -values[at], 2 ** drawn.randint(8, 80), *ODD])
        entry[field] = drawn.choice([values, values, values, values[::-1], values * 2, values[:-1], *ODD])
    put_header(path, header, body)


def overlapping(folder: Path, drawn: random.Random) -> None:
    """A tensor in the place of another of its size, so that only the overlap and the hole are wrong."""
    path = weights_of(folder, drawn)
    header, body = header_of(path)
    names = [key for key in header if key != "__metadata__"]
    one, other = drawn.sample(names, 2)
    header[one] = {
        **header[one],
        **{key: header[other][key] for key in drawn.choice([("data_offsets",), ("data_offsets", "shape")])},
    }
    put_header(path, header, body)


def huge(folder: Path, drawn: random.Random) -> None:
    path = weights_of(folder, drawn)
    header, body = header_of(path)
    name = drawn.choice([key for key in header if key != "__metadata__"])
    header[name]["shape"] = [drawn.choice([2**31, 2**40, 2**62, 10**18]) for _ in range(drawn.randint(1, 9))]
    if drawn.random() < 0.5:
        header[name]["data_offsets"] = [0, 2 ** drawn.randint(30, 63)]
    put_header(path, header, body)


def entries_changed(folder: Path, drawn: random.Random) -> None:
    """A tensor more, less, renamed or no tensor at all."""
    path = weights_of(folder, drawn)
    header, body = header_of(path)
    name = drawn.choice([key for key in header if key != "__metadata__"])
    kind = drawn.randrange(5)
    if kind == 0:
        del header[name]
    elif kind == 1:
        header[drawn.choice(["", "x" * 3000, "a\nb", "\u202e", f"{name}.", "../../x", "__metadata__"])] = header.pop(
            name
        )
    elif kind == 2:
        header[name] = drawn.choice(ODD)
    elif kind == 3:
        header["more"] = {"dtype": "F32", "shape": [0], "data_offsets": [len(body), len(body)]}
    else:
        header[name]["more"] = drawn.choice(ODD)
    put_header(path, header, body)


def header_replaced(folder: Path, drawn: random.Random) -> None:
    path = weights_of(folder, drawn)
    header, body = header_of(path)
    text = json.dumps(header).encode()
    at = drawn.randrange(len(text))
    broken = [
        drawn.choice(HOSTILE_JSON),
        text[:at] + drawn.choice(HOSTILE_JSON) + text[at:],
        text[:at],
        text[1:],
        text[:-1],
    ]
    put_header(path, drawn.choice(broken), body)


def config_field(folder: Path, drawn: random.Random) -> None:
    """One field of one of the JSON files replaced by something else."""
    config = json.loads((folder / "config.json").read_text())
    for _ in range(drawn.choice([1, 1, 2])):
        config[drawn.choice(list(CONFIG))] = drawn.choice(ODD)
    (folder / "config.json").write_text(json.dumps(config))


def config_size(folder: Path, drawn: random.Random) -> None:
    """A size that does not fit the tensors, up to what could not be allocated."""
    sizes = [key for key, value in CONFIG.items() if type(value) is int]
    config = json.loads((folder / "config.json").read_text())
    key = drawn.choice(sizes)
    config[key] = drawn.choice(
        [config[key] + drawn.choice([-1, 1, 8]), config[key] * 2, 10**6, 10**9, 2**31, 2**62, 0, -5]
    )
    (folder / "config.json").write_text(json.dumps(config))


def config_more(folder: Path, drawn: random.Random) -> None:
    """Fields that ask for code, for other maths, or lie about the rest."""
    more = drawn.choice([
        {"auto_map": {"AutoModel": "x.Y"}}, {"custom_pipelines": {"a": {"impl": "x.Y"}}}, {"a": {"auto_map": "x"}},
        {"file": "x.py"}, {"tokenizer_class": "x.Y"}, {"quantization_config": {}}, {"scale_attn_weights": False},
        {"add_cross_attention": True}, {"reorder_and_upcast_attn": 1}, {"n_ctx": "\ud83d\ude00"}, {"torch_dtype": []},
    ])  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **more}))


def json_replaced(folder: Path, drawn: random.Random) -> None:
    """A file that is not valid JSON, or hostile JSON."""
    names = ["config.json", "tokenizer.json", *(["generation_config.json", "tokenizer_config.json"]), INDEX]
    name = drawn.choice([name for name in names if name != INDEX or (folder / INDEX).exists()])
    good = (folder / name).read_bytes() if (folder / name).exists() else b"{}"
    at = drawn.randrange(len(good))
    bit = bytes([good[at] ^ (1 << drawn.randrange(8))])
    hostile = [drawn.choice(HOSTILE_JSON), good[:at], good[:at] + bit + good[at + 1 :]]
    (folder / name).write_bytes(drawn.choice(hostile))


def index_changed(folder: Path, drawn: random.Random) -> None:
    """Names that lead elsewhere, shards that are missing or named for another tensor."""
    if not (folder / INDEX).exists():
        weights_of(folder, drawn).unlink()
        return
    index = json.loads((folder / INDEX).read_text())
    places, name = index["weight_map"], drawn.choice(list(index["weight_map"]))
    kind = drawn.randrange(6)
    if kind == 0:
        ups = drawn.choice(
            ["../", "/", "./", "..\\", "a/../", "//x/", "\u2025/", "~/", "%2e%2e/", "C:", "\0", "/proc/self/"]
        )
        places[name] = drawn.choice([ups + places[name], ups, ups * 40 + "etc/passwd", ups + "x.safetensors"])
    elif kind == 1:
        places[name] = drawn.choice([*ODD, *(other for other in places.values() if other != places[name])])
    elif kind == 2:
        del places[name]
    elif kind == 3:
        places[drawn.choice(["more", "", "a\nb", name.upper()])] = places[name]
    elif kind == 4:
        index["weight_map"] = drawn.choice(ODD)
    else:
        weights_of(folder, drawn).unlink()
    (folder / INDEX).write_text(json.dumps(index))


def file_gone(folder: Path, drawn: random.Random) -> None:
    """A file that is missing, a folder, a link out, or only a pickle."""
    path = drawn.choice(sorted(folder.iterdir()))
    kind = drawn.randrange(5)
    content = path.read_bytes()
    path.unlink()
    if kind == 1:
        path.mkdir()
    elif kind == 2:
        outside = folder.parent / f"outside-{path.name}"
        outside.write_bytes(content)
        path.symlink_to(drawn.choice([f"../{outside.name}", str(outside)]))
    elif kind == 3:
        path.symlink_to(path.name)  # to itself
    elif kind == 4:
        (folder / drawn.choice(["pytorch_model.bin", "model.pt", "last.ckpt"])).write_bytes(b"\x80\x04N.")


def tokenizer_changed(folder: Path, drawn: random.Random) -> None:
    """One value anywhere in tokenizer.json."""
    tree: Any = characters()
    branch: Any = tree
    while True:
        key = drawn.choice(list(branch) if isinstance(branch, dict) else range(len(branch)))
        if isinstance(branch[key], dict | list) and branch[key] and drawn.random() < 0.8:
            branch = branch[key]
            continue
        branch[key] = drawn.choice(ODD)
        break
    (folder / "tokenizer.json").write_text(json.dumps(tree))


CHANGES: list[Change] = [
    truncated, grown, flipped, length_changed, entry_changed, entry_changed, overlapping, huge, entries_changed,
    header_replaced, config_field, config_field, config_size, config_more, json_replaced, json_replaced,
    index_changed, index_changed,
    file_gone, tokenizer_changed,
]  # fmt: skip


def unchanged(place: Path) -> dict[str, Any]:
    """What lies beside the folder under test."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(place.iterdir())}


def expect_valid(folder: Path, run: Path) -> None:
    """The run holds what the folder holds, read by the library instead of by us."""
    config, _ = with_generation_settings(ModelFolder(folder))
    theirs: dict[str, torch.Tensor] = {}
    for path in [folder / WEIGHTS] if (folder / WEIGHTS).exists() else sorted(folder.glob("*.safetensors")):
        theirs |= load_file(path)
    family = FAMILIES[config["model_type"]]
    imported = family.read(config, {name: tuple(x.shape) for name, x in theirs.items()})
    expected = import_weights(family, imported.model, theirs)
    found = load_file(Checkpoints(run).path(0) / WEIGHTS)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name].float(), expected[name].float()) for name in found)
    assert all(bool(x.isfinite().all()) for x in found.values())
    assert len(ModelFolder(folder).tensors) == len(theirs)


def attack(place: Path, numbers: range, capsys: pytest.CaptureFixture[str]) -> dict[int, int]:
    """Damage a folder and import it, so many times; how often each exit code came."""
    codes: dict[int, int] = {}
    good = {shards: write_gpt2(place / f"good-{shards}", shards=shards) for shards in (1, SHARDS)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number in numbers:
        drawn = random.Random(number)
        work = place / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        folder, run = work / "model", work / "runs" / "run"
        run.parent.mkdir()
        shutil.copytree(good[drawn.choice([1, 1, SHARDS])], folder)
        change = drawn.choice(CHANGES)
        change(folder, drawn)
        beside = unchanged(work)
        told = f"folder {number}, {change.__name__}"
        code = main(["import", str(folder), "--out", str(run)])
        said = capsys.readouterr().err
        codes[code] = codes.get(code, 0) + 1
        assert code in (0, 7), f"{told}: exit code {code}: {said}"
        assert "Traceback (most" not in said, f"{told}: {said}"
        if code == 7:
            lines = said.splitlines()
            assert len(lines) == 1, f"{told}: {said}"
            assert lines[0].startswith("headway: "), f"{told}: {said}"
            assert len(lines[0]) < 1500
            assert list(run.parent.iterdir()) == [], told
        else:
            expect_valid(folder, run)
            shutil.rmtree(run)
        assert unchanged(work) == beside, told
    grew = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    assert grew < MEMORY, f"{grew:,} bytes"
    return codes


def test_malformed_folders_are_refused_in_one_line(tmp_path, capsys):
    codes = attack(tmp_path, range(300), capsys)
    assert codes[7] > 200


@pytest.mark.slow  # a minute or so
def test_thousands_of_malformed_folders_are_refused_in_one_line(tmp_path, capsys):
    codes = attack(tmp_path, range(300, 2800), capsys)
    assert codes[7] > 2000
