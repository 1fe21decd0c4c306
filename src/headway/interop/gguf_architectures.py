"""The architectures of GGUF files: which Hugging Face family each is, and how settings and tensors are called there.

To add one, add an entry to ARCHITECTURES; its family must be among those of `headway.interop.families`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# A setting of config.json -> the metadata key, below the name of the architecture.
SIZES = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
OPTIONAL = {
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rope_theta": "rope.freq_base",
}
# A tensor of the file -> its name in a Hugging Face folder; {i} is the layer. `.weight` and `.bias` are the same.
LLAMA_NAMES = {
    "token_embd": "model.embed_tokens",
    "blk.{i}.attn_norm": "model.layers.{i}.input_layernorm",
    "blk.{i}.attn_q": "model.layers.{i}.self_attn.q_proj",
    "blk.{i}.attn_k": "model.layers.{i}.self_attn.k_proj",
    "blk.{i}.attn_v": "model.layers.{i}.self_attn.v_proj",
    "blk.{i}.attn_output": "model.layers.{i}.self_attn.o_proj",
    "blk.{i}.ffn_norm": "model.layers.{i}.post_attention_layernorm",
    "blk.{i}.ffn_gate": "model.layers.{i}.mlp.gate_proj",
    "blk.{i}.ffn_up": "model.layers.{i}.mlp.up_proj",
    "blk.{i}.ffn_down": "model.layers.{i}.mlp.down_proj",
    "output_norm": "model.norm",
    "output": "lm_head",
}
GPT2_NAMES = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "blk.{i}.attn_norm": "transformer.h.{i}.ln_1",
    "blk.{i}.attn_qkv": "transformer.h.{i}.attn.c_attn",
    "blk.{i}.attn_output": "transformer.h.{i}.attn.c_proj",
    "blk.{i}.ffn_norm": "transformer.h.{i}.ln_2",
    "blk.{i}.ffn_up": "transformer.h.{i}.mlp.c_fc",
    "blk.{i}.ffn_down": "transformer.h.{i}.mlp.c_proj",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
QWEN3_NAMES = {
    **LLAMA_NAMES,
    "blk.{i}.attn_q_norm": "model.layers.{i}.self_attn.q_norm",
    "blk.{i}.attn_k_norm": "model.layers.{i}.self_attn.k_norm",
}
TIED_NAMES = {name: each for name, each in LLAMA_NAMES.items() if name != "output"}
GEMMA3_NAMES = {
    **{name: each for name, each in QWEN3_NAMES.items() if name != "output"},
    "blk.{i}.post_attention_norm": "model.layers.{i}.post_attention_layernorm",
    "blk.{i}.ffn_norm": "model.layers.{i}.pre_feedforward_layernorm",
    "blk.{i}.post_ffw_norm": "model.layers.{i}.post_feedforward_layernorm",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """How a file of one `general.architecture` becomes a config.json and tensors of a Hugging Face family."""

    family: str  # `model_type`
    hf_class: str  # `architectures`
    names: Mapping[str, str]
    sizes: Mapping[str, str] = field(default_factory=lambda: SIZES)  # must be there
    optional: Mapping[str, str] = field(default_factory=lambda: OPTIONAL)
    # Tensors whose rows llama.cpp has reordered for neighbouring pairs to be rotated -> the setting with their heads.
    interleaved: Mapping[str, str] = field(default_factory=dict)
    transposed: frozenset[str] = frozenset()  # matrices that the Hugging Face file has as (in, out)
    increased: frozenset[str] = frozenset()  # norms that llama.cpp stores with 1 added


ARCHITECTURES = {
    "llama": Architecture(
        family="llama",
        hf_class="LlamaForCausalLM",
        names=LLAMA_NAMES,
        interleaved={"blk.{i}.attn_q": "num_attention_heads", "blk.{i}.attn_k": "num_key_value_heads"},
    ),
    "gpt2": Architecture(
        family="gpt2",
        hf_class="GPT2LMHeadModel",
        names=GPT2_NAMES,
        sizes={
            "n_embd": "embedding_length",
            "n_layer": "block_count",
            "n_inner": "feed_forward_length",
            "n_head": "attention.head_count",
            "n_positions": "context_length",
            "layer_norm_epsilon": "attention.layer_norm_epsilon",
        },
        optional={},
        transposed=frozenset({"blk.{i}.attn_qkv", "blk.{i}.attn_output", "blk.{i}.ffn_up", "blk.{i}.ffn_down"}),
    ),
    "qwen2": Architecture(family="qwen2", hf_class="Qwen2ForCausalLM", names=LLAMA_NAMES),
    "qwen3": Architecture(family="qwen3", hf_class="Qwen3ForCausalLM", names=QWEN3_NAMES),
    "gemma": Architecture(
        family="gemma",
        hf_class="GemmaForCausalLM",
        names=TIED_NAMES,
        increased=frozenset({"blk.{i}.attn_norm", "blk.{i}.ffn_norm", "output_norm"}),
    ),
    "gemma3": Architecture(
        family="gemma3_text",
        hf_class="Gemma3ForCausalLM",
        names=GEMMA3_NAMES,
        optional={
            **OPTIONAL,
            "query_pre_attn_scalar": "attention.key_length",
            "sliding_window": "attention.sliding_window",
        },
        increased=frozenset(name for name in GEMMA3_NAMES if name.endswith("norm")),
    ),
}
