"""A finished (or growing) run: what a folder holds, as a model and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from torch import Tensor

from headway import config as configs
from headway import display
from headway.data.unknown_tokens import uncounted, unknown_told
from headway.errors import ConfigError, NoRunError, advise, warn_unknown_tokens
from headway.models import build_model
from headway.runs.folder import read_config, read_tokenizers, tell_unchecked
from headway.runs.int8_copy import LIMIT, Int8Facts, kept_facts, opened
from headway.runs.weights import Precision, load_int8, load_int8_like, load_model, load_step, pick_precision
from headway.training.checkpoints import Checkpoints
from headway.training.devices import pick_device

# Imported where it is asked for: a command waits only for what its own task needs.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.data.chats import Message
    from headway.data.files import Errors
    from headway.data.search_passages import SplitBy
    from headway.data.tokenizers import Tokenizer
    from headway.data.vector_index import Stored
    from headway.decoding.beam import StopRule
    from headway.decoding.constraints import Constraints
    from headway.decoding.trace import Trace
    from headway.interop.export_proof import ExportProof
    from headway.models import Model
    from headway.runs.search import Hit, Index
    from headway.runs.verify import VerificationReport
    from headway.tasks.answers import AnswerPrediction
    from headway.tasks.base import DataRequest, Metric, Pipeline, RunParts, Task
    from headway.tasks.capabilities import Capability, PlayResult
    from headway.tasks.captioning.pipeline import Caption
    from headway.tasks.classifier import Prediction
    from headway.tasks.detection.pipeline import DetectedObjects
    from headway.tasks.pose.pipeline import EstimatedPose
    from headway.tasks.report import Report
    from headway.tasks.tagging.pipeline import TagPrediction
    from headway.tasks.training_task import TrainingTask
    from headway.tasks.transcription.pipeline import Transcript
    from headway.tasks.translation.ponder_steps import PonderSteps
    from headway.tasks.translation.translator import ScoredText

    C = TypeVar("C", bound=Capability)
else:
    C = TypeVar("C")

G = TypeVar("G")


class TranslateOptions(TypedDict, total=False):
    """The options of `Run.translate` that do not change the type of its result."""

    beam: int | None
    length_penalty: float | None
    stop_rule: StopRule
    groups: int
    diversity: float
    max_extra: int | None
    prefix: str
    must: Sequence[str]
    ban: Sequence[str]
    no_repeat: int
    constraints: Constraints | None
    ensemble: Sequence[str | Path | Run]
    trace: str | Path | None


class Run:
    """A run's config, its model, and everything that `headway` can do with it.

    Each command of the shell is a method here with the same options; where it takes a list of texts or files, one alone
    is a list of one. A run that cannot do what it is asked raises ConfigError and says what it can do. Attributes:
    `folder`, `config` (RunConfig), `model`, `steps` (of the checkpoints the model is made of), `tokenizers` (by file
    name), `device`, `precision` and `average`; `int8` has what was measured of 8-bit weights, if they are in use.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "auto",
        average: int | None = None,
        precision: Precision = "fp32",
        adapter: Path | None = None,
    ) -> None:
        self.folder, self.device, self.average, self.adapter = folder, pick_device(device), average, adapter
        self.precision = pick_precision(precision, self.device)
        self.int8: Int8Facts | None = None  # what was measured of the 8-bit weights that are in use
        if adapter is not None and self.precision == "int8":  # a copy in 8 bits would be that of the run alone
            if precision == "int8":
                raise ConfigError("precision='int8' with an adapter, allowed: auto, fp32, bf16")
            self.precision = "fp32"
        if precision == "auto" and self.precision == "int8":
            self._decline(self._kept_facts())  # before a copy that is not used is read and packed
        with opened(folder) if self.precision == "int8" else nullcontext() as copy:  # packed while all else is read
            self.config = read_config(folder)
            tell_unchecked(folder, advise)
            self.tokenizers = read_tokenizers(folder, self.config.data.marks)
            if not self.tokenizers and self.config.task.has_tokenizer:
                raise NoRunError(f"{folder}: the run has no tokenizer")
            if copy is not None:
                self.model, self.steps, self.int8 = load_int8(
                    folder, self.config.model, average=self._mean, copy=copy, quantised=self._quantised
                )
        if precision == "auto":
            self._decline(self.int8)
        elif self.int8 is not None and self.int8.rise is not None and not self.int8.acceptable:
            advise(f"{folder}: precision int8: {self.int8.measured}")
        if self.precision != "int8":
            self.model, self.steps = load_model(
                folder, self.config.model, average=self._mean, precision=self.precision, adapter=adapter
            )
        self.model.to(self.device).eval()

    @property
    def _mean(self) -> int:
        """How many checkpoints are averaged; 0: the best one."""
        return self.config.train.average if self.average is None else self.average

    def _kept_facts(self) -> Int8Facts | None:
        """What was measured when the run's copy was made, if it is of the checkpoints that will be used."""
        facts = kept_facts(self.folder)
        if facts is None or facts.acceptable:
            return None
        self.config = read_config(self.folder)
        return kept_facts(self.folder, Checkpoints(self.folder).key(average=self._mean)[1])

    def _decline(self, facts: Int8Facts | None) -> None:
        """Use fp32 instead of int8 if its loss is too high, and say so."""
        if facts is not None and not facts.acceptable:
            advise(f"{self.folder}: precision auto takes fp32, not int8: {facts.measured} (limit {1 + LIMIT:.2f})")
            self.precision, self.int8 = "fp32", None

    def _quantised(self, model: Model, steps: list[int]) -> tuple[Model, Int8Facts]:
        from headway.runs.int8_choice import quantised  # only where there is no copy

        return quantised(self._parts(model, steps), self.config.task)

    def __repr__(self) -> str:
        facts = self._facts()
        return f"<Run {facts['run']!r}: {facts['task']}; {facts['model']}; {facts['checkpoint']}; {facts['loaded']}>"

    def _repr_html_(self) -> str:
        """For notebooks: what the run is and can do."""
        return display.facts({**self._facts(), "can": ", ".join(self.can())})

    def _facts(self) -> dict[str, str]:
        count = sum(parameter.numel() for parameter in build_model(self.config.model, device="meta").parameters())
        plural = "steps" if len(self.steps) > 1 else "step"
        return {
            "run": str(self.folder),
            "task": self.task.title,
            "model": f"{configs.kind(type(self.config.model))}, {count:,} parameters",
            "checkpoint": f"{plural} {', '.join(map(str, self.steps))}",
            "loaded": f"{self.precision} on {self.device}",
        }

    @property
    def task(self) -> Task:
        """What the run was trained to do."""
        return self.config.task

    @cached_property
    def pipeline(self) -> Pipeline:
        """The run at work: what its task makes of the model, the tokenizers and the data's config."""
        return self.config.task.pipeline(self.parts)

    def share_model(self, model: Model) -> None:
        """Let the pipeline compute with a stand-in of the model, as a server does whose searches step together."""
        self.pipeline = self.config.task.pipeline(self._parts(model, self.steps))

    @property
    def parts(self) -> RunParts:
        """The run as its pipeline sees it."""
        return self._parts(self.model, self.steps)

    def _parts(self, model: Model, steps: Sequence[int]) -> RunParts:
        from headway.tasks.base import RunParts

        return RunParts(
            folder=self.folder,
            model=model,
            config=self.config.model,
            data=self.config.data,
            tokenizers=self.tokenizers,
            device=self.device,
            steps=tuple(steps),
            request=self._request,
            newest=self.newest,
            tuned=lambda: Checkpoints(self.folder).tuned(steps),
        )

    def _request(self, data: str | None) -> DataRequest:
        """How to read the run's own data, or other data. Raises ConfigError for an imported run without data."""
        from dataclasses import replace

        from headway.tasks.base import DataRequest

        spec = self.config.data.spec if data is None else data
        if not spec:
            raise ConfigError(f"{self.folder} was imported and has no data of its own: pass --data SPEC")
        return DataRequest(
            data=replace(self.config.data, spec=spec),
            model=self.config.model,
            folder=self.folder,
            batch_tokens=self.config.train.batch_tokens,
            seed=self.config.train.seed,
            accumulate=self.config.train.accumulate,
            tokenizers=self.tokenizers,
            reads_only=True,
            own_data=data is None,
            own_spec=self.config.data.spec,
        )

    def newest(self) -> tuple[Model, int]:
        """The model of the newest checkpoint, and its step; the run's own may be an older and better one."""
        if self.int8 is not None:
            model, steps = load_int8_like(self.folder, self.config.model, average=1, facts=self.int8)
        else:
            model, steps = load_model(
                self.folder, self.config.model, average=1, precision=self.precision, adapter=self.adapter
            )
        return model.to(self.device).eval(), steps[0]

    def newest_key(self) -> str:
        """A digest of the weights that loading the run now would use, before anything of them is read."""
        return Checkpoints(self.folder).key(average=self._mean)[1]

    def at(self, step: int) -> Pipeline:
        """The run at work with the weights of one of its checkpoints. Raises ConfigError for a step without one."""
        model = load_step(self.folder, self.config.model, step).to(self.device).eval()
        return self.config.task.pipeline(self._parts(model, [step]))

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of what the model writes."""
        return self.pipeline.tokenizer

    def data(self, spec: str | None = None) -> TrainingTask:
        """The run's own data, or other data, as the task reads it."""
        return self.pipeline.read(spec)

    def require(self, capability: type[C]) -> C:
        """The pipeline as something that has a capability. Raises ConfigError if it does not have it."""
        pipeline: Any = self.pipeline
        if isinstance(pipeline, capability):
            return pipeline
        return pipeline.unsupported(capability.verb)  # type: ignore[no-any-return]

    def can(self) -> tuple[str, ...]:
        """The commands that work on this run."""
        from headway.runs.info import can_of

        return can_of(self.config)

    def info(self) -> dict[str, Any]:
        """What the run is, from what data, how far and how well it is trained, its files, and what it can do."""
        from headway.runs.info import run_info

        return run_info(self.folder)

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        n_best: None = None,
        scores: Literal[False] = False,
        **options: Unpack[TranslateOptions],
    ) -> list[str]: ...

    @overload
    def translate(
        self, lines: Iterable[str], *, n_best: int, scores: Literal[False] = False, **options: Unpack[TranslateOptions]
    ) -> list[list[str]]: ...

    @overload
    def translate(
        self, lines: Iterable[str], *, n_best: None = None, scores: Literal[True], **options: Unpack[TranslateOptions]
    ) -> list[ScoredText]: ...

    @overload
    def translate(
        self, lines: Iterable[str], *, n_best: int, scores: Literal[True], **options: Unpack[TranslateOptions]
    ) -> list[list[ScoredText]]: ...

    @unknown_told(warn_unknown_tokens)
    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int | None = None,
        stop_rule: StopRule = "first",
        groups: int = 1,
        diversity: float = 0.5,
        max_extra: int | None = None,
        prefix: str = "",
        must: Sequence[str] = (),
        ban: Sequence[str] = (),
        no_repeat: int = 0,
        constraints: Constraints | None = None,
        ensemble: Sequence[str | Path | Run] = (),
        trace: str | Path | None = None,
        scores: bool = False,
    ) -> list[str] | list[list[str]] | list[ScoredText] | list[list[ScoredText]]:
        """One translation a line: list[str]; with `n_best`, up to that many a line, best first: list[list[str]].

        Lines longer than the model takes are split. None stands for what the run's recipe says. `prefix`, `must` and
        `ban` are texts that each translation begins with, contains and does not contain; `constraints` are the same in
        tokens. `ensemble` names other runs whose probabilities are averaged with this one's. `trace` names a file that
        keeps the search of each line, for `headway trace`. With `scores`, a translation is a `ScoredText`.
        """
        from headway.tasks.capabilities import Translates
        from headway.tasks.translation.config import Decoding

        pipeline = self.require(Translates)
        wanted = pipeline.constraints(prefix=prefix, must=must, ban=ban, no_repeat=no_repeat)
        if constraints is not None:
            wanted = constraints if wanted is None else wanted & constraints
        decoding = Decoding(
            beam=beam,
            length_penalty=length_penalty,
            n_best=1 if n_best is None else n_best,
            stop_rule=stop_rule,
            groups=groups,
            diversity=diversity,
            max_extra=max_extra,
            constraints=wanted,
        )
        others = [self._other(each).require(Translates) for each in ensemble]
        with nullcontext() if trace is None else _trace_writer(Path(trace)) as on_trace:
            translator = pipeline.translator(decoding, ensemble=others, note=advise, on_trace=on_trace)
            found = translator.translate(several(lines))
        if scores:
            from headway.tasks.translation.translator import ScoredText

            return [best[0] if best else ScoredText("", 0.0) for best in found] if n_best is None else found
        if n_best is None:
            return [best[0].text if best else "" for best in found]
        return [[each.text for each in best] for best in found]

    def _other(self, run: str | Path | Run) -> Run:
        """Another run, loaded as this one is unless it is loaded already."""
        if isinstance(run, Run):
            return run
        return Run(Path(run), device=self.device.type, average=self.average, precision=self.precision)

    @unknown_told(warn_unknown_tokens)
    def trace(
        self, lines: Iterable[str], *, beam: int | None = None, length_penalty: float | None = None, n_best: int = 1
    ) -> list[Trace]:
        """The search behind each line's translation, to replay, re-rank or draw."""
        from headway.tasks.capabilities import Translates
        from headway.tasks.translation.config import Decoding

        traces: list[Trace] = []
        decoding = Decoding(beam=beam, length_penalty=length_penalty, n_best=n_best)
        self.require(Translates).translator(decoding, note=advise, on_trace=traces.append).translate(several(lines))
        return traces

    def ponder(self, lines: Sequence[str], targets: Sequence[str] | None = None) -> list[PonderSteps]:
        """How many steps a Universal Transformer takes for each token of each line and of its translation.

        The translation is the model's own unless `targets` has it. Raises ConfigError for a model of fixed depth.
        """
        from headway.tasks.translation.pipeline import TranslationPipeline

        if not isinstance(self.pipeline, TranslationPipeline):
            self.pipeline.unsupported("ponder")
        return self.pipeline.ponder(lines, targets)

    @unknown_told(warn_unknown_tokens)
    def generate(
        self,
        prompt: str = "\n",
        *,
        max_tokens: int = 200,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
        number: int = 0,
    ) -> Iterator[str]:
        """The continuation of a prompt, in pieces as they are drawn: `"".join(run.generate("ROMEO:"))`.

        `temperature` 0 is greedy. Text `number` of a seed is drawn independently of the others.
        """
        from headway.decoding.sampling import Sampling
        from headway.tasks.capabilities import Generates

        sampling = Sampling(
            temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty
        )
        return self.require(Generates).generate(
            prompt, sampling, max_tokens=max_tokens, stop=stop, seed=seed, number=number
        )

    @unknown_told(warn_unknown_tokens)
    def chat(
        self,
        messages: str | Sequence[Mapping[str, str] | Message],
        *,
        system: str | None = None,
        max_tokens: int = 200,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
    ) -> Iterator[str]:
        """The answer to a conversation, in pieces as they are drawn: `"".join(run.chat("What is 2 + 3?"))`.

        `messages` is a question, or a list of `{"role": …, "content": …}` with the roles system, user and assistant, of
        which the last is the user's; `system` is a system message before them. A conversation that goes on from the
        last answer reads only what is new. Raises DataError for messages that are not of this form.
        """
        from headway.data.chats import SYSTEM, USER, Message, parse_prompt
        from headway.decoding.sampling import Sampling
        from headway.tasks.capabilities import Chats

        pipeline = self.require(Chats)
        given = [Message(USER, messages)] if isinstance(messages, str) else list(messages)
        found = parse_prompt([*([] if system is None else [Message(SYSTEM, system)]), *given], "chat")
        sampling = Sampling(
            temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty
        )
        return pipeline.chat(found, sampling, max_tokens=max_tokens, seed=seed, note=advise)

    def prompt(self, text: str) -> Tensor:
        """A prompt as the tokens (1, T) a language model reads."""
        from headway.tasks.capabilities import Generates

        return self.require(Generates).prompt(text)

    @unknown_told(warn_unknown_tokens)
    def score(self, text: str, source: str | None = None) -> list[tuple[str, float]]:
        """Each token of a text with its log-probability in nats; a translation model needs the source."""
        from headway.tasks.capabilities import Scores

        return self.require(Scores).score(text, source)

    @unknown_told(warn_unknown_tokens)
    def classify(self, inputs: str | Path | Iterable[str | Path], *, top: int | None = None) -> list[Prediction]:
        """The likeliest classes of each image or sound file, text, or set of vectors in a file, or its number.

        A pair of texts is one string with a tab between them. `top` is the number of classes: by default 5, or all of a
        classifier that gives several labels. Raises DataError naming a file that cannot be read, or an empty text.
        """
        from headway.tasks.capabilities import Classifies

        wanted = {} if top is None else {"top": top}
        return self.require(Classifies).classify(several(inputs), **wanted)

    @unknown_told(warn_unknown_tokens)
    def tag(self, texts: str | Iterable[str | Sequence[str]]) -> list[TagPrediction]:
        """The likeliest tag of each word, and the entities that the tags make; a text is a string, or its words.

        Raises DataError for a text without words.
        """
        from headway.tasks.capabilities import Tags

        return self.require(Tags).tag(several(texts))

    @unknown_told(warn_unknown_tokens)
    def answer(
        self,
        context: str,
        question: str = "",
        *,
        choice: Sequence[str] = (),
        top: int = 1,
        threshold: float | None = None,
    ) -> AnswerPrediction:
        """The `top` best answers to a question: spans of its context, or choices, with scores and probabilities.

        A multiple-choice answerer needs `choice`, the texts to choose from; context or question may then be empty.
        The list is empty if the no-answer score exceeds the best span's score by more than `threshold`. For a run
        trained with unanswerable questions the default is the threshold that was tuned on its validation questions, or
        0 if an older version trained it; other runs answer every question. Raises DataError for an empty text.
        """
        from headway.tasks.answers import AskedQuestion
        from headway.tasks.capabilities import Answers

        asked = AskedQuestion(context, question, tuple(choice))
        return self.require(Answers).answer([asked], top=top, threshold=threshold)[0]

    def caption(self, images: str | Path | Iterable[str | Path], *, beam: int | None = None) -> list[Caption]:
        """A sentence about each image file. Raises DataError naming a file that cannot be read."""
        from headway.tasks.capabilities import Captions

        return self.require(Captions).caption(several(images), beam=beam)

    def transcribe(self, sounds: str | Path | Iterable[str | Path], *, beam: int | None = None) -> list[Transcript]:
        """What is said in each sound file. Raises DataError naming a file that cannot be read."""
        from headway.tasks.capabilities import Transcribes

        return self.require(Transcribes).transcribe(several(sounds), beam=beam)

    def pose(self, images: str | Path | Iterable[str | Path]) -> list[EstimatedPose]:
        """The keypoints of the person in each image file. Raises DataError naming a file that cannot be read."""
        from headway.tasks.capabilities import EstimatesPose

        return self.require(EstimatesPose).pose(several(images))

    def detect(self, images: str | Path | Iterable[str | Path], *, threshold: float = 0.5) -> list[DetectedObjects]:
        """The objects in each image file with a score of at least `threshold`: classes, scores and boxes, surest first.

        Boxes are in pixels of the file's image. Raises DataError naming a file that cannot be read.
        """
        from headway.tasks.capabilities import Detects

        return self.require(Detects).detect(several(images), threshold=threshold)

    @unknown_told(warn_unknown_tokens)
    def embed(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """One vector a text (N, D)."""
        from headway.tasks.capabilities import Embeds

        return self.require(Embeds).embed(several(texts))

    def index(
        self,
        corpus: str | Path,
        *,
        text: str = "text",
        by: SplitBy | None = None,
        index: str | Path | None = None,
        store: Stored = "float32",
        rebuild: bool = False,
        errors: Errors = "strict",
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Index:
        """The passages of a file or folder with their vectors, kept on disk and brought up to date by content.

        `text` is the column of a table, `by` says whether lines or paragraphs are passages, `index` is a folder for the
        index (None: in the cache), and `store` how vectors are stored. An index of other weights in that folder raises
        ConfigError, unless `rebuild` replaces it.
        """
        from headway.runs.search import open_index
        from headway.tasks.base import ignore

        return open_index(
            self,
            corpus,
            text=text,
            by=by,
            index=index,
            store=store,
            rebuild=rebuild,
            errors=errors,
            progress=progress or ignore,
        )

    @unknown_told(warn_unknown_tokens)
    def search(
        self,
        corpus: str | Path,
        query: Iterable[str],
        *,
        top: int = 5,
        text: str = "text",
        by: SplitBy | None = None,
        index: str | Path | None = None,
        store: Stored = "float32",
        rebuild: bool = False,
        errors: Errors = "strict",
        rerank: str | Path | Run | None = None,
        candidates: int = 100,
        relevant: str | None = None,
    ) -> list[list[Hit]]:
        """The passages of a file or folder that are nearest to each query by cosine similarity, best first.

        `rerank` names a run that classifies pairs of texts: it orders the nearest `candidates` by its number or by the
        probability of the class `relevant`. The other options are those of `Run.index`, with which several searches
        open the index once.
        """
        other = None if rerank is None else self._other(rerank)
        opened = self.index(corpus, text=text, by=by, index=index, store=store, rebuild=rebuild, errors=errors)
        return opened.search(query, top=top, rerank=other, candidates=candidates, relevant=relevant)

    def play(self, *, episodes: int = 100, seed: int = 0) -> PlayResult:
        """Act in the real environment, on fresh seeds."""
        from headway.tasks.capabilities import Plays

        return self.require(Plays).play(episodes=episodes, seed=seed)

    @unknown_told(warn_unknown_tokens)
    def evaluate(
        self,
        data: str | None = None,
        *,
        split: str | None = None,
        beam: int | None = None,
        stride: int | None = None,
        lengths: Sequence[int] | None = None,
        metric: Metric | None = None,
        compare: str | Path | Run | None = None,
        text: str | None = None,
        text2: str | None = None,
        label: str | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Report:
        """The metrics of the run's task on a split: test if there is one, else val. `report.values` has the JSON keys.

        `text`, `text2` (of pairs) and `label` are columns of other data, a table, where they have other names than in
        the run's own.
        `progress` is called now and then with what is done and how many of how many. Raises ConfigError for an option
        that the task does not have.
        """
        from headway.runs.evaluate import evaluate

        return evaluate(
            self,
            data=data,
            split=split,
            beam=beam,
            stride=stride,
            lengths=lengths,
            metric=metric,
            compare=compare,
            columns={
                name: column
                for name, column in (("text", text), ("text2", text2), ("label", label))
                if column is not None
            },
            progress=progress,
        )

    @unknown_told(warn_unknown_tokens)
    def look(
        self,
        given: str | None = None,
        out: str | Path | None = None,
        *,
        open: str | None = None,
        ablate: bool = False,
        beside: str | Path | int | Run | None = None,
        over_training: bool = False,
    ) -> str:
        """One offline HTML page: what the model did with this input; written to `out` if given.

        Without an input it is the one of `train.keep_looks`. Looks that were kept of the input while the run trained
        are on the page; with `over_training` else those of the checkpoints that there are.

        `open` are two tokens, QUERY:KEY: the page opens at the head that attends most from one to the other. With
        `ablate` every head is switched off once even if that takes long. `beside` is a second model to compare with:
        another run, or the step of a checkpoint of this one.
        """
        from headway.inspection.page.kept_looks import looks_of
        from headway.inspection.page.payload import PageOptions, page
        from headway.storage.commit import commit_output
        from headway.storage.targets import expect_output

        if out is not None:
            expect_output(Path(out))
        given = self._looked_at() if given is None else given
        second = None if beside is None else self._second(beside)
        looks = looks_of(self.folder, given) or (self._looks(given) if over_training else [])
        html = page(
            self.pipeline, given, PageOptions(open=open, ablate=ablate), self._score(), beside=second, looks=looks
        )
        if out is not None:
            commit_output(Path(out), html)
        return html

    def _looked_at(self) -> str:
        """The input of `train.keep_looks`. Raises ConfigError where there is none."""
        from headway.inspection.page.kept_looks import TARGET

        if not self.config.train.keep_looks:
            raise ConfigError(f"{self.folder} has no input of its own to look at (train.keep_looks): pass one")
        return self.config.train.keep_looks.partition(TARGET)[0]

    def _looks(self, given: str) -> list[dict[str, Any]]:
        """Looks of an input by each checkpoint there is; what the model writes is that of the newest."""
        from headway.inspection.page.kept_looks import looks_over

        return looks_over([self.at(step) for step in Checkpoints(self.folder).steps()], given)

    def _second(self, beside: str | Path | int | Run) -> Pipeline:
        """The pipeline of a checkpoint of this run, or of another run."""
        if isinstance(beside, int):
            return self.at(beside)
        return (beside if isinstance(beside, Run) else load(beside, device=self.device.type)).pipeline

    def _score(self) -> str:
        """The figure that the checkpoint was chosen by, for a reader; empty if there is none."""
        from headway.training.checkpoints import Checkpoints

        found = Checkpoints(self.folder).best()
        return "" if found is None else f"best {found.described}"

    @uncounted()
    def verify(self, given: Sequence[str] = (), *, compiled: bool = False) -> VerificationReport:
        """Whether cache, batch, padding, kernels, precisions and export agree on this checkpoint.

        `given` are texts or image files; without any, made-up inputs and some of the validation data are used.
        """
        from headway.runs.verify import verify_run

        self._expect_exact("verify")
        if self.adapter is not None:  # the other precisions are read from the folder
            raise ConfigError(f"verify: {self.folder} is loaded with an adapter; load it without one")
        return verify_run(self, given, compiled=compiled)

    @uncounted()
    def export(self, out: str | Path, *, onnx: bool = False, adapter: bool = False) -> ExportProof:
        """Write a Hugging Face model folder, loaded again and compared before it appears.

        `onnx` adds the graph of an encoder or a vision transformer. `adapter` writes only the adapters of a run that
        was trained with `train.lora`, as PEFT reads them on top of the run it began with. Raises ConfigError for a
        model without an equivalent, or a run that is not loaded in fp32 on the CPU; VerificationError if the two
        differ.
        """
        from headway.interop.exporter import export

        self._expect_exact("export", device="cpu")
        if adapter:
            from headway.runs.adapters import export_adapter

            if onnx:
                raise ConfigError("export: adapter and onnx are two kinds of export; give one of them")
            return export_adapter(self, Path(out))
        return export(self.pipeline.export_request(), Path(out), onnx=onnx)

    def _expect_exact(self, verb: str, *, device: str | None = None) -> None:
        """Raise ConfigError unless the weights are those of the checkpoint; rounded ones would pass for them."""
        if self.precision != "fp32" or device not in (None, self.device.type):
            wanted = ", ".join([*([] if device is None else [f"device={device!r}"]), "precision='fp32'"])
            loaded = f"device={self.device.type!r}, precision={self.precision!r}"
            raise ConfigError(f"{verb}: {self.folder} is loaded with {loaded}; load it with {wanted}")


def several(given: str | Path | Iterable[G]) -> list[G]:
    """Inputs as a list; a text or a file alone is one input, not its characters."""
    return [given] if isinstance(given, str | Path) else list(given)  # type: ignore[list-item]


def _trace_writer(path: Path) -> AbstractContextManager[Callable[[Trace], None]]:
    from headway.decoding.trace.format import trace_writer

    return trace_writer(path)


def load(
    folder: str | Path,
    *,
    device: str = "auto",
    average: int | None = None,
    precision: Precision = "fp32",
    adapter: str | Path | None = None,
) -> Run:
    """Load a run: its best checkpoint, or the mean of the last ones where its recipe says so.

    `adapter` names a folder of PEFT's whose low-rank updates are added to the weights; headway's own are written by
    `export --adapter`. Raises ConfigError for an adapter of another base model.
    """
    chosen = None if adapter is None else Path(adapter)
    return Run(Path(folder), device=device, average=average, precision=precision, adapter=chosen)
