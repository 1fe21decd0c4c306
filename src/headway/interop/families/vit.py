"""The vision transformer (Dosovitskiy et al. 2021) with a classifier, by Hugging Face's names in files or in code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import ACTIVATIONS, FILE, ConfigFields, expect, written_activation
from headway.interop.family import Family, GenerationTokens, Imported, Names, Shape, WeightMapping, map_weights
from headway.models import VitConfig
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
    fields = ConfigFields(config)
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
    return Imported(model=model, task=None, classes=model.classes)


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
        return ConfigFields(config).size(name, default, most=2**16)
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


def write(model: VitConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """ViT's config.json for a vision transformer with the paper's parts."""
    if not isinstance(model.norm, LayerNorm):
        raise ConfigError(f"ViT has no equivalent of norm={model.norm!r}, only of LayerNorm")
    _expect_plain(model)
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


def _expect_plain(model: VitConfig) -> None:
    """Raise ConfigError, with the options to train with instead, for settings that only headway has."""
    settings = {"pool": (model.pool, "class"), "patches": (model.patches, Patches()), "local": (model.local, False)}
    written = {"pool": "class", "patches": "patches", "local": "false"}  # on the command line
    other = [f"--model.{name} {written[name]}" for name, (got, wanted) in settings.items() if got != wanted]
    try:
        expect("ViT", **settings)
    except ConfigError as error:
        raise ConfigError(f"{error}; train with {' '.join(other)} to export") from None


def mappings(model: VitConfig) -> list[WeightMapping]:
    """The weights; the patches' linear layer is a convolution in the file."""
    return [fitted(mapping, model.patch) for mapping in map_weights(model, NAMES)]


def fitted(mapping: WeightMapping, patch: int) -> WeightMapping:
    """A mapping as both Hugging Face and timm store it: a batch dimension of 1, patches as a convolution."""
    if mapping.name == "patches.projection.weight":
        return replace(mapping, patch=patch)
    return replace(mapping, unit_axes={"class_token": 2, "positions": 1}.get(mapping.name, 0))


def canonical(name: str, model: VitConfig) -> str:
    """The names of the files."""
    if not name.startswith("vit.layers."):
        return name
    name = re.sub(r"^vit\.layers\.", "vit.encoder.layer.", name)
    return next((name.replace(code, file) for code, file in _IN_CODE.items() if f".{code}." in name), name)


def with_all_biases(model: VitConfig) -> VitConfig:
    """Hugging Face's norms always have a bias."""
    assert isinstance(model.norm, LayerNorm)
    return replace(model, norm=replace(model.norm, bias=True))


VIT = Family(
    name="vit",
    configs=(VitConfig,),
    image_shape=lambda model: (model.channels, *model.size),
    architectures=("ViTForImageClassification",),
    read=read,
    write=write,
    mappings=mappings,
    canonical=canonical,
    with_all_biases=with_all_biases,
)
