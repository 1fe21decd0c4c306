"""A finished translation model at work: it translates, scores, is evaluated, explained, verified and exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headway.data.unknown_tokens import uncounted
from headway.decoding.limits import positions_end
from headway.decoding.non_finite import expect_log_probabilities
from headway.errors import ConfigError, DataError, TooLongError
from headway.tasks.base import EvaluateRequest, Pipeline, Progress, RunParts, Task, article, ignore, split_of
from headway.tasks.capabilities import Scores, Translates
from headway.tasks.translation.calls import TranslationCalls
from headway.tasks.translation.config import PLAIN, Decoding, Translation
from headway.tasks.translation.search import TranslationSearch, before_source

if TYPE_CHECKING:
    from headway.decoding.constraints import Constraints
    from headway.decoding.trace import Trace
    from headway.metrics.translation import TranslationReport
    from headway.models.stepper import Stepper
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.report import Report, Section
    from headway.tasks.token_writer import TokenWriter
    from headway.tasks.translation.ponder_steps import PonderSteps
    from headway.tasks.translation.training import TranslationTraining
    from headway.tasks.translation.translator import Translator
    from headway.tasks.verification_inputs import VerificationInputs

USUAL_LENGTHS = 0.8, 1.25  # of outputs as a share of the references, without advice
LOOKS_TOKENIZED = (
    "references look tokenised: bleu is not comparable to sacreBLEU of plain text; compare bleu_tokenized_lower"
)
SOURCE, TARGET = "source", "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedSplit:
    """A split as it is written, what a run made of it, and how good that is."""

    sources: list[str]
    references: list[str]
    outputs: list[str]
    tokens: list[list[int]]
    report: TranslationReport


class TranslationPipeline(Pipeline, TranslationCalls, Scores):
    """Source sentences in, target sentences out."""

    evaluate_options = frozenset({"beam", "metric", "compare", "out", "plot"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Translation)
        self.config, self.recipe_beam = task, task.beam
        self.stepper: Stepper[Any] = self.model  # type: ignore[assignment]

    @cached_property
    def search(self) -> TranslationSearch:
        """Beam search with the task's settings and the run's tokenizers."""
        source = self.parts.tokenizers.get("tokenizer-source.json", self.tokenizer)
        return TranslationSearch(self.config, source, self.tokenizer)

    def translator(
        self,
        decoding: Decoding = PLAIN,
        *,
        ensemble: Sequence[Translates] = (),
        note: Callable[[str], None] = ignore,
        on_trace: Callable[[Trace], None] | None = None,
    ) -> Translator:
        """What translates blocks of lines one after the other. Raises ConfigError for an ensemble that cannot be."""
        from headway.tasks.translation.translator import Translator

        model = self._ensemble(ensemble) if ensemble else self.stepper
        return Translator(self.search, model, self.device, decoding, note, on_trace, self.parts.steps)

    def _ensemble(self, others: Sequence[Translates]) -> Stepper[Any]:
        from headway.decoding.ensemble import Ensemble

        models = [self.stepper]
        for other in others:
            if not isinstance(other, TranslationPipeline):
                raise ConfigError(f"--ensemble: {type(other).__name__} cannot be averaged with a translation model")
            if other.vocabularies != self.vocabularies:
                raise ConfigError(f"--ensemble {other.folder}: its vocabulary differs from that of {self.folder}")
            models.append(other.stepper)
        return Ensemble(models)

    @property
    def vocabularies(self) -> dict[str, str]:
        """The content of each tokenizer, by file name."""
        return {name: tokenizer.content_hash for name, tokenizer in self.parts.tokenizers.items()}

    def constraints(
        self, *, prefix: str = "", must: Sequence[str] = (), ban: Sequence[str] = (), no_repeat: int = 0
    ) -> Constraints | None:
        """Constraints on the output, given as text; None for no constraint."""
        if not (prefix or must or ban or no_repeat):
            return None
        from headway.tasks.translation.translator import text_constraints

        return text_constraints(self.tokenizer, prefix=prefix, must=must, ban=ban, no_repeat=no_repeat) or None

    @torch.no_grad()
    def score(self, text: str, source: str | None = None) -> list[tuple[str, float]]:
        """Each token of a translation, its stop token last, with its log-probability in nats given the source."""
        reader, writer = self.search.source_tokenizer, self.tokenizer
        target = [*writer.encode(text), writer.stop]
        read = [*before_source(reader), *reader.encode(source or ""), reader.stop]
        inputs = (torch.tensor([read]), torch.tensor([[writer.start, *target[:-1]]]))
        logits = self.model(*(x.to(self.device) for x in inputs)).float().log_softmax(-1)
        nats = logits[0].gather(-1, torch.tensor(target, device=self.device).unsqueeze(-1)).squeeze(-1).tolist()
        expect_log_probabilities(nats)
        return [(writer.token(index), value) for index, value in zip(target, nats, strict=True)]

    def score_line(self, line: str) -> list[tuple[str, float]]:
        """The same of SOURCE<tab>TARGET. Raises DataError for a line without a tab."""
        source, tab, target = line.partition("\t")
        if not tab:
            raise DataError(f"a translation model scores SOURCE<tab>TARGET, got {line!r}")
        return self.score(target, source)

    def ponder(self, lines: Sequence[str], targets: Sequence[str] | None = None) -> list[PonderSteps]:
        """How many steps a Universal Transformer takes for each token of each line and of its translation.

        The translation is the model's own unless given. Raises ConfigError for a model of fixed depth.
        """
        from headway.tasks.translation.ponder_steps import Ponders, ponder_steps

        if not isinstance(self.model, Ponders):
            raise ConfigError(f"{self.folder} has a fixed depth: only a Universal Transformer chooses its steps")
        if targets is None:
            targets = [best[0].text if best else "" for best in self.translator().translate(lines)]
        return ponder_steps(self.model, self.search, self.device, lines, targets)

    def pairs(self, split: str, data: str | None = None) -> tuple[list[str], list[str]]:
        """Sources and references of a split as they are written: decoded tokens would lack unknown characters.

        Raises DataError for an unknown split.
        """
        from headway.data.datasets import load_parallel

        read = self.parts.request(data).data
        pairs = list(
            load_parallel(read.spec, read.source, read.target, errors=read.errors, skip_bad=read.skip_bad).pairs(split)
        )
        return [source for source, _ in pairs], [target for _, target in pairs]

    def translate_split(
        self, split: str, *, data: str | None = None, beam: int | None = None, progress: Progress = ignore
    ) -> TranslatedSplit:
        """Translate a split of the run's data, or of other data, and compare it with its references."""
        from headway.metrics.translation import translation_report

        sources, references = self.pairs(split, data)
        tokens = self.search.outputs(self.model, self.device, sources, beam=beam, progress=progress)
        outputs = [self.tokenizer.decode(line) for line in tokens]
        report = translation_report(outputs, references, sources)
        return TranslatedSplit(sources=sources, references=references, outputs=outputs, tokens=tokens, report=report)

    def evaluate(self, request: EvaluateRequest) -> Report:
        """BLEU with its signature and interval, chrF, loss, accuracy by position, by length; a paired bootstrap."""
        from headway.plots.curves import plot_positions
        from headway.tasks.report import Facts, Report, Samples, positions_section, sentence_samples, spread

        training: TranslationTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        long = self._expect_positions(training, split)
        rival = None if request.rival is None else self._rival(request.rival, split, request)
        done = self.translate_split(split, data=request.data, beam=request.beam, progress=request.progress)
        forced = training.forced(self.model, self.device, split)
        greedy = done.tokens
        if (request.beam or self.config.beam) > 1:
            with uncounted():
                greedy = self.search.outputs(self.model, self.device, done.sources, beam=1, progress=request.progress)
        positions, score = forced.beside(greedy), forced.score
        values: dict[str, Any] = {"loss": score.loss, "perplexity": score.perplexity, "tokens": score.tokens}
        values |= {**done.report.to_json(), **forced.steps}
        sections = [*_figures(done.report, score.loss, score.perplexity), *long]
        if request.metric == "rouge":
            from headway.metrics.rouge import rouge

            found = rouge(done.outputs, done.references).to_json()
            values |= found
            title = "ROUGE: F1, the mean over texts"
            sections.append(Facts({key: f"{value:.4f}" for key, value in found.items()}, title=title))
        if forced.steps:
            sections.append(Facts({key: f"{value:.2f}" for key, value in forced.steps.items()}))
        if rival is not None:
            with uncounted():
                compared = rival.translate_split(split, data=request.data, beam=request.beam, progress=request.progress)
            more, section = _compared(done, compared, request.names)
            values |= more
            sections.append(section)
        lines = [
            list(sentence_samples(done.sources[n], done.references[n], done.outputs[n]))
            for n in spread(len(done.sources))
        ]
        sections += [_by_length(done.report), positions_section(positions), Samples("samples", lines)]
        return Report(
            split=split,
            values={**values, **positions.to_json()},
            sections=sections,
            plot=lambda title: plot_positions(positions, f"{title}: right tokens by position"),
            outputs=done.outputs,
        )

    def _expect_positions(self, training: TranslationTraining, split: str) -> list[Section]:
        """A note about pairs that are longer than those of training, if there are any.

        Raises TooLongError, with their number, for pairs that the model has no positions for.
        """
        from headway.tasks.report import Note

        pairs, most, end = training.splits[split], self.config.max_length, positions_end(self.model)
        longest = np.maximum(np.asarray(pairs.source.lengths), np.asarray(pairs.target.lengths)) + 1
        count, above = len(longest), f"the longest has {int(longest.max(initial=0)):,} tokens"
        if end is not None and (beyond := int((longest > end).sum())):
            raise TooLongError(
                f"split {split!r}: {beyond:,} of {count:,} pairs are longer than the {end:,} positions of the model "
                f"({above}); leave them out of the data"
            )
        beyond = int((longest > most).sum())
        told = (
            f"{beyond:,} of {count:,} pairs are longer than task.max_length={most} of training and read whole; {above}."
        )
        return [Note(told, warning=True)] if beyond else []

    def _rival(self, rival: Pipeline, split: str, request: EvaluateRequest) -> TranslationPipeline:
        """The run to compare with. Raises ConfigError unless it translates the same references."""
        named = f"--compare {request.names[1]}"
        if not isinstance(rival, TranslationPipeline):
            raise ConfigError(f"{named}: {article(rival.task.title)}, expected another translation model")
        try:
            same = rival.pairs(split, request.data)[1] == self.pairs(split, request.data)[1]
        except DataError as error:
            raise ConfigError(f"{named}: no references to compare on ({error})") from error
        if not same:
            whose = " and ".join(
                f"{each.parts.data.spec if request.data is None else request.data} ({each.parts.data.target})"
                for each in (self, rival)
            )
            raise ConfigError(
                f"{named}: other references on split {split!r}, {whose}; expected the same data and target"
            )
        return rival

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """A source and a target's beginning, of which each next token is predicted; a line has a tab between them."""
        from headway.data.datasets import load_parallel
        from headway.models import ModelInputs
        from headway.tasks.verification_inputs import VERIFICATION, Example, TextLayout, text_inputs, token_names

        sizes = self.parts.inputs or VERIFICATION
        data, reader, writer = self.parts.data, self.search.source_tokenizer, self.tokenizer

        def arrange(ids: Sequence[int], source_ids: Sequence[int] | None) -> Example:
            tokens = torch.tensor([[writer.start, *ids]])
            after = () if reader.marks is not None and reader.marks.stop is None else (reader.stop,)
            row = torch.tensor([[*before_source(reader), *(source_ids or ()), *after]])
            return Example(ModelInputs(tokens=tokens, source=row), tokens.shape[1])

        def encode(line: str) -> tuple[list[int], list[int]]:
            left, _, right = line.partition("\t")
            return writer.encode(right), reader.encode(left)

        def own() -> Iterator[str]:
            text = load_parallel(data.spec, data.source, data.target, errors=data.errors, skip_bad=data.skip_bad)
            return ("\t".join(pair) for pair in islice(text.pairs("val"), sizes.own))

        layout = TextLayout(
            max_length=self.config.max_length,
            tokenizer=writer,
            source_tokenizer=reader,
            arrange=arrange,
            encode=encode,
            generates=True,
        )
        return text_inputs(self.model, layout, given, own if data.spec else None, token_names(writer), sizes=sizes)

    def export_request(self) -> ExportRequest:
        """One tokenizer for both texts or one each, and how it decodes."""
        from headway.tasks.export_request import BeamDefaults, ExportRequest, TextExport

        reader, writer, task = self.search.source_tokenizer, self.tokenizer, self.config
        beam = BeamDefaults(beam=task.beam, length_penalty=task.length_penalty if task.penalty == "mean" else None)
        text = TextExport(tokenizer=reader, target=None if writer is reader else writer, around="stop", beam=beam)
        return ExportRequest(model=self.model, config=self.parts.config, text=text)

    @torch.no_grad()
    def explain(self, given: str) -> Explanation:
        """The source, the best target the search found, and the search. Raises DataError for an empty source."""
        from headway.decoding.trace import lines

        traces: list[Trace] = []
        self.translator(on_trace=traces.append).translate([given])
        (trace,) = traces
        found = lines(trace)
        if not found:
            raise DataError(f"{given!r}: the source is empty, expected at least one token")
        writer = self.tokenizer
        written = [*found[0].tokens, *([writer.stop] if found[0].stopped else [])]
        return self._explained(given, self._source_ids(trace.source), written, found[0].text, trace)

    @torch.no_grad()
    def token_writer(self, given: str) -> TokenWriter:
        """Writes the target after a source. Raises DataError for an empty source."""
        from headway.models.stepper import EncoderInput
        from headway.tasks.token_writer import TokenWriter

        writer, source = self.tokenizer, self._source_ids(given)

        def explain(written: Sequence[int]) -> Explanation:
            said = writer.decode([index for index in written if index != writer.stop])
            return self._explained(given, source, list(written), said, None)

        return TokenWriter(
            model=self.model,  # type: ignore[arg-type]
            tokenizer=writer,
            sequence=TARGET,
            explain=explain,
            begin=(writer.start,),
            stops=frozenset((writer.stop,)),
            source=EncoderInput(torch.tensor([source], device=self.device)),
            device=self.device,
        )

    def _source_ids(self, text: str) -> list[int]:
        """A source as the model reads it. Raises DataError for an empty one."""
        reader = self.search.source_tokenizer
        with uncounted():
            ids = reader.encode(text)
        if not ids:
            raise DataError(f"{text!r}: the source is empty, expected at least one token")
        return [*before_source(reader), *ids, reader.stop]

    def _explained(
        self, given: str, source: list[int], written: list[int], said: str, trace: Trace | None
    ) -> Explanation:
        from headway.tasks.explanation import EmbeddingTable, Explanation, Output, StackDescription, token_sequence

        reader, writer = self.search.source_tokenizer, self.tokenizer
        ended = bool(written) and (written[-1] == writer.stop or trace is not None)
        read = [writer.start, *(written[:-1] if ended else written)]
        targets: list[int | None] = [*written, *([] if ended else [None])]

        def forward() -> torch.Tensor:
            inputs = (torch.tensor([ids], device=self.device) for ids in (source, read))
            logits: torch.Tensor = self.model(*inputs)
            return logits[0]

        turned = bool(getattr(self.model, "reverse_source", False))
        memory = f"{SOURCE}, read backwards" if turned else SOURCE
        sequences = {SOURCE: token_sequence(reader, source, label="Source", start=0)}
        if turned:
            sequences[memory] = token_sequence(reader, source[::-1], label="Source, as it was read")
        start = min(1, len(read) - 1)
        sequences[TARGET] = token_sequence(writer, read, label="Target", start=start, written=written)
        encoder = StackDescription(label="Encoder", sequence=memory)
        decoder = StackDescription(label="Decoder", sequence=TARGET, memory=memory)
        return Explanation(
            kind="translation",
            given=given,
            said=said,
            forward=forward,
            reads={"encoder": encoder, "decoder": decoder, "attention": decoder},
            sequences=sequences,
            output=Output(
                name=writer.display, label="What is written next", sequence=TARGET, targets=targets, drawn=True
            ),
            tables={
                SOURCE: EmbeddingTable(ids=source, vectors=self._embedding("source"), tokenizer=reader),
                TARGET: EmbeddingTable(ids=read, vectors=self._embedding("target"), tokenizer=writer),
            },
            trace=None if trace is None else replace(trace, source_pieces=tuple(sequences[SOURCE]["tokens"])),
        )

    def _embedding(self, side: str) -> torch.Tensor:
        """The embedding table of a side; one table may serve both."""
        own = getattr(self.model, f"{side}_embedding")
        vectors: torch.Tensor = (own or self.model.target_embedding).weight  # type: ignore[union-attr, assignment]
        return vectors


