"""A task: a kind of problem, what its data is, and what a finished run of it can do.

A `Task` is the `task` section of a run's config. It prepares the data for training and makes the `Pipeline` of a
finished run. Commands, the page, `verify` and `export` ask the pipeline; none of them asks which task it is. A new task
is one folder here and one line in `registry.py`, or an installed package with an entry point of `headway.tasks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar

from headway.config import kind
from headway.errors import ConfigError, DataError, NoColumnError, NoDataSetError, shown

if TYPE_CHECKING:
    import torch
    from torch import nn

    from headway.data.chat_template import AnyTemplate
    from headway.data.config import DataConfig
    from headway.data.tokenizers import Tokenizer
    from headway.models import Model, ModelConfig
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.initial_weights import FinetuneSource, InitialWeights
    from headway.tasks.proposal import Proposal, Reading
    from headway.tasks.report import Report
    from headway.tasks.token_writer import TokenWriter
    from headway.tasks.training_task import TrainingTask
    from headway.tasks.verification_inputs import InputSizes, VerificationInputs

Metric = Literal["rouge"]  # metrics of `evaluate --metric`, beside those that a task always has
Progress = Callable[[str, int, int], None]  # what is done, and how many of how many
S = TypeVar("S")
COLUMNS = ("text", "text2", "label")  # of other data: the options of `evaluate` that name them
ONE_TOKENIZER = "tokenizer.json"  # its file, where source and target share a vocabulary or there is one text


def ignore(*_: object) -> None:
    """A note or a progress report that is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRequest:
    """What a task is given to read its data: for training, or for the evaluation of a finished run."""

    data: DataConfig
    model: ModelConfig  # as the recipe has it; the data may size it
    folder: Path  # the run's
    batch_tokens: int
    seed: int
    accumulate: int = 1  # micro-batches a step
    compiled: bool = False  # whether the training step is compiled
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)  # of a run that is resumed or finished, by file
    expected: Mapping[str, str] | None = None  # the digests of the data the run was begun with, by split
    reads_only: bool = False  # True: a command that reads the run, whose folder stays as it is
    own_data: bool = True  # False: other data than the run was trained on, all of it to be evaluated
    own_spec: str = ""  # what the run was trained on
    note: Callable[[str], None] = ignore
    progress: Callable[[str, int, int], None] = ignore

    @property
    def other_data(self) -> bool:
        """Whether this is other data than the run was trained on, all of it to be evaluated."""
        return not self.own_data and self.data.spec != self.own_spec

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The run's only tokenizer, if it is known already."""
        return self.tokenizers.get(ONE_TOKENIZER)

    def expect_own(self) -> None:
        """Raise ConfigError for other data than the run's own: for tasks whose data is part of the run."""
        if self.other_data:
            raise ConfigError(f"--data {self.data.spec}: {self.folder} can only use its own {self.own_spec}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What reading the data gave."""

    training: TrainingTask
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)  # by file name in the run's folder
    trained_tokenizers: bool = True  # False: they came with the data, whatever data.tokenizer says
    model_overrides: Mapping[str, object] = field(default_factory=dict)  # sizes the data decides, by dotted key
    classes: tuple[str, ...] = ()  # in the order of their numbers
    digests: Mapping[str, str] = field(default_factory=dict)  # of the data, by split
    facts: Mapping[str, str] = field(default_factory=dict)  # shown before training: {"vocabulary": "65 tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """A finished run as its pipeline sees it."""

    folder: Path
    model: Model
    config: ModelConfig
    data: DataConfig
    tokenizers: Mapping[str, Tokenizer]
    device: torch.device
    steps: tuple[int, ...]  # of the checkpoints the model is made of
    request: Callable[[str | None], DataRequest]  # to read the run's own data (None) or other data again
    newest: Callable[[], tuple[Model, int]]  # the model of the newest checkpoint and its step
    tuned: Callable[[], Mapping[str, float]] = dict  # settings that validation chose for these weights, by name
    inputs: InputSizes | None = None  # how many inputs `verification` makes, and how long; None: for `verify`


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateRequest:
    """What `evaluate` is asked for; None stands for what the run's own config says."""

    data: str | None = None  # other data than the run's own
    split: str | None = None
    beam: int | None = None
    stride: int | None = None
    lengths: tuple[int, ...] | None = None
    metric: Metric | None = None  # a further metric
    rival: Pipeline | None = None  # another run, to be compared with
    names: tuple[str, str] = ("", "")  # of the run and its rival, as they were given
    columns: Mapping[str, str] = field(default_factory=dict)  # of other data: their names there, by those of COLUMNS
    progress: Progress = ignore


