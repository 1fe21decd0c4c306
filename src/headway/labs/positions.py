"""Position encodings compared: character models that differ in nothing else, and their loss by length.

They are trained at one length and tested beyond it (Press et al. 2022): learned positions (Gehring et al. 2017) end
there; sinusoidal (Vaswani et al. 2017), rotary (Su et al. 2021), ALiBi and no positions extrapolate, more or less well.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headway.config import override, positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import (
    Lab,
    LabCheck,
    LabFigure,
    LabOutcome,
    LabTable,
    Slide,
    at_least,
    at_most,
    equals,
    progress,
)
from headway.limits import expect_within
from headway.metrics.loss_by_length import LengthReport
from headway.plots import lab_figures as draw
from headway.presets import preset
from headway.runs import load, train_run
from headway.runs.config import RunConfig
from headway.runs.folder import CONFIG
from headway.tasks.base import split_of
from headway.tasks.language_modelling import Language
from headway.tasks.language_modelling.pipeline import LanguagePipeline
from headway.tasks.language_modelling.training import LanguageTraining
from headway.training.callbacks import Callback
from headway.training.log import LOG, read_log

KINDS = ("learned", "sinusoidal", "rotary", "alibi", "none")
# For minutes; `scaled` because beside sinusoids of size 1, words of 0.02 take thousands of steps to matter.
SMALL = {
    "model.layers": "1", "model.width": "64", "model.heads": "4", "model.context": "32", "task.context": "32",
    "model.dropout": "0", "model.scaled": "true", "train.batch_tokens": "2048", "train.evaluate_every": "300",
    "train.save_every": "300",
}  # fmt: skip
OWN = {"data.spec": "data", "train.steps": "steps", "train.seed": "seed", "model.position": "kinds"}  # have flags
QUICK_KINDS, QUICK_STEPS = ("learned", "sinusoidal", "alibi"), 120
TIMES = (0.5, 1, 2, 4, 8)  # tested lengths, relative to the training length


def run_config(kind: str, *, data: str, steps: int, seed: int, changes: Mapping[str, object]) -> RunConfig:
    """`gpt-char` with positions of this kind. Raises ConfigError for an unknown kind."""
    settings = {"data.spec": data, "train.steps": steps, **changes, "train.seed": seed, "model.position": kind}
    config = override(preset("gpt-char").recipe(), settings)
    trained, context = cast(Language, config.task).context, getattr(config.model, "context", None)
    if context != trained:
        raise ConfigError(f"task.context={trained}, model.context={context}: expected the same")
    return config


@dataclass(frozen=True, slots=True)
class PositionRun:
    """A finished run: its loss by length, and its validation loss by step."""

    lengths: LengthReport
    validation: dict[int, float]


def measure(folder: Path, *, device: str = "auto") -> PositionRun:
    """The loss by length of a run; windows longer than the text are left out."""
    run = load(folder, device=device)
    pipeline = cast(LanguagePipeline, run.pipeline)
    training = cast(LanguageTraining, run.data())
    split = split_of(training.splits, None)
    wanted = {max(int(times * training.config.context), 1) for times in TIMES}
    lengths = sorted(length for length in wanted if length < training.text(split).total)
    report = pipeline.loss_by_length(training, split, lengths)
    entries = (entry for entry in read_log(folder / LOG) if "val_loss" in entry)
    return PositionRun(report, {int(entry["step"]): float(entry["val_loss"]) for entry in entries})


@dataclass(frozen=True, slots=True)
class SeedMean:
    """Mean over seeds."""

    value: float
    spread: float | None  # standard deviation; None for one seed

    @classmethod
    def of(cls, values: Iterable[float]) -> SeedMean:
        """The mean of at least one value."""
        held = list(values)
        return cls(statistics.fmean(held), statistics.stdev(held) if len(held) > 1 else None)

    def __str__(self) -> str:
        # Five of these and a name fit into 80 columns.
        return f"{self.value:.3f}" + ("" if self.spread is None else f" ±{f'{self.spread:.3f}'.removeprefix('0')}")


@dataclass(frozen=True, slots=True)
class PositionComparison:
    """Runs by kind, one per seed, all trained and tested at the same lengths."""

    runs: Mapping[str, Sequence[PositionRun]]

    @property
    def trained(self) -> int:
        """The training length."""
        return self._first.lengths.trained

    @property
    def lengths(self) -> list[int]:
        """The tested lengths."""
        return [row.length for row in self._first.lengths.rows]

    @property
    def _first(self) -> PositionRun:
        return next(iter(self.runs.values()))[0]

    def loss(self, kind: str, length: int, *, sliding: bool = False) -> SeedMean | None:
        """The loss in windows of this length; None if the kind does not support it."""
        found = [each.lengths.sliding if sliding else each.lengths.blocks for each in self.runs[kind]]
        return SeedMean.of(each[length] for each in found) if all(length in each for each in found) else None

    def steps(self, most: int = 4) -> list[int]:
        """A few steps at which all runs were evaluated, including the last."""
        common = sorted(set.intersection(*(set(each.validation) for runs in self.runs.values() for each in runs)))
        return sorted({common[(n + 1) * len(common) // most - 1] for n in range(most)}) if common else []

    def validation(self, kind: str, step: int) -> SeedMean:
        """The validation loss at a step."""
        return SeedMean.of(each.validation[step] for each in self.runs[kind])

    def to_json(self) -> dict[str, Any]:
        """All values of all runs by kind; lists are by seed."""
        return {
            "trained_length": self.trained,
            "kinds": {
                kind: [
                    {**each.lengths.to_json(), "validation": {str(k): v for k, v in each.validation.items()}}
                    for each in runs
                ]
                for kind, runs in self.runs.items()
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsParameters:
    """What is compared, on what, and where the runs go."""

    data: str = "pydocs"  # a text: a built-in name, a file or a folder
    kinds: tuple[str, ...] = KINDS  # which to compare
    steps: int = 600  # of training, for each model
    seeds: int = 1  # models of each kind, from --seed on
    runs: str = ""  # a folder that keeps the trained runs, and continues those there; "": none is kept
    settings: tuple[str, ...] = ()  # config keys of gpt-char, on top of the small sizes of this lab

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        positive("--seeds", self.seeds)
        expect_within("lab-runs", self.seeds, "--seeds")

    def changes(self) -> dict[str, object]:
        """The config keys that are changed. Raises ConfigError for one that has a flag of its own."""
        given = dict(each.split("=", 1) for each in self.settings)
        for own, flag in OWN.items():
            if own in given:
                raise ConfigError(f"--{own} {given[own]}: use --{flag} for it in this lab")
        return {**SMALL, **given}


def train_kinds(parameters: PositionsParameters, kinds: Sequence[str], steps: int, seed: int, out: Path) -> None:
    """Train what is not trained yet, one folder for each kind and seed."""
    recipes = {  # all of them first: an unknown kind is reported before minutes of training
        (kind, each): run_config(kind, data=parameters.data, steps=steps, seed=each, changes=parameters.changes())
        for kind in kinds
        for each in range(seed, seed + parameters.seeds)
    }
    for number, ((kind, each), config) in enumerate(recipes.items()):
        folder = out / f"{kind}-{each}"
        watcher = _Told(f"{kind}, seed {each}", number * steps, len(recipes) * steps)
        train_run(config, folder, watcher, resume=(folder / CONFIG).exists())


class _Told(Callback):
    """Tells each step as progress of all runs together."""

    def __init__(self, what: str, before: int, total: int) -> None:
        self.what, self.before, self.total = what, before, total

    def step(self, entry: dict[str, Any]) -> None:
        progress(self.what, self.before + int(entry["step"]), self.total)

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def preparing(self, what: str, done: int, total: int) -> None:
        """Nothing."""


def run(parameters: PositionsParameters, seed: int, quick: bool) -> LabOutcome:
    """Train a model of each kind, and measure its loss at lengths up to eight times that of training."""
    kinds = tuple(kind for kind in parameters.kinds if not quick or kind in QUICK_KINDS)
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    with ExitStack() as stack:
        out = Path(parameters.runs or stack.enter_context(tempfile.TemporaryDirectory()))
        train_kinds(parameters, kinds, steps, seed, out)
        found = PositionComparison(
            {kind: [measure(out / f"{kind}-{each}") for each in range(seed, seed + parameters.seeds)] for kind in kinds}
        )
    many = f"mean ± standard deviation of {parameters.seeds} seeds" if parameters.seeds > 1 else "one seed"
    header = ["positions", *(f"{length:,}" for length in found.lengths)]
    tables = [
        LabTable(
            title=f"loss by length (nats per character), trained at {found.trained}: {what}",
            header=header,
            rows=[
                [kind, *(str(found.loss(kind, n, sliding=sliding) or "not supported") for n in found.lengths)]
                for kind in found.runs
            ],
            note=many,
        )
        for what, sliding in (("blocks that do not overlap", False), ("windows sliding by half", True))
    ]
    if at := found.steps():
        rows = [[kind, *(str(found.validation(kind, step)) for step in at)] for kind in found.runs]
        table = LabTable(title="validation loss by step", header=["positions", *(f"{n:,}" for n in at)], rows=rows)
        tables.append(table)
    notes = [
        "A GPT of characters with one layer; nothing but its positions changes. Learned positions are a table with one"
        " row for each place of training, and end there. Sinusoids are defined everywhere, but the model has not"
        " learned to read those of later places. Rotary (RoPE, the position of RoFormer) and ALiBi act on the distance"
        " of two characters. With none, one layer reads its own character and, of the earlier ones, which there are but"
        " not where they stand; learned positions and sinusoids are hardly ahead of that at the trained length.",
        "Blocks that do not overlap are read each by itself, so that the first character of a block is predicted from"
        " nothing; windows that slide by half are scored on what is new in each, so that half a window stands before"
        " it.",
    ]
    return LabOutcome(tables=tables, figures=[_figure(found)], checks=_checks(found, quick), notes=notes)


def _checks(found: PositionComparison, quick: bool) -> list[LabCheck]:
    """What is known of each kind that was trained; a kind that was not is not checked."""
    length = found.trained
    rise = {
        (kind, times): after.value - before.value
        for kind in found.runs
        for times in (2, 4)
        if (after := found.loss(kind, times * length)) and (before := found.loss(kind, length))
    }
    checks = []
    if "learned" in found.runs:
        last = max(n for n in found.lengths if found.loss("learned", n) is not None)
        checks.append(equals("learned: longest text that it can read, in characters", last, length))
    if "alibi" in found.runs:
        checks += [
            at_most(f"ALiBi: rise of the loss at {times} times the length, nats", rise["alibi", times], 0.01)
            for times in (2, 4)
        ]
    if "sinusoidal" in found.runs:
        name = "sinusoidal: rise of the loss at 4 times the length, nats"
        checks.append(at_least(name, rise["sinusoidal", 4], 0.03 if quick else 0.1))
    if "rotary" in found.runs:
        checks.append(at_least("rotary: rise of the loss at 4 times the length, nats", rise["rotary", 4], 0.03))
    losses = [loss.value for kind in found.runs if (loss := found.loss(kind, length))]
    name = "largest difference of all kinds at the trained length, nats"
    return [*checks, at_most(name, max(losses) - min(losses), 1.0)]


def _figure(found: PositionComparison) -> LabFigure:
    figure, (axes,) = draw.panels(height=3.8)
    told = []
    for number, kind in enumerate(found.runs):
        losses = {length: loss for length in found.lengths if (loss := found.loss(kind, length)) is not None}
        ends = "" if len(losses) == len(found.lengths) else " (ends here)"
        spread = [(loss.value, loss.spread or 0.0) for loss in losses.values()]
        draw.line(
            axes, list(losses), [value for value, _ in spread], f"{kind}{ends}", number,
            low=[value - around for value, around in spread], high=[value + around for value, around in spread],
        )  # fmt: skip
        told.append(f"{kind} {spread[0][0]:.2f} to {spread[-1][0]:.2f} at {max(losses)}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(found.lengths, [f"{length:,}" for length in found.lengths])
    draw.reference(axes, found.trained, "trained length", vertical=True)
    draw.style(axes, "Loss by length", "length of the text (characters)", "loss (nats per character)", legend=True)
    alt = f"Loss against length, trained at {found.trained} characters: {'; '.join(told)} characters."
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="positions",
    chapter=6,
    title="positions beyond the trained length",
    claim="Beyond the length of training learned positions end, sinusoidal and rotary ones get worse although they are"
    " defined, and ALiBi stays as good as it was.",
    slides=(Slide("001", "Positional Encoding 47", 1535), Slide("004", "p. 22, 30, 61"), Slide("003", "line 319")),
    parameters=PositionsParameters,
    run=run,
    mechanism=("run_config", "measure"),
    exercise=Exercise(
        function="PositionComparison.loss",
        task="self.runs[kind] has a run for each seed; run.lengths.blocks and run.lengths.sliding are dicts from"
        " a length to the loss in windows of it, without the lengths that the positions do not support."
        " Return the mean over the seeds, or None if one of them lacks this length.",
        hints=(
            "First choose which of the two dicts is asked for, of every run.",
            "A learned table ends at the trained length: its dict does not have the longer ones.",
            "SeedMean.of takes the losses of all seeds at this length.",
        ),
        bugs=(
            PlantedBug(
                right="each[length] for each",
                wrong="each[self.trained] for each",
                fails="sinusoidal: rise of the loss",
                hint="The loss at which length?",
            ),
        ),
    ),
)
