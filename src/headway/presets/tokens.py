"""Presets that tag words and answer questions, by a span of a text or by one of several choices."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.data.tokenizers import Word
from headway.models import BertConfig, ModelConfig, TextClassifierConfig, TokenClassifierConfig
from headway.nn.positions import EncoderPosition, Learned, Rotary
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.multiple_choice import MultipleChoice
from headway.tasks.question_answering import QuestionAnswering
from headway.tasks.tagging import Tagging
from headway.training.config import TrainConfig
from headway.training.optimisers import AdamW, Muon
from headway.training.schedules import Cosine


def token_classifier(*, vocab: int, context: int, classes: int, position: EncoderPosition) -> TokenClassifierConfig:
    """A BERT of three layers with an output for each token."""
    encoder = BertConfig(
        vocab=vocab,
        context=context,
        width=128,
        layers=3,
        heads=4,
        inner=256,
        position=position,
        dropout=0.0,
        pooler=False,
        init_std=0.09,  # 1/√width: the paper's 0.02 is for a width of 768
    )
    return TokenClassifierConfig(encoder=encoder, classes=classes)


def tagging(model: ModelConfig) -> RunConfig:
    """The built-in `coreference`: AdamW, a short warm-up, about a hundred sentences a step."""
    return RunConfig(
        task=Tagging(),
        data=DataConfig(spec="coreference", tokenizer=Word()),
        model=model,
        train=TrainConfig(
            steps=500,
            batch_tokens=2048,
            learning_rate=2e-3,
            optimiser=AdamW(beta2=0.98, decay=0.01),
            schedule=Cosine(warmup=50, floor=0.1),
            evaluate_every=100,
            save_every=100,
        ),
    )


def reading(model: ModelConfig) -> RunConfig:
    """The built-in `relatives`: Muon, a short warm-up, about sixty questions a step."""
    return RunConfig(
        task=QuestionAnswering(length=192, stride=64, question=16, answer=8),
        data=DataConfig(spec="relatives", tokenizer=Word()),
        model=model,
        train=TrainConfig(
            steps=1200,
            batch_tokens=2048,
            learning_rate=5e-3,
            optimiser=Muon(adam_share=0.4),
            schedule=Cosine(warmup=120, floor=0.1),
            evaluate_every=100,
            save_every=100,
        ),
    )


def choice_classifier() -> TextClassifierConfig:
    """A BERT of three layers with one output for each input."""
    # The initial deviation is 1/√width, as above.
    encoder = BertConfig(vocab=163, context=64, width=128, layers=3, heads=4, inner=256, dropout=0.0, init_std=0.09)
    return TextClassifierConfig(encoder=encoder, classes=1)


def choosing(model: ModelConfig) -> RunConfig:
    """The built-in `coreference-choice`: Muon, a short warm-up, about twenty questions of four choices a step."""
    return RunConfig(
        task=MultipleChoice(length=64),
        data=DataConfig(spec="coreference-choice", tokenizer=Word()),
        model=model,
        train=TrainConfig(
            steps=1200,
            batch_tokens=2048,
            learning_rate=5e-3,
            optimiser=Muon(adam_share=0.4),
            schedule=Cosine(warmup=120, floor=0.1),
            evaluate_every=100,
            save_every=100,
        ),
    )


_BERT = "Devlin et al. 2019, BERT"
_SMALL = "the size is ours, and so is the data; the paper fine-tunes its base and large models"
_NEW = "begins with random weights, not with those of a masked model; words are tokens"

TOKENS = (
    Preset(
        name="bert-tagger",
        task="tagging",
        source=_BERT + ", section 5.3: a linear layer on the first token of each word",
        parameters=435_203,
        departures=(_SMALL, _NEW),
        config=lambda: token_classifier(vocab=160, context=128, classes=3, position=Learned()),
        run=tagging,
    ),
    Preset(
        name="bert-reader",
        task="question-answering",
        source=_BERT + ", section 4.2: a start and an end vector on each token",
        parameters=406_658,
        departures=(_SMALL, _NEW, "rotary positions instead of learned ones; trained by Muon"),
        config=lambda: token_classifier(vocab=66, context=192, classes=2, position=Rotary()),
        run=reading,
    ),
    Preset(
        name="bert-choice",
        task="multiple-choice",
        source=_BERT + ", section 4.4: a score for each choice from the pooled vector, a softmax over them",
        parameters=443_649,
        departures=(_SMALL, _NEW, "trained by Muon"),
        config=choice_classifier,
        run=choosing,
    ),
)
