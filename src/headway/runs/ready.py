"""A training run made ready: its data read, its config completed by the data, by epochs or by a budget."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from headway import config as configs
from headway._compile import compiler_missing
from headway.counts import counted
from headway.data.vocabularies import fitted_vocabulary
from headway.errors import ConfigError, DataError, UnknownCharacterError
from headway.runs.budget import FittedRun, fit_budget
from headway.runs.config import RunConfig
from headway.runs.finetune import begun_like, source_tokenizers
from headway.runs.folder import CONFIG, read_config, read_digests, read_tokenizers, tell_unchecked
from headway.runs.resume import expect_same
from headway.tasks.base import DataRequest, Prepared, ignore
from headway.training.callbacks import Callback
from headway.training.checkpoints import Checkpoints
from headway.training.devices import pick_device
from headway.training.quantities import duration
from headway.training.randomness import VERSION
from headway.training.scaling import differences, is_set, like_before, shortened


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What was asked for beside the config, and the steps of the checkpoints that are continued."""

    folder: Path
    watcher: Callback
    resume: bool
    init: Path | None
    epochs: float | None
    budget: float | None
    fixed: tuple[str, ...]
    before: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", Checkpoints(self.folder).steps() if self.resume else [])
        if self.epochs is not None and self.budget is not None:
            raise ConfigError("epochs and a budget both decide the steps; give one of them")


def run_there(folder: Path) -> str:
    """What to tell if a folder holds a run already, or nothing."""
    steps = Checkpoints(folder).steps()
    if not steps:
        return ""
    return f"{folder} holds a run already (step {steps[-1]}); pass --resume to continue it or --out for another folder"


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A complete config with its data, and what `epochs` or `budget` made of it."""

    config: RunConfig
    prepared: Prepared
    facts: dict[str, str]
    fitted: FittedRun | None = None  # to a budget
    request: DataRequest | None = None  # with which the data was read

    def replanned(self, step: float, gone: float) -> ReadyRun:
        """The same run with as many steps as fit its budget if a step takes `step` seconds and `gone` are gone."""
        assert self.fitted is not None
        assert self.request is not None
        fitted = self.fitted.replanned(step, gone)
        return ReadyRun(*_prepared(fitted.config, self.request), fitted.facts, fitted, self.request)


def make_ready(config: RunConfig, given: TrainingRequest, started: float, scratch: Path | None = None) -> ReadyRun:
    """Read the data and complete the config by it; with `scratch`, nothing is written elsewhere."""
    expected, resumed = None, given.resume and (given.folder / CONFIG).exists()
    if resumed:
        tell_unchecked(given.folder, given.watcher.note)
        before = read_config(given.folder)
        config = _as_before(config, before, given)
        if given.init is not None:
            config = begun_like(config, before)
        expect_same(given.folder, before, config)
        expected = read_digests(given.folder, given.watcher.note)
        if given.budget is not None:
            given.watcher.note(
                f"--budget {duration(given.budget)} is for a new run and changes nothing here: the run keeps its "
                f"{counted(config.train.steps, 'step')}; --train.steps makes it longer"
            )
    config.task.check_model(config.model)
    tokenizers = read_tokenizers(given.folder, config.data.marks) if given.resume else {}
    if given.init is not None and not resumed:
        config, tokenizers = source_tokenizers(config, given.init)
    elif not resumed:
        for key, given_there in (("data.new_tokens", config.data.new_tokens), ("train.lora", config.train.lora)):
            if given_there:
                raise ConfigError(f"{key} is for a run that begins with another one: pass --init RUN with it")
    request = DataRequest(
        data=config.data,
        model=config.model,
        folder=given.folder if scratch is None or resumed else scratch,
        batch_tokens=config.train.batch_tokens,
        seed=config.train.seed,
        accumulate=config.train.accumulate,
        compiled=_compiled(config),
        tokenizers=tokenizers,
        expected=expected,
        reads_only=scratch is not None and resumed,
        note=given.watcher.note,
        progress=given.watcher.preparing,
    )
    try:
        config, prepared = _prepared(config, request)
    except UnknownCharacterError as error:
        if given.init is None or resumed:
            raise
        remedy = "pass it, and all others that are new, as --data.new_tokens"
        raise DataError(f"{error}, which is that of {given.init}; {remedy}") from error
    if resumed or (given.epochs is None and given.budget is None):
        return ReadyRun(_with_epochs(config, prepared, given), prepared, {})
    recipe = config.train
    if given.budget is None:
        config = _with_epochs(config, prepared, given)
        changed = differences(recipe, config.train)
        return ReadyRun(config, prepared, {"fitted": f"{changed}, in proportion to the steps"} if changed else {})
    elapsed = time.perf_counter() - started
    same = given.init is not None
    fitted = fit_budget(config, prepared, given.budget, elapsed=1.5 * elapsed, fixed=given.fixed, same_model=same)
    # Read once more: for other batches, and because a task may remember what it was measured with.
    train = fitted.config.train
    request = replace(
        request,
        model=fitted.config.model,
        batch_tokens=train.batch_tokens,
        accumulate=train.accumulate,
        tokenizers=prepared.tokenizers,
        note=ignore,
    )
    return ReadyRun(*_prepared(fitted.config, request), fitted.facts, fitted, request)


def _prepared(config: RunConfig, request: DataRequest) -> tuple[RunConfig, Prepared]:
    """The data, and the config with the sizes that it decides."""
    prepared = config.task.prepare(request)
    if config.task.has_tokenizer and not prepared.tokenizers:
        raise ConfigError(f"task {config.task.name!r} prepared no tokenizer; set has_tokenizer = False in its class")
    if not request.tokenizers and prepared.trained_tokenizers:
        for size in sorted({tokenizer.size for tokenizer in prepared.tokenizers.values()}):
            if fewer := fitted_vocabulary(config.data.tokenizer, size):
                request.note(fewer)
    config = replace(config, model=configs.override(config.model, prepared.model_overrides))
    if prepared.classes:
        config = replace(config, data=replace(config.data, classes=prepared.classes))
    return config, prepared


def _with_epochs(config: RunConfig, prepared: Prepared, given: TrainingRequest) -> RunConfig:
    """The config with the steps of `epochs`, and a new run's schedule in proportion to them."""
    if given.epochs is None:
        return config
    train = config.train
    order = prepared.training.order.of(Checkpoints(given.folder).version(VERSION) if given.before else VERSION)
    steps = max(math.ceil(given.epochs * order.batches() / train.accumulate), 1)
    changed = replace(train, steps=steps)
    return replace(config, train=changed if given.before else shortened(changed, train.steps, given.fixed))


def _as_before(config: RunConfig, before: RunConfig, given: TrainingRequest) -> RunConfig:
    """The config of a run that goes on: what `epochs` or `budget` decided when it was begun stays."""
    if given.epochs is None and given.budget is None:
        return config
    train = like_before(config.train, before.train, given.fixed)
    if given.budget is None:
        return replace(config, train=train)
    names = ("steps", "batch_tokens", "accumulate", "learning_rate")
    own = {name: getattr(before.train, name) for name in names if not is_set(f"train.{name}", given.fixed)}
    known = configs.flat(configs.plain(config))
    set_here = {key: known[key] for key in given.fixed if key.startswith("model.")}
    model = configs.override(replace(config, model=before.model), set_here).model
    return replace(config, model=model, train=replace(train, **own))


def _compiled(config: RunConfig) -> bool:
    return config.train.compile and compiler_missing(pick_device(config.train.device).type) is None
