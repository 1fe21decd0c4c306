"""Position encodings compared: character models that differ in nothing else, and their loss by length.

They are trained at one length and tested beyond it (Press et al. 2022): learned positions (Gehring et al. 2017) end
there; sinusoidal (Vaswani et al. 2017), rotary (Su et al. 2021), ALiBi and no positions extrapolate, more or less well.
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
from headway.training.log import LOG, read_log

KINDS = ("learned", "sinusoidal", "rotary", "alibi", "none")
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
    lengths = sorted(length for length in wanted if length < len(training.ids(split)))
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

    def picture(self, title: str) -> bytes:
        """A plot of the loss against length, one line per kind."""
        series: dict[str, dict[int, float]] = {}
        for kind in self.runs:
            losses = {length: self.loss(kind, length) for length in self.lengths}
            known = {length: loss.value for length, loss in losses.items() if loss is not None}
            series[kind if len(known) == len(losses) else f"{kind} (refuses more)"] = known
        return plot_by_length(series, title, "loss (nats per character)", trained=self.trained)

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
