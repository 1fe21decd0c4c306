"""The preset `echo-tiny`: the model with its training recipe."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.data.tokenizers import Characters
from headway.models import ModelConfig
from headway.presets import Preset
from headway.runs.config import RunConfig
from headway.training.config import TrainConfig
from headway_echo.model import EchoNetConfig
from headway_echo.task import Echo


def recipe(model: ModelConfig) -> RunConfig:
    """The built-in strings, in seconds."""
    return RunConfig(
        task=Echo(),
        data=DataConfig(spec="echoes", tokenizer=Characters()),
        model=model,
        train=TrainConfig(steps=120, batch_tokens=512, learning_rate=5e-3, evaluate_every=40, save_every=40),
    )


def echo_tiny() -> Preset:
    """A detector of echoes, trained in seconds."""
    return Preset(
        name="echo-tiny",
        task="echo",
        source="an example of a plugin",
        parameters=4_674,
        departures=(),
        config=EchoNetConfig,
        run=recipe,
    )
