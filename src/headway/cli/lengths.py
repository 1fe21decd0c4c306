"""`headway evaluate RUN --lengths`: loss by length as a table, as values and as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType

from headway.cli import report as show
from headway.cli.outcome import Outcome
from headway.metrics.language import LanguageReport
from headway.metrics.loss_by_length import LengthReport, LengthRow
from headway.plots.curves import plot_by_length
from headway.runs import Run
from headway.tasks.language_modelling.training import LanguageTask
from headway.tasks.length_extrapolation import by_length
from headway.tasks.masked_lm.training import MaskedTask

RUNNING = (
    "Blocks do not overlap: their first tokens have little before them, in short blocks more of them. Sliding windows "
    "count only what has enough before it, the first window aside."
)
HIDDEN = "Nats a hidden token, in rows of up to so many tokens; a shorter document makes a shorter row."


def lengths_of(
    found: Run, task: LanguageTask | MaskedTask, split: str, lengths: Sequence[int], *, stride: int | None
) -> Outcome:
    """A split in windows of each length."""
    report = by_length(task, found.model, found.device, split, lengths, stride=stride)
    running = isinstance(task, LanguageTask)
    table = show.figures(_header(running=running), [_row(row, running=running) for row in report.rows])
    told: list[RenderableType] = [show.note(RUNNING if running else HIDDEN, "dim")]
    told += [show.note(f"{row.length} tokens: refused, {row.refused}") for row in report.rows if row.refused]
    trained = f"loss by length; trained at {report.trained} tokens"
    return Outcome(
        values=report.to_json(),
        shown=[show.section(trained, table), *told],
        picture=lambda title: _picture(report, title, running=running),
    )


def _header(*, running: bool) -> list[str]:
    return ["tokens", "loss", "perplexity", *(["stride", "loss, sliding", "perplexity"] if running else [])]


def _row(row: LengthRow, *, running: bool) -> list[str]:
    stride = show.NONE if row.stride is None else str(row.stride)
    return [
        f"{row.length:,}",
        *_figures(row.blocks, refused=row.refused is not None),
        *([stride, *_figures(row.sliding)] if running else []),
    ]


def _figures(report: LanguageReport | None, *, refused: bool = False) -> list[str]:
    if report is None:
        return ["refused" if refused else show.NONE, show.NONE]
    return [f"{report.loss:.4f}", f"{report.perplexity:.4g}"]


def _picture(report: LengthReport, title: str, *, running: bool) -> bytes:
    series = {"not overlapping": report.blocks, "sliding": report.sliding} if running else {"rows": report.blocks}
    if report.last is not None:
        series = {f"{name} (refuses more)": values for name, values in series.items()}
    return plot_by_length(series, f"{title}: loss by length", "loss (nats per token)", trained=report.trained)
