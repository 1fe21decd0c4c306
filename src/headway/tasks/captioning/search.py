"""Beam search for the caption of an image."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headway.data.image_decoding import Pixels
from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import BeamSettings, Hypothesis, beam_search
from headway.decoding.limits import SequenceLimits
from headway.decoding.non_finite import numbered
from headway.models.stepper import EncoderInput, Stepper
from headway.tasks.captioning.config import Captioning
from headway.tasks.image_batches import model_dtype, normalised

EVALUATED = 256  # images in one forward pass


class CaptionSearch:
    """Captions of images with a task's settings and a run's tokenizer."""

    def __init__(self, config: Captioning, tokenizer: Tokenizer) -> None:
        self.config, self.tokenizer = config, tokenizer

    def normalised(self, model: nn.Module, device: torch.device, pixels: Pixels) -> Tensor:
        """Images (N, 3, H, W) as the model reads them."""
        return normalised(pixels, self.config.mean, self.config.std, device, model_dtype(model))

    def describe(self, model: nn.Module, device: torch.device, pixels: Pixels, *, beam: int | None = None) -> list[str]:
        """A caption for each image (N, 3, H, W)."""
        found = self.search(model, device, pixels, beam=beam)
        return [self.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]

    def search(
        self, model: nn.Module, device: torch.device, pixels: Pixels, *, beam: int | None = None, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each image (N, 3, H, W), best first."""
        stepper: Stepper[Any] = model  # type: ignore[assignment]
        config, found = self.config, []
        settings = BeamSettings(
            width=config.beam if beam is None else beam,
            alpha=config.length_penalty,
            penalty=config.penalty,
            n_best=n_best,
        )
        limits = SequenceLimits(start=self.tokenizer.start, stop=self.tokenizer.stop, max_tokens=config.max_length)
        for first in range(0, len(pixels), EVALUATED):
            source = EncoderInput.of_images(self.normalised(model, device, pixels[first : first + EVALUATED]))
            with numbered(range(first, len(pixels)), "image"):
                found += beam_search(stepper, source, settings, limits)
        return found
