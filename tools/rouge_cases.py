"""Write tests/metrics/data/rouge.json: texts with the figures that rouge-score 0.1.2 gives them.

    PYTHONPATH=FOLDER python -m tools.rouge_cases

FOLDER has rouge-score, nltk, absl-py and six, which headway does not need.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

TARGET = Path(__file__).parents[1] / "tests" / "metrics" / "data" / "rouge.json"
WORDS = (
    "the", "a", "cat", "sat", "on", "mat", "dog's", "e-mail", "3.14", "Über", "naïve", "NLP", "running", "runs",
    "tired,", "don't", "x_y", "東京", "2024", "and",
)  # fmt: skip
KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
EDGES = [("", ""), ("", "a cat"), ("a cat", ""), ("!!!", "..."), ("a\n\nb", "b\na"), ("a\nb\n", "a b"), ("A a A", "a")]


def text(random: Random) -> str:
    """One to four lines of up to nine words, now and then an empty one."""
    lines = [" ".join(random.choices(WORDS, k=random.randint(0, 9))) for _ in range(random.randint(1, 4))]
    return "\n".join(lines)


def main() -> None:
    """Score and write the cases."""
    from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-not-found]

    random = Random(7)
    pairs = EDGES + [(text(random), text(random)) for _ in range(150)]
    for _ in range(100):  # near copies, as outputs of a trained model are
        reference = text(random)
        output = [word if random.random() < 0.8 else random.choice(WORDS) for word in reference.split(" ")]
        pairs.append((" ".join(output), reference))
    scorer = RougeScorer(list(KINDS))
    cases = []
    for output, reference in pairs:
        scores = scorer.score(reference, output)
        cases.append({"output": output, "reference": reference, **{kind: scores[kind].fmeasure for kind in KINDS}})
    TARGET.write_text(json.dumps({"package": "rouge-score 0.1.2", "cases": cases}, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
