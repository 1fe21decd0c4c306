"""Inference of ViT-B/16 on a CPU against transformers and timm: in float32, and in the precision that `auto` picks."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from headway.bench.peers import peer
from headway.bench.result import BenchReport, Options, Result, compare
from headway.interop.families import FAMILIES
from headway.interop.family import import_weights
from headway.models import Vit, VitConfig
from headway.nn.int8 import pack, quantise
from headway.runs.weights import pick_precision
from headway.storage.tensors import set_weights

VIT_B16 = VitConfig(classes=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class VitCpuSizes:
    """The model, and the batches that are timed."""

    model: VitConfig = VIT_B16
    batches: tuple[int, ...] = (1, 8)
    rounds: int = 5


SIZES = VitCpuSizes()


def run(options: Options, sizes: VitCpuSizes = SIZES) -> BenchReport:
    """Forward passes, alternately, with the same weights and threads; and the error of the int8 logits."""
    model = sizes.model
    theirs = _transformers(model)
    ours = Vit(model).eval()
    weights = {name: value.detach() for name, value in theirs.named_parameters()}
    set_weights(ours, import_weights(FAMILIES["vit"], model, weights), "the peer")
    peers = {"transformers": theirs, **_timm(model)}
    precisions = {"fp32": ours, "auto": _auto(ours)}
    results = [
        _compared(f"batch{batch}_{precision}_{name}", each, other, _images(model, batch), sizes.rounds)
        for batch in sizes.batches
        for precision, each in precisions.items()
        for name, other in peers.items()
    ]
    return BenchReport(results, _agreement(precisions["fp32"], precisions["auto"], _images(model, 4)))


def _auto(model: Vit) -> Vit:
    """The model in the precision that `auto` picks here."""
    if pick_precision("auto", torch.device("cpu")) != "int8":
        return model
    quick = copy.deepcopy(model)
    quantise(quick)
    pack(quick)
    return quick


def _transformers(model: VitConfig) -> Any:
    transformers = peer("transformers")
    torch.manual_seed(0)
    height, _ = model.size
    sizes = transformers.ViTConfig(
        hidden_size=model.width, num_hidden_layers=model.layers, num_attention_heads=model.heads,
        intermediate_size=model.inner, image_size=height, patch_size=model.patch, num_labels=model.classes,
        layer_norm_eps=1e-6,
    )  # fmt: skip
    return transformers.ViTForImageClassification(sizes).eval()


def _timm(model: VitConfig) -> dict[str, Any]:
    """timm's model, if timm and the torchvision it needs can be imported."""
    try:
        vision_transformer = import_module("timm.models.vision_transformer")
    except ImportError as missing:
        print(f"no comparison with timm, which cannot be imported: {missing}", file=sys.stderr)
        return {}
    theirs = vision_transformer.VisionTransformer(
        img_size=model.size[0], patch_size=model.patch, num_classes=model.classes, embed_dim=model.width,
        depth=model.layers, num_heads=model.heads, mlp_ratio=model.inner / model.width,
    )  # fmt: skip
    return {"timm": theirs.eval()}


def _images(model: VitConfig, count: int) -> Tensor:
    return torch.randn(count, 3, *model.size, generator=torch.Generator().manual_seed(count))


@torch.inference_mode()
def _compared(name: str, ours: Vit, other: nn.Module, images: Tensor, rounds: int) -> Result:
    result = compare(name, partial(ours.logits, images), partial(other, images), rounds=rounds)
    print(f"{name}: {result.ours * 1e3:.1f} ms, peer {result.peer * 1e3:.1f} ms", file=sys.stderr)
    return result


@torch.inference_mode()
def _agreement(exact: nn.Module, quick: nn.Module, images: Tensor) -> dict[str, float]:
    """The root mean square error of the logits over their standard deviation."""
    a, b = exact(images), quick(images)
    return {"auto_logit_error": round(float((a - b).square().mean().sqrt() / a.std()), 4)}
