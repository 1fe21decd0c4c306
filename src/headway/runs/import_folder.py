"""A model folder of Hugging Face's kind becomes an ordinary run: checked, streamed, tried on a few tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from safetensors.torch import save
from torch import Tensor

from headway import config as configs
from headway.data.config import DataConfig
from headway.errors import BadModelError
from headway.interop.hf_reference import REFERENCE, must_have_transformers, reference
from headway.interop.importer import Import
from headway.models import ModelConfig, VitConfig
from headway.runs.config import RunConfig, TaskConfig
from headway.runs.folder import CONFIG
from headway.runs.weights import as_stored
from headway.storage.commit import commit_file, commit_folder, commit_run
from headway.storage.tensors import read_tensors
from headway.tasks.translation.training import Translation
from headway.training.checkpoints import SMALL_FILES, Checkpoints
from headway.training.config import TrainConfig

PROBE = 4  # tokens the imported model is tried on


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was imported, and what the self-check saw."""

    family: str
    tensors: int
    parameters: int
    bytes: int
    dtype: str
    largest: float  # magnitude of what the model gives on a few tokens
    notes: list[str]


@contextmanager
def _one_thread() -> Iterator[None]:
    """torch alone on its thread: others of its own would spin where hashing and writing need the processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def import_folder(
    source: Path,
    folder: Path,
    told: Callable[[int, int], None] = lambda done, all: None,
    *,
    with_reference: bool = False,
) -> Outcome:
    """Make a run of a model folder; `told` hears how many bytes are written, and of how many.

    With a reference the run keeps logits that transformers computed, which `verify` compares with. The run appears
    whole or not at all. Raises BadModelError naming what cannot be taken up, ConfigError for a run folder that is not
    empty or a reference that cannot be had, StorageError.
    """
    if with_reference:
        must_have_transformers()
    found = Import(source)
    with commit_run(folder) as draft:
        checkpoints, done = Checkpoints(draft), 0

        def written(count: int) -> None:
            nonlocal done
            done += count
            told(done, found.nbytes)

        with commit_folder(checkpoints.path(0), needs=found.nbytes + SMALL_FILES) as filled, _one_thread():
            found.write(filled, "model.safetensors", written)
            filled.json("trainer.json", {"step": 0})
        checkpoints.mark_latest(0)
        data = DataConfig(marks=found.marks, classes=found.classes)
        config = RunConfig(task=found.task, data=data, model=found.model, train=TrainConfig())
        for name, library in found.tokenizers.libraries.items() if found.tokenizers else ():
            commit_file(draft / name, library.to_str())
        commit_file(draft / CONFIG, yaml.safe_dump(configs.plain(config), sort_keys=False, allow_unicode=True))
        largest = _self_check(found.model, config.task, checkpoints.path(0) / "model.safetensors", source)
        if with_reference:
            pad = None if found.marks is None else found.marks.pad
            kept = reference(source, found.folder.config.get("architectures"), found.model, pad)
            commit_file(draft / REFERENCE, save({name: x.contiguous() for name, x in kept.items()}))
    numbers = sum(torch.Size(part.shape).numel() for part in found.parts.values())
    return Outcome(
        family=found.family.name,
        tensors=len(found.folder.tensors),
        parameters=numbers,
        bytes=found.nbytes,
        dtype=str(found.dtype).removeprefix("torch."),
        largest=largest,
        notes=found.notes,
    )


@torch.inference_mode()
def _self_check(config: ModelConfig, task: TaskConfig, weights: Path, source: Path) -> float:
    """The largest magnitude the model gives on a few tokens. Raises BadModelError if it is none."""
    model = as_stored(config, read_tensors(weights), str(weights))
    if isinstance(config, VitConfig):
        inputs: tuple[Tensor, ...] = (
            torch.zeros(1, config.channels, *config.size, dtype=next(model.parameters()).dtype),
        )
    else:
        tokens = torch.arange(PROBE).remainder(model.vocab).unsqueeze(0)  # type: ignore[arg-type]
        inputs = (tokens, tokens[:, :1]) if isinstance(task, Translation) else (tokens,)
    out = model.eval()(*inputs)
    parts = [part for part in (out if isinstance(out, tuple) else (out,)) if isinstance(part, Tensor)]
    largest = max(float(part.abs().max()) for part in parts)
    if not largest < float("inf"):
        raise BadModelError(f"{source}: the model gives {largest} on a few tokens, expected finite numbers")
    return largest
