"""The page of an image classifier: patches as tokens, and the class they amount to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from headway.data.image_decoding import Pixels
from headway.inspection.page.attention import StackDescription
from headway.inspection.page.payload import Output, PageSubject, build_payload
from headway.inspection.page.pictures import PATCHES, patch_sequence, picture_entry
from headway.inspection.rollout import rollout
from headway.models import Vit
from headway.nn.patches import patch_grid
from headway.tasks.image_classification.training import Classification, logits_of


@torch.no_grad()
def vision_page(
    model: Vit, config: Classification, classes: Sequence[str], pixels: Pixels, subject: PageSubject
) -> dict[str, Any]:
    """The payload of an image (C, H, W)."""
    device = next(model.parameters()).device
    grid = patch_grid(model.size, model.patches.patch)
    own = model.class_token is not None
    return build_payload(
        model,
        lambda: logits_of(model, device, torch.from_numpy(pixels.copy()).unsqueeze(0), config),
        subject,
        reads={"": StackDescription(label="Encoder", sequence=PATCHES, positions=model.positions)},
        sequences={PATCHES: patch_sequence(grid, own=own, label="Patches")},
        output=Output(name=lambda index: classes[index], label="What it is", sequence=None, targets=[None]),
        more=lambda tensors, recording: {
            "image": picture_entry(pixels, model, PATCHES, config.mean, tensors),
            "rollout": tensors.full(rollout([looks[0].weights() for looks in recording.attention.values()])[0]),
        },
    )
