"""A page of every kind of run, of tiny seeded models that were never trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image

from headway.data.log_mel import LogMel
from headway.data.synthetic.spoken_digits import spoken_digits
from headway.data.tokenizers import MASK, SPECIALS, Tokenizer, Word
from headway.inspection.page.payload import PageOptions, RunFacts, payload
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    CaptionerRnnConfig,
    CaptionerVitConfig,
    DeckConfig,
    DetrConfig,
    EncoderDecoderConfig,
    GptConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    PoseConfig,
    RnnLmConfig,
    RnnSeq2SeqConfig,
    SpeechCtcConfig,
    SpeechTransformerConfig,
    TextClassifierConfig,
    TokenClassifierConfig,
    UniversalConfig,
    VitConfig,
    build_model,
)
from headway.nn.adaptive_computation import Adaptive
from headway.nn.longformer_attention import Windows
from headway.nn.patches import Patches, Shifted
from headway.nn.positions import T5, AlibiBias, Learned, Rotary, Shaw
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig
from headway.tasks.base import Pipeline
from headway.tasks.captioning import Captioning
from headway.tasks.detection import Detection
from headway.tasks.encoder_explanation import explain_text
from headway.tasks.image_classification import Classification
from headway.tasks.language_modelling import Language
from headway.tasks.masked_lm import Masked
from headway.tasks.pose import PoseEstimation
from headway.tasks.question_answering import QuestionAnswering
from headway.tasks.text_classification import TextClassification
from headway.tasks.transcription import Transcription
from headway.tasks.translation import Translation
from tests.pipelines import pipeline_of
from tests.sounds import write_wav

LINE = "the small cat sees a red house near the garden"
Payload = dict[str, Any]


def words(line: str = LINE) -> Tokenizer:
    return Tokenizer.train(Word(), [line], specials=[*SPECIALS, MASK])


def spread(model: torch.nn.Module) -> torch.nn.Module:
    """The model with larger weights: an untrained one looks everywhere alike, and would hide a wrong score."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and parameter.std() < 0.1:
                parameter.mul_(3)
    return model.eval()


def page_payload(pipeline: Pipeline, given: str, **options: Any) -> Payload:
    facts = RunFacts(folder=str(pipeline.folder), task=pipeline.task.title, steps=pipeline.parts.steps)
    return payload(pipeline.model, pipeline.explain(given), facts, PageOptions(**options))


def language(line: str = LINE, **changes: Any) -> Payload:
    tokenizer = words(line)
    config = replace(GptConfig(vocab=tokenizer.size, context=64, width=32, layers=2, heads=4), **changes)
    return page_payload(pipeline_of(Language(), spread(build_model(config)), tokenizer, steps=(10,)), line)


def recurrent_language() -> Payload:
    tokenizer = words()
    model = build_model(RnnLmConfig(vocab=tokenizer.size, width=16, recurrent=RecurrentConfig(cell="lstm", hidden=16)))
    return page_payload(pipeline_of(Language(), model, tokenizer), LINE)


def translated(config: Any, line: str = LINE) -> Payload:
    tokenizer = words(line)
    model = spread(build_model(replace(config, vocab=tokenizer.size)))
    return page_payload(pipeline_of(Translation(max_extra=1, beam=3), model, tokenizer), line)


def translation(line: str = LINE) -> Payload:
    config = EncoderDecoderConfig(vocab=1, context=64, width=32, inner=32, heads=4, encoder_layers=2, decoder_layers=2)
    return translated(config, line)


def universal() -> Payload:
    return translated(UniversalConfig(vocab=1, width=32, inner=32, heads=4, halting=Adaptive(steps=4), dropout=0.0))


def recurrent() -> Payload:
    gru = RecurrentConfig(cell="gru", hidden=16)
    config = RnnSeq2SeqConfig(
        vocab=1, width=16, encoder=gru, decoder=gru, attention=AlignmentConfig(kind="additive", width=8),
        context=("input", "readout"), reverse_source=True,
    )  # fmt: skip
    return translated(config)


def bert() -> Payload:
    tokenizer = words()
    config = BertConfig(vocab=tokenizer.size, context=32, width=32, layers=2, heads=4, inner=32)
    model = spread(build_model(BertPretrainingConfig(bert=config)))
    return page_payload(pipeline_of(Masked(), model, tokenizer), "the small <mask> sees")


def deck() -> Payload:
    tokenizer = words()
    model = spread(build_model(DeckConfig(vocab=tokenizer.size, context=32, width=16)))
    return page_payload(pipeline_of(Masked(), model, tokenizer), LINE)


def longformer() -> Payload:
    tokenizer = words()
    config = LongformerConfig(
        vocab=tokenizer.size, context=32, width=32, layers=2, heads=4, inner=32, windows=Windows(radius=2)
    )
    model = spread(build_model(LongformerMaskedConfig(longformer=config)))
    return payload(model, explain_text(model, tokenizer, LINE, global_tokens=(0, 3)), RunFacts(folder="runs/tiny"))


