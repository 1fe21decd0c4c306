"""A finished echo detector at work: it classifies strings, is evaluated, explained and verified."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch

from headway.errors import DataError
from headway.models.inputs import ModelInputs
from headway.tasks.base import EvaluateRequest, Pipeline, split_of
from headway.tasks.capabilities import Classifies
from headway.tasks.classifier import Prediction, likeliest
from headway.tasks.explanation import Explanation, Output, StackDescription
from headway.tasks.report import Facts, Report
from headway.tasks.verification_inputs import Example, TextLayout, VerificationInputs, text_inputs
from headway_echo.task import Echo
from headway_echo.training import EchoTraining

STRING = "string"


class EchoPipeline(Pipeline, Classifies):
    """Strings in, "echo" or "noise" out."""

    reads = "text"

    def logits(self, text: str) -> torch.Tensor:
        """A string -> logits (1, classes). Raises DataError for an empty string."""
        ids = self.tokenizer.encode(text)
        if not ids:
            raise DataError("the string is empty, expected at least 1 character")
        found: torch.Tensor = self.model(torch.tensor([ids], device=self.device))
        return found

    @torch.no_grad()
    def classify(self, inputs: Sequence[str | Path], *, top: int = 5) -> list[Prediction]:
        """The classes of each string, the likelier one first."""
        classes = self.parts.data.classes
        return [
            Prediction(str(each), likeliest(self.logits(str(each)).softmax(-1), classes, top)[0]) for each in inputs
        ]

    def evaluate(self, request: EvaluateRequest) -> Report:
        """The accuracy on a split, and the loss."""
        training = cast(EchoTraining, self.read(request.data))
        split = split_of(training.splits, request.split)
        loss, accuracy = training.evaluate(self.model, self.device, split)
        values = {"accuracy": accuracy, "loss": loss, "strings": len(training.splits[split].labels)}
        rows = {"accuracy": f"{accuracy:.1%}", "loss": f"{loss:.4f}  nats a string"}
        return Report(split=split, values=values, sections=[Facts(rows)])

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Strings, given or random, whose class all code paths must agree on."""

        def arrange(ids: Sequence[int], _: Sequence[int] | None) -> Example:
            return Example(ModelInputs(tokens=torch.tensor([list(ids)], dtype=torch.long)))

        layout = TextLayout(
            max_length=cast(Echo, self.task).length,
            tokenizer=self.tokenizer,
            arrange=arrange,
            encode=lambda line: (self.tokenizer.encode(line), None),
        )
        spell = self.parts.data.classes.__getitem__
        return text_inputs(self.model, layout, given, None, spell, names="class")

    def explain(self, given: str) -> Explanation:
        """A string, what its characters attend to, and its class."""
        classes, tokens = self.parts.data.classes, [self.tokenizer.token(n) for n in self.tokenizer.encode(given)]
        return Explanation(
            kind="echo",
            given=given,
            forward=lambda: self.logits(given),
            said=lambda logits: classes[int(logits.argmax())],
            reads={"": StackDescription(label="Encoder", sequence=STRING)},
            sequences={STRING: {"label": "String", "tokens": tokens, "start": 0}},
            output=Output(name=classes.__getitem__, label="What it is", sequence=None, targets=[None]),
        )
