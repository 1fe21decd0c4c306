"""Token files that other programs prepare: nanoGPT's and llm.c's `.bin`, Megatron's `.bin` with `.idx`.

They are mapped and not copied. Their layouts:

- nanoGPT: ids of 16 bits, nothing else (`train.bin`, `val.bin`);
- llm.c: 256 numbers of 32 bits, of which the first three are 20240520, version 1 and the number of tokens, then ids of
  16 bits; or 20240801, version 7 and ids of 32 bits;
- Megatron: the ids in `NAME.bin`, in `NAME.idx` the nine bytes MMIDIDX 0 0, version 1 (64 bits), a code for the type
  of ids (8 bits), the numbers of sequences and documents (64 bits each), the tokens of each sequence (32 bits each) and
  where it begins in the `.bin`, in bytes (64 bits each).

All numbers are little-endian. None of the files says which tokenizer made them: that is a `tokenizer.json` beside them.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from headway.data.files import listed, listing, names
from headway.data.prepared_store import TOKENIZER, PartStream, mapped
from headway.data.token_stream import AnyIds, PreparedText
from headway.data.tokenizers import Tokenizer
from headway.documents import read_within
from headway.errors import DataError

LLM_C = {(20240520, 1): "<u2", (20240801, 7): "<u4"}  # magic number and version -> ids
LLM_C_HEADER = 1024
MEGATRON = b"MMIDIDX\0\0"
MEGATRON_HEADER = struct.Struct("<9sQBQQ")
MEGATRON_IDS = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
SPLIT = re.compile(r"(?:^|[_.-])(train|val|valid|validation|test)(?=[_.\-\d]|$)")
HELD_OUT = 1 << 23  # tokens, at most, where there is no val split
PIECE = 1 << 22  # tokens that are decoded at once
SAMPLES, SAMPLE = 64, 4096  # blocks of a file, and their bytes, that its digest is made of


class BinaryFile:
    """The ids in a file of one of the three kinds, or some of them."""

    def __init__(self, path: Path, dtype: str, offset: int, tokens: int, *, vocabulary: int | None) -> None:
        self.path, self.dtype, self.offset, self.tokens, self.vocabulary = path, dtype, offset, tokens, vocabulary

    @cached_property
    def _ids(self) -> AnyIds:
        return mapped(self.path, self.dtype, self.offset, self.tokens)

    def read(self, first: int, last: int) -> AnyIds:
        """The ids from `first` to `last`. Raises DataError for one that is not in the vocabulary."""
        found = self._ids[first:last]
        if self.vocabulary is not None and len(found):
            least, most = int(found.min()), int(found.max())
            if least < 0 or most >= self.vocabulary:
                wrong = least if least < 0 else most
                between = f"between tokens {first:,} and {last:,}"
                known = f"the tokenizer has ids up to {self.vocabulary - 1:,}: another one made this file"
                raise DataError(f"{self.path}: token id {wrong:,} {between}; {known}")
        return found

    def pieces(self) -> Iterator[AnyIds]:
        """All ids, a few million at a time."""
        return (self.read(at, min(at + PIECE, self.tokens)) for at in range(0, self.tokens, PIECE))

    def divided(self, tokens: int) -> tuple[BinaryFile, BinaryFile]:
        """The first tokens, and the others."""
        later = self.offset + tokens * np.dtype(self.dtype).itemsize
        return (
            BinaryFile(self.path, self.dtype, self.offset, tokens, vocabulary=self.vocabulary),
            BinaryFile(self.path, self.dtype, later, self.tokens - tokens, vocabulary=self.vocabulary),
        )

    @property
    def digest(self) -> str:
        """A digest of the size and of evenly spaced blocks, so that a start does not read all of it."""
        size = self.tokens * np.dtype(self.dtype).itemsize
        found = hashlib.sha256(f"{self.dtype} {self.offset} {size}".encode())
        with self.path.open("rb") as file:
            for place in (
                np.linspace(self.offset, self.offset + max(size - SAMPLE, 0), SAMPLES).astype(np.int64).tolist()
            ):
                file.seek(place)
                found.update(file.read(SAMPLE))
        return found.hexdigest()


def binary_paths(path: Path) -> list[Path]:
    """The token files at a path: a `.bin`, the one of an `.idx`, or those of a folder; [] for any other path.

    As other programs write other files with this ending, a token file is named by its split (`train.bin`), or known by
    its header or index. A folder of them has no other `.bin`.
    """
    try:
        if path.is_dir():
            files = [each for each in listing(path) if each.suffix == ".bin"]
        else:
            files = [path.with_suffix(".bin")] if path.suffix in (".bin", ".idx") and path.is_file() else []
        return files if all(map(_is_token_file, files)) else []
    except OSError:
        return []


def _is_token_file(path: Path) -> bool:
    if SPLIT.search(path.stem.lower()) or _is_megatron(path.with_suffix(".idx")):
        return True
    with path.open("rb") as file:
        head = file.read(4)
    return len(head) == 4 and struct.unpack("<i", head)[0] in {magic for magic, _ in LLM_C}


def open_binary(path: Path, tokenizer: Tokenizer | None) -> PreparedText:
    """The token files at a path as prepared text, with the tokenizer given or that beside them. Raises DataError."""
    files = binary_paths(path)
    folder = path if path.is_dir() else path.parent
    own = folder / TOKENIZER
    if own.is_file():
        known = Tokenizer.from_json(read_within(own, "tokenizer-bytes").decode("utf-8", "replace"), where=str(own))
    else:
        known = None
    size = next((each.size for each in (tokenizer, known) if each is not None), None)
    splits: dict[str, list[BinaryFile]] = {}
    for file in files:
        found = SPLIT.findall(file.stem.lower())
        split = {"valid": "val", "validation": "val"}.get(found[-1], found[-1]) if found else "train"
        splits.setdefault(split, []).append(open_file(file, size))
    if "train" not in splits:
        raise DataError(f"{path}: no train split; splits: {listed(tuple(splits))}; files: {names(files)}")
    if "val" not in splits:
        *before, last = splits["train"]
        held = min(max(sum(each.tokens for each in splits["train"]) // 10, 1), HELD_OUT, max(last.tokens // 2, 1))
        first, rest = last.divided(last.tokens - held)
        splits = {"train": [*before, first], "val": [rest], **{k: v for k, v in splits.items() if k != "train"}}
    return PreparedText(
        name=str(path),
        splits={name: PartStream(parts) for name, parts in splits.items()},
        digests={name: _joined(parts) for name, parts in splits.items()},
        tokenizer=known,
    )


def _joined(parts: Sequence[BinaryFile]) -> str:
    return hashlib.sha256(" ".join(part.digest for part in parts).encode()).hexdigest()


def open_file(path: Path, vocabulary: int | None = None) -> BinaryFile:
    """A token file, by its header or the index beside it. Raises DataError."""
    try:
        if path.with_suffix(".idx").is_file():
            return _megatron(path, vocabulary)
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(12)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    if len(head) == 12:
        magic, version, tokens = struct.unpack("<3i", head)
        dtype = LLM_C.get((magic, version))
        if dtype is not None:
            _expect_size(path, size, LLM_C_HEADER + tokens * np.dtype(dtype).itemsize)
            return BinaryFile(path, dtype, LLM_C_HEADER, tokens, vocabulary=vocabulary)
        if magic in {known for known, _ in LLM_C}:
            raise DataError(f"{path}: version {version} of llm.c's token file, expected 1 (16 bits) or 7 (32 bits)")
    if size < 4 or size % 2:
        raise DataError(
            f"{path}: {size:,} bytes, expected an even number of at least 4: ids of 16 bits, as nanoGPT has them"
        )
    return BinaryFile(path, "<u2", 0, size // 2, vocabulary=vocabulary)


def _megatron(path: Path, vocabulary: int | None) -> BinaryFile:
    index = path.with_suffix(".idx")
    size = index.stat().st_size
    with index.open("rb") as file:
        head = file.read(MEGATRON_HEADER.size)
        if len(head) < MEGATRON_HEADER.size or not head.startswith(MEGATRON):
            raise DataError(f"{index}: not the index of a Megatron data set (it begins with {head[:9]!r})")
        _, version, code, sequences, documents = MEGATRON_HEADER.unpack(head)
        if version != 1 or code not in MEGATRON_IDS:
            types = listed([*map(str, MEGATRON_IDS)])
            raise DataError(f"{index}: version {version}, ids of type {code}; expected version 1, type {types}")
        if size < MEGATRON_HEADER.size + 12 * sequences + 8 * documents or not sequences:
            raise DataError(f"{index}: {size:,} bytes, too few for {sequences:,} sequences and {documents:,} documents")
        file.seek(MEGATRON_HEADER.size + 4 * (sequences - 1))
        (last_size,) = struct.unpack("<i", file.read(4))
        (first_at,) = struct.unpack("<q", file.read(8))
        file.seek(MEGATRON_HEADER.size + 12 * sequences - 8)
        (last_at,) = struct.unpack("<q", file.read(8))
    dtype = MEGATRON_IDS[code]
    width = np.dtype(dtype).itemsize
    if first_at != 0:
        raise DataError(f"{index}: the first sequence begins at byte {first_at:,}, expected 0")
    _expect_size(path, path.stat().st_size, last_at + last_size * width)
    return BinaryFile(path, dtype, 0, path.stat().st_size // width, vocabulary=vocabulary)


def _is_megatron(index: Path) -> bool:
    try:
        with index.open("rb") as file:
            return file.read(len(MEGATRON)) == MEGATRON
    except OSError:
        return False


def _expect_size(path: Path, size: int, expected: int) -> None:
    if size != expected:
        raise DataError(f"{path}: {size:,} bytes, expected {expected:,}, as its header says: truncated, or damaged")
