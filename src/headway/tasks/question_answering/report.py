"""The evaluation of a question answerer as a report."""

from __future__ import annotations

from headway.tasks.question_answering.training import ReadingReport
from headway.tasks.report import Facts, Figures, Report, Sample, Samples, Section, spread

NO_ANSWER = "(no answer)"
WRONG = 3  # wrong answers shown


def reading_report(split: str, found: ReadingReport) -> Report:
    """Exact match and F1, over questions with and without an answer, the threshold, and samples."""
    values, figures = found.to_json(), found.figures
    facts = {
        "exact_match": f"{figures.exact:.2%}  of {figures.questions:,} questions",
        "f1": f"{figures.f1:.2%}  of words in common, the nearest reference",
        "loss": f"{found.loss:.4f}  nats a window, of {found.windows:,}",
    }
    if found.threshold is not None:
        facts["threshold"] = f"{found.threshold:.4f}  above which no answer is given, tuned on val"
    sections: list[Section] = [Facts(facts)]
    parts = {"with an answer": figures.answerable, "without": figures.unanswerable}
    rows = [
        [name, f"{each.exact:.1%}", f"{each.f1:.1%}", f"{each.questions:,}"]
        for name, each in parts.items()
        if each is not None
    ]
    if rows:
        sections.append(Figures(["questions", "exact match", "F1", "number"], rows))
    sections.append(Samples("samples", [_sample(found, number) for number in spread(len(found.questions))]))
    if wrong := [n for n, asked in enumerate(found.questions) if _differs(found, n)][:WRONG]:
        sections.append(Samples("wrong answers", [_sample(found, number) for number in wrong]))
    outputs = [found.answers[str(number)] for number in range(len(found.questions))]
    return Report(split=split, values=values, sections=sections, outputs=[" ".join(each.split()) for each in outputs])


def _differs(found: ReadingReport, number: int) -> bool:
    asked = found.questions[number]
    return found.answers[str(number)] not in (asked.answers or ("",))


def _sample(found: ReadingReport, number: int) -> list[Sample]:
    asked = found.questions[number]
    return [
        Sample("question", asked.question),
        Sample("reference", " | ".join(dict.fromkeys(asked.answers)) or NO_ANSWER),
        Sample("output", found.answers[str(number)] or NO_ANSWER),
    ]
