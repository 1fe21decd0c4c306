from __future__ import annotations

import torch

from headway.labs import flash
from headway.ops.kernels import reference
from headway.ops.kernels.base import AttentionInputs
from tests.labs.broken import Mutation

traffic = flash.traffic


def without_rescaling(inputs, tile):
    """The mean of the tiles' own softmaxes: the sums of two tiles with different maxima are added as they are."""
    parts = [
        reference.run(AttentionInputs(inputs.q, k, v, None, None, inputs.scale))
        for k, v in zip(inputs.k.split(tile.keys, 2), inputs.v.split(tile.keys, 2), strict=True)
    ]
    scores = inputs.scale * inputs.q @ inputs.k.mT
    return torch.stack(parts).mean(0), scores.amax(-1)


def without_maximum(inputs, tile):
    powers = (inputs.scale * inputs.q @ inputs.k.mT).exp()
    return powers @ inputs.v / powers.sum(-1, keepdim=True), powers.sum(-1).log()


BROKEN = (
    Mutation("tiled", without_rescaling, fails="output of every tile"),
    Mutation("tiled", without_rescaling, fails="L after each tile"),
    Mutation("tiled", without_maximum, fails="scores of 10000 times larger"),
    Mutation("traffic", lambda *sizes: traffic(*sizes) // 2, fails="bytes moved = counted by hand"),
)
