import json
import os
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from headway.errors import BadModelError
from headway.interop.model_folder import ModelFolder
from headway.interop.safetensors_writer import chunks_of
from headway.storage.commit import commit_folder
from headway.storage.manifest import problems
from tests.interop.folders import CONFIG, gpt2_tensors, write_gpt2


@pytest.mark.parametrize("shards", [1, 3])
def test_a_folder_gives_its_tensors_one_by_one(tmp_path, shards):
    folder = ModelFolder(write_gpt2(tmp_path / "a", shards=shards))
    expected = gpt2_tensors()
    assert folder.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(folder.read(name), tensor)
    assert folder.files == ("tokenizer.json",)


def test_every_dtype_is_read_as_it_is(tmp_path):
    path = write_gpt2(tmp_path / "a")
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16)
    tensors = {str(kind): torch.arange(5).to(kind) for kind in (*kinds, torch.int8, torch.uint8, torch.bool)}
    save_file(tensors | {"empty": torch.zeros(0, 3)}, path / "model.safetensors")
    folder = ModelFolder(path)
    assert all(torch.equal(folder.read(name), tensor) for name, tensor in tensors.items())
    assert folder.read("empty").shape == (0, 3)


def test_a_header_of_odd_length_is_read(tmp_path):
    path = write_gpt2(tmp_path / "a")
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    header += b" " * (1 - len(header) % 2)
    values = torch.tensor([1.5, -2.0])
    (path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + values.numpy().tobytes())
    assert torch.equal(ModelFolder(path).read("x"), values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_streamed_file_is_the_librarys_to_the_byte(tmp_path, dtype):
    tensors = {name: tensor.to(dtype) for name, tensor in gpt2_tensors().items()}
    save_file(tensors, tmp_path / "whole.safetensors")
    with commit_folder(tmp_path / "out") as draft:
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        draft.stream("model.safetensors", chunks_of(shapes, dtype, lambda name: tensors[name]))
    assert (tmp_path / "out/model.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    assert problems(tmp_path / "out") == []
    (tmp_path / "out/model.safetensors").write_bytes(b"else")
    assert problems(tmp_path / "out") == ["model.safetensors is damaged"]
    assert load_file(tmp_path / "whole.safetensors").keys() == tensors.keys()


def refused(path, *words):
    with pytest.raises(BadModelError) as error:
        ModelFolder(path)
    said = str(error.value)
    assert "\n" not in said
    for word in words:
        assert word in said, said


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "last.ckpt"])
def test_pickles_are_refused_with_the_way_out(tmp_path, name):
    path = write_gpt2(tmp_path / "a")
    (path / "model.safetensors").rename(path / name)
    refused(path, name, "pickle", "save_pretrained")


@pytest.mark.parametrize(
    "change",
    [
        {"auto_map": {"AutoModel": "modeling.Mine"}},
        {"custom_pipelines": {"mine": {"impl": "x.Mine"}}},
        {"nested": {"auto_map": {"AutoModel": "other/repo--modeling.Mine"}}},
        {"anything": "modeling_mine.py"},
        {"tokenizer_class": "code.Mine"},
        {"quantization_config": {"bits": 4}},
    ],
)
def test_code_named_in_a_config_is_refused(tmp_path, change):
    path = write_gpt2(tmp_path / "a")
    (path / "config.json").write_text(json.dumps(CONFIG | change))
    refused(path, "config.json", next(iter(change)))


def test_tokenizer_code_is_refused(tmp_path):
    path = write_gpt2(tmp_path / "a")
    (path / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["t.Mine", None]}}))
    refused(path, "tokenizer_config.json", "auto_map")


OUTSIDE = [
    "../x.safetensors", "/etc/x.safetensors", "a/../../x.safetensors", "..\\x.safetensors", "C:x.safetensors",
    "\\\\host\\x.safetensors", "x\0.safetensors", "./x.safetensors", "sub/x.safetensors", "model.bin", "", 3, None,
    ["a"], "\u2024\u2024/x.safetensors",
]  # fmt: skip


OPENED: list[str] | None = None


def heard(event: str, arguments: tuple) -> None:
    if event == "open" and OPENED is not None:
        OPENED.append(str(arguments[0]))


sys.addaudithook(heard)  # cannot be taken back; it listens only while OPENED is a list


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_index_cannot_lead_out_of_the_folder(tmp_path, name):
    path = write_gpt2(tmp_path / "a", shards=2)
    index = json.loads((path / "model.safetensors.index.json").read_text())
    index["weight_map"]["transformer.wte.weight"] = name
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    global OPENED
    OPENED = []
    try:
        refused(path, "weight_map", "transformer.wte.weight")
        assert OPENED
        assert all(each.startswith(str(path)) for each in OPENED)
    finally:
        OPENED = None


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_links_out_of_the_folder_are_refused_with_the_way_out(tmp_path, name):
    path = write_gpt2(tmp_path / "snapshots" / "a")
    (tmp_path / "blobs").mkdir()
    (path / name).rename(tmp_path / "blobs" / "0123")
    (path / name).symlink_to("../../blobs/0123")
    refused(path, name, "link", "cp -rL")


def test_a_link_within_the_folder_is_read(tmp_path):
    path = write_gpt2(tmp_path / "a")
    (path / "model.safetensors").rename(path / "weights")
    (path / "model.safetensors").symlink_to("weights")
    assert len(ModelFolder(path).tensors) == len(gpt2_tensors())


def test_what_is_no_plain_file_is_not_opened(tmp_path):
    path = write_gpt2(tmp_path / "a")
    (path / "model.safetensors").unlink()
    os.mkfifo(path / "model.safetensors")  # opening it would wait for ever
    refused(path, "model.safetensors", "not a regular file")


def header_file(path, entries, data=b"", length=None):
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    size = len(header) if length is None else length
    (path / "model.safetensors").write_bytes(size.to_bytes(8, "little") + header + data)


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


BAD_HEADERS = {
    "cut off": (b"{}", b"", 2**40),
    "not a JSON object": (b"[]", b""),
    "holds no tensor": (b"{ }", b""),
    "dtype": ({"x": entry("F8_E4M3", (1,), (0, 1))}, b"a"),
    "shape": ({"x": entry(shape=(-1,))}, b"aaaa"),
    "data_offsets": ({"x": entry(offsets=(0, 400))}, b"aaaa"),
    "is 4,000,000,000,000,000,000,000 bytes": ({"x": entry(shape=(10**7, 10**7, 10**7))}, b"aaaa"),
    "overlaps": ({"x": entry(), "y": entry(offsets=(2, 6))}, b"a" * 6),
    "2 unused bytes": ({"x": entry(), "y": entry(offsets=(6, 10))}, b"a" * 10),
    "unused bytes at the end": ({"x": entry()}, b"a" * 9),
    "duplicate": (b'{"x":%b,"x":%b}' % ((json.dumps(entry()).encode(),) * 2), b"aaaa"),
    "expected dtype": (b'{"x":' + b"[" * 100_000 + b"}", b""),
}


@pytest.mark.parametrize("said", BAD_HEADERS)
def test_bad_headers_are_refused_by_name(tmp_path, said):
    path = write_gpt2(tmp_path / "a")
    header_file(path, *BAD_HEADERS[said])
    refused(path, "model.safetensors", said)


def test_an_oversized_header_is_not_read(tmp_path):
    path = write_gpt2(tmp_path / "a")
    with (path / "model.safetensors").open("wb") as file:
        file.write((100_000_001).to_bytes(8, "little"))
        file.truncate(200_000_000)  # a hole: no bytes on disk
    refused(path, "model.safetensors", "allowed: 100,000,000")
