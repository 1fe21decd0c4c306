"""The evaluation of a model that gives numbers, as a report."""

from __future__ import annotations

from headway.tasks.base import Pipeline
from headway.tasks.report import NONE, Facts, Report
from headway.tasks.vectors.training import SetRegression


def regression_report_of(pipeline: Pipeline, training: SetRegression, split: str) -> Report:
    """RMSE, mean absolute error and R² of a split, and the loss."""
    from headway.plots.numbers import plot_numbers

    predictions = training.predictions(pipeline.model, pipeline.device, split)
    report = training.report(predictions)
    loss = report.mse / float(pipeline.model.deviation) ** 2  # type: ignore[arg-type]
    r2 = NONE if report.r2 is None else f"{report.r2:.4f}"
    rows = {
        "rmse": f"{report.rmse:.6g}  the root of the mean squared error",
        "mae": f"{report.mae:.6g}  the mean absolute error",
        "r2": f"{r2}  the share of the variance that is predicted",
        "sets": f"{report.count:,}",
        "loss": f"{loss:.4f}  squared error in units of the training variance",
    }
    outputs = [f"{true:.8g}\t{found:.8g}" for true, found in zip(predictions.true, predictions.found, strict=True)]
    values = {**report.to_json(), "loss": loss, "sets": report.count}
    return Report(
        split=split,
        values=values,
        sections=[Facts(rows)],
        plot=lambda title: plot_numbers(predictions.true, predictions.found, f"{title}: numbers"),
        outputs=outputs,
    )
