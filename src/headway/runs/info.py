"""What a run folder holds, without loading its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway import config as configs
from headway.errors import ConfigError, NoRunError, advise
from headway.runs.config import RunConfig
from headway.runs.folder import CONFIG, read_config, read_digests, read_tokenizers
from headway.runs.int8_copy import kept_facts
from headway.runs.plan import parameter_count
from headway.runs.sizes import run_sizes
from headway.storage.manifest import INT8
from headway.tasks.base import ignore
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig
from headway.training.log import LOG, last_entries


def run_info(folder: Path) -> dict[str, Any]:
    """What a run is, from what data, how far and how well it is trained, its files, and what it can do.

    One flat dictionary for JSON. Raises NoRunError if the folder is not a run.
    """
    config = _config(folder)
    return {
        "run": str(folder),
        **_identity(config),
        **_data(folder, config),
        **_progress(folder, config),
        **_files(folder),
        "can": list(can_of(config)),
    }


def can_of(config: RunConfig) -> tuple[str, ...]:
    """The commands that work on a run: those of its task, without those that its model lacks."""
    from headway.interop.families import can_export

    verbs = config.task.pipeline_class().can(config.model)
    return verbs if "export" not in verbs or can_export(config.model) else tuple(v for v in verbs if v != "export")


def _config(folder: Path) -> RunConfig:
    try:
        return read_config(folder)
    except ConfigError as error:
        raise NoRunError(f"{folder}: {CONFIG} is not the config of a run ({error})") from error


def _identity(config: RunConfig) -> dict[str, Any]:
    return {
        "task": configs.kind(type(config.task)),
        "task_title": config.task.title,
        "model": configs.kind(type(config.model)),
        "parameters": parameter_count(config),
    }


def _data(folder: Path, config: RunConfig) -> dict[str, Any]:
    """The data, its digests by split, the vocabularies by file and the number of classes."""
    facts: dict[str, Any] = {"origin": "trained" if config.data.spec else "imported", "data": config.data.spec or None}
    digests = read_digests(folder, ignore) or {}
    facts |= {f"digest_{split}": digest for split, digest in digests.items()}
    for name, tokenizer in read_tokenizers(folder, config.data.marks).items():
        side = name.removeprefix("tokenizer").removesuffix(".json").replace("-", "_")  # "", "_source" or "_target"
        facts[f"vocabulary{side}"] = tokenizer.size
    if config.data.classes:
        facts["classes"] = len(config.data.classes)
    return facts


def _progress(folder: Path, config: RunConfig) -> dict[str, Any]:
    """The steps done and planned, the best checkpoint, and the last entries of the log."""
    checkpoints = Checkpoints(folder)
    steps = checkpoints.listed()
    trained, validated, damaged = last_entries(folder / LOG)
    if damaged:
        advise(f"{folder / LOG} has damaged lines, which are left out")
    at = trained.get("step", 0)
    if steps and config.data.spec and at < steps[-1]:
        advise(f"{folder / LOG} ends at step {at}, before the newest checkpoint (step {steps[-1]})")
    elif steps and config.data.spec and validated.get("step", 0) < (due := _last_evaluation(steps[-1], config.train)):
        advise(f"{folder / LOG} lacks the evaluation of step {due}, which was due before the newest checkpoint")
    facts: dict[str, Any] = {
        "step": max([steps[-1] if steps else 0, trained.get("step", 0)]),
        "steps_planned": config.train.steps if config.data.spec else 0,
        "best_step": None,
        "best_loss": None,
        "best_by": None,
        "best_value": None,
    }
    found = checkpoints.best()
    if found is not None:
        facts |= {"best_step": found.step, "best_loss": found.loss}
        facts |= {"best_by": found.criterion.figure, "best_value": found.figure}
    tuned = checkpoints.tuned(checkpoints.key(average=config.train.average)[0])
    facts |= {f"tuned_{name}": value for name, value in tuned.items()}
    facts |= {f"last_{name}": value for name, value in trained.items()}
    return facts | {f"validated_{name}" if name == "step" else name: value for name, value in validated.items()}


def _last_evaluation(step: int, train: TrainConfig) -> int:
    """The step of the last evaluation that is due up to a step; 0 if none is."""
    return step if step == train.steps else step - step % train.evaluate_every


def _files(folder: Path) -> dict[str, Any]:
    """The checkpoints there are, and the bytes of the folder by kind."""
    checkpoints, sizes = Checkpoints(folder), run_sizes(folder)
    facts, measured = kept_facts(folder), dict[str, Any]()
    if facts is None and (folder / INT8).is_dir():
        advise(f"{folder / INT8} is damaged or of another version; it is made again when int8 is used next")
    if facts is not None:
        measured = {"int8_loss_rise": facts.rise, "int8_measured": facts.measured, "int8_layers": facts.layers}
        measured["int8_by_auto"] = facts.acceptable
    return {
        "checkpoints": checkpoints.steps(),
        "checkpoint_bytes": sizes.checkpoints + sizes.optimiser,
        "optimiser_bytes": sizes.optimiser,
        "copies": [INT8] if (folder / INT8).is_dir() else [],
        "copy_bytes": sizes.int8,
        **measured,
        "reference_bytes": sizes.reference,
        "page_bytes": sizes.pages,
        "damaged_bytes": sizes.damaged,
        "other_bytes": sizes.other,
        "bytes": sizes.total,
    }
