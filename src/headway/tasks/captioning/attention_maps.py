"""Where a captioner attended in the image when it wrote each token of a caption."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.models.stepper import source_attention
from headway.nn.taps import Tap


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """The tokens of a caption, and how much each attended to each place of the image (tokens, rows, columns)."""

    words: tuple[str, ...]
    weights: NDArray[np.float32]


@torch.no_grad()
def attention_weights(model: nn.Module, image: Tensor, tokens_1T: Tensor) -> NDArray[np.float32]:
    """The weights (T, rows, columns) of the last cross-attention, the mean over heads, as tokens (1, T) are read.

    Raises ConfigError for a model without attention.
    """
    attention = source_attention(model)
    if attention is None:
        raise ConfigError("this captioner has no attention: it reads the image only through the decoder's first state")
    with _recorded(attention.tap) as seen:
        model(image, tokens_1T)
    weights = seen[-1][0].float().cpu()  # (T, places), of a transformer (H, T, places)
    weights = weights.mean(0) if weights.ndim == 3 else weights
    side = math.isqrt(weights.shape[-1])
    maps: NDArray[np.float32] = weights.unflatten(-1, (-1, side)).numpy()
    return maps


@contextmanager
def _recorded(tap: Tap) -> Iterator[list[Tensor]]:
    seen: list[Tensor] = []
    hook = tap.register_forward_hook(lambda _, __, weights: seen.append(weights))
    try:
        yield seen
    finally:
        hook.remove()
