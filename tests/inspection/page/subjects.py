"""A page of every kind of run, of tiny seeded models that were never trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from headway.data.tokenizers import MASK, SPECIALS, Tokenizer, Word
from headway.inspection.page.captioning import caption_page
from headway.inspection.page.language import language_page
from headway.inspection.page.masked import masked_page
from headway.inspection.page.payload import Subject
from headway.inspection.page.translation import translation_page
from headway.inspection.page.vision import vision_page
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    CaptionerRnnConfig,
    CaptionerVitConfig,
    DeckConfig,
    EncoderDecoderConfig,
    GptConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    RnnLmConfig,
    RnnSeq2SeqConfig,
    UniversalConfig,
    VitConfig,
    build_model,
)
from headway.nn.adaptive_computation import Adaptive
from headway.nn.longformer_attention import Windows
from headway.nn.patches import Shifted
from headway.nn.positions import T5, AlibiBias, Learned, Rotary, Shaw
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig
from headway.tasks.captioning.training import Captioning, CaptioningTask
from headway.tasks.image_classification.training import Classification
from headway.tasks.translation.traces import Readers
from headway.tasks.translation.training import Decoding, Translation, TranslationTask
from headway.tasks.translation.translator import Translator

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


def language(line: str = LINE, **changes: Any) -> Payload:
    tokenizer = words(line)
    config = replace(GptConfig(vocab=tokenizer.size, context=64, width=32, layers=2, heads=4), **changes)
    tokens = torch.tensor([tokenizer.encode(line)])
    subject = Subject(kind="language", run="runs/tiny", given=line, steps=(10,))
    return language_page(spread(build_model(config)), tokenizer, tokens, subject)


def recurrent_language() -> Payload:
    tokenizer = words()
    model = build_model(RnnLmConfig(vocab=tokenizer.size, width=16, recurrent=RecurrentConfig(cell="lstm", hidden=16)))
    subject = Subject(kind="language", run="runs/tiny", given=LINE)
    return language_page(model.eval(), tokenizer, torch.tensor([tokenizer.encode(LINE)]), subject)


def translated(config: Any, line: str = LINE) -> Payload:
    tokenizer = words(line)
    model = spread(build_model(replace(config, vocab=tokenizer.size)))
    task = TranslationTask(Translation(max_extra=1), tokenizer, tokenizer, {}, batch_tokens=1, seed=0)
    traces: list[Any] = []
    Translator(task, model, torch.device("cpu"), Decoding(beam=3), keep=traces.append).translate([line])
    subject = Subject(kind="translation", run="runs/tiny", given=line, said=traces[0].texts[0])
    return translation_page(model, Readers(tokenizer, tokenizer), traces[0], subject)


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
    subject = Subject(kind="masked", run="runs/tiny", given="the small <mask> sees")
    model = spread(build_model(BertPretrainingConfig(bert=config)))
    return masked_page(model, tokenizer, "the small <mask> sees", subject)


def deck() -> Payload:
    tokenizer = words()
    model = spread(build_model(DeckConfig(vocab=tokenizer.size, context=32, width=16)))
    return masked_page(model, tokenizer, LINE, Subject(kind="masked", run="runs/tiny", given=LINE))


def longformer() -> Payload:
    tokenizer = words()
    config = LongformerConfig(
        vocab=tokenizer.size, context=32, width=32, layers=2, heads=4, inner=32, windows=Windows(radius=2)
    )
    model = spread(build_model(LongformerMaskedConfig(longformer=config)))
    subject = Subject(kind="masked", run="runs/tiny", given=LINE)
    return masked_page(model, tokenizer, LINE, subject, marked=(0, 3))


def pixels(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(3).integers(0, 255, (3, size, size)).astype(np.uint8)


def vit() -> Payload:
    config = VitConfig(
        classes=5, image=16, patch=4, patches=Shifted(), width=32, layers=2, heads=4, inner=32, local=True,
        start="small-data",
    )  # fmt: skip
    subject = Subject(kind="image", run="runs/tiny", given="photo.png", said="cat")
    names = ("cat", "dog", "bird", "fish", "<b>none</b>")
    return vision_page(spread(build_model(config)), Classification(size=16), names, pixels(16), subject)


def captioned(config: Any) -> Payload:
    tokenizer = words()
    task = CaptioningTask(Captioning(size=16, max_length=6), tokenizer, {}, batch_tokens=1, seed=0)
    model = spread(build_model(replace(config, vocab=tokenizer.size)))
    return caption_page(model, task, pixels(16), Subject(kind="caption", run="runs/tiny", given="photo.png"))


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
    "image": vit,
    "caption": captioner_vit,
    "caption, recurrent": captioner_rnn,
}
