"""timm's vision transformers, whose config.json names an architecture and leaves the sizes to the tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import FILE, ConfigFields
from headway.interop.families.vit import fitted
from headway.interop.family import Family, GenerationTokens, Imported, Names, Shape, WeightMapping, map_weights
from headway.models import VitConfig

_OURS, _THEIRS = "stack.blocks.{i}.", "blocks.{i}."
NAMES: Names = {
    "class_token": ("cls_token",),
    "positions": ("pos_embed",),
    "patches.projection": ("patch_embed.proj",),
    _OURS + "attention_norm": (_THEIRS + "norm1",),
    _OURS + "attention.qkv": (_THEIRS + "attn.qkv",),
    _OURS + "attention.out": (_THEIRS + "attn.proj",),
    _OURS + "feedforward_norm": (_THEIRS + "norm2",),
    _OURS + "feedforward.up": (_THEIRS + "mlp.fc1",),
    _OURS + "feedforward.down": (_THEIRS + "mlp.fc2",),
    "stack.output_norm": ("norm",),
    "head": ("head",),
}
HEADS = {"tiny": 3, "small": 6, "base": 12, "large": 16, "huge": 16}  # which no tensor shows
_NAME = re.compile(r"vit_(tiny|small|base|large|huge)_patch\d+_(\d+)")


def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
    """timm's config.json and the shapes of its tensors as a classifier of images."""
    name = config.get("architecture")
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise BadModelError(f"{FILE}: architecture={name!r}, there are vit_{{{','.join(HEADS)}}}_patchN_N")
    ConfigFields(config).only(global_pool="token")
    given = config.get("pretrained_cfg")
    size = given.get("input_size") if isinstance(given, Mapping) else None
    side = size[1] if isinstance(size, list) and len(size) == 3 and size[1] == size[2] else int(found[2])
    try:
        width, channels, patch, _ = shapes["patch_embed.proj.weight"]
        inner, classes = shapes["blocks.0.mlp.fc1.weight"][0], shapes["head.weight"][0]
    except (KeyError, ValueError, IndexError) as error:
        raise BadModelError(f"{FILE}: the tensors of {name} are not a vision transformer's ({error})") from None
    model = VitConfig(
        classes=classes,
        image=ConfigFields({"input_size": side}).size("input_size", 224, most=2**16),
        channels=channels,
        patch=patch,
        width=width,
        layers=1 + max(int(each.split(".")[1]) for each in shapes if re.match(r"blocks\.\d{1,4}\.", each)),
        heads=HEADS[found[1]],
        inner=inner,
        qkv_bias="blocks.0.attn.qkv.bias" in shapes,
    )
    return Imported(model=model, task=None, classes=model.classes)


def write(model: VitConfig, tokens: GenerationTokens) -> dict[str, Any]:
    """Raise ConfigError: a ViT is exported in Hugging Face format."""
    raise ConfigError("export to timm is not supported; ViTs export in Hugging Face format")


def mappings(model: VitConfig) -> list[WeightMapping]:
    """The weights."""
    return [fitted(mapping, model.patch) for mapping in map_weights(model, NAMES)]


TIMM = Family(
    name="timm",
    configs=(VitConfig,),
    architectures=(),
    read=read,
    write=write,
    mappings=mappings,
    exports=lambda model: False,
    image_shape=lambda model: (model.channels, *model.size),
)
