from __future__ import annotations

from headway.labs import bias
from tests.labs.broken import Mutation

convnet, vit = bias.convnet, bias.vit
SHORT = {"steps": "5"}


def without_positions(seed, side=bias.SIDE):
    model = vit(seed, side)
    model.positions.data.zero_()
    return model


BROKEN = (
    Mutation("moved", lambda images, by: images.flip(-1), fails="CNN: features of a moved", flags=SHORT),
    Mutation("vit", without_positions, fails="ViT: the same", flags=SHORT),  # no place is known: patches move, too
    Mutation("convnet", vit, fails="200 images: points", flags=SHORT),
)
