"""How the presets are trained: the settings of the papers that the presets name as their sources."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from headway.data.config import DataConfig
from headway.data.tokenizers import Bpe, ByteBpe, Characters, Word
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    DeckConfig,
    EncoderDecoderConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    ModelConfig,
    UniversalBertConfig,
    UniversalBertPretrainingConfig,
)
from headway.runs.config import RunConfig
from headway.tasks.chat import Chat
from headway.tasks.language_modelling import Language
from headway.tasks.masked_lm import Masked
from headway.tasks.text_classification import TextClassification
from headway.tasks.translation import Translation
from headway.training.config import TrainConfig
from headway.training.optimisers import Adam, AdamW, Sgd
from headway.training.schedules import Constant, Cosine, InverseSqrt, Linear, Noam


def char_language(model: ModelConfig, *, context: int, rows: int, steps: int, every: int) -> RunConfig:
    """nanoGPT's character recipe: AdamW, cosine to a tenth, warm-up 100, clip 1."""
    return RunConfig(
        task=Language(context=context),
        data=DataConfig(tokenizer=Characters()),
        model=model,
        train=TrainConfig(
            steps=steps,
            batch_tokens=rows * context,
            learning_rate=1e-3,
            optimiser=AdamW(beta2=0.99, decay=0.1),
            schedule=Cosine(warmup=100, floor=0.1),
            evaluate_every=every,
            save_every=every,
        ),
    )


def chat(model: ModelConfig) -> RunConfig:
    """nanoGPT's character recipe on the built-in conversations, with the loss of the answers only.

    The vocabulary merges the words of the template and of the questions, and has no room for numbers of two digits.
    """
    return RunConfig(
        task=Chat(context=256),
        data=DataConfig(spec="arithmetic-chat", tokenizer=ByteBpe(vocab=340, fit=True)),
        model=model,
        train=TrainConfig(
            steps=1200,
            batch_tokens=1536,
            learning_rate=1.5e-3,
            optimiser=AdamW(beta2=0.99, decay=0.1),
            schedule=Cosine(warmup=100, floor=0.1),
            evaluate_every=200,
            save_every=200,
        ),
    )


def gpt2_language(model: ModelConfig) -> RunConfig:
    """nanoGPT's GPT-2 recipe: half a million tokens a step, here as micro-batches that fit one device."""
    return RunConfig(
        task=Language(context=1024),
        data=DataConfig(tokenizer=ByteBpe(vocab=50257, fit=True)),
        model=model,
        train=TrainConfig(
            steps=600_000,
            batch_tokens=12 * 1024,
            accumulate=40,
            learning_rate=6e-4,
            optimiser=AdamW(beta2=0.95, decay=0.1),
            schedule=Cosine(warmup=2000, floor=0.1),
            precision="bf16",
            evaluate_every=1000,
            save_every=1000,
        ),
    )


def rnn_language(model: ModelConfig) -> RunConfig:
    """PyTorch's word language model example: SGD at 20, clip 0.25, blocks of 35 words."""
    return RunConfig(
        task=Language(context=35),
        data=DataConfig(tokenizer=Word()),
        model=model,
        train=TrainConfig(
            steps=50_000,
            batch_tokens=20 * 35,
            learning_rate=20.0,
            optimiser=Sgd(),
            schedule=Cosine(floor=0.01),
            clip=0.25,
            evaluate_every=1000,
            save_every=1000,
        ),
    )


def masked(model: ModelConfig) -> RunConfig:
    """BERT's: a million steps of 256 rows of 128 tokens, Adam with decay, linear warm-up and decay."""
    model = cast(BertConfig, model)
    return RunConfig(
        task=Masked(),
        data=DataConfig(tokenizer=Bpe(vocab=model.vocab, fit=True)),
        model=BertPretrainingConfig(bert=replace(model, pooler=True)),  # the next-sentence head reads the pooler
        train=TrainConfig(
            steps=1_000_000,
            batch_tokens=32 * 128,
            accumulate=8,
            learning_rate=1e-4,
            optimiser=AdamW(eps=1e-6),
            schedule=Linear(warmup=10_000),
            evaluate_every=1000,
            save_every=1000,
        ),
    )


def deck(model: ModelConfig) -> RunConfig:
    """A minute or two on a CPU: hidden tokens of the built-in documentation, since the deck's model is not causal."""
    model = cast(DeckConfig, model)
    return RunConfig(
        task=Masked(length=model.context, rows="running"),
        data=DataConfig(spec="pydocs", tokenizer=Bpe(vocab=model.vocab, fit=True)),
        model=model,
        train=TrainConfig(
            steps=2000,
            batch_tokens=32 * model.context,
            learning_rate=1e-3,
            optimiser=AdamW(),
            schedule=Linear(warmup=100),
            evaluate_every=500,
            save_every=500,
        ),
    )


def masked_longformer(model: ModelConfig) -> RunConfig:
    """The paper's: 65,000 steps of 64 rows of 4,096 tokens, warm-up 500; whole files are documents."""
    model = cast(LongformerConfig, model)
    return RunConfig(
        task=Masked(length=model.context, rows="running", documents="files"),
        data=DataConfig(tokenizer=ByteBpe(vocab=model.vocab, fit=True)),
        model=LongformerMaskedConfig(longformer=replace(model, pooler=False)),
        train=TrainConfig(
            steps=65_000,
            batch_tokens=4 * 4096,
            accumulate=16,
            learning_rate=1e-4,
            optimiser=AdamW(beta2=0.98, eps=1e-6),
            schedule=Linear(warmup=500),
            precision="bf16",
            evaluate_every=500,
            save_every=500,
        ),
    )


