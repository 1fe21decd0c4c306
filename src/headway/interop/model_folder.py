"""An untrusted model folder: no code in it is run, nothing outside it is read."""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.documents import parse_json
from headway.errors import BadModelError, shown
from headway.interop.conversion import pickle_advice
from headway.interop.safetensors_header import DTYPES, MAX_TENSORS, Entry, read_header
from headway.suggestions import did_you_mean

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
MAX_CONFIG_BYTES, MAX_INDEX_BYTES, MAX_TOKENIZER_BYTES = 1_000_000, 8_000_000, 32_000_000
MAX_SHARDS = 1_000
CODE_KEYS = ("auto_map", "custom_pipelines", "trust_remote_code", "custom_generate")
SETTINGS = ("generation_config.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json")
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "encoder.json", "vocab.bpe", "vocab.txt", "source.spm", "target.spm", "spiece.model",
    "sentencepiece.bpe.model", "tokenizer.model", "generation_config.json", "modules.json",
)  # fmt: skip

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")  # `gpt2`, `HuggingFaceTB/SmolLM2-135M`


def _missing(path: Path) -> str:
    """The message for a path that is not a folder; for one that may be a model of the hub, how to fetch and read it."""
    if path.exists():
        return f"{path}: a file, expected a folder with config.json and safetensors, or a file that ends with .gguf"
    above = path.parent
    if not HUB_NAME.fullmatch(str(path)) or (above.name and above.is_dir()):
        hint = did_you_mean(path.name, (each.name for each in above.iterdir())) if above.is_dir() else ""
        return f"{path}: no such folder{f'; {hint.strip()}' if hint else ''}"
    fetch = f"`hf download {path} --local-dir {path.name}` fetches a model of the Hugging Face hub"
    return f"{path}: no such folder, and headway downloads nothing; {fetch}, then `headway import {path.name}` reads it"


