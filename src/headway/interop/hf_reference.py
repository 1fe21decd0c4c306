"""The logits of transformers' own model of an imported folder, stored in the run for `verify` to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.errors import BadModelError, ConfigError, one_line
from headway.extras import missing
from headway.interop.compare import Probe
from headway.interop.export_proof import auto_class, load_hf_model, with_transformers
from headway.interop.family import Family
from headway.models import ModelInputs

REFERENCE = "reference.safetensors"  # inputs and the logits that another library computed, in a run's folder


def require_transformers() -> None:
    """Raise ConfigError if transformers is not installed."""
    if not with_transformers():
        raise ConfigError(missing("hf", "--reference, which asks transformers for its logits,"))


@torch.no_grad()
def reference_tensors(folder: Path, architectures: object, family: Family[Any], probe: Probe) -> dict[str, Tensor]:
    """Unpadded inputs and the logits of transformers' model of the folder, in float32, by the names they are stored by.

    Raises ConfigError for a folder that transformers has no class for, BadModelError for one it cannot load.
    """
    if not isinstance(architectures, list):
        raise ConfigError(f"{folder}: config.json names no architectures, so that transformers cannot load it")
    # headway gives a bare GPT2Model its head, and so must the model it is compared with.
    decoder = family.generates and probe.inputs.source is None
    name = "AutoModelForCausalLM" if decoder else auto_class(architectures[0])
    try:
        model = load_hf_model(folder, name)
    except Exception as error:  # transformers may raise anything
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise BadModelError(f"{folder}: transformers cannot load it ({reason})") from error
    given = probe.inputs
    inputs = ModelInputs(
        tokens=given.tokens,
        source=given.source,
        segments=given.segments,
        global_tokens=given.global_tokens,
        images=given.images,
    )
    outputs = model.run(inputs).present
    stored = {"source": given.source, "tokens": given.tokens, "segments": given.segments, "images": given.images}
    tensors = {name: tensor for name, tensor in stored.items() if tensor is not None}
    if given.global_tokens is not None:
        tensors["marked"] = given.global_tokens.long().contiguous()
    return tensors | {"logits": next(iter(outputs.values()))}


def stored_inputs(tensors: dict[str, Tensor]) -> ModelInputs:
    """The inputs of a stored reference, without its logits."""
    names = ("tokens", "lengths", "source", "source_lengths", "segments")
    found = {name: tensors[name].long() for name in names if name in tensors}
    images, marked = tensors.get("images"), tensors.get("marked")
    return ModelInputs(
        **found,
        images=None if images is None else images.float(),
        global_tokens=None if marked is None else marked.long() != 0,
    )
