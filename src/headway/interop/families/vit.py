"""The vision transformer with a classifier (FACTS §14), under the names of Hugging Face's files or of its code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.family import Family, Imported, Names, Part, Shape, Tokens, parts_of
from headway.interop.fields import ACTIVATIONS, FILE, Fields, expect, written_activation
from headway.models import ModelConfig, VitConfig
from headway.nn.norms import LayerNorm
from headway.nn.patches import Patches

_OURS, _THEIRS = "stack.blocks.{i}.", "vit.encoder.layer.{i}."
NAMES: Names = {
    "class_token": ("vit.embeddings.cls_token",),
    "positions": ("vit.embeddings.position_embeddings",),
    "patches.projection": ("vit.embeddings.patch_embeddings.projection",),
    _OURS + "attention_norm": (_THEIRS + "layernorm_before",),
    _OURS + "attention.qkv": tuple(_THEIRS + f"attention.attention.{x}" for x in ("query", "key", "value")),
    _OURS + "attention.out": (_THEIRS + "attention.output.dense",),
    _OURS + "feedforward_norm": (_THEIRS + "layernorm_after",),
    _OURS + "feedforward.up": (_THEIRS + "intermediate.dense",),
    _OURS + "feedforward.down": (_THEIRS + "output.dense",),
    "stack.output_norm": ("vit.layernorm",),
    "head": ("classifier",),
}
# The modules of transformers 5 have other names than its files.
_IN_CODE = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """ViT's config.json as a classifier of images."""
    fields = Fields(config)
    width = fields.size("hidden_size", 768)
    model = VitConfig(
        classes=_classes(config, shapes),
        image=_side(config, "image_size", 224),
        channels=fields.size("num_channels", 3),
        patch=_patch(config),
        width=width,
        layers=fields.layers("num_hidden_layers", 12),
        heads=fields.heads("num_attention_heads", 12, width, "hidden_size"),
        inner=fields.size("intermediate_size", 3072),
        norm=LayerNorm(eps=fields.number("layer_norm_eps", 1e-12, above=0)),
        activation=fields.choice("hidden_act", "gelu", ACTIVATIONS),
        qkv_bias=fields.flag("qkv_bias", True),
        dropout=fields.probability("hidden_dropout_prob", 0.0),
    )
    return Imported(model=model, task=None)


def _classes(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> int:
    """As many as the classifier has rows; without one, as many as have names."""
    if "classifier.weight" in shapes:
        return shapes["classifier.weight"][0]
    labels = config.get("id2label")
    return len(labels) if isinstance(labels, Mapping) and labels else 2


def _side(config: Mapping[str, Any], name: str, default: int) -> int | tuple[int, int]:
    """Pixels a side, or height and width."""
    value = config.get(name, default)
    if not isinstance(value, list | tuple):
        return Fields(config).size(name, default, most=2**16)
    if len(value) != 2 or any(type(side) is not int or not 1 <= side <= 2**16 for side in value):
        raise BadModelError(f"{FILE}: {name}={value!r}, expected pixels a side, or height and width")
    return (value[0], value[1])


def _patch(config: Mapping[str, Any]) -> int:
    value = _side(config, "patch_size", 16)
    if isinstance(value, int):
        return value
    if value[0] != value[1]:
        raise BadModelError(f"{FILE}: patch_size={list(value)!r} has no equivalent here, only square patches")
    return value[0]


def write(model: ModelConfig, tokens: Tokens) -> dict[str, Any]:
    """ViT's config.json for a vision transformer with the paper's parts."""
    assert isinstance(model, VitConfig)
    if not isinstance(model.norm, LayerNorm):
        raise ConfigError(f"ViT has no equivalent of norm={model.norm!r}, only of LayerNorm")
    expect("ViT", pool=(model.pool, "class"), patches=(model.patches, Patches()), local=(model.local, False))
    return {
        "architectures": ["ViTForImageClassification"],
        "image_size": model.image if isinstance(model.image, int) else list(model.image),
        "patch_size": model.patch,
        "num_channels": model.channels,
        "hidden_size": model.width,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "intermediate_size": model.inner,
        "hidden_act": written_activation("ViT", model.activation),
        "layer_norm_eps": model.norm.eps,
        "qkv_bias": model.qkv_bias,
        "hidden_dropout_prob": model.dropout,
        "id2label": {str(n): f"LABEL_{n}" for n in range(model.classes)},
        "label2id": {f"LABEL_{n}": n for n in range(model.classes)},
    }


def parts(model: ModelConfig) -> list[Part]:
    """Every tensor of the model; the patches' linear layer is a convolution there."""
    assert isinstance(model, VitConfig)
    return [fitted(part, model.patch) for part in parts_of(model, NAMES)]


def fitted(part: Part, patch: int) -> Part:
    """A part as both Hugging Face and timm lay it out: a batch dimension of 1, patches as a convolution."""
    if part.ours == "patches.projection.weight":
        return replace(part, patch=patch)
    return replace(part, flat={"class_token": 2, "positions": 1}.get(part.ours, 0))


def canonical(name: str, model: ModelConfig) -> str:
    """The names of the files."""
    if not name.startswith("vit.layers."):
        return name
    name = re.sub(r"^vit\.layers\.", "vit.encoder.layer.", name)
    return next((name.replace(code, file) for code, file in _IN_CODE.items() if f".{code}." in name), name)


def full(model: ModelConfig) -> ModelConfig:
    """Their norms always shift."""
    assert isinstance(model, VitConfig)
    assert isinstance(model.norm, LayerNorm)
    return replace(model, norm=replace(model.norm, bias=True))


VIT = Family(
    name="vit",
    architectures=("ViTForImageClassification",),
    read=read,
    write=write,
    parts=parts,
    canonical=canonical,
    full=full,
)
