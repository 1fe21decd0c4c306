"""A run that fits a time: steps, warm-up, batch and, if need be, the model's size, for this machine and this data.

The largest model, and for it the largest batch, is taken that makes enough steps in the time. How fast candidates are
is measured (headway.runs.probe): model and batch are chosen by what a step computes, so that a minute in which others
use the machine does not make a model small; the number of steps is chosen by the clock. The steps are then fixed: the
run ends by its schedule, never by the clock, and the config it writes gives the same weights again without a budget.

A machine may be busier than when it was measured. If the run would then end far beyond its time (`SlowStartWatch`), it
begins again, once, with as many steps as fit, and the same model and batch.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.config import flat, plain
from headway.counts import counted
from headway.errors import ConfigError
from headway.models.registry import ModelConfig, smaller_model
from headway.runs.config import RunConfig
from headway.runs.plan import parameter_count
from headway.runs.probe import BUSY, StepTimes
from headway.tasks.base import Prepared, article
from headway.training.callbacks import Callback
from headway.training.config import TrainConfig
from headway.training.devices import device_memory, pick_device
from headway.training.optimisers import state_bytes
from headway.training.quantities import duration
from headway.training.scaling import differences, is_set, shortened, with_warmup

ENOUGH_STEPS = 1000  # or the recipe's, if those are fewer: below, first the batch shrinks, then the model
FEW_STEPS = 300  # what the smallest model should make: below, its batch shrinks further
HALVINGS = 2  # of a batch that are tried before a smaller model; the smallest one gets one more
MOST_EPOCHS = 10  # beyond the recipe's own length, a run is not made longer than this many passes over the data
LEAST_RATE = 0.25  # of the recipe's: what a smaller batch takes from the rate at most
LEAST_WARMUP = 100  # steps, in a run of five times as many: the optimiser's running means need them
LEAST_STEPS = 100  # for a shorter run a note says that it is too short
MEASURING = 0.01  # of the budget: the patience of one measurement
SPARED = 0.05  # of the budget: what starting, saving and drawing take
MOST_VALIDATION = 1 / 3  # of the budget, of one validation
SHORT_VALIDATION = 5.0  # seconds, which are never too many
VALIDATING = 0.1  # of the budget, of all validations, of which there is at least one
MOST_EVALUATIONS = 8
SAVING = 0.05  # of the budget, of the checkpoints of a recipe that averages them
MOST_SAVES = 30
STATES = 16  # bytes of a parameter: weight, gradient and two running means
MEMORY = 0.6  # of the device's, for these
SAVE_SPEED = 100e6  # bytes a second: checkpoints are synced to the disk
SAVE_LATENCY = 0.2  # seconds
TRIAL = 0.15  # of the budget, and TRIAL_STEPS steps: when the speed of a run is compared with what was measured
TRIAL_STEPS = 3
LEAST_TRIAL = 2.0  # seconds, in a budget of at least five times as many
LATE = 1.25  # times the budget: a run that ended later says so
TOO_LATE = 1.3  # times the budget: a run that would end later begins again


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRun:
    """A config for a budget, and why it is this one."""

    config: RunConfig
    facts: dict[str, str]
    step: float  # seconds of a step, as measured
    aside: float  # seconds of validations and checkpoints
    replanned: Callable[[float, float], FittedRun]  # for another time of a step, and the seconds that are gone

    def afterwards(self, seconds: float, took: float) -> Iterator[str]:
        """What to tell when a run of this budget has ended: that it took longer, that it was too short to learn."""
        train = self.config.train
        if took > LATE * seconds:
            yield (
                f"the run took {duration(took)}, its budget was {duration(seconds)}: the machine became busier than it "
                "was during the first steps"
            )
        if train.steps >= LEAST_STEPS:
            return
        batch = f"{train.batch_tokens * train.accumulate:,} {self.config.task.batch_unit}"
        more = seconds + (LEAST_STEPS - train.steps) * self.step
        yield (
            f"warning: only {counted(train.steps, 'step')} of up to {batch} fitted {duration(seconds)}: a model hardly "
            f"learns in fewer than {LEAST_STEPS}; allow about {duration(more)} at least, or choose a smaller preset"
        )


def fit_budget(
    config: RunConfig,
    prepared: Prepared,
    seconds: float,
    *,
    elapsed: float = 0.0,
    fixed: Collection[str] = (),
    same_model: bool = False,
) -> FittedRun:
    """The config for a run of `seconds`, of which `elapsed` are gone. Raises ConfigError if there is no way.

    `fixed` are keys that keep their values; `same_model` keeps the whole model.
    """
    if not config.task.takes_budget:
        raise ConfigError(f"--budget is not supported for {article(config.task.title)}: set train.steps")
    started = time.perf_counter()
    models = [config.model] if same_model else list(_models(config.model, fixed))
    with TemporaryDirectory() as scratch:
        fits = _Fit(config, prepared, seconds, fixed, Path(scratch))
        chosen = None
        for model in models:
            chosen = fits.best(model, last=model is models[-1])
            if chosen is not None:
                break
        assert chosen is not None
        return fits.result(chosen, elapsed + time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A model with a batch, and how long a step and a validation of it take."""

    model: ModelConfig
    batch_tokens: int
    accumulate: int
    step: float  # seconds by the clock
    computed: float  # seconds, without those spent waiting for other processes
    validation: float


