"""Training into a folder: the data is prepared, the model built and sized, and every file of the run written."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.counts import counted
from headway.data.digests import TRAINED_ON
from headway.data.files import listed
from headway.errors import ConfigError, StorageError
from headway.inspection.page.kept_looks import LOOKS
from headway.models import build_model
from headway.models.drawing import draw_later
from headway.runs.budget import SlowStartWatch, TooSlowError
from headway.runs.config import RunConfig
from headway.runs.finetune import start, start_from, with_new_trained
from headway.runs.folder import CONFIG, DATA, TOKENIZERS, run_files
from headway.runs.keep_looks import LookKeeper
from headway.runs.plan import TrainingPlan, parameter_count, plan_of
from headway.runs.probe import BUSY, StepTimes
from headway.runs.ready import ReadyRun, TrainingRequest, make_ready, run_there
from headway.storage.commit import discard
from headway.storage.locks import LOCK, FolderBefore, locked
from headway.storage.manifest import MANIFEST
from headway.storage.run_manifest import commit_run_files, read_run_manifest, run_id
from headway.storage.targets import DRAFT
from headway.training.callbacks import Callback, SilentCallback
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG
from headway.training.quantities import duration
from headway.training.ranks import ALONE, Alone
from headway.training.trainer import Trainer

SILENT = SilentCallback()
BEGUN = (
    LOCK,
    CONFIG,
    DATA,
    TOKENIZERS,
    MANIFEST,
    LOG,
    LOOKS,
    "checkpoints",
    f"{DRAFT}*",
)  # files of a run without a step
MEASURED_PARAMETERS = 50_000_000  # of a model that `plan_run` takes a few steps of
PATIENCE = 1.0  # seconds of a measurement


def train_run(
    config: RunConfig,
    folder: Path,
    watcher: Callback = SILENT,
    *,
    resume: bool = False,
    init: Path | None = None,
    epochs: float | None = None,
    budget: float | None = None,
    fixed: Collection[str] = (),
    ranks: Alone = ALONE,
) -> Trainer:
    """Train into a folder, from the weights of the run `init` if given, or go on there.

    `watcher` receives the progress, first of all the plan. `epochs` sets train.steps by the data; `budget`, in seconds,
    fits steps, batch and model to this machine (headway.runs.budget). Both scale what is counted in steps, but no key
    in `fixed`. With `ranks`, several processes call this alike, and rank 0 writes. Raises ConfigError if the folder
    holds a run and resume was not asked for.
    """
    started = time.perf_counter()
    if budget is not None and ranks.size > 1:
        raise ConfigError(f"--budget measures one process, not {ranks.size} ranks; pass --train.steps or --epochs")
    with _held(folder, watcher) if ranks.first else nullcontext():
        with ranks.in_turn():  # what rank 0 has tokenised, the others find in the cache
            if ranks.first and not resume and (there := run_there(folder)):
                raise ConfigError(there)
            if ranks.first and (others := _other_files(folder)):
                watcher.note(f"{folder} has other files ({listed(others, most=3)}); the run's are written beside them")
            given = TrainingRequest(folder, watcher, resume, init, epochs, budget, tuple(fixed))
            ready = make_ready(config, given, started)
        if ready.fitted is None or budget is None:
            return _train(ready, given, watcher, ranks)
        try:
            trainer = _train(ready, given, SlowStartWatch(watcher, ready.fitted, budget, started))
        except TooSlowError as error:
            again = ready.replanned(error.step, time.perf_counter() - started)
            watcher.note(
                f"a step takes {duration(error.step)}, not {duration(ready.fitted.step)} as measured: starting again, "
                f"to keep to {duration(budget)}, with {again.config.train.steps:,} instead of "
                f"{counted(ready.config.train.steps, 'step')}"
            )
            discard(folder / LOG)  # of a run with another config, as are its checkpoints
            for step in Checkpoints(folder).steps():
                discard(Checkpoints(folder).path(step))
            trainer, ready = _train(again, given, watcher), again
        assert ready.fitted is not None
        for line in ready.fitted.afterwards(budget, time.perf_counter() - started):
            watcher.note(line)
        return trainer


def _other_files(folder: Path) -> list[str]:
    """What is in a folder that is not of a run, hidden files apart, if the folder is not that of a run."""
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if CONFIG in names:
        return []
    return [name for name in names if not name.startswith(".") and not any(fnmatch(name, own) for own in BEGUN)]


def _train(ready: ReadyRun, given: TrainingRequest, watcher: Callback, ranks: Alone = ALONE) -> Trainer:
    """Build the model, write the files of the run, and take its steps, whose progress `watcher` receives."""
    config, prepared, folder, init = ready.config, ready.prepared, given.folder, given.init
    note = given.watcher.note
    # Each rank keeps its rows of a model that may be larger than its memory. Adapters are drawn beside weights that are
    # there, and another run's weights are read into all of a model.
    shards = config.train.shard != "none" and ranks is not ALONE and config.train.lora is None
    later = draw_later(config.model, seed=config.train.seed) if shards and (init is None or given.before) else None
    model, drawing = later or (build_model(config.model, seed=config.train.seed), None)
    facts = dict(ready.facts)
    if init is not None and not given.before:
        begun = start_from(model, config, init)
        config, facts = with_new_trained(config, begun), {**facts, **begun.facts(str(init))}
    keeper = LookKeeper(config, prepared.tokenizers, folder) if config.train.keep_looks else None
    trainer = Trainer(model, prepared.training, config.train, folder, watcher, ranks, keeper, drawing)
    if given.resume:
        at = trainer.resume()
        note(f"resuming at step {trainer.step}" if at else "no checkpoint yet: starting at step 0")
        if trainer.step >= config.train.steps:
            note(f"all {counted(config.train.steps, 'step')} are done; a larger --train.steps trains on")
    # Nothing is written before all that can be refused has been accepted.
    trained_on = {split: prepared.digests[split] for split in TRAINED_ON if split in prepared.digests}
    tokenizers = {name: tokenizer.to_json() for name, tokenizer in prepared.tokenizers.items()}
    if ranks.first:
        _commit_files(folder, run_files(config, tokenizers, trained_on), init=init)
        if keeper is not None:  # the first look is that of the weights to begin with; a bad input shows here, at once
            keeper(trainer.model, trainer.step, None, write=trainer.step == 0)
    plan_of(config, prepared, folder, at=trainer.step, more=facts, ranks=ranks.size).tell(given.watcher)
    trainer.train()
    return trainer


@contextmanager
def _held(folder: Path, watcher: Callback) -> Iterator[None]:
    """Lock the folder, which is as it was if nothing was trained."""
    before = FolderBefore(folder)
    with locked(folder), _removed_unless_started(before, watcher):
        yield


@contextmanager
def _removed_unless_started(before: FolderBefore, watcher: Callback) -> Iterator[None]:
    """Leave the folder as it was if training fails or is interrupted before there is anything to keep of it.

    To keep is a checkpoint, a step in the log, and what a task makes for itself, such as the episodes it has played.
    """
    try:
        yield
    except BaseException as error:
        log, folder = before.folder / LOG, before.folder
        stepped = bool(Checkpoints(folder).steps()) or (log.is_file() and log.stat().st_size > 0)
        own = all(any(fnmatch(name, each) for each in BEGUN) for name in before.created())
        if own and not stepped:
            with suppress(StorageError):
                before.restore()
                if not isinstance(error, Exception):  # an interrupt; an error is reported with its reason
                    watcher.note(f"no step was trained yet: nothing is left in {folder}")
        raise


def plan_run(
    config: RunConfig,
    folder: Path,
    watcher: Callback = SILENT,
    *,
    resume: bool = False,
    init: Path | None = None,
    epochs: float | None = None,
    budget: float | None = None,
    fixed: Collection[str] = (),
) -> TrainingPlan:
    """What `train_run` would do with the same arguments; the data is read, and nothing is written."""
    started = time.perf_counter()
    given = TrainingRequest(folder, watcher, resume, init, epochs, budget, tuple(fixed))
    with TemporaryDirectory() as scratch, _cache_beside(config.data.cache, Path(scratch)) as cache:
        ready = make_ready(replace(config, data=replace(config.data, cache=cache)), given, started, Path(scratch))
        facts = ready.facts if budget is not None else {**ready.facts, "time": _estimate(ready, Path(scratch))}
        if init is not None and not given.before:
            begun = start(build_model(ready.config.model, device="meta"), ready.config, init)
            facts = {**facts, **begun.facts(str(init))}
            ready = replace(ready, config=with_new_trained(ready.config, begun))
        at = given.before[-1] if given.before else 0
        if not resume and (there := run_there(folder)):
            watcher.note(there)
        planned = replace(ready.config, data=replace(ready.config.data, cache=config.data.cache))
        return plan_of(planned, ready.prepared, folder, at=at, more=facts)


def _estimate(ready: ReadyRun, scratch: Path) -> str:
    """How long the steps will take, by a few steps of a throwaway copy."""
    config = ready.config
    if not config.task.takes_budget or parameter_count(config) > MEASURED_PARAMETERS:
        return "not measured for this model; the first steps of training tell"
    times = StepTimes(config, ready.prepared.training, scratch, PATIENCE)
    step = config.train.accumulate * times.seconds(1.0)
    whole = config.train.steps * step
    if times.busy < BUSY:
        return f"about {duration(whole)} on this machine at {duration(step)} a step, and validations"
    return (
        f"about {duration(whole)} at {duration(step)} a step, by the CPU time of one thread, and validations; the "
        f"machine is busy: at its load of now {duration(times.busy * whole)} at {duration(times.busy * step)} a step"
    )


@contextmanager
def _cache_beside(cache: str, scratch: Path) -> Iterator[str]:
    """A cache that has what is in `cache` and keeps what is added for itself."""
    place, own = Path(cache).expanduser(), scratch / "cache"
    own.mkdir()
    for entry in place.iterdir() if place.is_dir() else ():
        (own / entry.name).symlink_to(entry.resolve())
    yield str(own)


def _commit_files(folder: Path, files: dict[str, bytes], *, init: Path | None) -> None:
    """Write the run's files; a run that is resumed keeps its id, and one of an older version gets one."""
    known = read_run_manifest(folder)
    checkpoints = Checkpoints(folder)
    if known is not None and checkpoints.steps():
        commit_run_files(folder, files, run=known.run, adopted=known.adopted)
    else:
        origin = None if init is None else Checkpoints(init).key()[1]
        commit_run_files(folder, files, run=run_id(files, origin), adopted=checkpoints.without_run())
