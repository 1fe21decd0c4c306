"""The families of models that can be taken up and handed out, by config.json's `model_type`."""

from __future__ import annotations

from headway.errors import ConfigError
from headway.interop.families.bart import BART
from headway.interop.families.bert import BERT, encoder_of
from headway.interop.families.gpt2 import GPT2
from headway.interop.families.llama import LLAMA
from headway.interop.families.longformer import LONGFORMER
from headway.interop.families.marian import MARIAN
from headway.interop.families.roformer import ROFORMER
from headway.interop.families.timm import TIMM
from headway.interop.families.vit import VIT
from headway.interop.family import Family
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    EncoderDecoderConfig,
    GptConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    ModelConfig,
    VitConfig,
)
from headway.nn.positions import Learned, Rotary

FAMILIES: dict[str, Family] = {
    family.name: family for family in (GPT2, BERT, ROFORMER, LONGFORMER, VIT, TIMM, MARIAN, BART, LLAMA)
}


def nearest(model: ModelConfig) -> Family:
    """The family a model of ours is handed out as. Raises ConfigError where there is none; `write` looks closer."""
    if isinstance(model, GptConfig):
        return LLAMA if isinstance(model.position, Rotary) else GPT2
    if isinstance(model, BertConfig | BertPretrainingConfig):
        return ROFORMER if isinstance(encoder_of(model).position, Rotary) else BERT
    if isinstance(model, EncoderDecoderConfig):
        return BART if isinstance(model.position, Learned) else MARIAN
    if isinstance(model, LongformerConfig | LongformerMaskedConfig):
        return LONGFORMER
    if isinstance(model, VitConfig):
        return VIT
    kind = type(model).__name__.removesuffix("Config")
    raise ConfigError(f"a model of kind {kind} has no equivalent among {', '.join(FAMILIES)}")


__all__ = ["FAMILIES", "nearest"]
