"""Sentence encoders that are trained on pairs of texts."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.data.tokenizers import Bpe
from headway.models import BertConfig, ModelConfig
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.sentence_embedding import Embedding
from headway.training.config import TrainConfig
from headway.training.optimisers import AdamW
from headway.training.schedules import Linear

CONTEXT = 128


def sentence_encoder() -> BertConfig:
    """A BERT of two layers without a pooler."""
    return BertConfig(
        vocab=2500,
        context=CONTEXT,
        width=128,
        layers=2,
        heads=4,
        inner=512,
        segments=1,
        pooler=False,
        dropout=0.1,
        init_std=0.09,  # 1/√width: the paper's 0.02 is for a width of 768
    )


def contrastive(model: ModelConfig) -> RunConfig:
    """The built-in English-French phrases as pairs: 128 pairs a step, in minutes on two cores."""
    return RunConfig(
        task=Embedding(pooling="mean", normalise=True, max_length=CONTEXT, symmetric=True),
        data=DataConfig(spec="phrases", tokenizer=Bpe(vocab=2500)),
        model=model,
        train=TrainConfig(
            steps=600,
            batch_tokens=128,
            learning_rate=1e-3,
            optimiser=AdamW(beta2=0.98, decay=0.01),
            schedule=Linear(warmup=60),
            evaluate_every=100,
            save_every=100,
        ),
    )


SENTENCES = (
    Preset(
        name="sentence-encoder",
        task="embedding",
        source="Reimers and Gurevych 2019 (a BERT and the mean of its vectors); the loss of Henderson et al. 2017",
        parameters=733_312,
        departures=(
            "the size is ours: the paper has BERT-base; trained from scratch instead of from a pretrained model",
            "both directions of the loss, its cosine similarities multiplied by 20 as sentence-transformers does",
        ),
        config=sentence_encoder,
        run=contrastive,
    ),
)
