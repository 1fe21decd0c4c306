"""A run of each task at a size that trains in a second: a small preset, short built-in data, a few steps."""

from __future__ import annotations

import contextlib
import sys
import wave
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headway.config import override
from headway.data.config import DataConfig
from headway.data.synthetic import robots, shapes, spoken_digits, stick_figures
from headway.data.tokenizers import Tokenizer, Word
from headway.models import BertConfig, build_model
from headway.presets import PRESETS
from headway.runs.config import RunConfig
from headway.runs.folder import write_run_files
from headway.runs.train import train_run
from headway.tasks.base import ONE_TOKENIZER, Task
from headway.tasks.registry import TASKS
from headway.tasks.sentence_embedding import Embedding
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig

FEW = {"train": 24, "val": 6, "test": 6}
SIZES = {"width": 16, "heads": 2}
ONE_LAYER = {**SIZES, "inner": 32, "layers": 1}
TWO_STACKS = {**SIZES, "inner": 32, "encoder_layers": 1, "decoder_layers": 1}


def _model(sizes: Mapping[str, object], **more: object) -> dict[str, object]:
    """Keys of the `model` section."""
    return {f"model.{key}": value for key, value in {**sizes, **more}.items()}


def _set(places: Sequence[tuple[ModuleType, str]], values: Iterable[object]) -> None:
    """Set names of modules, and forget what any module of the data has generated with their values before."""
    for (module, name), value in zip(places, values, strict=True):
        setattr(module, name, value)
    for module in [module for name, module in sys.modules.items() if name.startswith("headway.data.")]:
        for each in list(vars(module).values()):
            if hasattr(each, "cache_clear"):
                each.cache_clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyRun:
    """How a task's run is made, and what its commands are given."""

    task: str
    preset: str | None  # None: such runs are not trained
    data: str  # a built-in name
    changes: Mapping[str, object] = field(default_factory=dict)  # config keys
    shortened: Mapping[str, object] = field(default_factory=dict)  # "module:NAME" -> value, of built-in data and plays
    inputs: Mapping[str, str] = field(default_factory=dict)  # of a command, by its verb
    file: Callable[[Path], str] | None = None  # makes a file in a folder, which all its commands read
    steps: int = 2
    needs: str | None = None  # an optional module
    accumulates: bool = True  # train.accumulate may be above 1

    @property
    def trained(self) -> bool:
        """Whether such runs are trained; else they are imported."""
        return self.preset is not None

    @property
    def available(self) -> bool:
        """Whether what it needs is installed."""
        return self.needs is None or find_spec(self.needs) is not None

    def config(self, cache: Path, changes: Mapping[str, object] | None = None) -> RunConfig:
        """The complete config of the run, with further changes."""
        assert self.preset is not None
        often = {"train.evaluate_every": self.steps // 2, "train.save_every": 1}
        fixed = {"train.device": "cpu", "train.steps": self.steps, "data.cache": str(cache), "data.spec": self.data}
        return override(PRESETS[self.preset].recipe(), {**often, **fixed, **self.changes, **(changes or {})})

    @contextlib.contextmanager
    def short(self) -> Iterator[None]:
        """What is generated or played is short meanwhile."""
        places = [(import_module(module), name) for module, name in (place.split(":") for place in self.shortened)]
        before = [getattr(*place) for place in places]
        _set(places, self.shortened.values())
        try:
            yield
        finally:
            _set(places, before)


def _picture(folder: Path) -> str:
    Image.fromarray(shapes.scenes(1, size=20, seed=9).pixels[0].transpose(1, 2, 0)).save(folder / "scene.png")
    return str(folder / "scene.png")


def _spoken(folder: Path) -> str:
    (spoken,) = spoken_digits.spoken_digits(1, seed=9).waves
    write_wav(folder / "spoken.wav", spoken, 8000)
    return str(folder / "spoken.wav")


def write_wav(path: Path, samples: NDArray[np.float32], rate: int) -> None:
    """Samples (T,) from -1 to 1 as a mono file of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes())


def _figure(folder: Path) -> str:
    Image.fromarray(stick_figures.figures(1, size=40, seed=9).pixels[0].transpose(1, 2, 0)).save(folder / "figure.png")
    return str(folder / "figure.png")


def _swarms(folder: Path) -> str:
    made = robots.swarms(3, seed=9)
    np.savez(folder / "swarms.npz", x=made.vectors, lengths=made.lengths, features=np.asarray(robots.FEATURES))
    return str(folder / "swarms.npz")


_ALL = (
    TinyRun(
        task="language",
        preset="gpt-char",
        data="deck-sentences",
        changes={**_model(SIZES, layers=1, context=8), "task.context": 8, "train.batch_tokens": 32},
        inputs={"generate": "I li", "score": "I like d", "look": "I like"},
    ),
    TinyRun(
        task="chat",
        preset="gpt-chat",
        data="arithmetic-chat",
        changes={**_model(SIZES, layers=1, context=128), "task.context": 128, "train.batch_tokens": 256},
        shortened={
            "headway.data.synthetic.arithmetic_chat:TRAIN": 40, "headway.data.synthetic.arithmetic_chat:HELD_OUT": 6,
        },
        inputs={"generate": "What", "chat": "What is 2 + 3?", "score": "What is", "look": "What is 2 + 3?"},
    ),
    TinyRun(
        task="masked",
        preset="bert-base",
        data="deck-sentences",
        changes={
            **{f"model.bert.{key}": value for key, value in {**ONE_LAYER, "context": 24}.items()},
            "task.length": 24, "data.tokenizer": "word", "train.batch_tokens": 96,
        },
        inputs={"embed": "I like dogs", "look": "I <mask> dogs"},
    ),
    TinyRun(
        task="translation",
        preset="transformer-tiny",
        data="reverse",
        changes={**_model(TWO_STACKS), "data.tokenizer": "word", "task.beam": 2, "train.batch_tokens": 128},
        shortened={"headway.data.synthetic.sequences:TRAIN": 40, "headway.data.synthetic.sequences:HELD_OUT": 6},
        inputs={"translate": "3 1 2", "score": "3 1 2\t2 1 3", "look": "3 1 2"},
    ),
    TinyRun(
        task="classification",
        preset="vit-ti16",
        data="shapes",
        changes={
            **_model(ONE_LAYER, image=16, patch=4), "task.size": 16, "train.batch_tokens": 4, "train.accumulate": 1,
            "train.precision": "fp32",
        },
        shortened={"headway.data.synthetic.shapes:COUNTS": FEW},
        file=_picture,
    ),
    TinyRun(
        task="text-classification",
        preset="bert-classifier",
        data="needle",
        changes={
            **{f"model.encoder.{key}": value for key, value in {**ONE_LAYER, "context": 128}.items()},
            "task.length": 128, "train.batch_tokens": 256, "data.tokenizer.min_count": 1,
        },
        shortened={
            "headway.data.synthetic.needle:COUNTS": FEW, "headway.data.labelled_text:COUNTS": FEW,
        },
        inputs={"classify": "one two three", "look": "one two three"},
    ),
    TinyRun(
        task="tagging",
        preset="bert-tagger",
        data="coreference",
        changes={
            **{f"model.encoder.{key}": value for key, value in {**ONE_LAYER, "context": 24}.items()},
            "task.length": 24, "train.batch_tokens": 128,
        },
        shortened={"headway.data.synthetic.coreference:COUNTS": FEW},
        inputs={"tag": "the animal did not cross the street", "look": "the animal did not cross the street"},
    ),
    TinyRun(
        task="question-answering",
        preset="bert-reader",
        data="relatives",
        changes={
            **{f"model.encoder.{key}": value for key, value in {**ONE_LAYER, "context": 48}.items()},
            "task.length": 48, "task.stride": 16, "task.question": 16, "train.batch_tokens": 192,
        },
        shortened={
            "headway.data.synthetic.relatives:COUNTS": FEW, "headway.data.synthetic.relatives:EACH": 2,
        },
        inputs={
            "answer": "John is visiting Rome .\twhere is John visiting ?",
            "look": "John is visiting Rome .\twhere is John visiting ?",
        },
    ),
    TinyRun(
        task="multiple-choice",
        preset="bert-choice",
        data="coreference-choice",
        changes={
            **{f"model.encoder.{key}": value for key, value in {**ONE_LAYER, "context": 48}.items()},
            "task.length": 48, "train.batch_tokens": 384,
        },
        shortened={"headway.data.synthetic.coreference:COUNTS": FEW},
        inputs={
            "answer": "the dog left the apple because it was too sour\twhat is it ?\tthe dog\tthe apple",
            "look": "the dog left the apple because it was too sour\twhat is it ?\tthe dog\tthe apple",
        },
    ),
    TinyRun(
        task="vectors",
        preset="vectors",
        data="robots",
        changes={**_model(ONE_LAYER), "train.batch_tokens": 64},
        shortened={"headway.data.vectors:COUNTS": FEW},
        file=_swarms,
    ),
    TinyRun(
        task="captioning",
        preset="captioner-vit",
        data="shapes",
        changes={
            **_model(TWO_STACKS, image=16), "model.patches.widths": "4,8,16", "task.size": 16, "task.beam": 2,
            "task.max_length": 12, "train.batch_tokens": 4,
        },
        shortened={"headway.data.synthetic.shapes:COUNTS": FEW},
        file=_picture,
    ),
    TinyRun(
        task="transcription",
        preset="speech-transformer",
        data="spoken-digits",
        changes={**_model(TWO_STACKS, strides="2,4"), "task.beam": 2, "task.max_length": 40, "train.batch_tokens": 600},
        shortened={"headway.data.speech:COUNTS": FEW},
        file=_spoken,
    ),
    TinyRun(
        task="embedding",
        preset="sentence-encoder",
        data="reverse",
        changes={
            **_model(ONE_LAYER, context=24), "task.max_length": 24, "data.tokenizer": "word", "train.batch_tokens": 8,
        },
        shortened={"headway.data.synthetic.sequences:TRAIN": 40, "headway.data.synthetic.sequences:HELD_OUT": 6},
        inputs={"embed": "3 1 2", "look": "3 1 2"},
    ),
    TinyRun(
        task="pose",
        preset="pose",
        data="figures",
        changes={**_model(ONE_LAYER, image=32), "model.head.width": 8, "task.size": 32, "train.batch_tokens": 4},
        shortened={"headway.data.poses:COUNTS": FEW},
        file=_figure,
    ),
    TinyRun(
        task="detection",
        preset="detr-shapes",
        data="shapes",
        changes={
            **_model(TWO_STACKS, image=32, queries=6), "model.patches.widths": "4,8,16", "task.size": 32,
            "train.batch_tokens": 4,
        },
        shortened={"headway.data.boxes:COUNTS": FEW},
        file=_picture,
    ),
    TinyRun(
        task="world",
        preset="world-frozenlake",
        data="FrozenLake-v1",
        changes={
            **_model(ONE_LAYER), "task.collect": "60,40", "task.round.world": 1, "task.round.act": 1, "task.dreams": 8,
            "task.horizon": 3, "train.batch_tokens": 32,
        },
        shortened={
            "headway.tasks.world_model.pipeline:EPISODES": 3, "headway.tasks.world_model.q_learning:UPDATES": 3,
        },
        inputs={"look": "7"},
        steps=4,  # two rounds of a step for the world and one for the policy
        needs="gymnasium",
        accumulates=False,
    ),
    TinyRun(
        task="deciding",
        preset="decision-cartpole",
        data="CartPole-v1",
        changes={
            **_model(SIZES, layers=1), "task.log": 120, "task.targets": "5,20", "train.batch_tokens": 60,
        },
        shortened={"headway.tasks.decision_transformer.pipeline:EPISODES": 3},
        inputs={"look": "20"},
        needs="gymnasium",
    ),
)  # fmt: skip
TINY = {tiny.task: tiny for tiny in _ALL}

# What a command is given after `headway VERB RUN`; "{}" is the input, "{out}" a path to write to.
WORDS: Mapping[str, tuple[str, ...]] = {
    "translate": ("{}",),
    "generate": ("--prompt", "{}", "--max-tokens", "5"),
    **dict.fromkeys(("chat",), ("{}", "--max-tokens", "5")),  # a verb here, as all keys, though a task has its name
    "score": ("{}",),
    "classify": ("{}",),
    "tag": ("{}",),
    "answer": ("{}",),
    "caption": ("{}",),
    "transcribe": ("{}",),
    "pose": ("{}",),
    "detect": ("{}",),
    "embed": ("{}",),
    "play": ("--episodes", "2", "--json"),
    "evaluate": ("--json",),
    "look": ("{}", "--out", "{out}"),
    "verify": ("--json",),
    "export": ("--out", "{out}"),
    "info": ("--json",),
}
ON_THE_CPU = ("export", "info")  # commands without --device
# Commands with --precision.
PRECISION = (
    "translate", "generate", "chat", "classify", "tag", "answer", "caption", "transcribe", "pose", "detect", "evaluate",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MadeRun:
    """A tiny run in a folder."""

    tiny: TinyRun
    folder: Path
    file: str | None  # what the commands of a task that reads files are given
    can: tuple[str, ...]  # the commands that work on it, `info` among them

    def command(self, verb: str, out: Path, run: Path | None = None) -> list[str]:
        """The words after `headway` of a command that reads the run, or the copy of it in `run`, and writes to `out`.

        Only `look` and `export` write a file, the others print.
        """
        given = self.file or self.tiny.inputs.get(verb, "0")
        device = () if verb in ON_THE_CPU else ("--device", "cpu")
        named = {"{}": given, "{out}": str(out)}
        return [verb, str(run or self.folder), *(named.get(word, word) for word in WORDS[verb]), *device]


def planned(tiny: TinyRun, folder: Path) -> MadeRun:
    """What `make` makes."""
    return MadeRun(
        tiny=tiny,
        folder=folder,
        file=None if tiny.file is None else tiny.file(folder.parent),
        can=(*cast(type[Task], TASKS[tiny.task]).pipeline_class().can(), "info"),
    )


def make(tiny: TinyRun, folder: Path, cache: Path) -> Path:
    """Train or write the tiny run of a task in a folder; must run within `tiny.short()`."""
    if not tiny.trained:
        return write_encoder(folder)
    train_run(tiny.config(cache), folder)
    return folder


def write_encoder(folder: Path) -> Path:
    """A sentence encoder as `headway import` leaves it: without data of its own."""
    tokenizer = Tokenizer.train(Word(), ["two dogs run to one lake"])
    bert = BertConfig(vocab=tokenizer.size, context=16, width=16, layers=1, heads=2, inner=32)
    config = RunConfig(task=Embedding(max_length=16), data=DataConfig(), model=bert, train=TrainConfig())
    write_run_files(folder, config, {ONE_TOKENIZER: tokenizer.to_json()})
    weights = build_model(bert, seed=1).state_dict()
    Checkpoints(folder).save(1, {name: tensor.contiguous() for name, tensor in weights.items()}, {}, {})
    return folder
