"""The page of a captioner: an image, the sentence about it, and where each word looked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.image_decoding import Pixels
from headway.decoding.beam import BeamSettings
from headway.decoding.trace import lines
from headway.inspection.page.attention import StackDescription
from headway.inspection.page.payload import Output, PageSubject, build_payload
from headway.inspection.page.pictures import PATCHES, patch_sequence, picture_entry
from headway.inspection.page.tracing import searched, trace_entry
from headway.models import CaptionerRnn, CaptionerVit
from headway.models.stepper import Source
from headway.nn.patches import Grid, patch_grid
from headway.tasks.captioning.training import CaptioningTask
from headway.tasks.image_batches import normalised

WORDS = "words"


@torch.no_grad()
def caption_page(model: nn.Module, task: CaptioningTask, pixels: Pixels, subject: PageSubject) -> dict[str, Any]:
    """The payload of an image (3, H, W) and the best line the search finds for it; `subject` gets what was said."""
    tokenizer, device = task.tokenizer, next(model.parameters()).device
    dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
    image = normalised(np.stack([pixels]), task.config.mean, task.config.std, device, dtype)
    config, sequence = task.config, patch_sequence(_grid(model), own=False, label="Patches")
    beam = BeamSettings(width=config.beam, alpha=config.length_penalty, penalty=config.penalty)
    start = torch.tensor([[tokenizer.start]], device=device)
    source = Source.of_images(image)
    trace = searched(model, source, start, tokenizer, beam, config.max_length, sequence["tokens"])
    best = lines(trace)[0]
    written = [*best.tokens, *([tokenizer.stop] if best.stopped else [])]
    read = [tokenizer.start, *written[:-1]]

    def forward() -> Tensor:
        logits: Tensor = model(image, torch.tensor([read], device=device))
        return logits[0]

    words = {
        "label": "Caption",
        "tokens": [tokenizer.token(index) for index in read],
        "writes": [tokenizer.token(index) for index in written],
        "start": min(1, len(read) - 1),
    }
    looks = StackDescription(label="Decoder", sequence=WORDS, memory=PATCHES)
    seen = StackDescription(
        label="Encoder",
        sequence=PATCHES,
        positions=model.encoder.positions if isinstance(model, CaptionerVit) else None,
    )
    return build_payload(
        model,
        forward,
        subject.with_output(best.text),
        reads={"encoder": seen, "decoder": looks, "attention": looks},
        sequences={PATCHES: sequence, WORDS: words},
        output=Output(name=tokenizer.token, label="What is written next", sequence=WORDS, targets=written),
        more=lambda tensors, _: {
            "image": picture_entry(pixels, model, PATCHES, config.mean, tensors),
            "trace": trace_entry(trace, tensors),
        },
    )


def _grid(model: nn.Module) -> Grid:
    if isinstance(model, CaptionerVit):
        return patch_grid(model.encoder.size, model.encoder.patches.patch)
    assert isinstance(model, CaptionerRnn)
    places = 1 if model.places is None else len(model.places)
    return math.isqrt(places), math.isqrt(places)
