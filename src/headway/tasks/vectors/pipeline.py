"""A finished vector model at work: it classifies sets or gives them numbers, is evaluated, explained and verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headway.data.batching import like_length
from headway.data.vector_files import Floats, VectorSets, read_vectors
from headway.decoding.non_finite import expect_finite, numbered
from headway.errors import DataError, shown
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Classifies
from headway.tasks.classifier import Prediction, likeliest
from headway.tasks.vectors.config import Vectors
from headway.tasks.vectors.data import columns_of
from headway.tasks.vectors.training import EVALUATED, SetClassification, SetRegression, padded_vectors

if TYPE_CHECKING:
    from headway.tasks.explanation import Explanation
    from headway.tasks.report import Report
    from headway.tasks.vectors.training import VectorTraining
    from headway.tasks.verification_inputs import VerificationInputs

ELEMENTS, QUERY = "elements", "query"
LENGTHS = (1, 4, 9)  # elements of made-up sets of `verify`


class VectorsPipeline(Pipeline, Classifies):
    """Files of vectors in, a class or a number of each set out, or the class of each element."""

    reads_files = True

    reads = "set"
    evaluate_options = frozenset({"out", "plot"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Vectors)
        self.config, self.classes = task, parts.data.classes

    def sets(self, given: str | Path) -> VectorSets:
        """The sets of a file, or of FILE:SET that one. Raises DataError for a file or a set that is not there."""
        path, wanted = Path(given).expanduser(), ""
        if not path.exists():
            before, colon, after = str(given).rpartition(":")
            if colon and Path(before).expanduser().exists():
                path, wanted = Path(before).expanduser(), after
        columns = columns_of(self.parts.data, self.parts.config)
        found = read_vectors(path, columns, errors=self.parts.data.errors, needs_target=False)
        if not wanted:
            return found
        if wanted not in found.names:
            some = f"{shown(found.names[0])} to {shown(found.names[-1])}"
            raise DataError(f"{path}: no set {shown(wanted)}; there are {len(found):,}: {some}")
        return found.select([found.names.index(wanted)])

    @torch.no_grad()
    def classify(self, inputs: Sequence[str | Path], *, top: int = 5) -> list[Prediction]:
        """The likeliest classes of each set of each file, or its number; the inputs may be FILE:SET."""
        found: list[Prediction] = []
        for given in inputs:
            sets = self.sets(given)
            by_set: dict[int, list[Prediction]] = {}
            for numbers in like_length(sets.lengths, EVALUATED):
                with numbered([int(n) for n in numbers], f"set of {given}: number"):
                    outputs = self._outputs(sets, numbers)
                for n, output in zip(numbers.tolist(), outputs, strict=True):
                    real = output[: int(sets.lengths[n])] if self.config.predicts == "elements" else output
                    by_set[n] = list(self._predictions(f"{sets.where}:{sets.names[n]}", real, top))
            found += [each for n in range(len(sets)) for each in by_set[n]]
        return found

    def _outputs(self, sets: VectorSets, numbers: Any) -> Tensor:
        """What the model gives for these sets. Raises NonFiniteOutputError."""
        starts = sets.starts
        rows = [sets.rows[starts[n] : starts[n] + sets.lengths[n]] for n in numbers]
        outputs: Tensor = self.model(*(part.to(self.device) for part in padded_vectors(rows))).float()
        if self.config.predicts == "elements":
            for row, each in enumerate(rows):
                with numbered([row]):
                    expect_finite(outputs[row : row + 1, : len(each)], "set")
        else:
            expect_finite(outputs, "set")
        return outputs

    def _predictions(self, name: str, output: Tensor, top: int) -> Iterator[Prediction]:
        """Of a set, from its output: logits (classes,), a number (1,), or logits of its elements (T, classes)."""
        if self.config.predicts == "number":
            yield Prediction(name, [], number=float(output[0]))
        elif self.config.predicts == "class":
            yield Prediction(name, likeliest(output[None].softmax(-1), self.classes, top)[0])
        else:
            for place, best in enumerate(likeliest(output.softmax(-1), self.classes, top)):
                yield Prediction(f"{name}[{place}]", best)

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Accuracy with its interval, or RMSE and R² of numbers."""
        from headway.tasks.classifier_report import classifier_report
        from headway.tasks.vectors.report import regression_report_of

        training: VectorTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        if isinstance(training, SetClassification):
            return classifier_report(self, training, split)
        assert isinstance(training, SetRegression)
        return regression_report_of(self, training, split)

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Sets of the given files, else of the run's data and made-up ones of different sizes."""
        from headway.errors import HeadwayError
        from headway.models import ModelInputs
        from headway.tasks.verification_inputs import (
            MAX_GIVEN,
            VERIFICATION,
            Example,
            VerificationInputs,
            class_names,
            missing_data,
        )

        sizes, notes = self.parts.inputs or VERIFICATION, []
        found: list[Floats] = []
        for file in given[:MAX_GIVEN]:
            found += _sets(self.sets(file), MAX_GIVEN)
        if not given:
            try:
                training: VectorTraining = self.read()  # type: ignore[assignment]
                found = _sets(training.splits["val"], sizes.own)
            except HeadwayError as error:
                notes.append(missing_data("sets", error))
        if not given or len({len(each) for each in found}) < 2:  # sets of one size have no padding
            found += self._made_up()
        return VerificationInputs(
            examples=[
                Example(ModelInputs(vectors=torch.from_numpy(rows.copy())[None])).to(self.device) for rows in found
            ],
            names=None if self.config.predicts == "number" else "class",
            vocabulary=100,  # what padding is filled with, less 1
            spell=class_names(self.classes),
            notes=tuple(notes),
        )

    def _made_up(self) -> list[Floats]:
        """Vectors of seeded noise with the mean and deviation of the training data."""
        features: Any = self.parts.config.features  # type: ignore[attr-defined]
        random = np.random.default_rng(0)
        means, deviations = np.asarray(features.means), np.asarray(features.deviations)
        drawn = [random.normal(size=(length, len(means))) for length in LENGTHS]
        return [(each * deviations + means).astype(np.float32) for each in drawn]

    def explain(self, given: str) -> Explanation:
        """The first set of a file, or FILE:SET, and what its elements amount to."""
        from headway.tasks.explanation import Explanation, Output, StackDescription

        sets = self.sets(given).select([0])
        vectors = torch.from_numpy(sets.rows.copy())[None].to(self.device)
        by_element, number = self.config.predicts == "elements", self.config.predicts == "number"

        @torch.no_grad()
        def forward() -> Tensor:
            found: Tensor = self.model(vectors)
            return found[0] if by_element else found

        reads = {"encoder": StackDescription(label="Encoder", sequence=ELEMENTS)}
        sequences: dict[str, Any] = {
            ELEMENTS: {"label": "Elements", "tokens": [str(n) for n in range(len(sets.rows))], "start": 0}
        }
        if hasattr(self.parts.config.pool, "layers"):  # type: ignore[attr-defined]  # a query attends to the elements
            reads["pool"] = StackDescription(label="Pooling", sequence=QUERY, memory=ELEMENTS)
            sequences[QUERY] = {"label": "Query", "tokens": ["query"], "start": 0}
        label = "What each element is" if by_element else "What it is"
        targets = [None] * (len(sets.rows) if by_element else 1)
        return Explanation(
            kind="vectors",
            given=f"{Path(sets.where).name}:{sets.names[0]}",
            said="" if by_element else self._said,
            forward=forward,
            reads=reads,
            sequences=sequences,
            output=None
            if number
            else Output(
                name=lambda index: self.classes[index],
                label=label,
                sequence=ELEMENTS if by_element else None,
                targets=targets,
                unit="class",
            ),
        )

    def _said(self, output: Tensor) -> str:
        """The class or the number of a set, from what the model gave (1, outputs)."""
        expect_finite(output, "input")
        if self.config.predicts == "number":
            return f"{float(output[0, 0]):.6g}"
        return likeliest(output.softmax(-1), self.classes, 1)[0][0][0]


def _sets(found: VectorSets, most: int) -> list[Floats]:
    """The vectors (T, N) of the first sets."""
    starts = found.starts
    return [found.rows[starts[n] : starts[n] + found.lengths[n]] for n in range(min(len(found), most))]
