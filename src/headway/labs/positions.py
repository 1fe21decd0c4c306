"""Positions compared: character models alike in all but how they know where a token stands, and their loss by length.

Trained at one length and tested beyond it (Press et al. 2022): learned positions end there, the others can go on, and
how well they do is the question.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headway.config import override
from headway.errors import ConfigError
from headway.metrics.loss_by_length import LengthReport
from headway.plots.curves import plot_by_length
from headway.presets import preset
from headway.runs import load
from headway.runs.config import RunConfig
from headway.tasks.base import split_of
from headway.tasks.language_modelling import Language
from headway.tasks.language_modelling.pipeline import LanguagePipeline
from headway.tasks.language_modelling.training import LanguageTraining
from headway.training.trainer import LOG, read_log

KINDS = ("learned", "sinusoidal", "rotary", "alibi", "none")
TIMES = (0.5, 1, 2, 4, 8)  # the lengths that are tested, in units of that of training


def recipe(kind: str, *, data: str, steps: int, seed: int, changes: Mapping[str, object]) -> RunConfig:
    """`gpt-char` with positions of this kind. Raises ConfigError naming the kinds there are."""
    settings = {"data.spec": data, "train.steps": steps, **changes, "train.seed": seed, "model.position": kind}
    config = override(preset("gpt-char").recipe(), settings)
    trained, context = cast(Language, config.task).context, getattr(config.model, "context", None)
    if context != trained:
        raise ConfigError(f"task.context={trained}, model.context={context}: expected the same")
    return config


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run: its loss by length, and its validation loss by step."""

    lengths: LengthReport
    validation: dict[int, float]


def measure(folder: Path, *, device: str = "auto") -> Trained:
    """What a run of this lab is worth; windows longer than the text are left out."""
    run = load(folder, device=device)
    pipeline = cast(LanguagePipeline, run.pipeline)
    training = cast(LanguageTraining, run.data())
    split = split_of(training.splits, None)
    wanted = {max(int(times * training.config.context), 1) for times in TIMES}
    lengths = sorted(length for length in wanted if length < len(training.ids(split)))
    report = pipeline.loss_by_length(training, split, lengths)
    entries = (entry for entry in read_log(folder / LOG) if "val_loss" in entry)
    return Trained(report, {int(entry["step"]): float(entry["val_loss"]) for entry in entries})


@dataclass(frozen=True, slots=True)
class Mean:
    """Of several seeds."""

    value: float
    spread: float | None  # standard deviation; of one seed there is none

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        """Of at least one."""
        held = list(values)
        return cls(statistics.fmean(held), statistics.stdev(held) if len(held) > 1 else None)

    def __str__(self) -> str:
        # Five of these, and a name, fit the 80 columns of a plain terminal.
        return f"{self.value:.3f}" + ("" if self.spread is None else f" ±{f'{self.spread:.3f}'.removeprefix('0')}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs of each kind, a seed each, all trained and tested at the same lengths."""

    runs: Mapping[str, Sequence[Trained]]

    @property
    def trained(self) -> int:
        """The length of training."""
        return self._first.lengths.trained

    @property
    def lengths(self) -> list[int]:
        """The lengths of the tests."""
        return [row.length for row in self._first.lengths.rows]

    @property
    def _first(self) -> Trained:
        return next(iter(self.runs.values()))[0]

    def loss(self, kind: str, length: int, *, sliding: bool = False) -> Mean | None:
        """In windows of this length; None where the kind refuses it."""
        found = [each.lengths.sliding if sliding else each.lengths.blocks for each in self.runs[kind]]
        return Mean.of(each[length] for each in found) if all(length in each for each in found) else None

    def steps(self, most: int = 4) -> list[int]:
        """A few steps at which all were validated, the last among them."""
        common = sorted(set.intersection(*(set(each.validation) for runs in self.runs.values() for each in runs)))
        return sorted({common[(n + 1) * len(common) // most - 1] for n in range(most)}) if common else []

    def validation(self, kind: str, step: int) -> Mean:
        """The validation loss at a step."""
        return Mean.of(each.validation[step] for each in self.runs[kind])

    def picture(self, title: str) -> bytes:
        """Loss against length, a line a kind."""
        series: dict[str, dict[int, float]] = {}
        for kind in self.runs:
            losses = {length: self.loss(kind, length) for length in self.lengths}
            known = {length: loss.value for length, loss in losses.items() if loss is not None}
            series[kind if len(known) == len(losses) else f"{kind} (refuses more)"] = known
        return plot_by_length(series, title, "loss (nats per character)", trained=self.trained)

    def to_json(self) -> dict[str, Any]:
        """Every figure of every run, by kind; lists go by seed."""
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
