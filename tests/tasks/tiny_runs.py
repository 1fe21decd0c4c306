"""A run of each task at a size for tests: a small preset, short built-in data, a few steps."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image

from headway.config import override, plain
from headway.data.config import DataConfig
from headway.data.synthetic import shapes, stick_figures
from headway.data.tokenizers import Tokenizer, Word
from headway.models import BertConfig, build_model
from headway.presets import PRESETS
from headway.runs.config import RunConfig
from headway.runs.folder import CONFIG
from headway.runs.train import train_run
from headway.storage.commit import commit_file
from headway.tasks.base import ONE_TOKENIZER
from headway.tasks.sentence_embedding import Embedding
from headway.training.config import TrainConfig
from headway.training.signals import Interrupted
from tests.interop.runs import save
from tests.training.small import Silent

FEW = {"train": 24, "val": 6, "test": 6}
SIZES = {"width": 16, "heads": 2}
ONE_LAYER = {**SIZES, "inner": 32, "layers": 1}
TWO_STACKS = {**SIZES, "inner": 32, "encoder_layers": 1, "decoder_layers": 1}


def model(sizes: Mapping[str, object], **more: object) -> dict[str, object]:
    """Keys of the `model` section."""
    return {f"model.{key}": value for key, value in {**sizes, **more}.items()}


@dataclass(frozen=True, kw_only=True)
class TinyRun:
    """How a task's run is made, and what its commands are given."""

    preset: str | None  # None: such runs are not trained
    data: str  # a built-in name
    changes: Mapping[str, object] = field(default_factory=dict)  # config keys
    shortened: Mapping[str, object] = field(default_factory=dict)  # "module:NAME" -> value, of built-in data and plays
    inputs: Mapping[str, str] = field(default_factory=dict)  # of a command, by its verb
    file: Callable[[Path], str] | None = None  # makes a file in a folder, which all its commands read
    steps: int = 2

    def config(self, cache: Path) -> RunConfig:
        """The complete config of the run."""
        assert self.preset is not None
        often = dict.fromkeys(("train.evaluate_every", "train.save_every"), self.steps)
        fixed = {"train.device": "cpu", "train.steps": self.steps, "data.cache": str(cache), "data.spec": self.data}
        return override(PRESETS[self.preset].recipe(), {**often, **fixed, **self.changes})

    @contextlib.contextmanager
    def short(self) -> Iterator[None]:
        """What is generated or played is short meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            for place, value in self.shortened.items():
                patch.setattr(place.replace(":", "."), value)
            yield


def picture(folder: Path) -> str:
    Image.fromarray(shapes.scenes(1, size=20, seed=9).pixels[0].transpose(1, 2, 0)).save(folder / "scene.png")
    return str(folder / "scene.png")


def figure(folder: Path) -> str:
    Image.fromarray(stick_figures.figures(1, size=40, seed=9).pixels[0].transpose(1, 2, 0)).save(folder / "figure.png")
    return str(folder / "figure.png")


TINY: dict[str, TinyRun] = {
    "language": TinyRun(
        preset="gpt-char",
        data="deck-sentences",
        changes={**model(SIZES, layers=1, context=8), "task.context": 8, "train.batch_tokens": 32},
        inputs={"generate": "I li", "score": "I like d", "look": "I like"},
    ),
    "masked": TinyRun(
        preset="bert-base",
        data="deck-sentences",
        changes={
            **{f"model.bert.{key}": value for key, value in {**ONE_LAYER, "context": 24}.items()},
            "task.length": 24, "data.tokenizer": "word", "train.batch_tokens": 96,
        },
        inputs={"embed": "I like dogs", "look": "I <mask> dogs"},
    ),
    "translation": TinyRun(
        preset="transformer-tiny",
        data="reverse",
        changes={**model(TWO_STACKS), "data.tokenizer": "word", "task.beam": 2, "train.batch_tokens": 128},
        shortened={"headway.data.synthetic.sequences:TRAIN": 40, "headway.data.synthetic.sequences:HELD_OUT": 6},
        inputs={"translate": "3 1 2", "score": "3 1 2\t2 1 3", "look": "3 1 2"},
    ),
    "classification": TinyRun(
        preset="vit-ti16",
        data="shapes",
        changes={
            **model(ONE_LAYER, image=16, patch=4), "task.size": 16, "train.batch_tokens": 4, "train.accumulate": 1,
            "train.precision": "fp32",
        },
        shortened={"headway.data.synthetic.shapes:COUNTS": FEW},
        file=picture,
    ),
    "text-classification": TinyRun(
        preset="longformer-needle",
        data="needle",
        changes={
            **{f"model.encoder.{key}": value for key, value in {**ONE_LAYER, "context": 128}.items()},
            "model.encoder.windows.radius": 4, "task.length": 128, "train.batch_tokens": 256,
        },
        shortened={
            "headway.data.synthetic.needle:COUNTS": FEW, "headway.data.labelled_text:COUNTS": FEW,
        },
        inputs={"classify": "one two three", "look": "one two three"},
    ),
    "captioning": TinyRun(
        preset="captioner-vit",
        data="shapes",
        changes={
            **model(TWO_STACKS, image=16), "model.patches.widths": "4,8,16", "task.size": 16, "task.beam": 2,
            "task.max_length": 12, "train.batch_tokens": 4,
        },
        shortened={"headway.data.synthetic.shapes:COUNTS": FEW},
        file=picture,
    ),
    "embedding": TinyRun(preset=None, data="", inputs={"embed": "two dogs", "look": "two dogs"}),
    "pose": TinyRun(
        preset="pose",
        data="figures",
        changes={**model(ONE_LAYER, image=32), "model.head.width": 8, "task.size": 32, "train.batch_tokens": 4},
        shortened={"headway.data.poses:COUNTS": FEW},
        file=figure,
    ),
    "world": TinyRun(
        preset="world-frozenlake",
        data="FrozenLake-v1",
        changes={
            **model(ONE_LAYER), "task.collect": "60,40", "task.round.world": 1, "task.round.act": 1, "task.dreams": 8,
            "task.horizon": 3, "train.batch_tokens": 32,
        },
        shortened={
            "headway.tasks.world_model.pipeline:EPISODES": 3, "headway.tasks.world_model.q_learning:UPDATES": 3,
        },
        inputs={"look": "7"},
        steps=4,  # two rounds of a step for the world and one for the policy
    ),
    "deciding": TinyRun(
        preset="decision-cartpole",
        data="CartPole-v1",
        changes={
            **model(SIZES, layers=1), "task.log": 120, "task.targets": "5,20", "train.batch_tokens": 60,
        },
        inputs={"look": "20"},
    ),
}  # fmt: skip


class InterruptedAt(Silent):
    """Sends the signal of a keyboard interrupt when a step is done."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.at = step

    def step(self, entry: dict[str, object]) -> None:
        if entry["step"] == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def make(name: str, folder: Path, cache: Path) -> Path:
    """The tiny run of a task in a folder."""
    tiny = TINY[name]
    if tiny.preset is None:
        return write_encoder(folder)
    train_run(tiny.config(cache), folder, Silent())
    return folder


def make_in_two_sittings(name: str, folder: Path, cache: Path) -> Path:
    """The same, interrupted halfway and resumed."""
    tiny = TINY[name]
    config = tiny.config(cache)
    with pytest.raises(Interrupted, match=f"saved at step {tiny.steps // 2}"):
        train_run(config, folder, InterruptedAt(tiny.steps // 2))
    torch.rand(7)  # what happens between two sittings must not matter
    train_run(config, folder, Silent(), resume=True)
    return folder


def write_encoder(folder: Path) -> Path:
    """A sentence encoder as `headway import` leaves it: without data of its own."""
    tokenizer = Tokenizer.train(Word(), ["two dogs run to one lake"])
    bert = BertConfig(vocab=tokenizer.size, context=16, width=16, layers=1, heads=2, inner=32)
    config = RunConfig(task=Embedding(max_length=16), data=DataConfig(), model=bert, train=TrainConfig())
    commit_file(folder / CONFIG, yaml.safe_dump(plain(config), sort_keys=False))
    commit_file(folder / ONE_TOKENIZER, tokenizer.to_json())
    save(folder, build_model(bert, seed=1).state_dict())
    return folder
