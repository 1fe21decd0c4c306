"""The figures of a split, for each kind of label: values for machines, tables for people, a plot, a line a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.metrics.calibration import BINS, reliability
from headway.metrics.classification import (
    ClassificationReport,
    confusion_matrix,
    f1_by_class,
    macro_f1,
    matthews,
    micro_f1,
)
from headway.metrics.multilabel import MultiLabelCounts
from headway.metrics.regression import mean_absolute_error, pearson, root_mean_squared_error, spearman
from headway.tasks.classifier import Predictions
from headway.tasks.report import NONE, Facts, Figures, Note, Section

if TYPE_CHECKING:
    from headway.tasks.text_classification.baseline import Baselines

UNIT = "texts"
MISTAKES = 5
FEW_TEXTS = (
    "it has too few texts to learn from random weights; begin with an encoder that has read more "
    "(`headway import FOLDER` makes a run of a Hugging Face model, `headway train --init RUN` begins with it), or "
    "train on more texts"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The figures of a split."""

    loss: float  # of a text
    main: Mapping[str, float]  # the figures that tell most, the first of them most of all
    values: Mapping[str, Any]  # by their JSON keys
    facts: Mapping[str, str]
    sections: Sequence[Section]  # after the facts
    plot: Callable[[str], bytes]
    outputs: Sequence[str]  # a line for each text: label, prediction

    @property
    def headline(self) -> tuple[str, float]:
        """The name and the value of the first figure."""
        return next(iter(self.main.items()))


def single_label(found: Predictions, classes: tuple[str, ...]) -> Evaluated:
    """Accuracy with its interval, F1, Matthews, calibration, by class, and what is mistaken for what."""
    from headway.plots.classification import plot_classes

    counted = confusion_matrix(found.labels.numpy(), found.predicted.numpy(), len(classes))
    report = ClassificationReport(classes=classes, confusion=counted, nats=found.nats, unit=UNIT)
    sure = found.probabilities.max(1).values.numpy()
    bins = reliability(sure, (found.predicted == found.labels).numpy())
    values = {
        **report.to_json(),
        "macro_f1": macro_f1(counted),
        "micro_f1": micro_f1(counted),
        "matthews": matthews(counted),
        "ece": bins.ece,
    }
    interval = f"95 % interval {values['accuracy_low']:.2%} to {values['accuracy_high']:.2%}"
    facts = {
        "accuracy": f"{report.accuracy:.2%}  {interval}",
        "macro_f1": f"{values['macro_f1']:.4f}",
        "matthews": f"{values['matthews']:.4f}",
        "ece": f"{bins.ece:.4f}  calibration error, {BINS} bins",
        UNIT: f"{report.total:,}",
        "loss": f"{report.loss:.4f}  nats a text",
    }
    totals = counted.sum(1).tolist()
    rows = [
        [name, *(NONE if share is None else f"{share:.1%}" for share in shares), f"{total:,}"]
        for name, *shares, total in zip(classes, report.by_class, f1_by_class(counted), totals, strict=True)
    ]
    sections: list[Section] = [Figures(["class", "right", "F1", UNIT], rows, title="by class")]
    if wrong := [[a, b, f"{count:,}"] for a, b, count in report.mistakes(MISTAKES)]:
        sections.append(Figures(["class", "taken for", UNIT], wrong, title="commonest mistakes"))
    lines = zip(found.labels.tolist(), sure.tolist(), found.predicted.tolist(), strict=True)
    return Evaluated(
        loss=report.loss,
        main={"accuracy": report.accuracy, "macro_f1": values["macro_f1"]},
        values=values,
        facts=facts,
        sections=sections,
        plot=lambda title: plot_classes(report, bins, title),
        outputs=[f"{classes[label]}\t{classes[predicted]}\t{share:.6f}" for label, share, predicted in lines],
    )


