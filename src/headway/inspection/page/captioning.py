"""The page of a captioner: an image, the sentence about it, and where each word looked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.pictures import Pixels
from headway.inspection.page.assembly import Output, Subject, assembled
from headway.inspection.page.heads import Reads
from headway.inspection.page.pictures import PATCHES, patch_sequence, picture_entry
from headway.models import CaptionerRnn, CaptionerVit
from headway.nn.patches import Grid, patch_grid
from headway.tasks.captioning import CaptioningTask
from headway.tasks.training_images import normalised

WORDS = "words"


@torch.no_grad()
def caption_page(model: nn.Module, task: CaptioningTask, pixels: Pixels, subject: Subject) -> dict[str, Any]:
    """The payload of an image (3, H, W) and the best line the search finds for it; `subject` gets what was said."""
    tokenizer, device = task.tokenizer, next(model.parameters()).device
    best = task.search(model, device, np.stack([pixels]))[0][0]
    written = [*best.tokens, *([tokenizer.stop] if best.stopped else [])]
    read = [tokenizer.start, *written[:-1]]

    def forward() -> Tensor:
        dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
        image = normalised(np.stack([pixels]), task.config.mean, task.config.std, device, dtype)
        logits: Tensor = model(image, torch.tensor([read], device=device))
        return logits[0]

    words = {
        "label": "Caption",
        "tokens": [tokenizer.token(index) for index in read],
        "writes": [tokenizer.token(index) for index in written],
        "start": min(1, len(read) - 1),
    }
    looks = Reads(label="Decoder", sequence=WORDS, memory=PATCHES)
    seen = Reads(
        label="Encoder",
        sequence=PATCHES,
        positions=model.encoder.positions if isinstance(model, CaptionerVit) else None,
    )
    return assembled(
        model,
        forward,
        subject.saying(tokenizer.decode(best.tokens)),
        reads={"encoder": seen, "decoder": looks, "attention": looks},
        sequences={PATCHES: patch_sequence(_grid(model), own=False, label="Patches"), WORDS: words},
        output=Output(name=tokenizer.token, label="What is written next", sequence=WORDS, targets=written),
        more=lambda tensors, _: {"image": picture_entry(pixels, model, PATCHES, tensors)},
    )


def _grid(model: nn.Module) -> Grid:
    if isinstance(model, CaptionerVit):
        return patch_grid(model.encoder.size, model.encoder.patches.patch)
    assert isinstance(model, CaptionerRnn)
    places = 1 if model.places is None else len(model.places)
    return math.isqrt(places), math.isqrt(places)