def needle(model: ModelConfig) -> RunConfig:
    """The built-in `needle` at 4,096 tokens: AdamW, a short warm-up, sixteen documents a step."""
    return RunConfig(
        task=TextClassification(length=4096),
        data=DataConfig(spec="needle", tokenizer=Word()),
        model=model,
        train=TrainConfig(
            steps=1000,
            batch_tokens=16 * 4096,
            learning_rate=1e-3,
            optimiser=AdamW(beta2=0.98, decay=0.01),
            schedule=Cosine(warmup=100, floor=0.1),
            evaluate_every=200,
            save_every=200,
        ),
    )


def universal_masked(model: ModelConfig) -> RunConfig:
    """BERT's recipe for a BERT whose encoder is a loop."""
    model = cast(UniversalBertConfig, model)
    run = masked(BertConfig(vocab=model.vocab))
    return replace(run, model=UniversalBertPretrainingConfig(bert=replace(model, pooler=True)))


def tiny_translation(model: ModelConfig) -> RunConfig:
    """Wu et al.'s Multi30k recipe: 8,192 tokens a step, inverse square root from 0.005, mean of ten checkpoints."""
    return RunConfig(
        task=Translation(beam=5, length_penalty=1.0, penalty="mean"),
        data=DataConfig(tokenizer=Bpe(vocab=9712, fit=True)),
        model=model,
        train=TrainConfig(
            steps=8000,
            batch_tokens=8192,  # 4,096 on each of two GPUs there
            learning_rate=0.005,
            optimiser=Adam(eps=1e-8),
            schedule=InverseSqrt(warmup=2000, start=1e-7 / 0.005),
            clip=25.0,
            label_smoothing=0.1,
            evaluate_every=120,
            save_every=60,  # about an epoch of Multi30k
            keep=10,
            average=10,
            patience=20,
        ),
    )


def paper_translation(model: ModelConfig, *, width: int, steps: int, average: int) -> RunConfig:
    """The 2017 paper's: Adam under the Noam schedule, label smoothing 0.1, beam 4 with α 0.6, averaged checkpoints."""
    return RunConfig(
        task=Translation(),
        data=DataConfig(tokenizer=Bpe(vocab=37000, fit=True), target="de"),
        model=model,
        train=TrainConfig(
            steps=steps,
            batch_tokens=25_000,
            learning_rate=1.0,
            optimiser=Adam(),
            schedule=Noam(width=width, warmup=4000),
            clip=0.0,
            label_smoothing=0.1,
            precision="bf16",
            evaluate_every=1000,
            save_every=1000,
            keep=average,
            average=average,
        ),
    )


def sequences(model: ModelConfig) -> RunConfig:
    """For sets of generated sequences: Adam at 1e-3 with a warm-up of 500 and half a cosine down, greedy decoding."""
    return RunConfig(
        task=Translation(max_length=512, beam=1, length_penalty=0.0),
        data=DataConfig(tokenizer=Word()),
        model=model,
        train=TrainConfig(
            steps=6000,
            batch_tokens=8192,
            learning_rate=1e-3,
            optimiser=Adam(eps=1e-8),
            schedule=Cosine(warmup=500, floor=0.02),
            evaluate_every=1000,
            save_every=1000,
        ),
    )


def digits(model: ModelConfig) -> RunConfig:
    """For digits at ten times the length: `sequences` for a small model, in minutes on one core."""
    whole = sequences(model)
    train = replace(
        whole.train,
        steps=4500,
        batch_tokens=1024,
        learning_rate=2e-3,
        schedule=Cosine(warmup=200, floor=0.02),
        evaluate_every=500,
        save_every=500,
    )
    return replace(whole, train=train)


def rnn_translation(model: ModelConfig) -> RunConfig:
    """The Multi30k tutorial's: Adam at 1e-3, clip 1, words seen twice."""
    return RunConfig(
        task=Translation(beam=1, length_penalty=0.0),
        data=DataConfig(tokenizer=Word(min_count=2), joint=False),
        model=model,
        train=TrainConfig(
            steps=4000,
            batch_tokens=2048,
            learning_rate=1e-3,
            optimiser=Adam(beta2=0.999, eps=1e-8),
            schedule=Constant(),
            clip=1.0,
        ),
    )


def demo() -> RunConfig:
    """`headway demo`: English to French on the built-in phrases, in minutes on two cores."""
    model = EncoderDecoderConfig(
        vocab=1, width=128, inner=256, heads=4, encoder_layers=2, decoder_layers=2, dropout=0.1
    )
    return RunConfig(
        task=Translation(beam=4),
        data=DataConfig(spec="phrases", tokenizer=Bpe(vocab=2500)),
        model=model,
        train=TrainConfig(
            steps=1240,
            batch_tokens=2048,
            learning_rate=4e-3,
            optimiser=Adam(eps=1e-8),
            schedule=Linear(warmup=150),
            label_smoothing=0.1,
            evaluate_every=310,
            save_every=310,
            keep_looks="a cute puppy ||| un chiot mignon",
        ),
    )
