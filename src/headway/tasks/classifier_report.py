"""The evaluation of a classifier, of images, texts or sets, as a report."""

from __future__ import annotations

from typing import Any

from headway.metrics.classification import ClassificationReport
from headway.tasks.base import Pipeline, article
from headway.tasks.classifier import ClassifierTraining
from headway.tasks.report import NONE, Facts, Figures, Report, Section


def classifier_report(pipeline: Pipeline, training: ClassifierTraining, split: str) -> Report:
    """Accuracy with its interval, by class, what is mistaken for what, and the accuracy of the newest checkpoint."""
    from headway.plots.images import plot_confusion

    found = training.predictions(pipeline.model, pipeline.device, split)
    report, names = training.report(found), training.classes
    newest, step = pipeline.parts.newest()
    last = training.evaluate(newest, pipeline.device, split).accuracy
    values: dict[str, Any] = {**report.to_json(), "last_accuracy": last, "last_step": step}
    rows = zip(found.labels.tolist(), found.probabilities.max(1).values.tolist(), found.predicted.tolist(), strict=True)
    return Report(
        split=split,
        values=values,
        sections=_sections(report, last, step),
        plot=lambda title: plot_confusion(report, f"{title}: classes"),
        outputs=[f"{names[label]}\t{names[predicted]}\t{share:.6f}" for label, share, predicted in rows],
    )


def _sections(report: ClassificationReport, last: float, step: int) -> list[Section]:
    values = report.to_json()
    interval = f"95 % interval {values['accuracy_low']:.2%} to {values['accuracy_high']:.2%}"
    told = {
        "accuracy": f"{report.accuracy:.2%}  {interval}",
        report.unit: f"{report.total:,}",
        "loss": f"{report.loss:.4f}  nats {article(report.unit.removesuffix('s'))}",
        "last_accuracy": f"{last:.2%}  of the last checkpoint, step {step}",
    }
    totals = report.confusion.sum(1).tolist()
    rows = [
        [name, NONE if share is None else f"{share:.1%}", f"{total:,}"]
        for name, share, total in zip(report.classes, report.by_class, totals, strict=True)
    ]
    sections: list[Section] = [Facts(told), Figures(["class", "right", report.unit], rows, title="by class")]
    if wrong := [[a, b, f"{count:,}"] for a, b, count in report.mistakes(5)]:
        sections.append(Figures(["class", "taken for", report.unit], wrong, title="commonest mistakes"))
    return sections
