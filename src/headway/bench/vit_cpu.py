"""ViT-B/16 on a CPU beside transformers' and timm's: in float32, and in the precision that `auto` picks."""

from __future__ import annotations

import copy
import sys
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from headway.bench.peers import peer
from headway.bench.result import Options, Report, Result, compare
from headway.interop.families import FAMILIES
from headway.interop.family import import_weights
from headway.models import Vit, VitConfig
from headway.nn.int8 import pack, quantise
from headway.runs.weights import pick_precision
from headway.storage.commit import set_weights

BATCHES = (1, 8)
ROUNDS = 5
MODEL = VitConfig(classes=1000)  # ViT-B/16


def run(options: Options) -> Report:
    """Forward passes of both in turns, the same weights and threads; how often 8 bits choose another class."""
    theirs = _transformers()
    ours = Vit(MODEL).eval()
    weights = {name: value.detach() for name, value in theirs.named_parameters()}
    set_weights(ours, import_weights(FAMILIES["vit"], MODEL, weights), "the peer")
    peers = {"transformers": theirs, **_timm()}
    sides = {"fp32": ours, "auto": _auto(ours)}
    results = [
        _beside(f"batch{batch}_{precision}_{name}", model, other, _images(batch))
        for batch in BATCHES
        for precision, model in sides.items()
        for name, other in peers.items()
    ]
    return Report(results, _agreement(sides["fp32"], sides["auto"]))


def _auto(model: Vit) -> Vit:
    """The model in the precision that `auto` picks here."""
    if pick_precision("auto", torch.device("cpu")) != "int8":
        return model
    quick = copy.deepcopy(model)
    quantise(quick)
    pack(quick)
    return quick


def _transformers() -> Any:
    transformers = peer("transformers")
    torch.manual_seed(0)
    height, _ = MODEL.size
    sizes = transformers.ViTConfig(
        hidden_size=MODEL.width, num_hidden_layers=MODEL.layers, num_attention_heads=MODEL.heads,
        intermediate_size=MODEL.inner, image_size=height, patch_size=MODEL.patch, num_labels=MODEL.classes,
        layer_norm_eps=1e-6,
    )  # fmt: skip
    return transformers.ViTForImageClassification(sizes).eval()


def _timm() -> dict[str, Any]:
    """timm's model, where timm can be imported: it needs torchvision, which not everybody has."""
    try:
        vision_transformer = import_module("timm.models.vision_transformer")
    except ImportError as missing:
        print(f"not beside timm, which cannot be imported: {missing}", file=sys.stderr)
        return {}
    model = vision_transformer.VisionTransformer(
        img_size=MODEL.size[0], patch_size=MODEL.patch, num_classes=MODEL.classes, embed_dim=MODEL.width,
        depth=MODEL.layers, num_heads=MODEL.heads, mlp_ratio=MODEL.inner / MODEL.width,
    )  # fmt: skip
    return {"timm": model.eval()}


def _images(count: int) -> Tensor:
    return torch.randn(count, 3, *MODEL.size, generator=torch.Generator().manual_seed(count))


@torch.inference_mode()
def _beside(name: str, ours: Vit, other: nn.Module, images: Tensor) -> Result:
    result = compare(name, partial(ours.logits, images), partial(other, images), rounds=ROUNDS)
    print(f"{name}: {result.ours * 1e3:.1f} ms beside {result.peer * 1e3:.1f} ms", file=sys.stderr)
    return result


@torch.inference_mode()
def _agreement(exact: nn.Module, quick: nn.Module) -> dict[str, float]:
    """How far the logits of random weights are apart, as a share of their spread."""
    a, b = exact(_images(4)), quick(_images(4))
    return {"auto_logit_error": round(float((a - b).square().mean().sqrt() / a.std()), 4)}
