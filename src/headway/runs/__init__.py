"""Runs: training into a folder, and taking up what a folder holds."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import nn

from headway import config as configs
from headway.errors import AdviceWarning, ConfigError, DataError, NoRunError
from headway.models import Stepper, build_model
from headway.storage.commit import commit_file, locked
from headway.training.checkpoints import Checkpoints
from headway.training.devices import pick_device
from headway.runs.int8_copy import Int8Copy, opened
from headway.training.callbacks import Callback
from headway.runs.weights import Precision, load_model, pick_precision

# A run has one task: what the others need is imported where one of them is asked for, and nobody else waits for it.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.data.tokenizers import SpecialTokens, Tokenizer
    from headway.decoding.constraints import Constraints
    from headway.decoding.trace import Trace
    from headway.models import World
    from headway.tasks.captioning.training import CaptioningTask
    from headway.tasks.image_classification.predict import Prediction
    from headway.tasks.decision_transformer.training import Asked
    from headway.tasks.captioning.describe import Caption
    from headway.tasks.captioning.attention_maps import Look
    from headway.tasks.world_model.play import Played
    from headway.tasks.pose.training import Figure
    from headway.tasks.translation.ponder_steps import Thought
    from headway.tasks.translation.training import TranslationTask
    from headway.tasks.world_model.training import WorldTask
    from headway.runs.preparing import AnyTask
    from headway.runs.config import RunConfig
    from headway.training.trainer import Trainer

CONFIG = "config.yaml"
# What runs of other kinds are and do, for whoever asks them to translate, or to go on from a prompt.
NO_TRANSLATOR = {
    "language": "a language model: it generates, it does not translate",
    "masked": "a masked model: it guesses hidden tokens, it does not translate",
    "embedding": "a sentence encoder: it gives vectors, it does not translate",
    "classification": "an image classifier: it classifies, it does not read text",
    "captioning": "a captioner: it describes images, it does not read text",
    "pose-estimation": "a pose model: it finds keypoints, it does not read text",
    "text-classification": "a text classifier: it names classes, it does not translate",
    "world-model": "a world model: it acts, it does not read text",
    "deciding": "a decision transformer: it acts, it does not read text",
}
NO_WRITER = {
    "translation": "a translation model: ",
    "masked": "a masked model: it guesses hidden tokens, ",
    "embedding": "a sentence encoder: ",
    "classification": "an image classifier: ",
    "captioning": "a captioner: it describes images, ",
    "pose-estimation": "a pose model: ",
    "text-classification": "a text classifier: it names classes, ",
    "world-model": "a world model: it acts, ",
    "deciding": "a decision transformer: it acts, ",
}
NO_CLASSIFIER = {
    "captioning": "was trained on captions",
    "pose-estimation": "finds keypoints",
    "world-model": "acts",
    "deciding": "acts",
}
NO_TEXT = ("classification", "pose-estimation", "world-model", "deciding")  # runs without a tokenizer
DATA = "data.json"  # digests of what the run is trained on
# What may change between two sittings of one run: how long, how often, where. All else would make it another run.
FREE_TO_CHANGE = ("steps", "evaluate_every", "save_every", "keep", "device", "patience", "non_finite", "compile")


def train_run(
    config: RunConfig, folder: Path, watcher: Callback, *, resume: bool = False, init: Path | None = None
) -> Trainer:
    """Train into a folder, from the weights of the run `init` if given, or go on there.

    Raises ConfigError if it holds a run and resume was not asked for.
    """
    import yaml

    from headway.data.digests import TRAINED_ON
    from headway.runs.preparing import prepare
    from headway.runs.finetune import start_from
    from headway.training.trainer import Trainer

    with locked(folder):
        before = Checkpoints(folder).steps()
        if before and not resume:
            raise ConfigError(
                f"{folder} holds a run already (step {before[-1]}); --resume goes on, --out goes elsewhere"
            )
        expected = None
        if resume and (folder / CONFIG).exists():
            _expect_same(read_config(folder), config)
            expected = _trained_on(folder, watcher)
        tokenizers = read_tokenizers(folder, config.data.marks) if resume else {}
        config, task, tokenizers, found = prepare(config, tokenizers, expected, watcher, folder)
        kept = {split: found[split] for split in TRAINED_ON if split in found}
        commit_file(folder / DATA, json.dumps(kept, indent=2) + "\n")
        for name, tokenizer in tokenizers.items():
            commit_file(folder / name, tokenizer.to_json())
        commit_file(folder / CONFIG, yaml.safe_dump(configs.plain(config), sort_keys=False, allow_unicode=True))
        model = build_model(config.model, seed=config.train.seed)
        if init is not None and not before:
            watcher.note(start_from(model, config, read_config(init), init))
        trainer = Trainer(model, task, config.train, folder, watcher)
        if resume:
            at = trainer.resume()
            watcher.note(f"resuming at step {trainer.step}" if at else "no checkpoint yet: starting at step 0")
        trainer.train()
        return trainer


def _trained_on(folder: Path, watcher: Callback) -> dict[str, str] | None:
    """The digests of the data a run was begun with; None, and a note, where it keeps none."""
    try:
        return {split: str(digest) for split, digest in json.loads((folder / DATA).read_text()).items()}
    except (OSError, ValueError, AttributeError) as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else f"unreadable ({type(error).__name__})"
        watcher.note(f"{folder / DATA} is {reason}: whether the data is still the same is not known")
        return None


def _expect_same(old: RunConfig, new: RunConfig) -> None:
    """Raise ConfigError naming the first key that would make this another run, with both values."""
    before, after = _flat(configs.plain(old)), _flat(configs.plain(new))
    for key in sorted(before.keys() | after.keys()):
        free = key.removeprefix("train.") in FREE_TO_CHANGE or key in (
            "model.vocab",
            "model.bert.vocab",
            "model.longformer.vocab",
            "model.encoder.vocab",
            "model.source_vocab",
            "model.classes",
            "data.classes",
            "data.cache",
            "model.actions",
        )
        free = free or key.startswith("model.observation.")  # the environment's
        if not free and before.get(key) != after.get(key):
            raise ConfigError(f"--resume with {key}={after.get(key)!r}, the run has {before.get(key)!r}")


def _flat(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        leaves |= _flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return leaves


def read_config(folder: Path) -> RunConfig:
    """The config a run was trained with. Raises NoRunError if there is none."""
    import yaml

    from headway.runs.config import RunConfig

    path = folder / CONFIG
    try:
        return configs.parse(RunConfig, yaml.safe_load(path.read_text()))
    except FileNotFoundError as error:
        raise NoRunError(f"{folder}: no such run (it has no {CONFIG})") from error
    except NotADirectoryError as error:
        raise NoRunError(f"{folder}: a file, expected a run folder, as `headway train` writes it") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise NoRunError(f"{path}: cannot be read ({type(error).__name__})") from error


def read_tokenizers(folder: Path, marks: SpecialTokens | None) -> dict[str, Tokenizer]:
    """The tokenizers of a run by file name; `marks` are the special tokens of an imported one."""
    from headway.data.tokenizers import Tokenizer

    return {path.name: Tokenizer.from_json(path.read_text(), marks) for path in sorted(folder.glob("tokenizer*.json"))}


class Run:
    """A finished (or growing) run: its config, its model and what it can do."""

    def __init__(
        self, folder: Path, *, device: str = "auto", average: int | None = None, precision: Precision = "fp32"
    ) -> None:
        self.folder, self.device = folder, pick_device(device)
        self.precision = pick_precision(precision, self.device)
        with opened(folder) if self.precision == "int8" else nullcontext() as copy:  # packed while all else is read
            self.config = read_config(folder)
            self.tokenizers = read_tokenizers(folder, self.config.data.marks)
            if not self.tokenizers and self.kind not in NO_TEXT:
                raise NoRunError(f"{folder}: the run has no tokenizer")
            self.model, self.steps = self._loaded(average, copy)
        self.model.to(self.device).eval()

    def _loaded(self, average: int | None, copy: Int8Copy | None) -> tuple[nn.Module, list[int]]:
        mean = self.config.train.average if average is None else average
        return load_model(self.folder, self.config.model, average=mean, precision=self.precision, copy=copy)

    @property
    def kind(self) -> str:
        """The name of its task."""
        return configs.kind(type(self.config.task))

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of what the model writes."""
        from headway.runs.config import ONE

        return self.tokenizers.get("tokenizer-target.json") or self.tokenizers[ONE]

    def task(self, spec: str | None = None) -> AnyTask:
        """The task with its data, or with other data."""
        from headway.runs.preparing import read_again

        return read_again(self.config, self._spec(spec), self.tokenizers, self.folder, to_train=spec is None)

    def _spec(self, spec: str | None) -> str:
        """The data asked for, else the run's own. Raises ConfigError where it has none, as an imported one."""
        found = self.config.data.spec if spec is None else spec
        if not found:
            raise ConfigError(f"{self.folder} was imported and has no data of its own: --data SPEC says on what")
        return found

    def pairs(self, split: str, spec: str | None = None) -> tuple[list[str], list[str]]:
        """Sources and references of a split as they are written: decoded tokens would lack what is not in a vocabulary.

        Raises DataError if there is no such split.
        """
        from headway.data.datasets import load_parallel

        data = self.config.data
        text = load_parallel(self._spec(spec), data.source, data.target, errors=data.errors)
        pairs = list(text.pairs(split))
        return [source for source, _ in pairs], [target for _, target in pairs]

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: None = None,
        constraints: Constraints | None = None,
    ) -> list[str]: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int,
        constraints: Constraints | None = None,
    ) -> list[list[str]]: ...

    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int | None = None,
        constraints: Constraints | None = None,
    ) -> list[str] | list[list[str]]:
        """One translation a line; with `n_best` a list of up to so many a line, best first. Long lines are split."""
        from headway.tasks.translation.translator import Translator
        from headway.tasks.translation.training import Decoding

        count = 1 if n_best is None else n_best
        decoding = Decoding(beam=beam, length_penalty=length_penalty, n_best=count, constraints=constraints)
        model: Stepper[Any] = self.model  # type: ignore[assignment]
        found = Translator(self.translator(), model, self.device, decoding, _advise).translate(list(lines))
        if n_best is None:
            return [said[0].text if said else "" for said in found]
        return [[each.text for each in said] for said in found]

    def trace(
        self, lines: Iterable[str], *, beam: int | None = None, length_penalty: float | None = None, n_best: int = 1
    ) -> list[Trace]:
        """The search behind each line's translation, to replay, re-rank or draw."""
        from headway.tasks.translation.translator import Translator
        from headway.tasks.translation.training import Decoding

        traces: list[Trace] = []
        decoding = Decoding(beam=beam, length_penalty=length_penalty, n_best=n_best)
        model: Stepper[Any] = self.model  # type: ignore[assignment]
        Translator(self.translator(), model, self.device, decoding, _advise, traces.append, self.steps).translate(
            list(lines)
        )
        return traces

    def ponder(self, lines: Sequence[str], targets: Sequence[str] | None = None) -> list[Thought]:
        """How long a Universal Transformer thinks about each token of each line and of its translation.

        The translation is the model's own unless given. Raises ConfigError for a model that does not choose its depth.
        """
        from headway.models import Universal
        from headway.tasks.translation.ponder_steps import thoughts

        if not isinstance(self.model, Universal):
            raise ConfigError(f"{self.folder} does not choose how long it thinks: only a Universal Transformer does")
        said = self.translate(lines) if targets is None else targets
        return thoughts(self.model, self.translator(), self.device, lines, said)

    def translator(self) -> TranslationTask:
        """The translation task without its data. Raises ConfigError if the run is something else."""
        from headway.tasks.translation.training import Translation, TranslationTask

        if not isinstance(self.config.task, Translation):
            raise ConfigError(f"{self.folder} is {NO_TRANSLATOR[self.kind]}")
        source = self.tokenizers.get("tokenizer-source.json", self.tokenizer)
        return TranslationTask(self.config.task, source, self.tokenizer, {}, batch_tokens=1, seed=0)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector a text (N, D). Raises ConfigError if the run is no encoder."""
        from headway.models import BertPretraining, LongformerMasked
        from headway.tasks.sentence_embedding.embed import Embedding, embed
        from headway.tasks.masked_lm.training import Masked

        task, encoder = self.config.task, self.model
        if isinstance(task, Masked):
            task = Embedding(max_length=task.length)
        if isinstance(self.model, BertPretraining | LongformerMasked):  # without the heads
            encoder = self.model.bert if isinstance(self.model, BertPretraining) else self.model.longformer
        if not isinstance(task, Embedding):
            raise ConfigError(f"{self.folder} is no encoder: only a masked model or a sentence encoder gives vectors")
        return embed(encoder, self.tokenizer, task, texts, self.device)

    @torch.no_grad()
    def score(self, text: str, source: str | None = None) -> list[tuple[str, float]]:
        """The log-probability in nats of each token of a text; a translation's stop token is one of them."""
        from headway.tasks.language_modelling.training import Language
        from headway.tasks.translation.training import before_source

        task = self.config.task
        if isinstance(task, Language):
            ids = self.prompt(text)
            inputs: tuple[torch.Tensor, ...] = (ids[:, :-1],)
            targets = ids[:, 1:]  # nothing stands before a text's first token
            if ids.shape[1] < 2:
                return []
        else:
            translator = self.translator()
            words = [*self.tokenizer.encode(text), self.tokenizer.stop]
            reader = translator.source_tokenizer
            asked = [*before_source(reader), *reader.encode(source or ""), reader.stop]
            inputs = (torch.tensor([asked]), torch.tensor([[self.tokenizer.start, *words[:-1]]]))
            targets = torch.tensor([words])
        logits = self.model(*(x.to(self.device) for x in inputs)).float().log_softmax(-1)
        nats = logits.gather(-1, targets.to(self.device).unsqueeze(-1)).squeeze(-1)[0].tolist()
        return [(self.tokenizer.token(index), value) for index, value in zip(targets[0].tolist(), nats, strict=True)]

    def last(self) -> tuple[nn.Module, int]:
        """The model of the newest checkpoint, and its step; that of the run may be an older and better one."""
        model, steps = load_model(self.folder, self.config.model, average=1, precision=self.precision)
        return model.to(self.device).eval(), steps[0]

    def classify(self, images: Iterable[str | Path], *, top: int = 5) -> list[Prediction]:
        """The likeliest classes of each image file, best first. Raises DataError naming a file that is no image."""
        from headway.tasks.image_classification.training import Classification
        from headway.tasks.image_classification.predict import classify

        if not isinstance(self.config.task, Classification):
            what = NO_CLASSIFIER.get(self.kind, "was trained on text")
            raise ConfigError(f"{self.folder} does not classify images: it {what}")
        return classify(self.model, self.device, self.config.task, self.config.data.classes, images, top=top)

    def caption(self, images: Iterable[str | Path], *, beam: int | None = None) -> list[Caption]:
        """A sentence about each image file. Raises DataError naming a file that is no image."""
        from headway.tasks.captioning.describe import describe

        return describe(self._captioner(), self.model, self.device, images, beam=beam)

    def looks(self, captions: Sequence[Caption]) -> list[Look]:
        """Where the model looked for each word of its captions. Raises ConfigError for a model without attention."""
        from headway.tasks.captioning.attention_maps import looks

        return looks(self._captioner(), self.model, self.device, captions)

    def _captioner(self) -> CaptioningTask:
        from headway.tasks.captioning.training import Captioning, CaptioningTask

        if not isinstance(self.config.task, Captioning):
            raise ConfigError(f"{self.folder} does not describe images: it was not trained on captions")
        return CaptioningTask(self.config.task, self.tokenizer, {}, batch_tokens=1, seed=0)

    def pose(self, images: Iterable[str | Path]) -> list[Figure]:
        """The keypoints of the person in each image file. Raises DataError naming a file that is no image."""
        from headway.tasks.pose.training import PoseEstimation, pose

        if not isinstance(self.config.task, PoseEstimation):
            raise ConfigError(f"{self.folder} finds no keypoints: only a run of preset pose does")
        return pose(self.model, self.device, self.config.task, images)

    def world(self, spec: str | None = None) -> tuple[World, WorldTask]:
        """The world model, and its task with the episodes it was learned from. Raises ConfigError for other runs."""
        from headway.models import World
        from headway.runs.preparing import world_again

        if not isinstance(self.model, World):
            raise ConfigError(f"{self.folder} does not act: it is no world model")
        return self.model, world_again(self.config, self._spec(spec), self.folder)

    def play(self, *, episodes: int = 100, seed: int = 0) -> Played | Asked:
        """Act in the real environment, on fresh seeds; a decision transformer is asked for several returns."""
        from headway.tasks.decision_transformer.training import Deciding
        from headway.tasks.world_model.play import played
        from headway.runs.preparing import decisions

        if isinstance(self.config.task, Deciding):
            deciding = decisions(self.config, self.config.task, self.folder)[0]
            return deciding.asked(self.model, self.device, episodes=episodes, seed=seed)
        model, task = self.world()
        return played(model, task, self.device, episodes=episodes, seed=seed)

    def prompt(self, text: str) -> torch.Tensor:
        """A prompt as tokens (1, T). Raises DataError if the model's vocabulary lacks a part of it."""
        from headway.tasks.language_modelling.training import Language

        if not isinstance(self.config.task, Language):
            raise ConfigError(f"{self.folder} is {NO_WRITER[self.kind]}it does not continue a prompt")
        marks = self.tokenizer.marks
        ids = [*(marks.before if marks else ()), *self.tokenizer.encode(text)]
        if not ids:
            raise DataError("the prompt is empty: a language model needs at least one token to go on from")
        return torch.tensor([ids], device=self.device)


def _advise(text: str) -> None:
    warnings.warn(text, AdviceWarning, stacklevel=4)


def load(folder: str | Path, *, device: str = "auto", average: int | None = None, precision: Precision = "fp32") -> Run:
    """Take up a run: its best checkpoint, or the mean of the last ones where its recipe says so."""
    return Run(Path(folder), device=device, average=average, precision=precision)
