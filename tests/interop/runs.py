"""Run folders at a size for tests, written without training: a model with stirred weights, its tokenizer, a config."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

import headway
from headway.data.config import DataConfig
from headway.data.log_mel import LogMel
from headway.data.tokenizers import MASK, SPECIALS, Tokenizer, Word
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    CaptionerRnnConfig,
    CaptionerVitConfig,
    ConvnetConfig,
    DeckConfig,
    DetrConfig,
    EncoderDecoderConfig,
    GptConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    ModelConfig,
    PoseConfig,
    RnnLmConfig,
    RnnSeq2SeqConfig,
    SpeechCtcConfig,
    SpeechTransformerConfig,
    TextClassifierConfig,
    TokenClassifierConfig,
    UniversalBertPretrainingConfig,
    UniversalConfig,
    VectorTransformerConfig,
    VitConfig,
    build_model,
)
from headway.nn.longformer_attention import Windows
from headway.nn.patches import Hybrid
from headway.runs.config import RunConfig, TaskConfig
from headway.runs.folder import write_run_files
from headway.runs.verify import verification_subject
from headway.tasks.base import ONE_TOKENIZER
from headway.tasks.captioning import Captioning
from headway.tasks.detection import Detection
from headway.tasks.image_classification import Classification
from headway.tasks.language_modelling.training import Language
from headway.tasks.masked_lm.training import Masked
from headway.tasks.pose import PoseEstimation
from headway.tasks.question_answering import QuestionAnswering
from headway.tasks.sentence_embedding import Embedding
from headway.tasks.tagging import Tagging
from headway.tasks.text_classification import TextClassification
from headway.tasks.transcription import Transcription
from headway.tasks.translation.training import Translation
from headway.tasks.vectors import Vectors
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig
from headway.verification.verify import Finding, measure_baseline, verify

WORDS = "a man is sleeping on the couch and two dogs run to one lake under big red sky while cats jump over it"


def shrunk(model: ModelConfig, vocab: int) -> ModelConfig:
    """The same parts, smaller."""
    if isinstance(model, GptConfig):
        kv_heads, inner = (None if value is None else 2 for value in (model.kv_heads, model.inner))
        inner = None if inner is None else 24
        sizes = {"vocab": vocab, "context": 24, "width": 16, "layers": 2, "heads": 4}
        windows = None if model.windows is None else Windows(radius=(2, 5), dilation=(1, 2), dilated_heads=2)
        return replace(model, **sizes, kv_heads=kv_heads, inner=inner, windows=windows)
    if isinstance(model, EncoderDecoderConfig):
        return replace(
            model, vocab=vocab, source_vocab=None, width=16, inner=32, heads=4, encoder_layers=2, decoder_layers=2
        )
    if isinstance(model, BertPretrainingConfig):
        small = replace(model.bert, vocab=vocab, context=24, width=16, inner=32, layers=2, heads=4)
        return BertPretrainingConfig(bert=small)
    if isinstance(model, UniversalConfig):
        return replace(model, vocab=vocab, source_vocab=None, width=16, inner=32, heads=4)
    if isinstance(model, UniversalBertPretrainingConfig):
        return replace(model, bert=replace(model.bert, vocab=vocab, width=16, inner=32, heads=4))
    sizes = {"vocab": vocab, "context": 24, "width": 16, "inner": 32, "layers": 2, "heads": 4}
    if isinstance(model, BertConfig):
        return replace(model, **sizes)
    if isinstance(model, TokenClassifierConfig) or (
        isinstance(model, TextClassifierConfig) and not isinstance(model.encoder, LongformerConfig)
    ):
        return replace(model, encoder=replace(model.encoder, **sizes))
    if isinstance(model, LongformerMaskedConfig | TextClassifierConfig):
        masked = isinstance(model, LongformerMaskedConfig)
        small = replace(model.longformer if masked else model.encoder, windows=Windows(radius=2), **sizes)
        return LongformerMaskedConfig(longformer=small) if masked else replace(model, encoder=small)
    if isinstance(model, RnnLmConfig):
        return replace(model, vocab=vocab, width=12, recurrent=replace(model.recurrent, hidden=12))
    if isinstance(model, VitConfig):
        return replace(model, classes=5, image=16, patch=4, width=16, layers=2, heads=4, inner=32)
    if isinstance(model, PoseConfig):
        return replace(model, keypoints=5, image=16, patch=4, width=16, layers=2, heads=4, inner=32)
    if isinstance(model, DetrConfig):
        small = {"image": 16, "width": 16, "encoder_layers": 2, "decoder_layers": 2, "heads": 4, "inner": 32}
        return replace(model, classes=5, queries=6, **small)
    if isinstance(model, DeckConfig):
        return replace(model, vocab=vocab, context=24, width=16)
    if isinstance(model, ConvnetConfig):
        return replace(model, classes=5, widths=(6, 8), blocks=2)
    if isinstance(model, VectorTransformerConfig):
        return replace(model, outputs=5, width=16, layers=2, heads=4, inner=32)
    if isinstance(model, CaptionerRnnConfig):
        small = replace(model, vocab=vocab, image=16, widths=(6, 8), width=8)
        return replace(small, decoder=replace(model.decoder, hidden=12))
    if isinstance(model, CaptionerVitConfig):
        patch = model.patch if isinstance(model.patches, Hybrid) else 4  # a hybrid's follows from its blocks
        sizes = {"image": 16, "patch": patch, "width": 16, "heads": 4, "inner": 32}
        return replace(model, vocab=vocab, context=24, encoder_layers=2, decoder_layers=2, **sizes)
    if isinstance(model, SpeechCtcConfig | SpeechTransformerConfig):
        return replace(model, vocab=vocab, bands=12, width=16, encoder_layers=2, heads=4, inner=32)
    assert isinstance(model, RnnSeq2SeqConfig)
    sides = {side: replace(getattr(model, side), hidden=12) for side in ("encoder", "decoder")}
    return replace(model, vocab=vocab, source_vocab=None, width=8, **sides)


def task_of(model: ModelConfig) -> TaskConfig:
    if isinstance(model, VitConfig | ConvnetConfig):
        return Classification(size=16)
    if isinstance(model, CaptionerRnnConfig | CaptionerVitConfig):
        return Captioning(size=16, max_length=24)
    if isinstance(model, PoseConfig):
        return PoseEstimation(size=16)
    if isinstance(model, DetrConfig):
        return Detection(size=16)
    if isinstance(model, SpeechCtcConfig | SpeechTransformerConfig):
        return Transcription(sound=LogMel(rate=8000, window=256, hop=128, bands=12), max_length=24)
    if isinstance(model, VectorTransformerConfig):
        return Vectors()
    if isinstance(model, GptConfig | RnnLmConfig):
        return Language(context=24)
    if isinstance(model, LongformerMaskedConfig):
        return Masked(length=24, rows="running")
    if isinstance(model, TextClassifierConfig):
        return TextClassification(length=24)
    if isinstance(model, TokenClassifierConfig):
        return QuestionAnswering(length=24, question=8, stride=8) if model.classes == 2 else Tagging(length=24)
    if isinstance(model, BertConfig):
        return Embedding(max_length=24)
    masked = isinstance(model, BertPretrainingConfig | UniversalBertPretrainingConfig | DeckConfig)
    return Masked(length=24) if masked else Translation(max_length=24)


def write_run(folder: Path, model: ModelConfig, *, stir: float = 0.1, spec: str = "nowhere") -> Path:
    """A run of a model's parts at this size, its weights moved by `stir` so that none is zero."""
    specials = (*SPECIALS, MASK)
    tokenizer = Tokenizer.train(Word(), [WORDS], specials=specials)
    model = shrunk(model, tokenizer.size)
    wordless = isinstance(model, VitConfig | ConvnetConfig | PoseConfig | DetrConfig | VectorTransformerConfig)
    data = DataConfig(spec=spec, classes=tuple("abcde") if wordless else ())
    config = RunConfig(task=task_of(model), data=data, model=model, train=TrainConfig(average=0))
    write_run_files(folder, config, {} if wordless else {ONE_TOKENIZER: tokenizer.to_json()})
    weights = build_model(model, seed=1).state_dict()
    generator = torch.Generator().manual_seed(2)
    weights = {name: _stirred(x, stir, generator) for name, x in weights.items()}
    save(folder, weights)
    return folder


def _stirred(x: torch.Tensor, stir: float, generator: torch.Generator) -> torch.Tensor:
    """Moved by noise; the steps that BatchNorm counts stay."""
    return x + stir * torch.randn(x.shape, generator=generator) if x.is_floating_point() else x


def save(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    """Make these the weights of the run's newest checkpoint."""
    checkpoints = Checkpoints(folder)
    step = max([0, *checkpoints.steps()]) + 1
    checkpoints.save(step, {name: x.contiguous() for name, x in weights.items()}, {}, {})


def found_in(folder: Path) -> dict[str, Finding]:
    """Every finding of `verify` by the name of its check."""
    subject = verification_subject(headway.load(folder, device="cpu"))
    return {finding.check.name: finding for finding in verify(subject, measure_baseline(subject))}


def bugs(folder: Path) -> set[str]:
    return {name for name, finding in found_in(folder).items() if finding.verdict == "bug"}
