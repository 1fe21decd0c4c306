"""The names of the tensors of Llama and its kin, and how their rotated rows are ordered."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from headway.interop.family import Names, WeightMapping, map_weights
from headway.models import GptConfig
from headway.nn.positions import Rotary

_OURS, _THEIRS = "stack.blocks.{i}.", "model.layers.{i}."
NAMES: Names = {
    "embedding": ("model.embed_tokens",),
    _OURS + "attention_norm": (_THEIRS + "input_layernorm",),
    _OURS + "attention.qkv": tuple(f"{_THEIRS}self_attn.{x}_proj" for x in "qkv"),
    _OURS + "attention.q_norm": (_THEIRS + "self_attn.q_norm",),
    _OURS + "attention.k_norm": (_THEIRS + "self_attn.k_norm",),
    _OURS + "attention.out": (_THEIRS + "self_attn.o_proj",),
    _OURS + "feedforward_norm": (_THEIRS + "post_attention_layernorm",),
    _OURS + "feedforward.up": (_THEIRS + "mlp.gate_proj", _THEIRS + "mlp.up_proj"),
    _OURS + "feedforward.down": (_THEIRS + "mlp.down_proj",),
    "stack.output_norm": ("model.norm",),
    "head": ("lm_head",),
}
SANDWICH: Names = {
    **NAMES,
    _OURS + "attention_output_norm": (_THEIRS + "post_attention_layernorm",),
    _OURS + "feedforward_norm": (_THEIRS + "pre_feedforward_layernorm",),
    _OURS + "feedforward_output_norm": (_THEIRS + "post_feedforward_layernorm",),
}


def mappings(model: GptConfig) -> list[WeightMapping]:
    """The weights; queries and keys of interleaved rotary positions are reordered into halves."""
    found = map_weights(model, SANDWICH if model.place == "sandwich" else NAMES)
    if not isinstance(model.position, Rotary) or model.position.layout == "halves":
        return found
    within, rows = _halves(model)
    orders = {"qkv": rows, "q_norm": within, "k_norm": within}
    return [replace(mapping, row_order=orders.get(mapping.name.split(".")[-2])) for mapping in found]


def _halves(model: GptConfig) -> tuple[Tensor, Tensor]:
    """Which feature of an interleaved head, and which row of all heads, is the n-th of the file's, in halves."""
    attention = model.stack.block.attention
    width, groups = attention.head_width, attention.groups
    within = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    rotated = (torch.arange(model.heads + groups)[:, None] * width + within).flatten()
    return within, torch.cat([rotated, torch.arange(len(rotated), len(rotated) + groups * width)])


def canonical(name: str, model: GptConfig) -> str:
    """A file of the model without its head leaves `model.` out."""
    return name if name.startswith(("model.", "lm_head.")) else f"model.{name}"
