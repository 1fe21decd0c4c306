"""What a run folder holds, without loading its weights."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from headway import config as configs
from headway.errors import ConfigError, NoRunError
from headway.models import build_model
from headway.runs.config import RunConfig
from headway.runs.folder import CONFIG, DATA, read_config, read_tokenizers
from headway.storage.manifest import INT8
from headway.training.checkpoints import Checkpoints
from headway.training.trainer import LOG

TAIL = 2**16  # bytes at the end of a log in which its last entries are looked for


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
        "can": list(config.task.pipeline_class().can(config.model)),
    }


def _config(folder: Path) -> RunConfig:
    try:
        return read_config(folder)
    except ConfigError as error:
        raise NoRunError(f"{folder}: {CONFIG} is not the config of a run ({error})") from error


def _identity(config: RunConfig) -> dict[str, Any]:
    task = configs.kind(type(config.task))
    model = build_model(config.model, device="meta")
    return {
        "task": task,
        "task_title": config.task.title,
        "model": configs.kind(type(config.model)),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _data(folder: Path, config: RunConfig) -> dict[str, Any]:
    """The data, its digests by split, the vocabularies by file and the number of classes."""
    facts: dict[str, Any] = {"origin": "trained" if config.data.spec else "imported", "data": config.data.spec or None}
    with contextlib.suppress(OSError, ValueError, AttributeError):
        facts |= {f"digest_{split}": digest for split, digest in json.loads((folder / DATA).read_text()).items()}
    for name, tokenizer in read_tokenizers(folder, config.data.marks).items():
        side = name.removeprefix("tokenizer").removesuffix(".json").replace("-", "_")  # "", "_source" or "_target"
        facts[f"vocabulary{side}"] = tokenizer.size
    if config.data.classes:
        facts["classes"] = len(config.data.classes)
    return facts


def _progress(folder: Path, config: RunConfig) -> dict[str, Any]:
    """The steps done and planned, the best validation loss, and the last entries of the log."""
    steps = Checkpoints(folder).steps()
    trained, validated = _last_entries(folder / LOG)
    facts: dict[str, Any] = {
        "step": max([steps[-1] if steps else 0, trained.get("step", 0)]),
        "steps_planned": config.train.steps if config.data.spec else 0,
        "best_step": None,
        "best_loss": None,
    }
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        best = json.loads((folder / "best.json").read_text())
        facts |= {"best_step": best["step"], "best_loss": best["loss"]}
    facts |= {f"last_{name}": value for name, value in trained.items()}
    return facts | {f"validated_{name}" if name == "step" else name: value for name, value in validated.items()}


def _last_entries(log: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last training step and the last validation in a log; {} if the log has none."""
    trained: dict[str, Any] = {}
    validated: dict[str, Any] = {}
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        for line in reversed(file.read().splitlines()):
            with contextlib.suppress(ValueError):  # the first line of the tail and the last of a crash may be cut short
                entry = json.loads(line)
                if "val_loss" in entry:
                    validated = validated or entry
                else:
                    trained = trained or entry
            if trained and validated:
                break
    return trained, validated


def _files(folder: Path) -> dict[str, Any]:
    """The checkpoints there are, and the bytes of them, of the int8 copy and of the whole folder."""
    checkpoints = Checkpoints(folder)
    copy = folder / INT8
    return {
        "checkpoints": checkpoints.steps(),
        "checkpoint_bytes": _size(checkpoints.folder),
        "copies": [INT8] if copy.is_dir() else [],
        "copy_bytes": _size(copy),
        "bytes": _size(folder),
    }


def _size(folder: Path) -> int:
    """The bytes of the files in a folder and below it; links are not followed."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # removed meanwhile, as a training run's old checkpoint
                total += (Path(parent) / name).lstat().st_size
    return total
