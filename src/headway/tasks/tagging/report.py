"""The evaluation of a tagger as a report."""

from __future__ import annotations

from collections import Counter

from headway.tasks.report import Facts, Figures, Note, Report, Sample, Samples, Section, spread
from headway.tasks.tagging.training import TaggingReport

MISTAKES = 5  # commonest ones shown
SEQEVAL = "Entities as seqeval counts them (default mode, micro average): type, first and last word must be right."


def tagging_report(split: str, found: TaggingReport) -> Report:
    """Accuracy with its interval, entities by type, tags, what is mistaken for what, and samples."""
    values = found.to_json()
    interval = f"95 % interval {values['accuracy_low']:.2%} to {values['accuracy_high']:.2%}"
    facts = {}
    if found.entities is not None:
        facts["f1"] = f"{values['f1']:.2%}  precision {values['precision']:.2%}, recall {values['recall']:.2%}"
    facts["accuracy"] = f"{found.accuracy:.2%}  of words, {interval}"
    if found.ceiling is not None:
        facts["best_accuracy"] = f"{found.ceiling:.2%}  of the model that the data was drawn from"
    facts["sentence_accuracy"] = f"{found.sentence_accuracy:.2%}  of {len(found.sentences):,} sentences throughout"
    facts["loss"] = f"{found.loss:.4f}  nats a word, of {found.words:,}"
    sections: list[Section] = [Facts(facts)]
    if found.entities is not None:
        rows = [
            [name, f"{each.precision:.1%}", f"{each.recall:.1%}", f"{each.f1:.1%}", f"{each.true:,}"]
            for name, each in found.entities.by_type.items()
        ]
        header = ["type", "precision", "recall", "F1", "entities"]
        sections.append(Figures(header, rows, title="entities", footnote=SEQEVAL))
    tags = [[tag, f"{right / total:.1%}", f"{total:,}"] for tag, (total, right) in found.by_tag().items()]
    sections.append(Figures(["tag", "right", "words"], tags, title="by tag"))
    if wrong := _mistakes(found):
        sections.append(Figures(["tag", "taken for", "words"], wrong, title="commonest mistakes"))
    sections.append(Samples("samples", [_sample(found, number) for number in spread(len(found.sentences))]))
    if not found.words:
        sections.append(Note("no words"))
    return Report(split=split, values=values, sections=sections, outputs=[" ".join(tags) for tags in found.predicted])


def _mistakes(found: TaggingReport) -> list[list[str]]:
    counts = Counter(
        (true, guess)
        for each, tags in zip(found.sentences, found.predicted, strict=True)
        for true, guess in zip(each.tags, tags, strict=True)
        if true != guess
    )
    return [[true, guess, f"{count:,}"] for (true, guess), count in counts.most_common(MISTAKES)]


def _sample(found: TaggingReport, number: int) -> list[Sample]:
    each = found.sentences[number]
    lines = {"sentence": each.words, "tags": each.tags, "output": found.predicted[number]}
    return [Sample(name, " ".join(parts)) for name, parts in lines.items()]