def _figures(report: TranslationReport, loss: float, perplexity: float) -> list[Section]:
    """The main figures under the names they have in JSON, and the notes they need."""
    from headway.tasks.report import Facts, Note

    rows = {
        "bleu": f"{report.bleu:.2f}  95 % interval {report.bleu_low:.2f} to {report.bleu_high:.2f}",
        "bleu_signature": report.bleu_signature,
        "bleu_tokenized_lower": str(report.tokenized_lower),
        "chrf": f"{report.chrf:.2f}",
        "exact_match": f"{report.exact_match:.1%}",
        "length_ratio": f"{report.length_ratio:.3f}",
        "loss": f"{loss:.4f}",
        "perplexity": f"{perplexity:.4g}",
    }
    told = "bleu is sacreBLEU on the text as it is; bleu_tokenized_lower is what papers of 2014-2018 report."
    warning = [Note(f"warning: {LOOKS_TOKENIZED}", warning=True)] if report.looks_tokenized else []
    lengths = [Note(text, warning=True) for text in _length_advice(report.length_ratio)]
    return [Facts(rows), Note(told), *lengths, *warning]


def _length_advice(ratio: float) -> list[str]:
    """What to do about outputs that are much longer or shorter than the references."""
    low, high = USUAL_LENGTHS
    if low <= ratio <= high:
        return []
    longer = ratio > high
    share = abs(ratio - 1)
    return [
        f"The outputs are {share:.0%} {'longer' if longer else 'shorter'} than the references: train longer, or "
        f"{'lower' if longer else 'raise'} the length penalty (`headway translate --length-penalty`)."
    ]


def _compared(
    first: TranslatedSplit, second: TranslatedSplit, names: tuple[str, str]
) -> tuple[dict[str, Any], Section]:
    """Paired bootstrap of two runs on the same sentences: values and a table."""
    from headway.metrics.translation import paired_bootstrap
    from headway.tasks.report import Facts

    delta, p = paired_bootstrap(first.outputs, second.outputs, first.references)
    values = {"bleu_compared": second.report.bleu, "bleu_delta": delta, "bleu_p": p}
    rows = {
        names[0]: f"{first.report.bleu:.2f}",
        names[1]: f"{second.report.bleu:.2f}  {delta:+.2f}, p = {p:.3f}",
    }
    return values, Facts(rows, title="bleu compared (paired bootstrap, 1,000 resamples)")


def _by_length(report: TranslationReport) -> Section:
    """How translations fare by the length of their source."""
    from headway.tasks.report import NONE, Figures

    rows = [
        [
            each.label,
            f"{each.sentences:,}",
            NONE if each.bleu is None else f"{each.bleu:.2f}",
            f"{each.exact_match:.1%}",
        ]
        for each in report.by_length
    ]
    return Figures(["words", "sentences", "bleu", "exact match"], rows, title="by length of the source")