class _Fit:
    def __init__(
        self, config: RunConfig, prepared: Prepared, seconds: float, fixed: Collection[str], scratch: Path
    ) -> None:
        self.config, self.prepared, self.fixed, self.scratch = config, prepared, fixed, scratch
        self.seconds = seconds
        self.enough = min(config.train.steps, ENOUGH_STEPS)
        self.tried: list[str] = []

    def best(self, model: ModelConfig, *, last: bool) -> _Choice | None:
        """The largest batch that makes enough steps with this model; None if it makes too few and is not the last."""
        config = replace(self.config, model=model)
        parameters, device = parameter_count(config), pick_device(config.train.device)
        if not last and STATES * parameters > MEMORY * device_memory(device):
            self.tried.append(f"{parameters:,} parameters do not fit the memory")
            return None
        times = StepTimes(config, self.prepared.training, self.scratch, MEASURING * self.seconds)
        options = list(_batches(config.train, HALVINGS + last, self.fixed))
        steps = []
        for tokens, parts in options:
            each = parts * times.seconds(tokens / config.train.batch_tokens)
            steps.append((tokens, parts, each, (1 - SPARED - VALIDATING) * self.seconds / each))
        wanted = [found for found in steps if found[3] >= self.enough]
        if not wanted and last:
            wanted = [found for found in steps[:-1] if found[3] >= FEW_STEPS] or steps[-1:]
        if not wanted:
            most = max(found[3] for found in steps)
            self.tried.append(f"{parameters:,} parameters would make {counted(int(most), 'step')}, too few")
            return None
        longest = max(MOST_VALIDATION * self.seconds, SHORT_VALIDATION)
        validation = times.validation(longest)
        if validation is None:
            limit = duration(longest)
            raise ConfigError(
                f"--budget {duration(self.seconds)}: one validation takes more than {limit} on this machine; "
                "allow more time, or give a smaller validation split"
            )
        tokens, parts, computed, _ = wanted[0]
        return _Choice(model, tokens, parts, computed * times.busy, computed, validation)

    def result(self, chosen: _Choice, elapsed: float) -> FittedRun:
        """Steps, and what follows from them."""
        recipe, task = self.config.train, self.prepared.training
        whole = recipe.batch_tokens * recipe.accumulate
        share = chosen.batch_tokens * chosen.accumulate / whole
        config = replace(self.config, model=chosen.model)
        parameters = parameter_count(config)
        save = SAVE_LATENCY + (4 * parameters + state_bytes(recipe.optimiser, parameters)) / SAVE_SPEED
        evaluations = min(max(int(VALIDATING * self.seconds / (chosen.validation + save)), 1), MOST_EVALUATIONS)
        saves = evaluations
        if recipe.average > 1:
            saves = min(max(int(SAVING * self.seconds / save), evaluations), MOST_SAVES)
        aside = evaluations * chosen.validation + saves * save
        free = (1 - SPARED) * self.seconds - elapsed - aside
        possible = max(int(free / chosen.step), 1)
        epoch = max(task.order.batches() * recipe.batch_tokens / (chosen.batch_tokens * chosen.accumulate), 1)
        in_recipe, in_epochs = recipe.steps / share, MOST_EPOCHS * epoch
        longest = math.ceil(max(in_recipe, in_epochs))
        steps = min(possible, longest)
        end = "the recipe's steps" if in_recipe >= in_epochs else counted(MOST_EPOCHS, "epoch")
        train = replace(recipe, steps=steps, batch_tokens=chosen.batch_tokens, accumulate=chosen.accumulate)
        if not is_set("train.learning_rate", self.fixed):
            factor = max(share**recipe.optimiser.batch_exponent, LEAST_RATE)
            train = replace(train, learning_rate=train.learning_rate * factor)
        config = replace(config, train=self._scheduled(train, evaluations, saves))
        expected = elapsed + steps * chosen.step + aside
        return FittedRun(
            config=config,
            facts=self._facts(config, chosen, expected, end if steps < possible else ""),
            step=chosen.step,
            aside=aside,
            replanned=lambda step, gone: self.result(replace(chosen, step=step), gone),
        )

    def _scheduled(self, train: TrainConfig, evaluations: int, saves: int) -> TrainConfig:
        """Warm-up, evaluations and checkpoints of the steps that were chosen."""
        wanted = {"evaluate_every": math.ceil(train.steps / evaluations), "save_every": math.ceil(train.steps / saves)}
        wanted["average"] = min(train.average, 2)  # as checkpoints are few, the last two are far enough apart
        own: dict[str, Any] = {name: value for name, value in wanted.items() if not is_set(f"train.{name}", self.fixed)}
        train = replace(shortened(train, self.config.train.steps, {*self.fixed, "train.save_every"}), **own)
        if not train.schedule.warmup:
            return train
        return with_warmup(train, max(train.schedule.warmup, min(LEAST_WARMUP, train.steps // 5)), self.fixed)

    def _facts(self, config: RunConfig, chosen: _Choice, expected: float, reached: str) -> dict[str, str]:
        train, unit = config.train, self.config.task.batch_unit
        batch = f"{train.batch_tokens * train.accumulate:,} {unit}"
        why = [f"a step of {batch} takes {duration(chosen.step)}, a validation {duration(chosen.validation)}"]
        if chosen.step >= BUSY * chosen.computed:
            why.append(f"the machine is busy: {duration(chosen.computed)} of a step are computed, the rest is waiting")
        why += self.tried[:1]
        if reached:
            why.append(f"{reached} end before the time")
        elif train.steps < LEAST_STEPS:
            why.append(f"a model hardly learns in fewer than {LEAST_STEPS} steps: allow more time")
        changed = [*_changes(self.config.model, config.model), differences(self.config.train, train)]
        return {
            "budget": f"{duration(self.seconds)}: {counted(train.steps, 'step')} in about {duration(expected)}, as "
            + "; ".join(why),
            "fitted": ", ".join(filter(None, changed)) or "nothing: the recipe fits",
        }


class TooSlowError(Exception):
    """The run would not end in its time; `step` is how many seconds a step takes."""

    def __init__(self, step: float) -> None:
        super().__init__(f"a step takes {duration(step)}")
        self.step = step


class SlowStartWatch:
    """Passes the progress of a run on, and raises TooSlowError once it is clear from the first steps.

    `seconds` is the budget, `started` when it began. It decides once, after TRIAL of the budget and a few steps, by
    their median: a few steps during which another process took the machine do not count.
    """

    def __init__(self, watcher: Callback, fitted: FittedRun, seconds: float, started: float) -> None:
        self.watcher, self.fitted, self.seconds, self.started = watcher, fitted, seconds, started
        self.first: float | None = None  # when the first step ended: it also allocates
        self.last = 0.0  # when the last one did
        self.taken: list[float] = []  # seconds of each step after the first
        self.decided = False

    def step(self, entry: dict[str, Any]) -> None:
        """After every step."""
        self.watcher.step(entry)
        now = time.perf_counter()
        if self.decided or self.first is None:
            self.first, self.last = now if self.first is None else self.first, now
            return
        self.taken.append(now - self.last)
        self.last = now
        trial = max(TRIAL * self.seconds, min(LEAST_TRIAL, 0.2 * self.seconds))
        if len(self.taken) >= TRIAL_STEPS and now - self.first >= trial:
            self.decided = True
            each = statistics.median(self.taken)
            left = (self.fitted.config.train.steps - entry["step"]) * each + self.fitted.aside
            if now - self.started + left > TOO_LATE * self.seconds:
                raise TooSlowError(each)

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """After every evaluation: a run that has been evaluated is not begun again."""
        self.decided = True
        self.watcher.evaluated(entry, samples)

    def note(self, text: str) -> None:
        """One line for the user."""
        self.watcher.note(text)

    def preparing(self, what: str, done: int, total: int) -> None:
        """While data is made ready."""
        self.watcher.preparing(what, done, total)


def _models(model: ModelConfig, fixed: Collection[str]) -> Iterator[ModelConfig]:
    """A model and its smaller versions, as far as they keep what is fixed."""
    found: ModelConfig | None = model
    while found is not None:
        if not any(is_set(f"model.{key}", fixed) for key in _differing(model, found)):
            yield found
        found = smaller_model(found)


def _batches(train: TrainConfig, halvings: int, fixed: Collection[str]) -> Iterator[tuple[int, int]]:
    """Sizes and numbers of the micro-batches of a step, from the recipe's to ever smaller ones."""
    tokens, parts = train.batch_tokens, train.accumulate
    yield tokens, parts
    while parts > 1 and not is_set("train.accumulate", fixed):
        parts //= 2
        yield tokens, parts
    if not is_set("train.batch_tokens", fixed):
        for _ in range(halvings):
            tokens = max(tokens // 2, 1)
            yield tokens, parts


def _differing(before: ModelConfig, after: ModelConfig) -> dict[str, tuple[Any, Any]]:
    old, new = flat(plain(before)), flat(plain(after))
    return {key: (old[key], new.get(key)) for key in old if old[key] != new.get(key)}


def _changes(before: ModelConfig, after: ModelConfig) -> list[str]:
    return [f"model.{key} {old} -> {new}" for key, (old, new) in _differing(before, after).items()]
