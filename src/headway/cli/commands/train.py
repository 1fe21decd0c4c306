"""`headway train`."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from pathlib import Path
from typing import Any

import yaml

from headway.cli import overrides_of
from headway.cli.progress import CallbackList, TrainingBar
from headway.cli.tensorboard import Tensorboard
from headway.config import override, plain
from headway.errors import ConfigError, StorageError
from headway.plots.curves import plot_curves
from headway.presets import preset
from headway.runs import read_config, train_run
from headway.runs.config import RunConfig
from headway.runs.finetune import fine_tuned
from headway.storage.commit import commit_file
from headway.training.trainer import LOG, read_log


def run(arguments: Namespace) -> None:
    """Train, then draw the curves."""
    config = resolve(arguments)
    if arguments.print_config:
        print(yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True), end="")
        return
    if not config.data.spec:
        raise ConfigError("no data: --data takes a built-in name (phrases, pydocs, reverse, …), a file or a folder")
    folder = Path(arguments.out or f"runs/{arguments.preset}")
    init = None if arguments.init is None else Path(arguments.init)
    train_and_draw(config, folder, resume=arguments.resume, tensorboard=arguments.tensorboard, init=init)
    print(folder)


def train_and_draw(
    config: RunConfig, folder: Path, *, resume: bool, tensorboard: bool = False, init: Path | None = None
) -> None:
    """Train into a folder with a bar on stderr; the curves are drawn however training ends."""
    unit = config.task.unit
    label = f"loss ({config.task.loss_unit} per {unit.removesuffix('s')})"
    with contextlib.ExitStack() as stack:
        events = [stack.enter_context(Tensorboard(folder / "tensorboard"))] if tensorboard else []
        bar = stack.enter_context(TrainingBar(folder.name, config.train.steps, unit))
        try:
            train_run(config, folder, CallbackList(bar, *events), resume=resume, init=init)
        except BaseException:
            with contextlib.suppress(StorageError):  # why training ended is what the user must hear
                _draw(folder, label, config.task.main_phase)
            raise
        _draw(folder, label, config.task.main_phase)


def _draw(folder: Path, label: str, phase: str | None) -> None:
    """The curves of the run's log; of a task with phases, those of its main phase: losses of one kind."""
    entries = [entry for entry in read_log(folder / LOG) if entry.get("phase", phase) == phase]
    if entries:
        commit_file(folder / "curves.png", plot_curves(entries, ylabel=label))


def resolve(arguments: Namespace) -> RunConfig:
    """The preset's recipe, with the model of `--init` if given, then the file's keys, then the command line's."""
    changes: dict[str, Any] = {}
    if arguments.config:
        changes |= _file(Path(arguments.config))
    named = {"data.spec": "data", "data.source": "source", "data.target": "target", "data.errors": "errors"}
    changes |= {key: value for key, name in named.items() if (value := getattr(arguments, name)) is not None}
    changes |= overrides_of(arguments.overrides)
    recipe = preset(arguments.preset).recipe()
    if arguments.init is not None:
        recipe = fine_tuned(recipe, read_config(Path(arguments.init)), Path(arguments.init))
        if "task.size" in changes:
            changes = {"model.image": changes["task.size"], **changes}
    return override(recipe, changes)


def _file(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected keys and values, got {type(tree).__name__}")
    return {key: value for key, value in _leaves(tree).items() if key != "type"}


def _leaves(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Dotted keys; a mapping with a `type` is one value, a choice with its settings."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        nested = isinstance(value, dict) and (not path or "type" not in value)
        found |= (
            _leaves({k: v for k, v in value.items() if k != "type"}, f"{path}{key}.")
            if nested
            else {f"{path}{key}": value}
        )
    return found
