"""A finished language model at work: it generates, scores, is evaluated, explained, verified and exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headway.counts import counted
from headway.data.unknown_tokens import count_stored
from headway.decoding.non_finite import expect_log_probabilities
from headway.errors import DataError, TooLongError
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Generates, Scores
from headway.tasks.language_modelling.config import Language

if TYPE_CHECKING:
    from headway.decoding.sampling import Sampling
    from headway.decoding.trace import Trace
    from headway.metrics.loss_by_length import LengthReport, LengthRow
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.language_modelling.training import Continuations, LanguageTraining
    from headway.tasks.report import Report, Section
    from headway.tasks.token_writer import TokenWriter
    from headway.tasks.verification_inputs import InputSizes, VerificationInputs

TEXT = "text"
BEGINNING = 1 << 14  # tokens of prepared text that `verification` decodes
FURTHER = 12  # tokens that the page's search goes beyond the text
SLIDING = (
    "Blocks do not overlap: their first tokens have little before them, in short blocks more of them. Sliding windows "
    "count only what has enough before it, the first window aside."
)


class LanguagePipeline(Pipeline, Generates, Scores):
    """A prompt in, its continuation out."""

    evaluate_options = frozenset({"stride", "lengths", "plot"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Language)
        self.config = task

    def prompt(self, text: str) -> Tensor:
        """A prompt as tokens (1, T). Raises DataError for an empty one, or text the vocabulary lacks."""
        special = self.tokenizer.marks
        ids = [*(special.before if special else ()), *self.tokenizer.encode(text)]
        if not ids:
            raise DataError("the prompt is empty: a language model needs at least one token to go on from")
        return torch.tensor([ids], device=self.device)

    def generate(
        self,
        prompt: str,
        sampling: Sampling,
        *,
        max_tokens: int = 200,
        stop: Sequence[str] = (),
        seed: int = 0,
        number: int = 0,
    ) -> Iterator[str]:
        """The continuation of a prompt, in pieces as they are drawn, up to one of the `stop` strings."""
        from headway.decoding.sampling import stream
        from headway.tasks.language_modelling.streaming import before_stop, decoded_stream

        tokens_1T = self.prompt(prompt)
        special = self.tokenizer.marks
        drawn = stream(
            self.model,  # type: ignore[arg-type]
            tokens_1T,
            max_tokens=max_tokens,
            sampling=sampling,
            seed=seed,
            number=number,
            stops=special.stops if special else (),
            context=getattr(self.parts.config, "context", None),
        )
        text: list[int] = tokens_1T[0, len(special.before if special else ()) :].tolist()
        return before_stop(decoded_stream(self.tokenizer, text, drawn), stop)

    @torch.no_grad()
    def score(self, text: str, source: str | None = None) -> list[tuple[str, float]]:
        """Each token but the first, which nothing stands before, with its log-probability in nats."""
        ids = self.prompt(text)
        if ids.shape[1] < 2:
            return []
        logits = self.model(ids[:, :-1]).float().log_softmax(-1)
        targets = ids[:, 1:]
        nats: list[float] = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)[0].tolist()
        expect_log_probabilities(nats)
        return [(self.tokenizer.token(index), value) for index, value in zip(targets[0].tolist(), nats, strict=True)]

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Loss, perplexity and bits per byte in blocks and sliding windows, accuracy by position; or loss by length."""
        from headway.plots.curves import plot_positions
        from headway.tasks.report import NONE, Figures, Note, Report, positions_section

        training: LanguageTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        for piece in training.text(split).pieces():
            count_stored(self.tokenizer, piece)
        if request.lengths is not None:
            return self._by_length(training, split, request.lengths, request.stride)
        context = min(self.config.context, training.text(split).total - 1)  # of which the last is a target only
        stride = max(context // 2, 1) if request.stride is None else request.stride
        if stride <= self.config.context:
            stride = min(stride, context)
        sliding = training.evaluate(self.model, self.device, split, context=context, stride=stride)
        blocks = training.evaluate(self.model, self.device, split, context=context)
        continued = training.continuations(self.model, self.device, split)
        positions = continued.report
        named = {f"sliding_{key}": value for key, value in sliding.to_json().items() if key != "tokens"}
        values: dict[str, Any] = {**blocks.to_json(), **named, "sliding_stride": stride, **positions.to_json()}
        rows = [
            [key, *(NONE if value is None else f"{value:.4f}" for value in (values[key], values[f"sliding_{key}"]))]
            for key in ("loss", "perplexity", "bits_per_byte")
        ]
        short = f" The text is shorter than the context of {self.config.context}." * (context < self.config.context)
        sections: list[Section] = [
            Figures(["", f"blocks of {context}", f"sliding by {stride}"], rows),
            Note(f"{counted(blocks.tokens, 'token')}. Blocks do not overlap; sliding windows do.{short}"),
            positions_section(positions),
            self._continued(continued),
        ]
        return Report(
            split=split,
            values=values,
            sections=sections,
            plot=lambda title: plot_positions(positions, f"{title}: right tokens by position"),
        )

    def _continued(self, found: Continuations) -> Section:
        """Continuations beside the text, each marked where it leaves it."""
        from headway.tasks.report import MARK, Samples, running_samples, spread

        decode, divergence = self.tokenizer.decode, found.report.divergence
        blocks = []
        for n in spread(len(found.gold)):
            at = divergence[n]
            cut = len(found.gold[n]) if at is None else at
            pairs = [(decode(line[:cut]), decode(line[cut:])) for line in (found.gold[n], found.free[n])]
            block = list(running_samples(decode(found.prompts[n]), *pairs))
            blocks.append(block)
        return Samples(f"samples, {MARK} where the greedy output leaves the text", blocks)

    def _by_length(self, training: LanguageTraining, split: str, lengths: Sequence[int], stride: int | None) -> Report:
        from headway.tasks.length_extrapolation import length_report

        found = self.loss_by_length(training, split, lengths, stride=stride)
        return length_report(split, found, note=SLIDING, sliding=True)

    def loss_by_length(
        self, training: LanguageTraining, split: str, lengths: Sequence[int], *, stride: int | None = None
    ) -> LengthReport:
        """The whole split at each length; a length the model has no positions for is a row that says so.

        `stride` is that of sliding windows, half their length where it is not given. Raises DataError for a length
        the data does not reach.
        """
        from headway.metrics.loss_by_length import LengthReport, check_lengths

        tokens = training.text(split).total
        check_lengths(lengths, longest=tokens - 1, what=f"split {split!r} has {counted(tokens, 'token')}")
        rows = tuple(self._length(training, split, length, stride) for length in lengths)
        return LengthReport(rows=rows, trained=self.config.context)

    def _length(self, training: LanguageTraining, split: str, length: int, stride: int | None) -> LengthRow:
        from headway.metrics.loss_by_length import LengthRow

        step = max(length // 2, 1) if stride is None else stride
        try:
            blocks = training.evaluate(self.model, self.device, split, context=length)
            sliding = training.evaluate(self.model, self.device, split, context=length, stride=step)
        except TooLongError as error:
            return LengthRow(length=length, refused=str(error))
        return LengthRow(length=length, blocks=blocks, sliding=sliding, stride=step)

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Texts, of which each next token is predicted."""
        from headway.models import ModelInputs
        from headway.tasks.verification_inputs import (
            VERIFICATION,
            Example,
            TextLayout,
            text_inputs,
            token_names,
        )

        sizes = self.parts.inputs or VERIFICATION
        tokenizer = self.tokenizer

        def arrange(ids: Sequence[int], source: Sequence[int] | None) -> Example:
            special = tokenizer.marks
            tokens = torch.tensor([[*(special.before if special else ()), *ids]])
            return Example(ModelInputs(tokens=tokens), tokens.shape[1])

        layout = TextLayout(
            max_length=self.config.context,
            tokenizer=tokenizer,
            arrange=arrange,
            encode=lambda line: (tokenizer.encode(line), None),
            generates=True,
        )
        own, spell = self.own_lines(sizes), token_names(tokenizer)
        return text_inputs(self.model, layout, given, own, spell, sizes=sizes)

    def own_lines(self, sizes: InputSizes) -> Callable[[], list[str]] | None:
        """Reads the first lines of the run's data, for `verification`; None for an imported run, which has no data."""
        from headway.data.prepared_text import find_prepared
        from headway.tasks.verification_inputs import first_lines

        def decoded() -> str | None:
            prepared = find_prepared(self.parts.data.spec)
            if prepared is None:
                return None
            text = prepared.splits["val"]
            return self.tokenizer.decode(text.windows(np.zeros(1, np.int64), min(text.total, BEGINNING))[0].tolist())

        return first_lines(self.parts.data, sizes, beginning=decoded)

    def page_prompt(self, given: str) -> Tensor:
        """What the page of `headway look` explains, as tokens (1, T)."""
        return self.prompt(given)

    def export_request(self) -> ExportRequest:
        """A language model: nothing stands around its texts."""
        from headway.tasks.export_request import ExportRequest, TextExport

        text = TextExport(tokenizer=self.tokenizer, starts=True)
        return ExportRequest(model=self.model, config=self.parts.config, text=text)

    @torch.no_grad()
    def explain(self, given: str) -> Explanation:
        """A text, after each of its tokens what might follow, and a search for what follows it."""
        from headway.decoding.beam import BeamSettings
        from headway.decoding.limits import positions_end
        from headway.decoding.trace import lines
        from headway.tasks.search_trace import search_trace

        tokens_1T = self.page_prompt(given)
        end, trace = positions_end(self.model), None
        if end is None or tokens_1T.shape[1] + FURTHER <= end:
            settings = BeamSettings(width=4, alpha=0.6)
            trace = search_trace(self.model, None, tokens_1T, self.tokenizer, settings, FURTHER)
        said = "" if trace is None else next((line.text for line in lines(trace)), "")
        return self._explained(given, tokens_1T[0].tolist(), said, trace)

    @torch.no_grad()
    def token_writer(self, given: str) -> TokenWriter:
        """Continues the prompt of the page."""
        from headway.tasks.token_writer import TokenWriter

        special = self.tokenizer.marks

        def explain(written: Sequence[int]) -> Explanation:
            return self._explained(given, list(written), self.tokenizer.decode(list(written)), None)

        return TokenWriter(
            model=self.model,  # type: ignore[arg-type]
            tokenizer=self.tokenizer,
            sequence=TEXT,
            explain=explain,
            prompt=tuple(self.page_prompt(given)[0].tolist()),
            stops=frozenset(special.stops if special else ()),
            device=self.device,
        )

    def _explained(self, given: str, ids: list[int], said: str, trace: Trace | None) -> Explanation:
        from headway.tasks.explanation import EmbeddingTable, Explanation, Output, StackDescription, token_sequence

        tokens_1T, tokenizer = torch.tensor([ids], device=self.device), self.tokenizer
        vectors: Tensor | None = self.model.embedding.weight  # type: ignore[union-attr, assignment]  # one-hot has none
        return Explanation(
            kind="language",
            given=given,
            said=said,
            forward=lambda: self.model(tokens_1T)[0],
            reads={"": StackDescription(label="Decoder", sequence=TEXT)},
            sequences={TEXT: token_sequence(tokenizer, ids)},
            output=Output(
                name=tokenizer.display, label="What comes next", sequence=TEXT, targets=[*ids[1:], None], drawn=True
            ),
            tables={} if vectors is None else {TEXT: EmbeddingTable(ids=ids, vectors=vectors, tokenizer=tokenizer)},
            trace=trace,
        )