class Task(ABC):
    """A kind of problem: the `task` section of a run's config. One for each folder of headway.tasks."""

    name: ClassVar[str]  # "translation": in config.yaml, `presets --json`, messages
    title: ClassVar[str]  # "translation model": what a run of it is called
    unit: ClassVar[str] = "tokens"  # of speed and loss
    batch_unit: ClassVar[str] = "tokens"  # what train.batch_tokens counts
    loss_unit: ClassVar[str] = "nats"  # what one unit's loss is measured in
    main_phase: ClassVar[str | None] = None  # of a task with phases, the one whose loss the curves show
    has_tokenizer: ClassVar[bool] = True
    takes_budget: ClassVar[bool] = True  # whether steps and batches can be fitted to a time
    aliases: ClassVar[tuple[str, ...]] = ()  # names in older configs
    takes_pairs: ClassVar[bool] = False  # whether an input may be a pair of texts
    models: ClassVar[tuple[str, ...]] = ()  # the kinds of model that can be trained on it; empty: any
    length_key: ClassVar[str] = ""  # the setting that limits the tokens of an input; empty: the task has no such limit
    from_source: ClassVar[tuple[str, ...]] = ()  # settings that a fine-tuned run has from the run it begins with
    special_tokens: ClassVar[tuple[str, ...]] = ()  # those it needs, as `SpecialTokens` calls them: "pad"

    @property
    def own_special_tokens(self) -> tuple[str, ...]:
        """Further special tokens that it needs, by their text, such as those of a chat template."""
        return ()

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set by name or path; None for one that is not of this task.

        Only names and the beginning of files are read; `given` has what the user says about reading (`data.source`).
        Raises DataError for data that could be read in several ways.
        """
        return None

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """How a data set is to be read: config keys beside those given (`data.source`), as its names and header tell.

        Raises DataError for data that could be read in several ways.
        """
        from headway.tasks.proposal import Reading

        return Reading()

    @abstractmethod
    def prepare(self, request: DataRequest) -> Prepared:
        """Read the data for training. Raises DataError, ConfigError."""

    def stand_in(self, request: DataRequest) -> TrainingTask:
        """Made-up data for a few full batches, to estimate a training by. Raises ConfigError if it makes none."""
        raise ConfigError(
            f"the batches of {article(self.title)} depend on its data: pass --data SPEC to estimate a training on it"
        )

    def read(self, request: DataRequest) -> TrainingTask:
        """The data of a finished run again, or other data, to evaluate on. Raises DataError, ConfigError."""
        return self.prepare(request).training

    @classmethod
    @abstractmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """The class of its pipelines, imported when it is asked for."""

    def pipeline(self, parts: RunParts) -> Pipeline:
        """A finished run at work."""
        return self.pipeline_class()(self, parts)

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model that cannot be trained on this task."""
        if self.models and kind(type(model)) not in self.models:
            allowed = ", ".join(self.models)
            raise ConfigError(f"model={kind(type(model))}, allowed for {article(self.title)}: {allowed}")

    def expect_positions(self, model: ModelConfig) -> None:
        """Raise ConfigError for inputs (`length_key`) that are longer than the model has positions."""
        most = None if model.text is None else model.text.context
        if most is not None and (length := getattr(self, self.length_key)) > most:
            raise ConfigError(
                f"task.{self.length_key}={length}, allowed: up to {most}, the positions of the model's encoder"
            )

    def implied(self, model: ModelConfig, changes: Mapping[str, object]) -> dict[str, object]:
        """Dotted keys of a run's config that follow from those a user changes, unless they are among them.

        An image size, for example, that is set for the task is also the model's.
        """
        return {}

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """Dotted keys of the model's config that the data decides: they are not compared on --resume."""
        return ()

    def with_template(self, template: AnyTemplate) -> Task:
        """The task of an imported model of this one that has a chat template; without a use for it, this one."""
        return self

    def finetuned(
        self, model: ModelConfig, source: Task, source_model: ModelConfig, folder: str
    ) -> tuple[Task, ModelConfig]:
        """Task and model of this recipe beginning with another run's model. Raises ConfigError where it cannot.

        The model is the source's, or one around its backbone (`headway.models.backbone`). The task reads inputs as the
        source does (`from_source`), none longer than the model has positions (`length_key`).
        """
        from headway.models.backbone import begin_with

        found = begin_with(model, source_model, folder)
        changes = {name: getattr(source, name) for name in self.from_source if hasattr(source, name)}
        most = None if found.text is None else found.text.context
        if self.length_key and most is not None:
            changes[self.length_key] = min(getattr(self, self.length_key), most)
        own: Any = self  # a dataclass, as every task
        return replace(own, **changes), found

    def initial_weights(
        self, model: nn.Module, config: ModelConfig, data: DataConfig, source: FinetuneSource
    ) -> InitialWeights:
        """The weights a fine-tuned model begins with. Raises ConfigError for a source of other sizes."""
        from headway.tasks.initial_weights import initial_weights

        return initial_weights(model, config, data, source)