def multi_label(found: Predictions, classes: tuple[str, ...], threshold: float) -> Evaluated:
    """F1 by label, macro and micro, exact match, and the calibration of all decisions together."""
    from headway.plots.classification import plot_labels

    labels, chances = found.labels.numpy() >= 0.5, found.probabilities.numpy()
    predicted = chances >= threshold
    counts = MultiLabelCounts.of(labels, predicted)
    bins = reliability(chances.ravel(), labels.ravel())
    loss = found.nats / counts.texts
    values = {
        "micro_f1": counts.micro_f1,
        "macro_f1": counts.macro_f1,
        "exact_match": counts.exact_match,
        "ece": bins.ece,
        "threshold": threshold,
        UNIT: counts.texts,
        "loss": loss,
        "classes": list(classes),
        "f1_by_class": counts.f1_by_label,
    }
    facts = {
        "micro_f1": f"{counts.micro_f1:.4f}",
        "macro_f1": f"{counts.macro_f1:.4f}",
        "exact_match": f"{counts.exact_match:.2%}  all labels of a text right",
        "ece": f"{bins.ece:.4f}  calibration error of all decisions, {BINS} bins",
        UNIT: f"{counts.texts:,}",
        "loss": f"{loss:.4f}  nats a text and class",
    }
    each = zip(classes, counts.f1_by_label, counts.there.tolist(), counts.predicted.tolist(), strict=True)
    rows = [[name, f"{share:.1%}", f"{there:,}", f"{said:,}"] for name, share, there, said in each]

    def named(flags: np.ndarray[Any, Any]) -> str:
        return "|".join(name for name, there in zip(classes, flags.tolist(), strict=True) if there)

    return Evaluated(
        loss=loss,
        main={"micro_f1": counts.micro_f1, "macro_f1": counts.macro_f1},
        values=values,
        facts=facts,
        sections=[Figures(["class", "F1", "there", "predicted"], rows, title="by class")],
        plot=lambda title: plot_labels(classes, counts, bins, title),
        outputs=[f"{named(a)}\t{named(b)}" for a, b in zip(labels, predicted, strict=True)],
    )


def numbers(found: Predictions) -> Evaluated:
    """Correlations by value and by rank, and errors in the labels' own unit."""
    from headway.plots.classification import plot_numbers

    labels, predicted = found.labels.double().numpy(), found.probabilities[:, 0].double().numpy()
    errors = {"rmse": root_mean_squared_error(labels, predicted), "mae": mean_absolute_error(labels, predicted)}
    linear, ranked = pearson(labels, predicted), spearman(labels, predicted)
    loss = found.nats / len(labels)
    facts = {
        "pearson": NONE if linear is None else f"{linear:.4f}",
        "spearman": NONE if ranked is None else f"{ranked:.4f}",
        "rmse": f"{errors['rmse']:.4g}  in the labels' unit; their deviation here is {labels.std():.4g}",
        "mae": f"{errors['mae']:.4g}",
        UNIT: f"{len(labels):,}",
        "loss": f"{loss:.4f}  squared error / variance of the training labels",
    }
    correlations = {} if linear is None else {"pearson": linear}
    return Evaluated(
        loss=loss,
        main={**errors, **correlations},
        values={"pearson": linear, "spearman": ranked, **errors, UNIT: len(labels), "loss": loss},
        facts=facts,
        sections=[],
        plot=lambda title: plot_numbers(labels, predicted, title),
        outputs=[f"{label:.9g}\t{value:.9g}" for label, value in zip(labels, predicted, strict=True)],
    )


def with_baselines(found: Evaluated, simple: Baselines) -> Evaluated:
    """The figures of one class a text beside those of two simple classifiers, with a warning if one is as good."""
    facts = {
        "naive_bayes": f"{simple.naive_bayes:.2%}  accuracy of naive Bayes on the same tokens, a baseline",
        "commonest": f"{simple.commonest:.2%}  of always answering the commonest class",
    }
    sections = list(found.sections)
    if max(simple.naive_bayes, simple.commonest) >= found.headline[1]:
        better = "naive Bayes" if simple.naive_bayes >= simple.commonest else "always answering the commonest class"
        sections.append(Note(f"{better} is not worse than this model: {FEW_TEXTS}", warning=True))
    main = dict(list(found.facts.items())[:1])
    return replace(
        found,
        values={
            **found.values,
            "naive_bayes_accuracy": simple.naive_bayes,
            "commonest_class_accuracy": simple.commonest,
        },
        facts={**main, **facts, **found.facts},
        sections=sections,
    )


def with_newest(found: Evaluated, newest: Evaluated, step: int) -> tuple[dict[str, Any], list[Section]]:
    """The values and the sections of a report, with the first figure of the newest checkpoint."""
    name, value = newest.headline
    told = f"{value:.2%}" if name == "accuracy" else f"{value:.4g}"
    facts = {**found.facts, f"last_{name}": f"{told}  of the last checkpoint, step {step}"}
    return {**found.values, f"last_{name}": value, "last_step": step}, [Facts(facts), *found.sections]
