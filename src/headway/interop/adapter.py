"""Adapter folders in the format of PEFT: written for the Hugging Face model of a run, and read on top of a run.

PEFT adapts the layers of the Hugging Face model, headway those of its own, which may join several of them. One A then
serves all parts and B is divided among them. In the other direction, what an adapter adds to the weights of the file
is mapped as the weights are. `headway.json` in a folder that headway wrote identifies the base model.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.documents import read_json
from headway.errors import ConfigError, DataError, VerificationError, shown
from headway.interop.compare import HeadwayModel, probe
from headway.interop.export_proof import ExportProof, compare, versions
from headway.interop.exporter import plan_export
from headway.interop.families import export_families
from headway.interop.family import Family, WeightMapping
from headway.models import ModelConfig, build_model
from headway.nn.lora import split_adapters
from headway.storage.commit import commit_folder, discard, expect_new
from headway.storage.tensors import read_tensors, set_weights
from headway.tasks.export_request import ExportRequest

CONFIG, WEIGHTS, BASE = "adapter_config.json", "adapter_model.safetensors", "headway.json"
PREFIX = "base_model.model."  # of PEFT's names
PLAIN = {  # settings of PEFT's that headway has no equivalent of, and the values without effect
    "use_dora": False, "bias": "none", "lora_bias": False, "rank_pattern": {}, "alpha_pattern": {},
    "layers_to_transform": None, "trainable_token_indices": None, "target_parameters": None, "layer_replication": None,
}  # fmt: skip


def export_adapter(
    request: ExportRequest, stored: Mapping[str, Tensor], also: Iterable[str], dropout: float, out: Path
) -> ExportProof:
    """Write the adapters of a run (`stored`: its weights with adapters) as a folder that PEFT loads on its base model.

    `also` names other parameters that were trained: they are written whole. The folder is read again on top of the
    base weights before it appears. Raises ConfigError for a run without adapters, or trained parameters that the base
    model's format has no place for; VerificationError if the two differ.
    """
    base, adapters = split_adapters(stored)
    if not adapters:
        raise ConfigError("export --adapter: the run has no adapters; those of `train.lora` do")
    expect_new(out)
    plan = plan_export(request)
    mappings = {mapping.name: mapping for mapping in plan.family.mappings(request.config)}
    tensors, targets = _written(adapters, mappings)
    whole = _whole(also, base, mappings, plan.family)
    ranks = {len(down) for down, _, _ in adapters.values()}
    scales = {scale for _, _, scale in adapters.values()}
    rank, scale = ranks.pop(), scales.pop()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM" if plan.family.generates and "source" not in request.model.reads else None,
        "base_model_name_or_path": None,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": scale * rank,
        "lora_dropout": dropout,
        "bias": "none",
        "fan_in_fan_out": any(mappings[f"{name}.weight"].transposed for name in adapters),
        "target_modules": targets,
        "modules_to_save": sorted({name.rpartition(".")[0] for name in whole}) or None,
    }
    tensors |= {PREFIX + name: tensor for name, tensor in whole.items()}
    discard(out)
    with commit_folder(out, needs=sum(x.nbytes for x in tensors.values())) as draft:
        draft.json(CONFIG, config)
        draft.json(BASE, {"base": _digest(base, [f"{name}.weight" for name in adapters])})
        draft.tensors(WEIGHTS, {name: x.float().contiguous() for name, x in tensors.items()})
        again = with_adapter(request.config, base, draft.folder)
        model = build_model(request.config, device="meta")
        set_weights(model, {name: x.float() for name, x in again.items()}, str(out))
        inputs = probe(plan.family, request.config, request.model.reads, plan.template.tokens)
        figures = compare(HeadwayModel(request.model), HeadwayModel(model.eval()), inputs, some_left_out=False)
        known = versions()
        proof = ExportProof(
            family=plan.family.name,
            reloaded_with=f"headway {known.get('headway', '')}".strip(),
            versions=known,
            compared=f"the base model with {len(adapters)} adapters",
            texts_compared=0,
            texts_identical=None,
            **figures,
        )
        draft.json("PROOF.json", proof.to_json())
        if not proof.holds:
            apart = f"{proof.largest_difference:.3g} (allowed: {proof.bound:.3g})"
            raise VerificationError(f"{out}: the adapter on its base model differs by {apart}; nothing was written")
    return proof


def _written(
    adapters: Mapping[str, tuple[Tensor, Tensor, float]], mappings: Mapping[str, WeightMapping]
) -> tuple[dict[str, Tensor], list[str]]:
    """PEFT's tensors by name, and the layers they adapt. Raises ConfigError for a layer that the format lacks."""
    tensors: dict[str, Tensor] = {}
    targets: list[str] = []
    for name, (down, up, _) in adapters.items():
        mapping = mappings.get(f"{name}.weight")
        if mapping is None:
            raise ConfigError(f"export --adapter: the format has no place for {name}")
        if mapping.column_order is not None:
            down = down[:, mapping.column_order]
        # B has the rows of the weight, and the rank as columns: (in, out) files change nothing about that.
        parts = replace(mapping, transposed=False, column_order=None).to_hf(up)
        for hf_name, part in zip(mapping.hf_names, parts, strict=True):
            layer = hf_name.removesuffix(".weight")
            targets.append(layer)
            tensors[f"{PREFIX}{layer}.lora_A.weight"], tensors[f"{PREFIX}{layer}.lora_B.weight"] = down.clone(), part
    return tensors, targets


def _whole(
    also: Iterable[str], base: Mapping[str, Tensor], mappings: Mapping[str, WeightMapping], family: Family[Any]
) -> dict[str, Tensor]:
    """Other trained parameters under the file's names."""
    found: dict[str, Tensor] = {}
    for name in also:
        if name not in mappings:
            raise ConfigError(f"export --adapter: {name} was trained, and {family.name} has no place for it")
        found |= dict(zip(mappings[name].hf_names, mappings[name].to_hf(base[name]), strict=True))
    return found


