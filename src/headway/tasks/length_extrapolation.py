"""Loss by length, beyond the lengths of training too, as a report (Press et al. 2022, Figure 1)."""

from __future__ import annotations

from headway.metrics.language import LanguageReport
from headway.metrics.loss_by_length import LengthReport, LengthRow
from headway.tasks.report import NONE, Figures, Note, Report


def length_report(split: str, report: LengthReport, *, note: str, sliding: bool) -> Report:
    """A split in windows of each length; with `sliding`, in sliding windows as well."""
    header = ["tokens", "loss", "perplexity", *(["stride", "loss, sliding", "perplexity"] if sliding else [])]
    rows = [_row(row, sliding=sliding) for row in report.rows]
    told = [
        Note(f"{row.length} tokens: refused, {row.refused}", dim=False)
        for row in report.rows
        if row.refused is not None
    ]
    title = f"loss by length; trained at {report.trained} tokens"
    return Report(
        split=split,
        values=report.to_json(),
        sections=[Figures(header, rows, title=title), Note(note), *told],
        plot=lambda title: _plot(report, title, sliding=sliding),
    )


def _row(row: LengthRow, *, sliding: bool) -> list[str]:
    stride = NONE if row.stride is None else str(row.stride)
    blocks = _figures(row.blocks, refused=row.refused is not None)
    return [f"{row.length:,}", *blocks, *([stride, *_figures(row.sliding)] if sliding else [])]


def _figures(report: LanguageReport | None, *, refused: bool = False) -> list[str]:
    if report is None:
        return ["refused" if refused else NONE, NONE]
    return [f"{report.loss:.4f}", f"{report.perplexity:.4g}"]


def _plot(report: LengthReport, title: str, *, sliding: bool) -> bytes:
    from headway.plots.curves import plot_by_length

    series = {"not overlapping": report.blocks, "sliding": report.sliding} if sliding else {"rows": report.blocks}
    if report.last is not None:
        series = {f"{name} (refuses more)": values for name, values in series.items()}
    return plot_by_length(series, f"{title}: loss by length", "loss (nats per token)", trained=report.trained)
