"""Training into a folder: the data is prepared, the model built and sized, and every file of the run written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import yaml

from headway import config as configs
from headway._compile import compiler_missing
from headway.data.digests import TRAINED_ON
from headway.errors import ConfigError
from headway.models import build_model
from headway.runs.config import RunConfig
from headway.runs.finetune import start_from
from headway.runs.folder import CONFIG, DATA, read_config, read_digests, read_tokenizers
from headway.runs.resume import expect_same
from headway.storage.commit import commit_file, locked
from headway.tasks.base import DataRequest
from headway.training.callbacks import Callback, SilentCallback
from headway.training.checkpoints import Checkpoints
from headway.training.devices import pick_device
from headway.training.trainer import Trainer

SILENT = SilentCallback()


def train_run(
    config: RunConfig,
    folder: Path,
    watcher: Callback = SILENT,
    *,
    resume: bool = False,
    init: Path | None = None,
) -> Trainer:
    """Train into a folder, from the weights of the run `init` if given, or go on there.

    `watcher` receives the progress. Raises ConfigError if it holds a run and resume was not asked for.
    """
    with locked(folder):
        before = Checkpoints(folder).steps()
        if before and not resume:
            raise ConfigError(
                f"{folder} holds a run already (step {before[-1]}); "
                "pass --resume to continue it or --out for another folder"
            )
        expected = None
        if resume and (folder / CONFIG).exists():
            expect_same(folder, read_config(folder), config)
            expected = read_digests(folder, watcher.note)
        config.task.check_model(config.model)
        prepared = config.task.prepare(
            DataRequest(
                data=config.data,
                model=config.model,
                folder=folder,
                batch_tokens=config.train.batch_tokens,
                seed=config.train.seed,
                accumulate=config.train.accumulate,
                compiled=_compiled(config),
                tokenizers=read_tokenizers(folder, config.data.marks) if resume else {},
                expected=expected,
                note=watcher.note,
                progress=watcher.preparing,
            )
        )
        if config.task.has_tokenizer and not prepared.tokenizers:
            raise ConfigError(
                f"task {config.task.name!r} prepared no tokenizer; set has_tokenizer = False in its class"
            )
        config = replace(config, model=configs.override(config.model, prepared.model_overrides))
        if prepared.classes:
            config = replace(config, data=replace(config.data, classes=prepared.classes))
        trained_on = {split: prepared.digests[split] for split in TRAINED_ON if split in prepared.digests}
        commit_file(folder / DATA, json.dumps(trained_on, indent=2) + "\n")
        for name, tokenizer in prepared.tokenizers.items():
            commit_file(folder / name, tokenizer.to_json())
        commit_file(folder / CONFIG, yaml.safe_dump(configs.plain(config), sort_keys=False, allow_unicode=True))
        model = build_model(config.model, seed=config.train.seed)
        if init is not None and not before:
            watcher.note(start_from(model, config, read_config(init), init))
        trainer = Trainer(model, prepared.training, config.train, folder, watcher)
        if resume:
            at = trainer.resume()
            watcher.note(f"resuming at step {trainer.step}" if at else "no checkpoint yet: starting at step 0")
        trainer.train()
        return trainer


def _compiled(config: RunConfig) -> bool:
    return config.train.compile and compiler_missing(pick_device(config.train.device).type) is None