@dataclass(frozen=True, slots=True)
class _Adapter:
    """The parts of an adapter folder that matter here."""

    folder: Path
    pairs: Mapping[str, tuple[Tensor, Tensor]]  # A and B, by the layer
    whole: Mapping[str, Tensor]  # weights that replace others
    scale: float
    base: str | None  # the digest of the base model, if headway wrote the folder


def with_adapter(config: ModelConfig, weights: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """The weights of a model with an adapter folder's updates added to them.

    Raises DataError for a folder without a LoRA adapter of PEFT, ConfigError for one of another base model.
    """
    adapter = _read(folder)
    other = f"{folder} is an adapter for another base model"
    layers = {*(f"{name}.weight" for name in adapter.pairs), *adapter.whole}
    reasons = []
    for family in export_families(config):
        mappings = family.mappings(config)
        own = {family.canonical(name, config): name for name in layers}
        known = {name for mapping in mappings for name in mapping.hf_names}
        if missing := [own[name] for name in own if name not in known]:
            reasons.append(f"{other}: this one has no {missing[0]}")
            continue
        changed = [mapping for mapping in mappings if any(name in own for name in mapping.hf_names)]
        names = [
            mapping.name for mapping in changed if any(own.get(n, n) not in adapter.whole for n in mapping.hf_names)
        ]
        if adapter.base is not None and adapter.base != _digest(weights, names):
            raise ConfigError(f"{other}: it was trained on other weights")
        return {**weights, **{each.name: _updated(each, weights[each.name], adapter, own, other) for each in changed}}
    raise ConfigError(reasons[0])


def _updated(mapping: WeightMapping, weight: Tensor, adapter: _Adapter, own: Mapping[str, str], other: str) -> Tensor:
    """A tensor of headway's with what the adapter does to those of the file."""
    update, replaced = [], []
    for name, shape in zip(mapping.hf_names, mapping.hf_shapes, strict=True):
        delta = torch.zeros(shape)
        given = own.get(name)
        if given is not None and given in adapter.whole:
            replaced.append(adapter.whole[given].float())
            if replaced[-1].shape != delta.shape:
                raise ConfigError(f"{other}: {given} has shape {tuple(replaced[-1].shape)}, expected {tuple(shape)}")
        elif given is not None:
            down, up = adapter.pairs[given.removesuffix(".weight")]
            expected = delta.mT.shape if mapping.transposed else delta.shape
            if (len(up), down.shape[-1]) != tuple(expected):
                raise ConfigError(f"{other}: {given} is {len(up)} x {down.shape[-1]} there, {tuple(expected)} here")
            made = adapter.scale * (up.float() @ down.float())
            delta = made.mT if mapping.transposed else made
        update.append(delta)
    if replaced:
        return mapping.from_hf(replaced).to(weight.dtype)
    return (weight.float() + mapping.from_hf(update)).to(weight.dtype)


def _read(folder: Path) -> _Adapter:
    """An adapter folder. Raises DataError for what cannot be read, ConfigError for another kind of adapter."""
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else None
        raise ConfigError(f"{folder}: peft_type={shown(kind)}, allowed: LORA")
    for key, plain in PLAIN.items():
        if (value := config.get(key, plain)) not in (plain, None):
            raise ConfigError(f"{folder}: {key}={shown(value)}, which is not supported; allowed: {shown(plain)}")
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if not (type(rank) is int and rank > 0 and isinstance(alpha, int | float) and math.isfinite(alpha)):
        raise DataError(f"{folder / CONFIG}: r={shown(rank)}, lora_alpha={shown(alpha)}, expected numbers above 0")
    found: dict[str, dict[str, Tensor]] = {}
    whole: dict[str, Tensor] = {}
    for name, tensor in read_tensors(folder / WEIGHTS).items():
        plain_name = name.removeprefix(PREFIX).replace(".default.", ".")
        layer, part = plain_name.removesuffix(".weight").rpartition(".")[::2]
        if part in ("lora_A", "lora_B") and tensor.ndim == 2:
            found.setdefault(layer, {})[part] = tensor
        elif ".lora_" in plain_name or not name.startswith(PREFIX):
            raise ConfigError(f"{folder}: {shown(name)} is not supported; allowed: lora_A and lora_B of linear layers")
        else:
            whole[plain_name.replace(".modules_to_save.", ".")] = tensor
    for layer, pair in found.items():
        if len(pair) != 2 or len(pair["lora_A"]) != rank or pair["lora_B"].shape[1] != rank:
            raise DataError(f"{folder / WEIGHTS}: {layer} has no lora_A and lora_B of rank {rank}")
    base = None
    if (folder / BASE).exists():
        known = read_json(folder / BASE)
        base = known.get("base") if isinstance(known, dict) else None
    scale = alpha / math.sqrt(rank) if config.get("use_rslora") else alpha / rank
    pairs = {layer: (pair["lora_A"], pair["lora_B"]) for layer, pair in found.items()}
    return _Adapter(folder, pairs, whole, scale, base)


def adapter_digest(folder: Path) -> str:
    """SHA-256 over the files of an adapter folder that decide what it adds to a model."""
    digest = hashlib.sha256()
    for name in (CONFIG, WEIGHTS):
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return digest.hexdigest()


def _digest(weights: Mapping[str, Tensor], names: Iterable[str]) -> str:
    """SHA-256 over the weights that an adapter changes, in float32."""
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name.encode() + weights[name].detach().cpu().float().contiguous().numpy().tobytes())
    return digest.hexdigest()
