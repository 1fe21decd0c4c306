"""What transformers' own model says of a folder that is imported, for `verify` to hold the run against."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from headway.errors import BadModelError, ConfigError
from headway.interop.compare import as_ours, questions
from headway.interop.export_proof import auto_class, load_theirs, with_transformers
from headway.interop.family import Tokens
from headway.interop.untrusted_json import one_line
from headway.models import EncoderDecoderConfig, GptConfig, LongformerConfig, LongformerMaskedConfig, ModelConfig

REFERENCE = "reference.safetensors"  # inputs and logits that something else than headway computed, kept in a run


def must_have_transformers() -> None:
    """Raise ConfigError where there is no transformers to ask."""
    if not with_transformers():
        raise ConfigError("--reference asks transformers for its logits, and it is not installed; without it, no check")


@torch.no_grad()
def reference(folder: Path, architectures: object, config: ModelConfig, pad: int | None) -> dict[str, Tensor]:
    """Inputs of `config`'s kind and the logits of transformers' model of the folder, in float32.

    Nothing is padded, and no token is `pad`. Raises ConfigError for a folder that transformers has no class for,
    BadModelError for one it cannot load.
    """
    if not isinstance(architectures, list):
        raise ConfigError(f"{folder}: config.json names no architectures, so that transformers cannot load it")
    # A bare GPT2Model has its head here, and so must the one it is compared with.
    name = "AutoModelForCausalLM" if isinstance(config, GptConfig) else auto_class(architectures[0])
    try:
        called = as_ours(load_theirs(folder, name))
    except Exception as error:  # theirs may raise anything
        raise BadModelError(
            f"{folder}: transformers cannot load it ({type(error).__name__}: {one_line(error)})"
        ) from error
    asked = questions(config, Tokens(pad=pad))
    if asked.images is not None:
        return {"images": asked.images, "logits": called(asked.images)}
    if isinstance(config, EncoderDecoderConfig):
        return {"source": asked.source, "tokens": asked.target, "logits": called(asked.source, asked.target)}
    if isinstance(config, GptConfig):
        return {"tokens": asked.source, "logits": called(asked.source)}
    kept = {"tokens": asked.source, "segments": asked.segments}
    if isinstance(config, LongformerConfig | LongformerMaskedConfig):  # the first token is global
        kept["marked"] = asked.first.long().contiguous()
        return kept | {"logits": called(asked.source, segments_BT=asked.segments, global_BT=asked.first)}
    return kept | {"logits": called(asked.source, segments_BT=asked.segments)}
