"""Training with what a user sees of it: a bar on stderr, trackers, and the curves at the end."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headway.cli.progress import CallbackList, TrainingBar
from headway.cli.trackers import tracker
from headway.errors import StorageError
from headway.plots.curves import plot_curves
from headway.runs import plan_run, read_config, train_run
from headway.runs.config import RunConfig
from headway.runs.plan import TrainingPlan
from headway.storage.commit import commit_file
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG, read_log
from headway.training.ranks import ALONE, Alone


@dataclass(frozen=True, slots=True)
class Length:
    """How long to train, if not for train.steps: passes over the data, or seconds; and keys that this leaves alone.

    `notes` are printed below the plan.
    """

    epochs: float | None = None
    budget: float | None = None
    fixed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


BY_STEPS = Length()


def plan_only(config: RunConfig, folder: Path, *, resume: bool, init: Path | None, length: Length) -> TrainingPlan:
    """What would be trained, with a bar on stderr while data is read."""
    with TrainingBar(folder.name, config.train.steps, config.task.unit) as bar:
        return plan_run(
            config,
            folder,
            bar,
            resume=resume,
            init=init,
            epochs=length.epochs,
            budget=length.budget,
            fixed=length.fixed,
        )


def train_and_draw(
    config: RunConfig,
    folder: Path,
    *,
    resume: bool,
    trackers: Sequence[str] = (),
    init: Path | None = None,
    length: Length = BY_STEPS,
    samples: bool = False,
    ranks: Alone = ALONE,
) -> None:
    """Train into a folder with a bar on stderr, and `trackers` by name; the curves are drawn however training ends.

    Of several ranks, rank 0 shows and draws.
    """
    train = partial(
        train_run,
        config,
        folder,
        resume=resume,
        init=init,
        epochs=length.epochs,
        budget=length.budget,
        fixed=length.fixed,
        ranks=ranks,
    )
    if not ranks.first:
        train()
        return
    unit = config.task.unit
    label = f"loss ({config.task.loss_unit} per {unit.removesuffix('s')})"
    with contextlib.ExitStack() as stack:
        shown = [stack.enter_context(tracker(name, folder)) for name in trackers]
        log = folder / LOG
        before = log.stat().st_mtime_ns if log.is_file() else None
        bar = stack.enter_context(
            TrainingBar(folder.name, config.train.steps, unit, notes=length.notes, samples=samples)
        )
        try:
            train(CallbackList(bar, *shown))
        except BaseException:
            # A run that was refused stays as it was. Report why training ended, not that nothing can be drawn.
            with contextlib.suppress(StorageError, OSError):
                if log.stat().st_mtime_ns != before:
                    _draw(folder, label, config.task.main_phase)
            raise
        _draw(folder, label, config.task.main_phase)


def best_line(folder: Path) -> str:
    """Which checkpoint of a finished run is used: "step 1,262 is the best: validation accuracy 0.7333, loss 0.8480".

    Where an average of checkpoints is used, the figures are those of the last validation.
    """
    best = Checkpoints(folder).best()
    if best is None:
        return ""
    if not read_config(folder).train.average:
        return f"step {best.step:,} is the best: {best.described}; "
    last = [entry for entry in read_log(folder / LOG) if "val_loss" in entry][-1:]
    return "".join(f"step {entry['step']:,}: validation loss {entry['val_loss']:.4f}; " for entry in last)


def next_commands(folder: Path) -> list[str]:
    """What to do with a finished run: evaluate it, use it, look at it; the first two as far as its task has them."""
    from headway.cli.parser import usage
    from headway.runs.info import run_info

    can = run_info(folder)["can"]
    general = ("evaluate", "look", "verify", "export")
    wanted = ["evaluate", *[verb for verb in can if verb not in general][:1], "look"]
    return [f"headway {usage(verb, shlex.quote(str(folder)))}" for verb in wanted if verb in can]


def _draw(folder: Path, label: str, phase: str | None) -> None:
    """The curves of the run's log; of a task with phases, those of its main phase: losses of one kind."""
    entries = [entry for entry in read_log(folder / LOG) if entry.get("phase", phase) == phase]
    if entries:
        best = Checkpoints(folder).best()
        chosen = (
            None
            if best is None or best.value is None
            else (best.step, f"best: {best.criterion.title} {best.value:.3f}")
        )
        commit_file(folder / "curves.png", plot_curves(entries, ylabel=label, best=chosen))
