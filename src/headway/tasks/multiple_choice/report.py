"""The evaluation of a multiple-choice answerer as a report."""

from __future__ import annotations

from headway.tasks.multiple_choice.training import ChoiceReport
from headway.tasks.report import Facts, Report, Sample, Samples, Section, spread

WRONG = 3  # wrong answers shown


def choice_report(split: str, found: ChoiceReport) -> Report:
    """Accuracy with its interval beside chance, the loss, and samples."""
    values = found.to_json()
    interval = f"95 % interval {values['accuracy_low']:.2%} to {values['accuracy_high']:.2%}"
    facts = {
        "accuracy": f"{values['accuracy']:.2%}  {interval}, of {values['questions']:,} questions",
        "chance": f"{values['chance']:.2%}  a choice drawn at random",
        "loss": f"{found.loss:.4f}  nats a question",
    }
    chosen, questions = found.chosen, found.questions
    sections: list[Section] = [Facts(facts)]
    sections.append(Samples("samples", [_sample(found, number, chosen) for number in spread(len(questions))]))
    wrong = [number for number, asked in enumerate(questions) if chosen[number] != asked.right]
    if wrong:
        sections.append(Samples("wrong answers", [_sample(found, number, chosen) for number in wrong[:WRONG]]))
    outputs = [" ".join(asked.choices[best].split()) for asked, best in zip(questions, chosen, strict=True)]
    return Report(split=split, values=values, sections=sections, outputs=outputs)


def _sample(found: ChoiceReport, number: int, chosen: list[int]) -> list[Sample]:
    asked, best = found.questions[number], chosen[number]
    return [
        Sample("question", asked.question or asked.context),
        Sample("reference", asked.choices[asked.right]),
        Sample("output", f"{asked.choices[best]} ({found.probabilities[number][best]:.0%})"),
    ]