class Pipeline:
    """A finished run at work. What it can do beyond this are capabilities it inherits (headway.tasks.capabilities)."""

    evaluate_options: ClassVar[frozenset[str]] = frozenset()  # beam, stride, lengths, metric, compare, …
    no_export: ClassVar[str] = ""  # why there is no Hugging Face class that a run fits, where one comes near
    reads_files: ClassVar[bool] = False  # whether the input of `explain` names a file: not one a web page may choose

    def __init__(self, task: Task, parts: RunParts) -> None:
        self.task, self.parts = task, parts
        self.model, self.device, self.folder = parts.model, parts.device, parts.folder

    def evaluate(self, request: EvaluateRequest) -> Report:
        """The metrics of a split. Raises DataError for data or a split that is not there."""
        self.unsupported("evaluate")

    def explain(self, given: str) -> Explanation:
        """One forward pass on an input, for the page of `headway look`."""
        self.unsupported("look")

    def token_writer(self, given: str) -> TokenWriter | None:
        """What continues an input token by token on the live page; None for a model that writes no text."""
        return None

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Inputs on which all code paths must agree: these texts or files, else made-up ones and some of the data's."""
        self.unsupported("verify")

    def export_request(self) -> ExportRequest:
        """What a Hugging Face folder of this run holds beside its weights."""
        self.unsupported("export")

    def unsupported(self, verb: str) -> NoReturn:
        """Raise ConfigError: what this run cannot do, and what it can."""
        why = f" ({self.no_export})" if verb == "export" and self.no_export else ""
        raise ConfigError(f"{unsupported(self.folder, type(self.task), verb, self.can(self.parts.config))}{why}")

    @classmethod
    def can(cls, model: ModelConfig | None = None) -> tuple[str, ...]:
        """The commands that work on a run of this task; with a model's config, without those that this model lacks."""
        return supported(cls)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of what the model writes."""
        tokenizers = self.parts.tokenizers
        return tokenizers.get("tokenizer-target.json") or tokenizers[ONE_TOKENIZER]

    def read(self, data: str | None = None, columns: Mapping[str, str] | None = None) -> TrainingTask:
        """The run's own data (None), or other data, whose `columns` may have other names ("text", "text2", "label").

        Raises ConfigError for an imported run without data.
        """
        from headway.data.unknown_tokens import uncounted

        request = self.parts.request(data)
        if columns:
            own = request.data
            text, text2, label = (columns.get(name, getattr(own, name)) for name in COLUMNS)
            request = replace(request, data=replace(own, text=text, text2=text2, label=label))
        with uncounted():  # all splits are encoded, or none where they are kept: `evaluate` counts those of its own
            try:
                return self.task.read(request)
            except NoDataSetError:
                spec = request.data.spec
                if data is not None or Path(spec).expanduser().is_absolute():
                    raise
                raise NoDataSetError(
                    f"{self.parts.folder} was trained on {shown(spec)}, seen from the folder in which the command was "
                    "given, and it is not here: go to that folder, or pass --data PATH"
                ) from None

    def read_table(self, request: EvaluateRequest) -> TrainingTask:
        """The data to evaluate on, a table. Raises NoColumnError naming the options that name its columns."""
        try:
            return self.read(request.data, request.columns)
        except NoColumnError as error:
            named = " ".join(f"--{name} COLUMN" for name in COLUMNS if name in self.evaluate_options)
            if request.data is None or not named:
                raise
            raise NoColumnError(f"{error}; {named} of `headway evaluate` name the columns of other data") from error


def unsupported(folder: Path, task: type[Task], verb: str, can: Sequence[str]) -> str:
    """The one sentence for a command that a run does not support."""
    return f"{folder} is {article(task.title)}: it cannot {verb}; it can {', '.join(can)}"


def article(title: str) -> str:
    """A title with its indefinite article."""
    return f"{'an' if title[0] in 'aeiou' else 'a'} {title}"


def supported(pipeline: type[Pipeline]) -> tuple[str, ...]:
    """The verbs of a pipeline's capabilities, then the commands it has its own methods for."""
    from headway.tasks.capabilities import CAPABILITIES

    verbs = [each.verb for each in CAPABILITIES if issubclass(pipeline, each)]
    methods = {"evaluate": "evaluate", "look": "explain", "verify": "verification", "export": "export_request"}
    own = [verb for verb, name in methods.items() if getattr(pipeline, name) is not getattr(Pipeline, name)]
    return (*verbs, *own)


def split_of(splits: Mapping[str, Any], wanted: str | None) -> str:
    """The split to evaluate: the one named, else test if there is one, else val, else train. Raises DataError."""
    split = wanted or next((name for name in ("test", "val") if name in splits), "train")
    named_split(splits, split)
    return split


def named_split(splits: Mapping[str, S], name: str) -> S:
    """The split of this name. Raises DataError for an unknown one."""
    if name not in splits:
        advice = "; a file or folder named test becomes one" if name == "test" else ""
        raise DataError(f"no split {name!r}, there are {', '.join(splits)}{advice}")
    return splits[name]
