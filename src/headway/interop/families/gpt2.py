"""GPT-2 (Radford et al. 2019): pre-norm, learned positions, Conv1D matrices stored as (in, out)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.errors import ConfigError
from headway.interop.config_json import ACTIVATIONS, ConfigFields, expect, written_activation
from headway.interop.family import Family, GenerationTokens, Imported, Names, Shape, WeightMapping, map_weights
from headway.models import GptConfig
from headway.nn.norms import LayerNorm
from headway.nn.positions import Learned, Rotary
from headway.tasks.language_modelling.config import Language

NAMES: Names = {
    "embedding": ("transformer.wte",),
    "stack.input_positions.table": ("transformer.wpe.weight",),
    "stack.blocks.{i}.attention_norm": ("transformer.h.{i}.ln_1",),
    "stack.blocks.{i}.attention.qkv": ("transformer.h.{i}.attn.c_attn",),
    "stack.blocks.{i}.attention.out": ("transformer.h.{i}.attn.c_proj",),
    "stack.blocks.{i}.feedforward_norm": ("transformer.h.{i}.ln_2",),
    "stack.blocks.{i}.feedforward.up": ("transformer.h.{i}.mlp.c_fc",),
    "stack.blocks.{i}.feedforward.down": ("transformer.h.{i}.mlp.c_proj",),
    "stack.output_norm": ("transformer.ln_f",),
    "head": ("lm_head",),
}


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """GPT-2's config.json as a decoder-only model."""
    fields = ConfigFields(config)
    fields.only(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        reorder_and_upcast_attn=False,
        add_cross_attention=False,
    )
    vocab, context = fields.size("vocab_size", 50257), fields.size("n_positions", 1024)
    width = fields.size("n_embd", 768)
    model = GptConfig(
        vocab=vocab,
        context=context,
        width=width,
        layers=fields.layers("n_layer", 12),
        heads=fields.heads("n_head", 12, width, "n_embd"),
        inner=None if config.get("n_inner") is None else fields.size("n_inner", 4 * width),
        norm=LayerNorm(eps=fields.number("layer_norm_epsilon", 1e-5, above=0)),
        activation=fields.choice("activation_function", "gelu_new", ACTIVATIONS),
        tied=fields.flag("tie_word_embeddings", True),
        dropout=fields.probability("resid_pdrop", 0.1),
    )
    start = fields.id("bos_token_id", 50256 if vocab > 50256 else None, vocab)
    stop = fields.ids("eos_token_id", 50256 if vocab > 50256 else None, vocab)
    return Imported(
        model=model,
        task=Language(context=context),
        tokens=GenerationTokens(start=start, stop=stop, pad=fields.id("pad_token_id", None, vocab)),
    )


def write(model: GptConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """GPT-2's config.json for a decoder-only model with GPT-2's parts."""
    if not isinstance(model.norm, LayerNorm):
        raise ConfigError(f"GPT-2 has no equivalent of norm={model.norm!r}, only of LayerNorm")
    expect(
        "GPT-2",
        windows=(model.windows, None),
        scaled=(model.scaled, False),
        position=(model.position, Learned()),
        kv_heads=(model.kv_heads or model.heads, model.heads),
        head_dim=(model.head_dim, None),
        place=(model.place, "pre"),
        qk_norm=(model.qk_norm, False),
        scale=(model.scale, None),
    )
    return {
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": model.vocab,
        "n_positions": model.context,
        "n_embd": model.width,
        "n_layer": model.layers,
        "n_head": model.heads,
        "n_inner": model.inner,
        "activation_function": written_activation("GPT-2", model.activation),
        "layer_norm_epsilon": model.norm.eps,
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": model.dropout,
        "initializer_range": model.init_std,
        "tie_word_embeddings": model.tied,
        "bos_token_id": tokens.start,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad,
    }


def mappings(model: GptConfig) -> list[WeightMapping]:
    """The weights; Conv1D stores (in, out)."""
    return map_weights(model, NAMES, transposed=lambda name: ".c_" in name)


def canonical(name: str, model: GptConfig) -> str:
    """The released files leave `transformer.` out."""
    return name if name.startswith(("transformer.", "lm_head.")) else f"transformer.{name}"


def ignored(name: str) -> bool:
    """The causal masks of older files."""
    return name.endswith((".attn.bias", ".attn.masked_bias"))


def copies(model: GptConfig) -> dict[str, str]:
    """The file may hold the tied matrix a second time, as the head."""
    return {"lm_head.weight": "transformer.wte.weight"} if model.tied else {}


def with_all_biases(model: GptConfig) -> GptConfig:
    """GPT-2 has a bias everywhere but in its head."""
    assert isinstance(model.norm, LayerNorm)
    return replace(model, bias=True, qkv_bias=None, out_bias=None, norm=replace(model.norm, bias=True))


GPT2 = Family(
    name="gpt2",
    configs=(GptConfig,),
    exports=lambda model: not isinstance(model.position, Rotary),
    generates=True,
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    read=read,
    write=write,
    mappings=mappings,
    canonical=canonical,
    ignored=ignored,
    copies=copies,
    with_all_biases=with_all_biases,
)
