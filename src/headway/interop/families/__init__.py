"""The model families that can be imported and exported, by config.json's `model_type`."""

from __future__ import annotations

from typing import Any

from headway.errors import ConfigError
from headway.interop.families.bart import BART
from headway.interop.families.bert import BERT
from headway.interop.families.gpt2 import GPT2
from headway.interop.families.llama import LLAMA
from headway.interop.families.longformer import LONGFORMER
from headway.interop.families.marian import MARIAN
from headway.interop.families.roformer import ROFORMER
from headway.interop.families.timm import TIMM
from headway.interop.families.vit import VIT
from headway.interop.family import Family
from headway.models import ModelConfig

FAMILIES: dict[str, Family[Any]] = {
    family.name: family for family in (GPT2, BERT, ROFORMER, LONGFORMER, VIT, TIMM, MARIAN, BART, LLAMA)
}


def export_family(config: ModelConfig) -> Family[Any]:
    """The family a model is exported as. Raises ConfigError if no family fits; `Family.write` checks the settings."""
    for family in FAMILIES.values():
        if family.matches(config):
            return family
    kind = type(config).__name__.removesuffix("Config")
    raise ConfigError(f"a model of kind {kind} has no equivalent among {', '.join(FAMILIES)}")


__all__ = ["FAMILIES", "export_family"]
