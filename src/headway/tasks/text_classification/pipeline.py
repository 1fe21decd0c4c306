"""A finished text classifier at work: it classifies, is evaluated, explained and verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headway.data.labelled_text import StoredTexts
from headway.data.unknown_tokens import count_stored
from headway.decoding.non_finite import numbered
from headway.errors import ConfigError, DataError, InputError
from headway.tasks.base import COLUMNS, EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Classifies
from headway.tasks.classifier import Prediction
from headway.tasks.text_classification.config import TextClassification
from headway.tasks.text_classification.erasure import erased
from headway.tasks.text_classification.layout import PAIR, InputLayout
from headway.tasks.text_classification.objectives import objective

if TYPE_CHECKING:
    from headway.tasks.explanation import Explanation, Output
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.report import Report
    from headway.tasks.text_classification.training import TextClassificationTraining
    from headway.tasks.verification_inputs import TextLayout, VerificationInputs

ROWS = 32  # texts in one forward pass
TEXT = "text"


class TextClassificationPipeline(Pipeline, Classifies):
    """Texts in, classes or numbers out."""

    reads = "text"
    evaluate_options = frozenset({*COLUMNS, "out", "plot"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, TextClassification)
        self.config, self.classes = task, parts.data.classes
        self.objective = objective(task, self.classes, scale=getattr(parts.config, "scale", 1.0))

    @property
    def reads_pairs(self) -> bool:
        """Whether an input is a pair of texts, in one line with a tab between them; else a tab is white space."""
        return bool(self.parts.data.text2)

    @property
    def layout(self) -> InputLayout:
        """How a line becomes the model's input."""
        return InputLayout.of(self.tokenizer, self.config.length, pairs=self.reads_pairs)

    @property
    def segments(self) -> bool:
        """Whether the model is told which text of a pair a token belongs to."""
        return self.reads_pairs and "segments" in self.model.reads

    def encoded(self, lines: Sequence[str]) -> tuple[list[list[int]], list[list[int]]]:
        """Lines as the model reads them, with special tokens, cut to the task's length, and their segments.

        A pair is a line with a tab between the two texts. Raises InputError for a line without a token or a pair.
        """
        found = []
        for row, line in enumerate(lines):
            try:
                ids = [self.tokenizer.encode(text) for text in self.layout.split(line)]
                if not all(ids):
                    raise DataError("the text is empty: a classifier needs at least one token")
            except DataError as error:
                raise InputError(row, str(error)) from None
            found.append(self.layout.arrange(*ids))
        return [ids for ids, _ in found], [segments for _, segments in found]

    def inputs(self, lines: Sequence[str]) -> tuple[Tensor, ...]:
        """Lines as the arguments of the model: tokens (B, T), lengths (B,) and, of pairs, segments (B, T)."""
        rows, segments = self.encoded(lines)
        made: tuple[Tensor, ...] = self.layout.padded(rows)
        if self.segments:
            made = (*made, self.layout.padded_segments(segments))
        return tuple(each.to(self.device) for each in made)

    @torch.no_grad()
    def classify(self, inputs: Sequence[str | Path], *, top: int | None = None) -> list[Prediction]:
        """The likeliest classes of each text or pair, all of them where a text may have several; or a number."""
        found: list[Prediction] = []
        for first in range(0, len(inputs), ROWS):
            texts = [str(text) for text in inputs[first : first + ROWS]]
            with numbered(range(first, len(inputs))):
                said = self.objective.predictions(self.model(*self.inputs(texts)), top)
            for text, each in zip(texts, said, strict=True):
                one, _, two = text.partition(PAIR)
                found.append(replace(each, given=text, pair=(one, two) if self.reads_pairs else None))
        return found

    @torch.no_grad()
    def word_changes(self, text: str) -> list[tuple[str, float]]:
        """Each word with what it adds to the probability of the likeliest class, or to the number.

        That is the answer to the whole text less the answer to the text without the word. Raises InputError.
        """
        whole = self.objective.answers(self.model(*self.inputs([text])))[0]
        likeliest = int(whole.argmax())
        without = erased(self.layout.split(text))
        changes: list[float] = []
        for first in range(0, len(without), ROWS):
            lines = [PAIR.join(texts) for _, texts in without[first : first + ROWS]]
            answers = self.objective.answers(self.model(*self.inputs(lines)))[:, likeliest]
            changes += (whole[likeliest] - answers).tolist()
        return [(word, change) for (word, _), change in zip(without, changes, strict=True)]

    def evaluate(self, request: EvaluateRequest) -> Report:
        """The figures of a split, with the first of them of the newest checkpoint."""
        from headway.tasks.report import Report
        from headway.tasks.text_classification.evaluation import with_baselines, with_newest

        if "text2" in request.columns and not self.reads_pairs:
            raise ConfigError(f"--text2: {self.parts.folder} reads one text, not a pair of texts")
        training: TextClassificationTraining = self.read_table(request)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        if isinstance(texts := training.splits[split], StoredTexts):
            for store in (texts.store, texts.second_store):
                if store is not None:
                    count_stored(self.tokenizer, store.ids)
        found = training.evaluate(self.model, self.device, split)
        if request.data is None and (simple := training.baselines(split)) is not None:  # of other data none is train
            found = with_baselines(found, simple)
        newest, step = self.parts.newest()
        values, sections = with_newest(found, training.evaluate(newest, self.device, split), step)
        return Report(split=split, values=values, sections=sections, plot=found.plot, outputs=found.outputs)

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Texts, whose labels are predicted; the run's own data, a table of texts and labels, is not read."""
        from headway.tasks.verification_inputs import VERIFICATION, class_names, text_inputs

        sizes = self.parts.inputs or VERIFICATION
        spell = class_names(self.classes)
        layout = self._verified(min(self.config.length, sizes.tokens))
        return text_inputs(self.model, layout, given, None, spell, names=self.objective.names, sizes=sizes)

    def _verified(self, length: int) -> TextLayout:
        """How token ids become inputs; the second text of a pair takes the place of a source."""
        from headway.models import ModelInputs
        from headway.tasks.verification_inputs import Example, TextLayout

        layout = InputLayout.of(self.tokenizer, length, pairs=self.reads_pairs)

        def arrange(ids: Sequence[int], second: Sequence[int] | None) -> Example:
            tokens, segments = (torch.tensor([part]) for part in layout.arrange(ids, second if layout.pairs else None))
            return Example(ModelInputs(tokens=tokens, segments=segments if self.segments else None))

        def encode(line: str) -> tuple[list[int], list[int] | None]:
            first, *second = (self.tokenizer.encode(text) for text in layout.split(line))
            return first, second[0] if second else None

        other = self.tokenizer if layout.pairs else None
        return TextLayout(
            max_length=length, tokenizer=self.tokenizer, arrange=arrange, encode=encode, source_tokenizer=other
        )

    def export_request(self) -> ExportRequest:
        """The classifier with the names of its classes; of numbers, with the labels' mean and deviation in its head."""
        from headway.models.text_classifier import unscaled
        from headway.tasks.export_request import ExportRequest, TextExport

        model, config = unscaled(self.model, self.parts.config)
        return ExportRequest(
            model=model,
            config=config,
            text=TextExport(tokenizer=self.tokenizer, around="start-stop"),
            classes=self.classes,
            pairs=self.reads_pairs,
            problem_type=self.objective.problem_type if self.classes or self.config.labels == "number" else None,
        )

    def explain(self, given: str) -> Explanation:
        """A text or a pair, and the label its tokens amount to."""
        from headway.tasks.encoder_explanation import embedding_table
        from headway.tasks.explanation import Explanation, StackDescription, token_sequence

        tokens, _, *segments = self.inputs([given])  # one text: no padding, and so no lengths
        ids = tokens[0].tolist()

        @torch.no_grad()
        def forward() -> Tensor:
            logits: Tensor = self.model(tokens, None, *segments)
            return logits

        return Explanation(
            kind="text-classification",
            given=given.replace("\t", " | "),
            said=self._said,
            forward=forward,
            reads={"encoder": StackDescription(label="Encoder", sequence=TEXT)},
            sequences={TEXT: token_sequence(self.tokenizer, ids, start=0)},
            output=self._output(),
            tables={TEXT: embedding_table(self.model, self.tokenizer, ids)},
        )

    def _said(self, logits: Tensor) -> str:
        """What the model answers in one line: a class, the labels above the threshold, or the number."""
        found = self.objective.predictions(logits, 1)[0]
        if found.number is not None:
            return f"{found.number:.6g}"
        return found.top[0][0] if found.labels is None else ", ".join(found.labels) or "none"

    def _output(self) -> Output | None:
        """The classes as one distribution; None for labels that do not exclude each other, and for numbers."""
        from headway.tasks.explanation import Output

        if not self.objective.shows_classes:
            return None
        return Output(
            name=lambda index: self.classes[index], label="What it is", sequence=None, targets=[None], unit="class"
        )
