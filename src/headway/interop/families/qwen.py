"""Qwen2 (Yang et al. 2024), with biases on queries, keys and values; Qwen3 (2025), which normalises them instead."""

from __future__ import annotations

from typing import Any

from headway.interop.config_json import ConfigFields
from headway.interop.families.layer_types import read_types, write_types
from headway.interop.families.llama_like import Dialect, family
from headway.models import GptConfig

SIZES = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
}


def slides(fields: ConfigFields, layers: int) -> list[bool]:
    """Layers from `max_window_layers` on have a window, where `use_sliding_window` says so."""
    used = fields.flag("use_sliding_window", False) and fields.present("sliding_window")
    first = fields.integer("max_window_layers", 28)
    found = read_types(fields, [used and layer >= first for layer in range(layers)])
    if any(found) and not used:
        fields.fail("layer_types has sliding layers beside use_sliding_window=false")
    return found


def write_slides(slides: list[bool]) -> dict[str, Any]:
    """The same, written: `layer_types` for today's code, the number of layers for older."""
    first = slides.index(True) if True in slides else len(slides)
    return {"use_sliding_window": any(slides), "max_window_layers": first, "layer_types": write_types(slides)}


def qkv_alone(model: GptConfig) -> bool:
    """Whether queries, keys and values have biases and the attention's output has none."""
    attention = model.stack.block.attention
    return attention.bias and not attention.out_bias


QWEN2 = family(
    Dialect(
        name="qwen2",
        title="Qwen2",
        architectures=("Qwen2ForCausalLM", "Qwen2Model"),
        exports=qkv_alone,
        defaults=SIZES,
        biases=(True, False, False),
        slides=slides,
        write_slides=write_slides,
    )
)
QWEN3 = family(
    Dialect(
        name="qwen3",
        title="Qwen3",
        architectures=("Qwen3ForCausalLM", "Qwen3Model"),
        exports=lambda model: model.qk_norm,
        defaults={**SIZES, "head_dim": 128},
        biases=("attention_bias", "attention_bias", False),
        qk_norm=True,
        slides=slides,
        write_slides=write_slides,
    )
)