class ModelFolder:
    """A folder with config.json and safetensors: its config, and its tensors one at a time.

    Rejects anything that could run code or reach outside the folder, and headers that do not fit their file.
    Raises BadModelError naming the file and the field or tensor.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise BadModelError(_missing(path))
        self.path, self.root = path, path.resolve()
        self.config = self.settings(CONFIG)
        if self.config is None:
            raise BadModelError(f"{path}: no {CONFIG}, and no GGUF file")
        if "quantization_config" in self.config:
            raise BadModelError(f"{self.named(CONFIG)}: quantization_config: quantised weights are not read")
        self.files = tuple(name for name in TOKENIZER_FILES if self.has(name))
        for name in SETTINGS:
            self.settings(name)  # for the errors it raises
        self.tensors = self._tensors()

    @property
    def tokenizer_files(self) -> tuple[str, ...]:
        """The files that the tokenizer consists of."""
        return tuple(name for name in self.files if name not in ("generation_config.json", "modules.json"))

    def named(self, name: str) -> str:
        """The path of a file of the folder, for errors."""
        return str(self.path / name)

    def has(self, name: str) -> bool:
        """Whether the folder has something of this name."""
        return os.path.lexists(self.path / name)

    def place(self, name: str) -> Path:
        """The real path of a file. Raises BadModelError unless it is a regular file inside the folder."""
        path = self.path / name
        try:
            real = path.resolve(strict=True)
            inside, plain = real.is_relative_to(self.root), stat.S_ISREG(real.stat().st_mode)
        except (OSError, RuntimeError, ValueError) as error:
            raise BadModelError(f"{self.named(name)}: missing or unreadable ({type(error).__name__})") from None
        if not inside:
            raise BadModelError(f"{self.named(name)}: a link out of the folder; `cp -rL` makes a folder of real files")
        if not plain:
            raise BadModelError(f"{self.named(name)}: not a regular file")
        return real

    def data(self, name: str, most: int) -> bytes:
        """The bytes of a file of at most `most` bytes. Raises BadModelError."""
        path = self.place(name)
        try:
            with path.open("rb") as file:
                found = file.read(most + 1)
        except OSError as error:
            raise BadModelError(f"{self.named(name)}: unreadable ({type(error).__name__})") from None
        if len(found) > most:
            raise BadModelError(f"{self.named(name)}: more than {most:,} bytes")
        return found

    def json(self, name: str, most: int = MAX_CONFIG_BYTES) -> Any:
        """The content of a JSON file. Raises BadModelError."""
        # transformers writes 10**30 for "no maximum".
        return parse_json(self.data(name, most), self.named(name), error=BadModelError, large_integers=True)

    def settings(self, name: str) -> Any:
        """A JSON file of settings, None if it is missing. Raises BadModelError for one that names code to run."""
        if not self.has(name):
            return None
        found = self.json(name)
        if not isinstance(found, dict):
            raise BadModelError(f"{self.named(name)}: expected an object, got {type(found).__name__}")
        for key, value in _leaves(found, ""):
            if key.split(".")[-1] in CODE_KEYS and value not in (None, False):
                raise BadModelError(
                    f"{self.named(name)}: {shown(key)} asks for code from the folder, which is never run"
                )
            if isinstance(value, str) and value.endswith(".py"):
                raise BadModelError(f"{self.named(name)}: {shown(key)} names code ({shown(value)}), which is never run")
        kind = found.get("tokenizer_class")
        if kind is not None and not (isinstance(kind, str) and kind.isidentifier()):
            raise BadModelError(
                f"{self.named(name)}: tokenizer_class {shown(kind)}, allowed: the name of a known class"
            )
        return found

    def read(self, name: str) -> Tensor:
        """One tensor as it is stored, memory-mapped: pages are read when they are used and dropped afterwards.

        Raises BadModelError if the file has been truncated.
        """
        entry = self.tensors[name]
        if not entry.nbytes:
            return torch.empty(entry.shape, dtype=DTYPES[entry.dtype])
        first = entry.begin - entry.begin % mmap.ALLOCATIONGRANULARITY
        with self.place(entry.file).open("rb") as file:
            if os.fstat(file.fileno()).st_size < entry.end:
                raise BadModelError(f"{self.named(entry.file)}: ends within tensor {shown(name)}")
            # A private mapping that is never written to: torch requires writable memory.
            mapped = mmap.mmap(file.fileno(), entry.end - first, access=mmap.ACCESS_COPY, offset=first)
        data = torch.frombuffer(mapped, dtype=torch.uint8, count=entry.nbytes, offset=entry.begin - first)
        if entry.begin % DTYPES[entry.dtype].itemsize:  # a header of odd length
            data = data.clone()
        return data.view(DTYPES[entry.dtype]).view(entry.shape)

    def _tensors(self) -> dict[str, Entry]:
        if self.has(WEIGHTS):
            return self._header(WEIGHTS)
        if self.has(INDEX):
            return self._sharded()
        found = sorted(name for name in os.listdir(self.path) if name.endswith(PICKLES))
        if found:
            advice = pickle_advice(self.path, self.config, self.tokenizer_files)
            raise BadModelError(f"{self.named(found[0])}: pickle can run code and is never read; {advice}")
        raise BadModelError(f"{self.path}: no weights, expected {WEIGHTS} or {INDEX}")

    def _header(self, name: str) -> dict[str, Entry]:
        try:
            found = read_header(self.place(name), name)
        except OSError as error:
            raise BadModelError(f"{self.named(name)}: unreadable ({type(error).__name__})") from None
        if not found:
            raise BadModelError(f"{self.named(name)}: holds no tensor")
        return found

    def _sharded(self) -> dict[str, Entry]:
        """The tensors of every shard the index names; index and shards must agree."""
        wanted = self._index()
        found: dict[str, Entry] = {}
        for shard in sorted(set(wanted.values())):
            for name, entry in self._header(shard).items():
                if wanted.get(name) != shard:
                    raise BadModelError(f"{self.named(shard)}: tensor {shown(name)} is not there by {INDEX}")
                found[name] = entry
        lost = next((name for name in wanted if name not in found), None)
        if lost is not None:
            raise BadModelError(f"{self.named(INDEX)}: tensor {shown(lost)} is not in {shown(wanted[lost])}")
        return found

    def _index(self) -> dict[str, str]:
        index = self.json(INDEX, MAX_INDEX_BYTES)
        wanted = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(wanted, dict) or not wanted or len(wanted) > MAX_TENSORS:
            raise BadModelError(f"{self.named(INDEX)}: weight_map, expected tensors with their files")
        for name, shard in wanted.items():
            # A plain file name: without a path separator of any system it cannot lead elsewhere.
            if not isinstance(shard, str) or not shard.endswith(".safetensors") or set(shard) & set("/\\:\0"):
                given = f"weight_map of {shown(name)} is {shown(shard)}"
                raise BadModelError(f"{self.named(INDEX)}: {given}, allowed: a file of this folder, *.safetensors")
        if len(set(wanted.values())) > MAX_SHARDS:
            raise BadModelError(f"{self.named(INDEX)}: {len(set(wanted.values())):,} files, allowed: {MAX_SHARDS:,}")
        return wanted


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every key with its value, and every element of a list, parents before children."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in parts:
        below = f"{path}.{key}" if path else str(key)
        yield below, value
        yield from _leaves(value, below)
