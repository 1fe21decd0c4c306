"""Object detection: DETR at a size for a laptop."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.models import DetrConfig, ModelConfig
from headway.nn.patches import Hybrid
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.detection import Detection
from headway.training.config import TrainConfig
from headway.training.optimisers import Muon
from headway.training.schedules import Cosine


def detr_shapes() -> DetrConfig:
    """DETR for images of 64 pixels with a few objects."""
    return DetrConfig(
        classes=8,
        queries=16,
        image=64,
        patch=8,
        patches=Hybrid(widths=(24, 48, 96)),
        width=96,
        encoder_layers=2,
        decoder_layers=3,
        heads=4,
        inner=192,
        dropout=0.0,
    )


def detr_recipe(model: ModelConfig) -> RunConfig:
    """The built-in `shapes`, several in an image, in minutes on two cores."""
    return RunConfig(
        task=Detection(size=64),
        data=DataConfig(spec="shapes"),
        model=model,
        train=TrainConfig(
            steps=2000,
            batch_tokens=32,
            learning_rate=1e-2,
            optimiser=Muon(),
            schedule=Cosine(warmup=100, floor=0.01),
            evaluate_every=500,
            save_every=500,
        ),
    )


DETECTORS = (
    Preset(
        name="detr-shapes",
        task="detection",
        source="Carion et al. 2020, End-to-End Object Detection with Transformers, at a size for a laptop",
        parameters=691_757,
        departures=(
            "the size is ours, for the built-in `shapes` in minutes on two cores: images of 64 pixels, 16 queries",
            "a small residual network in place of a pretrained ResNet-50, pre-norm blocks, no dropout",
            "positions are added once, before the encoder, not in every attention",
            "each query has a learned anchor, at first on a grid (after Wang et al. 2022, Anchor DETR)",
            "a further set loss on each patch of the encoder (after Zhu et al. 2021, Deformable DETR, section 4.2)",
            "the loss is divided by images, not objects; no flips, no crops; Muon in place of AdamW at 1e-4",
        ),
        config=detr_shapes,
        run=detr_recipe,
    ),
)
