"""The model families that can be imported and exported, by config.json's `model_type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.errors import ConfigError
from headway.interop.families.bart import BART
from headway.interop.families.bert import BERT
from headway.interop.families.distilbert import DISTILBERT
from headway.interop.families.gemma import GEMMA, GEMMA3
from headway.interop.families.gpt2 import GPT2
from headway.interop.families.heads import HEADED, Kind
from headway.interop.families.llama import LLAMA, MISTRAL
from headway.interop.families.longformer import LONGFORMER
from headway.interop.families.marian import MARIAN
from headway.interop.families.modernbert import MODERNBERT
from headway.interop.families.qwen import QWEN2, QWEN3
from headway.interop.families.roberta import ROBERTA
from headway.interop.families.roformer import ROFORMER
from headway.interop.families.t5 import T5
from headway.interop.families.timm import TIMM
from headway.interop.families.vit import VIT
from headway.interop.family import Family, GenerationTokens
from headway.models import ModelConfig
from headway.tasks.export_request import Head

# Of several that match a config, the first that can write it is exported to.
_DECODERS = (GPT2, GEMMA3, GEMMA, QWEN3, QWEN2, MISTRAL, LLAMA)
_ENCODERS = (ROBERTA, BERT, DISTILBERT, MODERNBERT, ROFORMER, LONGFORMER)
_BOTH = (T5, MARIAN, BART)  # encoder and decoder
FAMILIES: dict[str, Family[Any]] = {family.name: family for family in (*_DECODERS, *_ENCODERS, VIT, TIMM, *_BOTH)}


def family_of(config: Mapping[str, Any]) -> Family[Any] | None:
    """The family of a config.json: by its architecture where that has a head, else by its model_type; None: unknown."""
    names, kind = config.get("architectures"), config.get("model_type")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
    if name in HEADED and HEADED[name][1].name == kind:
        return HEADED[name][1]
    return FAMILIES.get(kind) if isinstance(kind, str) else None


def architectures_of(kind: str) -> tuple[str, ...]:
    """The architectures of a model_type that can be imported."""
    return (*FAMILIES[kind].architectures, *(name for name, (_, family) in HEADED.items() if family.name == kind))


def export_families(config: ModelConfig, *, head: Head | None = None) -> list[Family[Any]]:
    """The families a model may be exported as. Raises ConfigError if none fits; `Family.write` checks the settings.

    `head`: what the outputs of a classifier are, if not classes of a text or of its tokens.
    """
    kinds: tuple[Kind, ...] = ("text", "tokens") if head is None else (head,)
    headed = [family for kind, family in HEADED.values() if kind in kinds]
    found = [family for family in (*FAMILIES.values(), *headed) if family.matches(config)]
    if not found:
        kind = type(config).__name__.removesuffix("Config")
        raise ConfigError(
            f"a model of kind {kind} has no equivalent in Hugging Face's transformers and cannot be exported, nor as "
            "ONNX; the run itself works in Python: headway.load(RUN)"
        )
    return found


def export_config(
    config: ModelConfig, tokens: GenerationTokens, *, head: Head | None = None
) -> tuple[Family[Any], dict[str, Any]]:
    """The family a model is exported as, and its config.json. Raises ConfigError as the first family does."""
    families, refused = export_families(config, head=head), []
    for family in families:
        try:
            return family, {"model_type": family.name, **family.write(config, tokens)}
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


def export_refusal(config: ModelConfig) -> str:
    """Why no family can write a model of this config, with any head and any special tokens; empty if one can."""
    tokens = GenerationTokens(start=0, stop=(0,), pad=0)
    heads: tuple[Head | None, ...] = (None, "span", "choice")
    refusal = ""
    for head in heads:
        try:
            export_config(config, tokens, head=head)
        except ConfigError as error:
            refusal = refusal or str(error)
        else:
            return ""
    return refusal


def can_export(config: ModelConfig) -> bool:
    """Whether some family can write a model of this config."""
    return not export_refusal(config)


__all__ = [
    "FAMILIES",
    "architectures_of",
    "can_export",
    "export_config",
    "export_families",
    "export_refusal",
    "family_of",
]
