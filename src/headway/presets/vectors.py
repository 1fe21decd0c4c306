"""Sets and sequences of vectors: a transformer without positions."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.data.synthetic.robots import CLASSES, FEATURES
from headway.models import ModelConfig
from headway.models.vector_transformer import Features, VectorTransformerConfig
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.vectors import Vectors
from headway.training.config import TrainConfig
from headway.training.optimisers import AdamW
from headway.training.schedules import Cosine


def vectors() -> VectorTransformerConfig:
    """A small model; the features and classes are those of `robots` until data sets them."""
    size = len(FEATURES)
    return VectorTransformerConfig(
        features=Features(names=FEATURES, means=(0.0,) * size, deviations=(1.0,) * size), outputs=len(CLASSES)
    )


def vectors_recipe(model: ModelConfig) -> RunConfig:
    """The built-in `robots` in a minute on two cores."""
    return RunConfig(
        task=Vectors(),
        data=DataConfig(spec="robots"),
        model=model,
        train=TrainConfig(
            steps=3000,
            batch_tokens=768,
            learning_rate=1e-3,
            optimiser=AdamW(decay=0.01),
            schedule=Cosine(warmup=150, floor=0.01),
            evaluate_every=500,
            save_every=500,
        ),
    )


SETS = (
    Preset(
        name="vectors",
        task="vectors",
        source="Lee et al. 2019, Set Transformer, with one seed vector, at a size for a laptop",
        parameters=122_372,
        departures=(
            "the size is ours, for the built-in `robots` in minutes on two cores",
            "pre-norm blocks with GELU (the paper: post-norm, ReLU); full attention, no inducing points",
            "the pooling query attends to itself before the elements, and there is no feed-forward before the pool",
        ),
        config=vectors,
        run=vectors_recipe,
    ),
)
