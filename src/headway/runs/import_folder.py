"""Make a run of a Hugging Face model folder or a GGUF file: checked, its weights streamed, tried on a few tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save

from headway.data.config import DataConfig
from headway.interop.compare import probe
from headway.interop.family import GenerationTokens
from headway.interop.hf_reference import REFERENCE, reference_tensors, require_transformers
from headway.interop.importer import ImportPlan, inspect_folder, self_check
from headway.models import Model
from headway.runs.config import RunConfig
from headway.runs.folder import run_files
from headway.runs.weights import as_stored
from headway.storage.commit import commit_folder, commit_run
from headway.storage.run_manifest import commit_run_files, run_id
from headway.storage.tensors import read_tensors
from headway.training.checkpoints import FACTS, MODEL, SMALL_FILES, Checkpoints
from headway.training.config import TrainConfig

Progress = Callable[[int, int], None]  # bytes written, and of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What was imported, and the result of the self-check."""

    family: str
    tensors: int
    parameters: int
    bytes: int
    dtype: str
    largest: float  # magnitude of the model's outputs on a few tokens
    notes: list[str]


def import_folder(
    source: Path,
    folder: Path,
    progress: Progress = lambda done, total: None,
    *,
    with_reference: bool = False,
    pairs: bool | None = None,
) -> ImportReport:
    """Make a run of a model folder or a GGUF file.

    With a reference the run keeps logits that transformers computed, which `verify` compares with. `pairs` says whether
    a text classifier reads pairs of texts; None: as far as the folder shows it. The run appears whole or not at all.
    Raises BadModelError naming what cannot be imported, ConfigError for a run folder that is not empty, for `pairs` of
    another kind of model, or if transformers is missing, StorageError.
    """
    if with_reference:
        require_transformers()
    return write_run(inspect_folder(source, pairs=pairs), folder, progress, with_reference=with_reference)


def write_run(plan: ImportPlan, folder: Path, progress: Progress, *, with_reference: bool = False) -> ImportReport:
    """Write the run that a plan describes."""
    # Reading a tokenizer takes as long as hashing a hundred megabytes: it happens while the weights are written.
    with commit_run(folder) as draft, ThreadPoolExecutor(1) as background:
        reading = background.submit(plan.read_tokenizers)
        checkpoints, done = Checkpoints(draft), 0

        def written(count: int) -> None:
            nonlocal done
            done += count
            progress(done, plan.nbytes)
            if reading.done():
                reading.result()  # raises for a bad tokenizer before gigabytes are written

        needs = plan.nbytes + SMALL_FILES
        with commit_folder(checkpoints.path(0), needs=needs, facts={"step": 0}) as checkpoint, _one_thread():
            plan.write_weights(checkpoint, MODEL, written)
            checkpoint.json(FACTS, {"step": 0})
        checkpoints.mark_latest(0)
        tokenizers = reading.result()
        data = DataConfig(text2="text2" if plan.pairs else "", marks=tokenizers.special, classes=plan.classes)
        task, chat_notes = plan.chat(tokenizers)
        config = RunConfig(task=task, data=data, model=plan.config, train=TrainConfig())
        files = run_files(config, {name: each.to_str() for name, each in tokenizers.files.libraries.items()}, None)
        weights = checkpoints.path(0) / MODEL
        model = as_stored(plan.config, read_tensors(weights), str(weights))
        largest = self_check(model, plan)
        if with_reference:
            pad = None if tokenizers.special is None else tokenizers.special.pad
            files[REFERENCE] = _reference(plan, model, pad)
        adopted = checkpoints.without_run()
        commit_run_files(draft, files, run=run_id(files, adopted), adopted=adopted)
    return ImportReport(
        family=plan.family.name,
        tensors=len(plan.folder.tensors),
        parameters=plan.parameters,
        bytes=plan.nbytes,
        dtype=str(plan.dtype).removeprefix("torch."),
        largest=largest,
        notes=[*plan.notes, *tokenizers.files.notes, *chat_notes],
    )


def _reference(plan: ImportPlan, model: Model, pad: int | None) -> bytes:
    """The reference file: inputs, and the logits of transformers' own model of the folder."""
    inputs = probe(plan.family, plan.config, model.reads, GenerationTokens(pad=pad))
    architectures = plan.folder.config.get("architectures")
    tensors = reference_tensors(plan.folder.path, architectures, plan.family, inputs)
    return save({name: x.contiguous() for name, x in tensors.items()})


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch on one thread: others would spin while hashing and writing need the processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
