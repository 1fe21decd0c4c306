"""A finished masked model at work: it embeds, is evaluated, explained, verified and exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.data.unknown_tokens import count_stored
from headway.errors import TooLongError
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Embeds
from headway.tasks.masked_lm.config import Masked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.metrics.loss_by_length import LengthReport, LengthRow
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.masked_lm.training import MaskedTraining
    from headway.tasks.report import Report, Section
    from headway.tasks.verification_inputs import VerificationInputs

HIDDEN = "Nats a hidden token, in rows of up to the given number of tokens; a shorter document makes a shorter row."


class MaskedPipeline(Pipeline, Embeds):
    """Predicts hidden tokens; its encoder gives vectors."""

    evaluate_options = frozenset({"lengths"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Masked)
        self.config = task

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector a text (N, D): the mean of the vectors its encoder gives its tokens."""
        from headway.tasks.sentence_embedding.config import Embedding
        from headway.tasks.sentence_embedding.embed import embed

        settings = Embedding(max_length=self.config.length)
        return embed(self.model.encoder, self.tokenizer, settings, texts, self.device)  # type: ignore[arg-type]

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Loss and perplexity of the hidden tokens, next-sentence accuracy; or loss by length."""
        from headway.tasks.report import Facts, Report, Sample, Samples

        training: MaskedTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        count_stored(self.tokenizer, training.splits[split].ids)
        if request.lengths is not None:
            return self._by_length(training, split, request.lengths)
        values = training.evaluate(self.model, self.device, split)
        rows = {
            "loss": f"{values['loss']:.4f}  nats a hidden token",
            "perplexity": f"{values['perplexity']:.4g}",
            "tokens": f"{values['tokens']:,}  hidden",
            "unigram_entropy": f"{values['unigram_entropy']:.4f}  the loss of knowing frequencies alone",
        }
        if "next_sentence_accuracy" in values:
            rows["next_sentence_accuracy"] = f"{values['next_sentence_accuracy']:.1%}"
        halves = (line.rpartition(" | ") for line in values["samples"])
        lines = [[Sample("text", text), Sample("guesses", guesses)] for text, _, guesses in halves]
        sections: list[Section] = [Facts(rows), Samples("samples: token → guess", lines)]
        return Report(split=split, values=values, sections=sections)

    def _by_length(self, training: MaskedTraining, split: str, lengths: Sequence[int]) -> Report:
        from headway.tasks.length_extrapolation import length_report

        return length_report(split, self.loss_by_length(training, split, lengths), note=HIDDEN, sliding=False)

    def loss_by_length(self, training: MaskedTraining, split: str, lengths: Sequence[int]) -> LengthReport:
        """The hidden tokens of a split in rows of each length; a length without positions is a row that says so.

        Raises DataError for a length the data does not reach.
        """
        from headway.metrics.loss_by_length import LengthReport, check_lengths

        longest = training.longest(split)
        told = f"with the special tokens around it the longest document of split {split!r} has {longest:,}"
        check_lengths(lengths, longest=longest, what=told)
        rows = tuple(self._length(training, split, length) for length in lengths)
        return LengthReport(rows=rows, trained=self.config.length)

    def _length(self, training: MaskedTraining, split: str, length: int) -> LengthRow:
        from headway.metrics.loss_by_length import LengthRow

        try:
            return LengthRow(length=length, blocks=training.scored(self.model, self.device, split, length=length))
        except TooLongError as error:
            return LengthRow(length=length, refused=str(error))

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Two sentences, or one text, of which every token is predicted."""
        from headway.tasks.verification_inputs import (
            VERIFICATION,
            encoder_layout,
            first_lines,
            text_inputs,
            token_names,
        )

        sizes = self.parts.inputs or VERIFICATION
        layout = encoder_layout(self.tokenizer, self.config.length, two=self.config.rows == "pairs")
        own, spell = first_lines(self.parts.data, sizes), token_names(self.tokenizer)
        return text_inputs(self.model, layout, given, own, spell, sizes=sizes)

    def export_request(self) -> ExportRequest:
        """A text between a start and a stop token."""
        from headway.tasks.export_request import ExportRequest, TextExport

        text = TextExport(tokenizer=self.tokenizer, around="start-stop")
        return ExportRequest(model=self.model, config=self.parts.config, text=text)

    def explain(self, given: str) -> Explanation:
        """A text, in which `<mask>` hides a token, and what might stand at each place."""
        from headway.tasks.encoder_explanation import explain_text

        return explain_text(self.model, self.tokenizer, given)
