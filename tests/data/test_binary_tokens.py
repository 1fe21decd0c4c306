"""Token files of nanoGPT, llm.c and Megatron, written here as their programs lay them out."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from headway.data.binary_tokens import binary_paths, open_file
from headway.data.prepared_text import find_prepared, is_prepared
from headway.data.tokenizers import ByteBpe, Tokenizer
from headway.errors import DataError

IDS = np.random.default_rng(0).integers(0, 250, 5_000)


def tokenizer() -> Tokenizer:
    return Tokenizer.train(ByteBpe(vocab=256), ["some text"], specials=())


def write_nanogpt(path: Path, ids: np.ndarray) -> None:
    """As nanoGPT's data/openwebtext/prepare.py: an array of uint16."""
    ids.astype(np.uint16).tofile(path)


def write_llm_c(path: Path, ids: np.ndarray, *, llama: bool = False) -> None:
    """As llm.c's dev/data/data_common.py: 256 int32 of header, then uint16 (GPT-2) or uint32 (Llama 3)."""
    header = np.zeros(256, np.int32)
    header[:3] = (20240801, 7, len(ids)) if llama else (20240520, 1, len(ids))
    path.write_bytes(header.tobytes() + ids.astype(np.uint32 if llama else np.uint16).tobytes())


def write_megatron(prefix: Path, documents: list[np.ndarray], *, code: int = 8, dtype: str = "<u2") -> None:
    """As Megatron-LM's core/datasets/indexed_dataset.py writes the index and the ids, a sequence a document."""
    sizes = np.asarray([len(each) for each in documents], np.int32)
    pointers = np.concatenate([[0], np.cumsum(sizes.astype(np.int64))[:-1]]) * np.dtype(dtype).itemsize
    prefix.with_suffix(".bin").write_bytes(b"".join(each.astype(dtype).tobytes() for each in documents))
    with prefix.with_suffix(".idx").open("wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<Q", 1) + struct.pack("<B", code))
        file.write(struct.pack("<Q", len(sizes)) + struct.pack("<Q", len(sizes) + 1))
        file.write(sizes.tobytes() + pointers.astype(np.int64).tobytes())
        file.write(np.arange(len(sizes) + 1, dtype=np.int64).tobytes())


def train_of(path: Path) -> np.ndarray:
    found = find_prepared(str(path), tokenizer())
    assert found is not None
    return np.concatenate([np.concatenate(list(found.splits[split].pieces())) for split in ("train", "val")])


def test_nanogpt_has_ids_and_nothing_else(tmp_path):
    write_nanogpt(tmp_path / "train.bin", IDS)
    write_nanogpt(tmp_path / "val.bin", IDS[:500])
    (tmp_path / "meta.pkl").write_bytes(b"never read")
    found = find_prepared(str(tmp_path), tokenizer())
    assert found is not None
    assert {name: stream.total for name, stream in found.splits.items()} == {"train": 5_000, "val": 500}
    assert (found.splits["train"].windows(np.asarray([7, 4_990]), 20)[0] == IDS[7:27]).all()
    assert (train_of(tmp_path / "train.bin") == IDS).all(), "of a file alone the last tenth is val"


@pytest.mark.parametrize("llama", [False, True])
def test_llm_c_has_a_header(llama, tmp_path):
    for n in (1, 2):
        write_llm_c(tmp_path / f"edu_fineweb_train_00000{n}.bin", IDS[: 2_000 * n], llama=llama)
    write_llm_c(tmp_path / "edu_fineweb_val_000000.bin", IDS[:300], llama=llama)
    found = find_prepared(str(tmp_path), tokenizer())
    assert found is not None
    assert {name: stream.total for name, stream in found.splits.items()} == {"train": 6_000, "val": 300}
    assert (found.splits["train"].windows(np.asarray([1_990]), 20)[0] == [*IDS[1_990:2_000], *IDS[:10]]).all()


@pytest.mark.parametrize(("code", "dtype"), [(8, "<u2"), (4, "<i4"), (3, "<i2")])
def test_megatron_has_an_index(code, dtype, tmp_path):
    write_megatron(tmp_path / "corpus_text_document", [IDS[:100], IDS[100:4_000], IDS[4_000:]], code=code, dtype=dtype)
    for name in ("corpus_text_document.bin", "corpus_text_document.idx", ""):
        assert (train_of(tmp_path / name) == IDS).all()


def test_damage_is_named(tmp_path):
    path = tmp_path / "train.bin"
    write_llm_c(path, IDS)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"train\.bin: 11,014 bytes, expected 11,024, as its header says"):
        open_file(path)
    path.write_bytes(np.asarray([20240520, 2, 9], np.int32).tobytes())
    with pytest.raises(DataError, match=r"version 2 of llm\.c's token file"):
        open_file(path)
    path.write_bytes(b"odd")
    with pytest.raises(DataError, match="3 bytes, expected an even number"):
        open_file(path)
    write_megatron(tmp_path / "corpus", [IDS])
    index = (tmp_path / "corpus.idx").read_bytes()
    (tmp_path / "corpus.bin").write_bytes(b"12")
    with pytest.raises(DataError, match=r"corpus\.bin: 2 bytes, expected 10,000"):
        open_file(tmp_path / "corpus.bin")
    for wrong, message in (
        (index[:30], "not the index of a Megatron"),
        (index.replace(struct.pack("<QB", 1, 8), struct.pack("<QB", 2, 8)), "version 2, ids of type 8"),
        (index[:40], "too few for 1 sequences"),
    ):
        (tmp_path / "corpus.idx").write_bytes(wrong)
        with pytest.raises(DataError, match=message):
            open_file(tmp_path / "corpus.bin")


def test_an_id_that_the_tokenizer_lacks_is_named(tmp_path):
    write_nanogpt(tmp_path / "train.bin", np.concatenate([IDS, [300]] * 4))
    found = find_prepared(str(tmp_path), tokenizer())
    assert found is not None
    found.splits["train"].windows(np.asarray([0]), 100)
    with pytest.raises(
        DataError, match=r"train\.bin: token id 300 between tokens 4,990 and 5,010; the tokenizer has ids"
    ):
        found.splits["train"].windows(np.asarray([4_990]), 20)


def test_the_tokenizer_lies_beside_the_files(tmp_path):
    write_nanogpt(tmp_path / "train.bin", IDS)
    assert find_prepared(str(tmp_path)).tokenizer is None
    (tmp_path / "tokenizer.json").write_text(tokenizer().to_json())
    assert find_prepared(str(tmp_path)).tokenizer.content_hash == tokenizer().content_hash


def test_other_files_of_this_ending_are_not_taken_for_tokens(tmp_path):
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (tmp_path / name).write_bytes(bytes(3_073))
    assert binary_paths(tmp_path) == []
    (tmp_path / "model.bin").write_bytes(b"text, perhaps")
    assert not is_prepared(tmp_path / "model.bin")
    assert not is_prepared(tmp_path / "nothing.bin")
    assert not is_prepared(tmp_path / ("x" * 5_000))


def test_the_digest_notices_another_file(tmp_path):
    write_nanogpt(tmp_path / "train.bin", IDS)
    digest = find_prepared(str(tmp_path)).digests
    assert find_prepared(str(tmp_path)).digests == digest
    write_nanogpt(tmp_path / "train.bin", IDS[::-1])
    assert find_prepared(str(tmp_path)).digests != digest
