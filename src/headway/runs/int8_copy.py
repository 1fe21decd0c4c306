"""The 8-bit copy of a run's weights, kept in its folder so that the next start need not quantise again.

To check and pack it takes as long as to import and build the model it is for, and needs nothing of that: both go on at
once, the one on threads, which torch and hashing leave free.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor, nn

from headway.errors import DataError, StorageError
from headway.nn.int8 import PROCESS_LOCK, Int8Linear, fbgemm, pack_weight, supported
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import INT8, MANIFEST, background_check, problems
from headway.storage.tensors import read_tensors

WEIGHTS, FACTS = "model.safetensors", "facts.json"


class Int8Copy:
    """The copy in a folder, if there is one, its layers being packed by the threads of a pool."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.folder, self.manifest = folder, _text(folder / MANIFEST)
        self.tensors = _read(folder / WEIGHTS)
        self.problems, found = background_check(folder) or pool.submit(problems, folder), self.tensors
        self.packed = {
            name: pool.submit(pack_weight, found[f"{name}.weight"], found[f"{name}.scale"], found.get(f"{name}.bias"))
            for name in _layers(found)
        }

    def is_of(self, key: str) -> bool:
        """Whether it is whole, and of the checkpoints that have this key."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = bool(key) and json.loads((self.folder / FACTS).read_text())["checkpoints"] == key
            # Another process may have put a copy of other weights in its place since these were read.
            return known and self._sound() and _text(self.folder / MANIFEST) == self.manifest
        return False

    def _sound(self) -> bool:
        return bool(self.tensors) and not self.problems.result()

    def make_ready(self, model: nn.Module) -> None:
        """Give each 8-bit layer of the model its packed weight."""
        for name, part in model.named_modules():
            if isinstance(part, Int8Linear) and name in self.packed:
                part.packed_weight = self.packed[name].result()

    def replace(self, model: nn.Module, key: str) -> None:
        """Keep this model in its stead; a folder that cannot be written only costs the next start its time."""
        with contextlib.suppress(StorageError):
            discard(self.folder)
            with commit_folder(self.folder, shared=True) as draft:
                draft.tensors(WEIGHTS, {name: t.contiguous() for name, t in model.state_dict().items()})
                draft.json(FACTS, {"checkpoints": key})


@contextlib.contextmanager
def opened(run: Path) -> Iterator[Int8Copy]:
    """A run's copy; what is not packed at the end never will be."""
    engine = fbgemm() if supported() else contextlib.nullcontext()  # other processors have none to set
    with PROCESS_LOCK, engine, _quick_turns(), ThreadPoolExecutor(torch.get_num_threads()) as pool:
        try:
            yield Int8Copy(run / INT8, pool)
        finally:
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _quick_turns() -> Iterator[None]:
    """Switch threads every tenth of a millisecond, not every five: packing a layer takes two milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _text(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return path.read_text()
    return ""


def _read(path: Path) -> dict[str, Tensor]:
    with contextlib.suppress(DataError):
        return read_tensors(path)
    return {}


def _layers(tensors: dict[str, Tensor]) -> list[str]:
    """The names of the 8-bit layers, where this machine has a use for packed ones."""
    if not supported():
        return []
    names = (name.removesuffix(".scale") for name in tensors if name.endswith(".scale"))
    return [name for name in names if f"{name}.weight" in tensors and tensors[f"{name}.weight"].dtype == torch.int8]
