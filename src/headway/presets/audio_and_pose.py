"""Sounds and poses with a ViT: a sound as patches of its spectrogram, a body as heat maps."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.data.spectrograms import Spectrogram
from headway.models import ModelConfig, PoseConfig, VitConfig
from headway.models.pose import ClassicHead
from headway.nn.norms import LayerNorm
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.image_classification import Classification
from headway.tasks.pose import PoseEstimation
from headway.training.config import TrainConfig
from headway.training.optimisers import AdamW
from headway.training.schedules import Cosine


def pose() -> PoseConfig:
    """ViTPose at a size for stick figures of 64 pixels."""
    return PoseConfig(image=64, patch=8, width=96, layers=4, heads=3, inner=192, head=ClassicHead(width=64))


def pose_recipe(model: ModelConfig) -> RunConfig:
    """The built-in `figures` in minutes on two cores."""
    return RunConfig(
        task=PoseEstimation(size=64, spread=1.5),
        data=DataConfig(spec="figures"),
        model=model,
        train=TrainConfig(
            steps=800,
            batch_tokens=32,
            learning_rate=1.5e-3,
            optimiser=AdamW(decay=0.01),
            schedule=Cosine(warmup=100, floor=0.01),
            evaluate_every=200,
            save_every=200,
        ),
    )


def audio_vit() -> VitConfig:
    """A ViT for spectrograms of 128 pitches and 128 moments."""
    return VitConfig(
        classes=8,
        image=128,
        channels=1,
        patch=16,
        width=96,
        layers=4,
        heads=3,
        inner=192,
        norm=LayerNorm(),
        start="small-data",
    )


def audio_recipe(model: ModelConfig) -> RunConfig:
    """The built-in `tones` in minutes on two cores."""
    return RunConfig(
        task=Classification(size=128, sound=Spectrogram(), mean=(0.5,), std=(0.5,)),
        data=DataConfig(spec="tones"),
        model=model,
        train=TrainConfig(
            steps=800,
            batch_tokens=32,
            learning_rate=1e-3,
            optimiser=AdamW(decay=0.05),
            schedule=Cosine(warmup=100, floor=0.01),
            label_smoothing=0.05,
            evaluate_every=200,
            save_every=200,
        ),
    )


SENSES = (
    Preset(
        name="pose",
        task="pose",
        source="Xu et al. 2022, ViTPose: its classic decoder, at a size for a laptop",
        parameters=489_201,
        departures=(
            "the size is ours, for the built-in `figures` in minutes on two cores: squares of 64 pixels, patches of 8",
            "not pretrained; the paper starts from a masked autoencoder",
            "no flips: which side is the left one the figures tell by colour",
            "keypoints between cells by a parabola through logarithms (Zhang et al. 2020), not by a quarter of a cell",
        ),
        config=pose,
        run=pose_recipe,
    ),
    Preset(
        name="audio-vit",
        task="classification",
        source="Gong et al. 2021, AST: Audio Spectrogram Transformer, at a size for a laptop",
        parameters=331_112,
        departures=(
            "the size is ours, for the built-in `tones` in minutes on two cores; the start is that of Lee et al. 2021",
            "patches do not overlap, one class token and no distillation token",
            "pitches evenly spaced in octaves, not mel, which cannot tell low notes apart",
            "not pretrained on images",
        ),
        config=audio_vit,
        run=audio_recipe,
    ),
)
