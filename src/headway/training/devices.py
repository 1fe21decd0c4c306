"""The device of a run, its dropout seed, and torch.compile."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from headway.errors import AdviceWarning, ConfigError


def pick_device(wanted: str) -> torch.device:
    """The device of a config: "auto" takes a GPU if there is one. Raises ConfigError for "cuda" without a GPU."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError("train.device='cuda', but torch sees no GPU; allowed here: auto, cpu")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed torch's default generators, from which dropout draws."""
    torch.default_generator.manual_seed(seed + 1)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed + 1)


def compile_features(model: nn.Module, device: torch.device, *, fixed: bool, replays: bool) -> None:
    """Compile `model.features`, all but the output layer, which is fused with the loss.

    `replays`: with CUDA graphs (mode="reduce-overhead").
    """
    from headway._compile import compiler_missing

    missing = compiler_missing(device.type)
    if missing is not None:
        warnings.warn(f"train.compile: {missing}; training continues uncompiled", AdviceWarning, stacklevel=3)
        return
    how: dict[str, Any] = {"mode": "reduce-overhead"} if replays else {"dynamic": not fixed}
    model.features = torch.compile(model.features, **how)  # type: ignore[assignment, arg-type]
