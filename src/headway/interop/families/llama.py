"""Llama (Touvron et al. 2023) and Mistral (Jiang et al. 2023), a Llama whose layers see a window of tokens."""

from __future__ import annotations

from typing import Any

from headway.interop.config_json import expect
from headway.interop.families.llama_like import Dialect, family

SIZES = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA = family(
    Dialect(
        name="llama",
        title="Llama",
        architectures=("LlamaForCausalLM", "LlamaModel"),
        exports=lambda model: True,
        defaults=SIZES,
        only={"pretraining_tp": 1},
    )
)


def write_slides(slides: list[bool]) -> dict[str, Any]:
    """Mistral's layers all have a window, or none has."""
    expect("Mistral", windows=("in some layers" if len(set(slides)) > 1 else "in all", "in all"))
    return {} if all(slides) else {"sliding_window": None}


MISTRAL = family(
    Dialect(
        name="mistral",
        title="Mistral",
        architectures=("MistralForCausalLM", "MistralModel"),
        exports=lambda model: model.windows is not None,
        defaults={
            **SIZES,
            "intermediate_size": 14336,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131072,
            "sliding_window": 4096,
        },
        biases=(False, False, False),
        slides=lambda fields, layers: [fields.present("sliding_window")] * layers,
        write_slides=write_slides,
    )
)
