"""Gemma (2024): scaled embeddings, norms with gain 1 + weight, geglu; and the text model of Gemma 3 (2025)."""

from __future__ import annotations

from headway.interop.config_json import ConfigFields
from headway.interop.families.layer_types import read_types, write_types
from headway.interop.families.llama_like import Dialect, family
from headway.models import GptConfig
from headway.nn.norms import RMSNorm

SIZES = {
    "vocab_size": 256000,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
    "tie_word_embeddings": True,
}
GEMMA3_SIZES = {
    **SIZES,
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
    "query_pre_attn_scalar": 256,
    "rope_theta": 1_000_000.0,
}
ATTENTION = ("attention_bias", "attention_bias", False)  # fields that say which parts have biases


def centred(model: GptConfig) -> bool:
    """Whether norms have a gain of 1 + weight."""
    return isinstance(model.norm, RMSNorm) and model.norm.centred


def slides(fields: ConfigFields, layers: int) -> list[bool]:
    """Every sixth layer sees all, unless the file says otherwise."""
    pattern = fields.size("sliding_window_pattern", 6)
    return read_types(fields, [(layer + 1) % pattern > 0 for layer in range(layers)])


GEMMA = family(
    Dialect(
        name="gemma",
        title="Gemma",
        architectures=("GemmaForCausalLM", "GemmaModel"),
        exports=centred,
        defaults=SIZES,
        activation="geglu_tanh",
        activation_names=("gelu_pytorch_tanh", "gelu"),  # transformers reads "gelu" as the approximation, too
        biases=ATTENTION,
        centred=True,
        scaled=True,
        only={"use_bidirectional_attention": False},
    )
)
GEMMA3 = family(
    Dialect(
        name="gemma3_text",
        title="Gemma 3",
        architectures=("Gemma3ForCausalLM", "Gemma3TextModel"),
        exports=lambda model: model.place == "sandwich",
        defaults=GEMMA3_SIZES,
        activation="geglu_tanh",
        activation_names=("gelu_pytorch_tanh",),
        activation_field="hidden_activation",
        biases=ATTENTION,
        slides=slides,
        write_slides=lambda slides: {"layer_types": write_types(slides)},
        local_base=10_000.0,
        centred=True,
        scaled=True,
        qk_norm=True,
        place="sandwich",
        scale_field="query_pre_attn_scalar",
        only={
            "use_bidirectional_attention": False,
            "final_logit_softcapping": None,
            "attn_logit_softcapping": None,
        },
    )
)
