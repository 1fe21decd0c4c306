"""A finished text classifier at work: it classifies, is evaluated, explained and verified."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from headway.data.batching import padded
from headway.data.labelled_text import StoredTexts
from headway.data.unknown_tokens import count_stored
from headway.decoding.non_finite import numbered
from headway.errors import DataError
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Classifies
from headway.tasks.classifier import Prediction, likeliest
from headway.tasks.sentence_embedding.embed import around
from headway.tasks.text_classification.config import TextClassification

if TYPE_CHECKING:
    from headway.tasks.explanation import Explanation
    from headway.tasks.report import Report
    from headway.tasks.text_classification.training import TextClassificationTraining
    from headway.tasks.verification_inputs import VerificationInputs

ROWS = 32  # texts in one forward pass
TEXT = "text"


class TextClassificationPipeline(Pipeline, Classifies):
    """Texts in, classes out."""

    reads = "text"
    evaluate_options = frozenset({"out", "plot"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, TextClassification)
        self.config, self.classes = task, parts.data.classes

    def token_ids(self, text: str) -> list[int]:
        """A text as the model reads it, with special tokens, cut to the task's length. Raises DataError if empty."""
        before, after = around(self.tokenizer)
        ids = self.tokenizer.encode(text)
        if not ids:
            raise DataError("the text is empty: a classifier needs at least one token")
        return [*before, *ids[: self.config.length - len(before) - len(after)], *after]

    @torch.no_grad()
    def classify(self, inputs: Sequence[str | Path], *, top: int = 5) -> list[Prediction]:
        """The likeliest classes of each text."""
        found: list[Prediction] = []
        for first in range(0, len(inputs), ROWS):
            texts = [str(text) for text in inputs[first : first + ROWS]]
            rows = [np.asarray(self.token_ids(text), np.uint32) for text in texts]
            tokens, lengths = (torch.from_numpy(part).to(self.device) for part in padded(rows, self.tokenizer.pad))
            with numbered(range(first, len(inputs))):
                named = likeliest(self.model(tokens, lengths).float().softmax(-1), self.classes, top)
            found += [Prediction(text, best) for text, best in zip(texts, named, strict=True)]
        return found

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Accuracy with its interval, by class, and what is mistaken for what."""
        from headway.tasks.classifier_report import classifier_report

        training: TextClassificationTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        if isinstance(texts := training.splits[split], StoredTexts):
            count_stored(self.tokenizer, texts.store.ids)
        return classifier_report(self, training, split)

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Texts, whose class is predicted; of its data, a table of texts and classes, none is read."""
        from headway.tasks.verification_inputs import VERIFICATION, class_names, encoder_layout, text_inputs

        sizes = self.parts.inputs or VERIFICATION
        layout = encoder_layout(self.tokenizer, self.config.length, two=False)
        spell = class_names(self.classes)
        return text_inputs(self.model, layout, given, None, spell, names="class", sizes=sizes)

    def explain(self, given: str) -> Explanation:
        """A text, and the class its tokens amount to."""
        from headway.tasks.encoder_explanation import embedding_table, text_sequence
        from headway.tasks.explanation import Explanation, Output, StackDescription

        ids = self.token_ids(given)
        tokens = torch.tensor([ids], device=self.device)

        @torch.no_grad()
        def forward() -> torch.Tensor:
            logits: torch.Tensor = self.model(tokens)
            return logits

        return Explanation(
            kind="text-classification",
            given=given,
            said=lambda logits: likeliest(logits.softmax(-1), self.classes, 1)[0][0][0],
            forward=forward,
            reads={"encoder": StackDescription(label="Encoder", sequence=TEXT)},
            sequences={TEXT: text_sequence(self.tokenizer, ids, start=0)},
            output=Output(name=lambda index: self.classes[index], label="What it is", sequence=None, targets=[None]),
            tables={TEXT: embedding_table(self.model, self.tokenizer, ids)},
        )
