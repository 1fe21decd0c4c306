"""Small text classifiers that train in minutes on two cores, or begin with another run's encoder (`--init`)."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.data.tokenizers import ByteBpe, TokenizerConfig, Word
from headway.models import BertConfig, GptConfig, ModelConfig, TextClassifierConfig
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.text_classification import TextClassification
from headway.training.config import TrainConfig
from headway.training.optimisers import AdamW
from headway.training.schedules import Linear

VOCAB, CONTEXT = 8000, 512


def bert_classifier() -> TextClassifierConfig:
    """BERT-tiny's sizes (Turc et al. 2019): 2 layers of width 128."""
    encoder = BertConfig(vocab=VOCAB, context=CONTEXT, width=128, layers=2, heads=2, inner=512, init_std=0.09)
    return TextClassifierConfig(encoder=encoder, classes=2)


def gpt_classifier() -> TextClassifierConfig:
    """A GPT of the same sizes, read at its last token."""
    encoder = GptConfig(vocab=VOCAB, context=CONTEXT, width=128, layers=2, heads=2, dropout=0.1, init_std=0.09)
    return TextClassifierConfig(encoder=encoder, classes=2)


def classifier(model: ModelConfig, *, tokenizer: TokenizerConfig) -> RunConfig:
    """A first classifier: AdamW at 1e-3 with a warm-up of a tenth, falling linearly, 2,048 tokens a step."""
    return RunConfig(
        task=TextClassification(length=256),
        data=DataConfig(tokenizer=tokenizer),
        model=model,
        train=TrainConfig(
            steps=1000,
            batch_tokens=2048,
            learning_rate=1e-3,
            optimiser=AdamW(beta2=0.98, decay=0.01),
            schedule=Linear(warmup=100),
            evaluate_every=100,
            save_every=100,
        ),
    )


CLASSIFIERS = (
    Preset(
        name="bert-classifier",
        task="text-classification",
        source="Devlin et al. 2019, BERT (section 4.1: pooler, dropout, linear layer), at the tiny size of Turc et al. "
        "2019, Well-Read Students Learn Better",
        parameters=1_503_362,
        departures=(
            "random initial weights at 1e-3 unless `--init` gives an encoder; the paper fine-tunes at 2e-5 to 5e-5",
            "words in lower case as tokens, those seen once unknown; the paper has 30,522 word pieces",
            "initial weights with a deviation of 0.09, about 1/√width; the paper's 0.02 is for a width of 768",
            "1,000 steps of 2,048 tokens; the paper fine-tunes for 3 epochs of 32 texts",
        ),
        config=bert_classifier,
        run=lambda model: classifier(model, tokenizer=Word(lower=True, min_count=2)),
    ),
    Preset(
        name="gpt-classifier",
        task="text-classification",
        source="Radford et al. 2018, Improving Language Understanding by Generative Pre-Training (section 3.2: the "
        "last token is read by a linear layer), with the blocks of GPT-2",
        parameters=1_486_592,
        departures=(
            "the size is ours: 2 layers of width 128; the paper has 12 of width 768",
            "trained from random weights at 1e-3 unless `--init` gives an encoder; the paper fine-tunes at 6.25e-5",
            "GPT-2's blocks (norms before each part, Radford et al. 2019); the paper's norms come after",
            "the linear layer has no bias, and no language modelling loss is added; the paper adds half of one",
            "a pair is `<s>` a `</s>` b `</s>`, read once in this order; the paper reads similar texts in both orders",
        ),
        config=gpt_classifier,
        run=lambda model: classifier(model, tokenizer=ByteBpe(vocab=VOCAB, fit=True)),
    ),
)
