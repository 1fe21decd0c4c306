"""Llama (Touvron et al. 2023): pre-norm with RMSNorm, rotary positions, SwiGLU, grouped keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import FILE, ConfigFields, expect
from headway.interop.family import Family, GenerationTokens, Imported, Names, Shape, WeightMapping, map_weights
from headway.models import GptConfig
from headway.nn.norms import RMSNorm
from headway.nn.positions import Rotary
from headway.tasks.language_modelling.config import Language

NAMES: Names = {
    "embedding": ("model.embed_tokens",),
    "stack.blocks.{i}.attention_norm": ("model.layers.{i}.input_layernorm",),
    "stack.blocks.{i}.attention.qkv": tuple(f"model.layers.{{i}}.self_attn.{x}_proj" for x in "qkv"),
    "stack.blocks.{i}.attention.out": ("model.layers.{i}.self_attn.o_proj",),
    "stack.blocks.{i}.feedforward_norm": ("model.layers.{i}.post_attention_layernorm",),
    "stack.blocks.{i}.feedforward.up": ("model.layers.{i}.mlp.gate_proj", "model.layers.{i}.mlp.up_proj"),
    "stack.blocks.{i}.feedforward.down": ("model.layers.{i}.mlp.down_proj",),
    "stack.output_norm": ("model.norm",),
    "head": ("lm_head",),
}
BASE = 10000.0


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """Llama's config.json as a decoder-only model."""
    fields = ConfigFields(config)
    fields.only(hidden_act="silu", pretraining_tp=1)
    bias = fields.flag("attention_bias", False)
    if fields.flag("mlp_bias", False) != bias:
        raise BadModelError(f"{FILE}: mlp_bias={not bias} beside attention_bias={bias}: only both or none here")
    vocab, width = fields.size("vocab_size", 32000), fields.size("hidden_size", 4096)
    heads = fields.heads("num_attention_heads", 32, width, "hidden_size")
    fields.only(head_dim=width // heads)
    groups = heads
    if config.get("num_key_value_heads") is not None:
        groups = fields.heads("num_key_value_heads", heads, heads, "num_attention_heads")
    context = fields.size("max_position_embeddings", 2048)
    model = GptConfig(
        vocab=vocab,
        context=context,
        width=width,
        layers=fields.layers("num_hidden_layers", 32),
        heads=heads,
        kv_heads=None if groups == heads else groups,
        inner=fields.size("intermediate_size", 11008),
        position=Rotary(base=_rotary_base(fields), layout="halves"),
        norm=RMSNorm(eps=fields.number("rms_norm_eps", 1e-6, above=0)),
        activation="swiglu",
        bias=bias,
        tied=fields.flag("tie_word_embeddings", False),
    )
    tokens = GenerationTokens(
        start=fields.id("bos_token_id", 1, vocab),
        stop=fields.ids("eos_token_id", 2, vocab),
        pad=fields.id("pad_token_id", None, vocab),
    )
    return Imported(model=model, task=Language(context=context), tokens=tokens)


def _rotary_base(fields: ConfigFields) -> float:
    """The base of the angles, from where older or newer files keep it; scaled angles are not supported."""
    for name in ("rope_scaling", "rope_parameters"):
        given = fields.config.get(name)
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise BadModelError(f"{FILE}: {name}={given!r}, expected an object")
        kind = given.get("rope_type", given.get("type", "default"))
        if kind != "default" or given.get("partial_rotary_factor", 1.0) != 1.0:
            raise BadModelError(f"{FILE}: {name}={dict(given)!r} has no equivalent here, only rope_type 'default'")
        if "rope_theta" in given:
            return ConfigFields(given).number("rope_theta", BASE, above=0)
    return fields.number("rope_theta", BASE, above=0)


def write(model: GptConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """Llama's config.json for a decoder-only model with Llama's parts."""
    if not isinstance(model.position, Rotary):
        raise ConfigError(f"Llama has no equivalent of position={model.position!r}, only of Rotary")
    if not isinstance(model.norm, RMSNorm):
        raise ConfigError(f"Llama has no equivalent of norm={model.norm!r}, only of RMSNorm")
    plain = {"windows": (model.windows, None), "scaled": (model.scaled, False)}
    expect("Llama", **plain, activation=(model.activation, "swiglu"))
    return {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": model.vocab,
        "hidden_size": model.width,
        "intermediate_size": 4 * model.width if model.inner is None else model.inner,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads or model.heads,
        "head_dim": model.width // model.heads,
        "hidden_act": "silu",
        "max_position_embeddings": model.context,
        "initializer_range": model.init_std,
        "rms_norm_eps": model.norm.eps,
        "rope_theta": model.position.base,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.position.base},
        "attention_bias": model.bias,
        "mlp_bias": model.bias,
        "attention_dropout": model.dropout,
        "tie_word_embeddings": model.tied,
        "bos_token_id": tokens.start,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad,
    }


def mappings(model: GptConfig) -> list[WeightMapping]:
    """The weights; queries and keys of interleaved rotary positions are reordered into halves."""
    found = map_weights(model, NAMES)
    if not isinstance(model.position, Rotary) or model.position.layout == "halves":
        return found
    order = _halves(model)
    return [replace(mapping, row_order=order) if ".attention.qkv." in mapping.name else mapping for mapping in found]


def _halves(model: GptConfig) -> Tensor:
    """Which row of headway's interleaved queries, keys and values is the n-th of the file's, which are in halves."""
    width, groups = model.width // model.heads, model.kv_heads or model.heads
    within = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    rotated = (torch.arange(model.heads + groups)[:, None] * width + within).flatten()
    return torch.cat([rotated, torch.arange(len(rotated), len(rotated) + groups * width)])


def canonical(name: str, model: GptConfig) -> str:
    """A file of the model without its head leaves `model.` out."""
    return name if name.startswith(("model.", "lm_head.")) else f"model.{name}"


def ignored(name: str) -> bool:
    """Rotary frequencies, which older files store."""
    return name.endswith(".rotary_emb.inv_freq")


def copies(model: GptConfig) -> dict[str, str]:
    """The file may hold the tied matrix a second time, as the head."""
    return {"lm_head.weight": "model.embed_tokens.weight"} if model.tied else {}


LLAMA = Family(
    name="llama",
    configs=(GptConfig,),
    exports=lambda model: isinstance(model.position, Rotary),
    generates=True,
    architectures=("LlamaForCausalLM", "LlamaModel"),
    read=read,
    write=write,
    mappings=mappings,
    canonical=canonical,
    ignored=ignored,
    copies=copies,
)
