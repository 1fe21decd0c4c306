"""Cases for tests/metrics: tags with the figures of seqeval, answers with those of transformers' SQuAD metrics.

    PYTHONPATH=src:FOLDER python -m tools.token_metric_cases

FOLDER has seqeval 1.2.2 with scikit-learn; transformers is one of the peers. The cases are drawn from a fixed seed:
consistent tags and any others, answers that share words with their references, articles and punctuation.
"""

from __future__ import annotations

import json
import random
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests" / "metrics"
CASES = 240
TYPES = ("PER", "LOC", "ORG", "MISC")
WORDS = (
    "the", "a", "an", "An", "The", "Vienna", "New", "York", "john", "John's", "artist", "1984", "3.5", "red,",
    "(river)", "U.N.", "über", "Straße", "don't", "well-known", "…", "!", "of", "in", "and", "naïve", "東京", "  ",
    "A.", "the-end",
)  # fmt: skip


def random_tags(draw: random.Random, length: int, prefixes: str) -> list[str]:
    """Any tags, consistent or not."""
    tags = []
    for _ in range(length):
        prefix = draw.choice(prefixes)
        tags.append("O" if prefix == "O" else f"{prefix}-{draw.choice(TYPES)}")
    return tags


def changed(draw: random.Random, tags: list[str]) -> list[str]:
    """Tags with some of them replaced."""
    other = random_tags(draw, len(tags), "OOBI")
    return [new if draw.random() < 0.2 else tag for tag, new in zip(tags, other, strict=True)]


def entity_cases() -> dict[str, Any]:
    """Sentences with the figures of seqeval."""
    from seqeval.metrics import classification_report, f1_score, precision_score, recall_score
    from seqeval.metrics.sequence_labeling import get_entities

    draw = random.Random("entity cases")
    cases = []
    for number in range(CASES):
        prefixes = ("OOBI", "OOOBIES", "OBI", "O")[number % 4 if number % 16 == 3 or number % 4 != 3 else 0]
        true = [random_tags(draw, draw.randint(1, 12), prefixes) for _ in range(draw.randint(1, 5))]
        predicted = [changed(draw, tags) for tags in true]
        report = (
            classification_report(true, predicted, output_dict=True, zero_division=0)
            if any(get_entities(tags) for tags in (*true, *predicted))
            else {}
        )
        cases.append(
            {
                "true": true,
                "predicted": predicted,
                "precision": float(precision_score(true, predicted, zero_division=0)),
                "recall": float(recall_score(true, predicted, zero_division=0)),
                "f1": float(f1_score(true, predicted, zero_division=0)),
                "by_type": {name: float(report[name]["f1-score"]) for name in report if not name.endswith(" avg")},
                "entities": [[list(entity) for entity in get_entities(tags)] for tags in true],
            }
        )
    return {"reference": f"seqeval {version('seqeval')}", "cases": cases}


def phrase(draw: random.Random, least: int = 0) -> str:
    """A few words."""
    return " ".join(draw.choices(WORDS, k=draw.randint(least, 6)))


def answer_cases() -> dict[str, Any]:
    """Answers with the figures of transformers' SQuAD metrics, which are those of the official script."""
    from transformers.data.metrics.squad_metrics import squad_evaluate
    from transformers.data.processors.squad import SquadExample

    draw = random.Random("answer cases")
    examples, answers, cases = [], {}, []
    for number in range(CASES):
        impossible = draw.random() < 0.2
        references = [] if impossible else [phrase(draw, 1) for _ in range(draw.randint(1, 3))]
        if not impossible and not any(any(each.isalnum() for each in text) for text in references):
            references[0] += " Wien"
        base = draw.choice([*references, phrase(draw), ""])
        answer = base if draw.random() < 0.5 else " ".join([*base.split()[: draw.randint(0, 4)], draw.choice(WORDS)])
        example = SquadExample(str(number), "", "", None, None, "", [{"text": text} for text in references], impossible)
        alone = squad_evaluate([example], {str(number): answer})
        examples.append(example)
        answers[str(number)] = answer
        cases.append(
            {"references": references, "answer": answer, "exact": alone["exact"] / 100, "f1": alone["f1"] / 100}
        )
    return {
        "reference": f"transformers {version('transformers')}",
        "cases": cases,
        "whole": squad_evaluate(examples, answers),
    }


def main() -> None:
    """Write both files."""
    warnings.simplefilter("ignore")
    for name, made in (("entity_cases.json", entity_cases()), ("answer_cases.json", answer_cases())):
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in made.pop("cases"))
        head = json.dumps(made, ensure_ascii=False)[1:-1]
        (TESTS / name).write_text(f'{{{head}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
