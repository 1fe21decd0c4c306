"""What an evaluation found: flat values for machines, tables and samples as data for people, a plot, outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from headway import display
from headway.metrics.accuracy_by_position import first_divergence

if TYPE_CHECKING:
    from headway.metrics.accuracy_by_position import PositionReport

NONE = "–"  # a figure that does not exist
MARK = "‖"  # where two lines begin to differ; it shows without colours too
SAMPLES = 3  # of each kind of sample
AROUND = 60  # characters of a running text shown on either side of a difference


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values side by side."""

    rows: Mapping[str, str]
    title: str = ""

    def html(self) -> str:
        """For notebooks."""
        return display.facts(self.rows, self.title)


@dataclass(frozen=True, slots=True)
class Figures:
    """Columns of numbers; the first column names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    footnote: str = ""

    def html(self) -> str:
        """For notebooks."""
        return display.figures(self.header, self.rows, self.title, self.footnote)


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence below or between the tables."""

    text: str
    warning: bool = False
    dim: bool = True

    def html(self) -> str:
        """For notebooks."""
        return display.sentence(self.text)


@dataclass(frozen=True, slots=True)
class Sample:
    """A named line; `differs` is its part from the place where it leaves another line."""

    name: str
    text: str
    differs: str | None = None

    def __str__(self) -> str:
        return self.text if self.differs is None else f"{self.text}{MARK}{self.differs}"


@dataclass(frozen=True, slots=True)
class Samples:
    """Blocks of named lines."""

    title: str
    blocks: Sequence[Sequence[Sample]]

    def html(self) -> str:
        """For notebooks."""
        tables = (display.facts({each.name: str(each) for each in block}) for block in self.blocks)
        return "".join([display.heading(self.title), *tables])


Section: TypeAlias = Facts | Figures | Note | Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An evaluation of one split."""

    split: str
    values: Mapping[str, Any]  # JSON keys and their values
    sections: Sequence[Section]
    plot: Callable[[str], bytes] | None = None  # a PNG under a title
    outputs: Sequence[str] = field(default_factory=tuple)  # one line for each example: what `--out` writes

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_short(value)}" for name, value in self.values.items())
        return f"Report({self.split}: {values})"

    def _repr_html_(self) -> str:
        """For notebooks: the sections, and the plot."""
        parts = [display.heading(f"split {self.split}"), *(section.html() for section in self.sections)]
        if self.plot is not None:
            parts.append(display.png(self.plot(self.split), f"plot of split {self.split}"))
        return "".join(parts)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def spread(count: int) -> list[int]:
    """A few indices, evenly spaced, for samples."""
    return list(range(count)) if count <= SAMPLES else [0, (count - 1) // 2, count - 1]


def sentence_samples(source: str, reference: str, output: str) -> Iterable[Sample]:
    """A translation beside its reference, both marked at the first word that differs."""
    spaced = " " in f"{reference}{output}"  # text without spaces, as Chinese, is compared by character
    right, own = (line.split() if spaced else list(line) for line in (reference, output))
    at, space = first_divergence(right, own), " " if spaced else ""
    yield Sample("source", source)
    for name, units in (("reference", right), ("output", own)):
        if at is None:
            yield Sample(name, space.join(units))
        else:
            yield Sample(name, space.join([*units[:at], ""]), space.join(["", *units[at:]]))


def running_samples(prompt: str, gold: tuple[str, str], free: tuple[str, str]) -> Iterable[Sample]:
    """A continuation beside the text, each as the part before they differ and the part after."""
    yield Sample("prompt", _one_line(_end(prompt)))
    same = not gold[1] and not free[1]
    for name, (before, after) in (("text", gold), ("output", free)):
        rest = _one_line(after if len(after) <= AROUND else f"{after[:AROUND]}…")
        yield Sample(name, _one_line(_end(before)), None if same else rest)


def _end(text: str) -> str:
    return text if len(text) <= AROUND else f"…{text[-AROUND:]}"


def _one_line(text: str) -> str:
    return text.replace("\r", "").replace("\n", "⏎").replace("\t", " ")


def positions_section(report: PositionReport) -> Figures:
    """Accuracy after the gold prefix beside accuracy in the model's own output, from the first token on."""
    rows = [
        [each.label, f"{each.forced:.1%}", f"{each.free:.1%}", f"{each.forced - each.free:+.1%}", f"{each.tokens:,}"]
        for each in report.ranges()
    ]
    forced, free = report.forced_accuracy, report.free_accuracy
    rows.append(["all", f"{forced:.1%}", f"{free:.1%}", f"{forced - free:+.1%}", f"{sum(report.counts):,}"])
    differing = [index for index in report.divergence if index is not None]
    told = f"{len(report.divergence) - len(differing):,} of {len(report.divergence):,} free runs are right throughout"
    if report.mean_divergence is not None:
        told += f"; the others for {report.mean_divergence:.1f} tokens"
    title = "right tokens by position: teacher-forced beside free-running (greedy)"
    return Figures(["position", "forced", "free", "gap", "tokens"], rows, title=title, footnote=f"{told}.")
