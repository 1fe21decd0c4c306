"""The 8-bit copy of a run's weights, kept in its folder so that the next start need not quantise again.

To check and pack it takes as long as to import and build the model it is for, and needs nothing of that: both go on at
once, the one on threads, which torch and hashing leave free.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from headway.counts import counted
from headway.documents import read_json
from headway.errors import DataError, StorageError
from headway.nn.int8 import PROCESS_LOCK, Int8Linear, Method, fbgemm, pack_weight, supported
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import INT8, MANIFEST, background_check, problems
from headway.storage.tensors import read_tensors

WEIGHTS, FACTS = "model.safetensors", "facts.json"
FORMAT = 2  # 1: every layer plain, nothing measured
LIMIT = 0.01  # the largest rise of the loss with which `auto` takes int8


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Facts:
    """What was measured when the copy was made, and the layers that are not plain."""

    rise: float | None  # of the perplexity, as a share of float32's; None: the task has no inputs to measure it on
    methods: Mapping[str, Method] = field(default_factory=dict)
    places: int = 0  # tokens or images that it was measured on
    own: bool = False  # of the run's validation data; False: made up

    @property
    def acceptable(self) -> bool:
        """Whether `auto` may take int8."""
        return self.rise is not None and self.rise <= LIMIT

    @property
    def measured(self) -> str:
        """The figure, for people."""
        if self.rise is None:
            return "the rise of the loss is not known: this task has no inputs to measure it on"
        inputs = "of its validation data" if self.own else "of made-up inputs"
        return f"perplexity {1 + self.rise:.4f} times that of fp32 on {counted(self.places, 'place')} {inputs}"

    @property
    def layers(self) -> str:
        """How many layers have which method, for people; empty if all are plain."""
        return ", ".join(f"{count} {method}" for method, count in Counter(self.methods.values()).most_common())

    @classmethod
    def from_json(cls, value: Any) -> Int8Facts:
        """Raises DataError for what is not the content of a copy's facts in this format."""
        try:
            rise, methods = value["loss_rise"], dict(value["methods"])
            fitting = set(methods.values()) <= set(get_args(Method)) and isinstance(rise, float | None)
            if value["format"] == FORMAT and fitting:
                return cls(rise=rise, methods=methods, places=int(value["places"]), own=bool(value["own"]))
        except (KeyError, TypeError, ValueError):
            pass
        raise DataError("an int8 copy of another format")

    def to_json(self) -> dict[str, Any]:
        """The same for the copy's facts; what is not finite is not JSON."""
        rise = self.rise if self.rise is None or math.isfinite(self.rise) else sys.float_info.max
        return {
            "format": FORMAT,
            "loss_rise": rise,
            "places": self.places,
            "own": self.own,
            "methods": dict(self.methods),
        }


def kept_facts(run: Path, key: str | None = None) -> Int8Facts | None:
    """What was measured when a run's copy was made; None without a copy, or if its checkpoints have another key."""
    folder = run / INT8
    if problems(folder, [FACTS]):
        return None
    with contextlib.suppress(DataError, KeyError, TypeError):
        value = read_json(folder / FACTS)
        return Int8Facts.from_json(value) if key is None or value["checkpoints"] == key else None
    return None


class Int8Copy:
    """The copy in a folder, if there is one, its layers being packed by the threads of a pool."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.folder, self.manifest = folder, _text(folder / MANIFEST)
        self.facts: Int8Facts | None = None  # once `is_of` has found it sound
        self.tensors = _read(folder / WEIGHTS)
        self.problems, found = background_check(folder) or pool.submit(problems, folder), self.tensors
        self.packed = {
            name: pool.submit(pack_weight, found[f"{name}.weight"], found[f"{name}.scale"], found.get(f"{name}.bias"))
            for name in _layers(found)
        }

    def is_of(self, key: str) -> bool:
        """Whether it is whole, and of the checkpoints that have this key."""
        with contextlib.suppress(DataError, KeyError, TypeError):
            facts = read_json(self.folder / FACTS)
            self.facts = Int8Facts.from_json(facts)
            known = bool(key) and facts["checkpoints"] == key
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

    def replace(self, model: nn.Module, key: str, facts: Int8Facts) -> None:
        """Keep this model in its stead; a folder that cannot be written only costs the next start its time."""
        with contextlib.suppress(StorageError):
            discard(self.folder)
            with commit_folder(self.folder, shared=True) as draft:
                draft.tensors(WEIGHTS, {name: t.contiguous() for name, t in model.state_dict().items()})
                draft.json(FACTS, {"checkpoints": key, **facts.to_json()})


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
        if path.is_file():  # a pipe would be waited for
            return path.read_text()
    return ""


def _read(path: Path) -> dict[str, Tensor]:
    with contextlib.suppress(DataError, OSError):
        if path.is_file():
            return read_tensors(path)
    return {}


def _layers(tensors: dict[str, Tensor]) -> list[str]:
    """The names of the 8-bit layers, where this machine has a use for packed ones."""
    if not supported():
        return []
    names = (name.removesuffix(".scale") for name in tensors if name.endswith(".scale"))
    return [name for name in names if f"{name}.weight" in tensors and tensors[f"{name}.weight"].dtype == torch.int8]