def text_classifier() -> Payload:
    tokenizer = words()
    encoder = BertConfig(vocab=tokenizer.size, context=32, width=32, layers=2, heads=4, inner=32)
    model = spread(build_model(TextClassifierConfig(encoder=encoder, classes=2)))
    task = TextClassification(length=16)
    return page_payload(pipeline_of(task, model, tokenizer, classes=("good", "bad")), LINE)


def question_answerer() -> Payload:
    tokenizer = words()
    encoder = BertConfig(vocab=tokenizer.size, context=32, width=32, layers=2, heads=4, inner=32, pooler=False)
    config = TokenClassifierConfig(encoder=encoder, classes=2)
    task = QuestionAnswering(length=24, stride=8, question=8)
    pipeline = pipeline_of(task, spread(build_model(config)), tokenizer, config=config)
    return page_payload(pipeline, "the small cat sees a red house\tsees the cat a house")


def pixels(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(3).integers(0, 255, (3, size, size)).astype(np.uint8)


def photo_page(pipeline: Pipeline, size: int) -> Payload:
    """The page of an image file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "photo.png"
        Image.fromarray(pixels(size).transpose(1, 2, 0)).save(file)
        return page_payload(pipeline, str(file))


def vit() -> Payload:
    config = VitConfig(
        classes=5, image=16, patch=4, patches=Shifted(), width=32, layers=2, heads=4, inner=32, local=True,
        start="small-data",
    )  # fmt: skip
    names = ("cat", "dog", "bird", "fish", "<b>none</b>")
    return photo_page(pipeline_of(Classification(size=16), spread(build_model(config)), classes=names), 16)


def pose() -> Payload:
    config = PoseConfig(image=32, patch=8, width=32, layers=2, heads=4, inner=32)
    return photo_page(pipeline_of(PoseEstimation(size=32), spread(build_model(config))), 32)


def detector() -> Payload:
    config = DetrConfig(
        classes=2, queries=5, image=32, patch=8, patches=Patches(), width=32, encoder_layers=1, decoder_layers=2,
        heads=4, inner=32,
    )  # fmt: skip
    names = ("cat", "<b>none</b>")
    return photo_page(pipeline_of(Detection(size=32), spread(build_model(config)), classes=names), 32)


def captioned(config: Any) -> Payload:
    tokenizer = words()
    model = spread(build_model(replace(config, vocab=tokenizer.size)))
    return photo_page(pipeline_of(Captioning(size=16, max_length=6), model, tokenizer), 16)


def captioner_vit() -> Payload:
    config = CaptionerVitConfig(
        vocab=1, image=16, patch=4, width=32, encoder_layers=1, decoder_layers=2, heads=4, inner=32
    )
    return captioned(config)


def captioner_rnn() -> Payload:
    config = CaptionerRnnConfig(
        vocab=1, image=16, widths=(8, 8), width=16, decoder=RecurrentConfig(cell="lstm", hidden=16),
        attention=AlignmentConfig(width=8),
    )  # fmt: skip
    return captioned(config)


def transcript(config: Any) -> Payload:
    """The page of a spoken digit."""
    tokenizer = words()
    config = replace(config, vocab=tokenizer.size)
    task = Transcription(sound=LogMel(rate=8000, window=256, hop=128, bands=20), max_length=6)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "sound.wav"
        write_wav(file, spoken_digits(1, seed=3).waves[0][:4000], 8000)
        return page_payload(pipeline_of(task, spread(build_model(config)), tokenizer, config=config), str(file))


def speech_ctc() -> Payload:
    return transcript(SpeechCtcConfig(vocab=1, bands=20, width=32, encoder_layers=2, heads=4, inner=32))


def speech_transformer() -> Payload:
    return transcript(
        SpeechTransformerConfig(
            vocab=1, bands=20, strides=(2, 2), width=32, encoder_layers=1, decoder_layers=2, heads=4, inner=32
        )
    )


POSITIONS = {"learned": Learned(), "alibi": AlibiBias(), "rotary": Rotary(), "t5": T5(buckets=8, distance=16),
             "shaw": Shaw(reach=3)}  # fmt: skip
KINDS: dict[str, Callable[[], Payload]] = {
    **{f"language, {name}": (lambda kind=kind: language(position=kind)) for name, kind in POSITIONS.items()},
    "language, grouped heads": lambda: language(kv_heads=2, position=Rotary(layout="halves")),
    "language, recurrent": recurrent_language,
    "translation": translation,
    "translation, recurrent": recurrent,
    "universal": universal,
    "masked": bert,
    "deck": deck,
    "longformer": longformer,
    "text classifier": text_classifier,
    "answers": question_answerer,
    "pose": pose,
    "objects": detector,
    "image": vit,
    "caption": captioner_vit,
    "caption, recurrent": captioner_rnn,
    "transcript": speech_transformer,
    "transcript, CTC": speech_ctc,
}
