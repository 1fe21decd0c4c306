"""How a model reads an image: the patches it is cut into, and where a captioner looks at each word."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.data.image_decoding import Pixels
from headway.errors import ConfigError
from headway.models import VitConfig
from headway.models.stepper import source_attention
from headway.nn.patches import Shifted, patchify, shift_diagonally
from headway.nn.taps import Tap
from headway.tasks.captioning.describe import Caption
from headway.tasks.captioning.training import CaptioningTask


@dataclass(frozen=True, slots=True)
class Cut:
    """An image as tokens: its patches (rows, columns, P, P, C), and with shifts the five copies (5, C, H, W)."""

    patches: Pixels
    copies: Pixels | None


@dataclass(frozen=True, slots=True)
class Look:
    """The words of a caption, and how much each looked at each place of the image (words, rows, columns)."""

    words: tuple[str, ...]
    weights: NDArray[np.float32]


def cut(model: VitConfig, pixels: Pixels, mean: Sequence[float]) -> Cut:
    """An image (C, H, W) as this vision transformer reads it; outside of it is the mean of each channel, 0 to 1."""
    image = torch.from_numpy(np.array(pixels)).unsqueeze(0)
    flat = patchify(image, model.patch)[0]
    patches = flat.unflatten(1, (model.patch, model.patch, -1)).unflatten(0, model.grid)
    if not isinstance(model.patches, Shifted):
        return Cut(patches.numpy(), None)
    outside = 255 * torch.tensor(mean).view(-1, 1, 1)  # what is 0 once the mean is subtracted
    copies = shift_diagonally(image - outside, model.patch // 2)[0].unflatten(0, (5, -1)) + outside
    return Cut(patches.numpy(), copies.round().to(torch.uint8).numpy())


@torch.no_grad()
def looks(task: CaptioningTask, model: nn.Module, device: torch.device, captions: Sequence[Caption]) -> list[Look]:
    """Where the model looked for each word of its captions. Raises ConfigError for one without attention."""
    attention = source_attention(model)
    if attention is None:
        raise ConfigError("this captioner has no attention: its first state is all that its words know of the image")
    made = []
    for caption in captions:
        tokens = torch.tensor([[task.tokenizer.start, *caption.tokens[:-1]]], device=device)
        with _heard(attention.tap) as seen:
            model(task.seen(model, device, caption.pixels[None]), tokens)
        weights = seen[-1][0].float().cpu()  # words × places, and for each head of a transformer
        weights = weights.mean(0) if weights.ndim == 3 else weights
        side = math.isqrt(weights.shape[-1])
        words = tuple(task.tokenizer.token(each) for each in caption.tokens)
        made.append(Look(words, weights.unflatten(-1, (-1, side)).numpy()))
    return made


@contextmanager
def _heard(tap: Tap) -> Iterator[list[Tensor]]:
    seen: list[Tensor] = []
    hook = tap.register_forward_hook(lambda _, __, weights: seen.append(weights))
    try:
        yield seen
    finally:
        hook.remove()
