"""DETR (Carion et al. 2020): objects as a set, each predicted by one of N learned queries.

An encoder reads the image as patches or as the feature map of a convolutional network; the queries attend to one
another and to the encoder's output in a decoder without a causal mask; two heads read each query's output: the logits
of the classes and of "no object", and a box. Where this departs from the paper:

- The encoder is headway's vision transformer with `Hybrid` patches (a small residual network, not a pretrained
  ResNet-50), so that every one trained here can be the start of a detector.
- Blocks are pre-norm, as in the authors' code's option `pre_norm`; the paper's are post-norm.
- Positions are learned, begin as two-dimensional sinusoids and are added once, before the encoder. The paper adds fixed
  sinusoids to the queries and keys of every attention (its table 3 compares the two).
- Each query has a learned anchor, at first on a grid, to whose logits the box head's output is added, and begins as the
  sinusoid of its anchor (after Anchor DETR, Wang et al. 2022, section 3.1, and DAB-DETR, Liu et al. 2022). From the
  first step on each query is matched to objects of its neighbourhood, which takes a fraction of the paper's 500 epochs.
- The heads can read the encoder's output too, where each patch's anchor is its own place (`predict_patches`), for a
  further loss in training: the encoder then learns what an object is without the way through the decoder, as by the
  proposals of Deformable DETR's second stage (Zhu et al. 2021, section 4.2). Nothing of it is computed afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.models.backbone import Backbone
from headway.models.inputs import Model, ModelInputs, ModelOutputs
from headway.models.smaller import StackSizes
from headway.models.vit import Vit, VitConfig
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.feedforward import Activation, FeedForwardConfig
from headway.nn.linear import xavier_init
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.patches import Grid, Hybrid, PatchKind
from headway.nn.stack import Stack, StackConfig

BACKBONE = Hybrid(widths=(32, 64, 128, 256, 512))
ANCHOR_SIDE = 0.25  # width and height of a box before training, as shares of the image's
PRIOR = 0.9  # probability of "no object" before training
LONGEST, SHORTEST = 2.0, 0.1  # waves of the positions, in sides of the image


@dataclass(frozen=True, slots=True, kw_only=True)
class DetrConfig:
    """Sizes and parts of a detector; the defaults are DETR's (section 4) but for the backbone."""

    size_limits: ClassVar[dict[str, str]] = {"queries": "width"}

    classes: int  # how many classes, without "no object"; the data sets it
    queries: int = 100  # objects that can be found in an image
    image: int | tuple[int, int] = 512  # pixels a side, or height and width
    channels: int = 3  # of an image: 3 for colour, 1 for grey
    patch: int = 32  # pixels a side of what becomes a token
    patches: PatchKind = BACKBONE  # how an image becomes tokens
    width: int = 256  # features of a token's vector, D
    encoder_layers: int = 6  # blocks in the encoder
    decoder_layers: int = 6  # blocks in the decoder
    heads: int = 8  # attention heads; they divide the width
    inner: int = 2048  # features inside the feed-forward network, F
    norm: FeatureNorm = LayerNorm()  # the normalisation, with its settings
    activation: Activation = "relu"  # of the feed-forward network
    dropout: float = 0.1  # share of features put to 0 in training, at least 0 and below 1
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        for name in ("classes", "queries", "decoder_layers"):
            positive(name, getattr(self, name))
        _ = self.vision  # its own checks

    @property
    def vision(self) -> VitConfig:
        """The encoder, without a class token."""
        return VitConfig(
            classes=1,
            image=self.image,
            channels=self.channels,
            patch=self.patch,
            patches=self.patches,
            width=self.width,
            layers=self.encoder_layers,
            heads=self.heads,
            inner=self.inner,
            pool="mean",
            norm=self.norm,
            activation=self.activation,
            dropout=self.dropout,
            kernel=self.kernel,
        )

    @property
    def decoder(self) -> StackConfig:
        """The decoder's stack: queries attend to all queries and to all patches."""
        block = BlockConfig(
            attention=AttentionConfig(width=self.width, heads=self.heads, kernel=self.kernel),
            feedforward=FeedForwardConfig(inner=self.inner, activation=self.activation, dropout=self.dropout),
            norm=self.norm,
            place="pre",
            dropout=self.dropout,
            cross=True,
        )
        return StackConfig(layers=self.decoder_layers, block=block, context=self.queries)

    @property
    def size(self) -> Grid:
        """Height and width in pixels."""
        return self.vision.size

    def build(self) -> Detr:
        return Detr(self)

    def smaller(self) -> DetrConfig | None:
        """The next smaller version, both stacks alike."""
        found = StackSizes(self.width, self.heads, max(self.encoder_layers, self.decoder_layers), self.inner).smaller()
        if found is None:
            return None
        return replace(
            self,
            width=found.width,
            heads=found.heads,
            encoder_layers=min(found.layers, self.encoder_layers),
            decoder_layers=min(found.layers, self.decoder_layers),
            inner=found.inner,
        )

    @property
    def backbone(self) -> Backbone:
        """The encoder."""
        return Backbone(config=self.vision, prefix="encoder.")

    def with_backbone(self, vision: VitConfig) -> DetrConfig:
        """This detector with another encoder, and a decoder of its sizes. Raises ConfigError where it does not fit."""
        made = replace(
            self,
            image=vision.image,
            channels=vision.channels,
            patch=vision.patch,
            patches=vision.patches,
            width=vision.width,
            encoder_layers=vision.layers,
            heads=vision.heads,
            inner=vision.inner,
            norm=vision.norm,
            activation=vision.activation,
        )
        made.vision.expect_like(vision, "a detector")
        return made

    @property
    def text(self) -> None:
        return None


class Detr(Model):
    """Images -> for each query the logits of the classes and of "no object", and a box."""

    def __init__(self, config: DetrConfig) -> None:
        super().__init__()
        width = config.width
        self.classes, self.count = config.classes, config.queries
        self.encoder = Vit(config.vision)
        del self.encoder.head  # there are no classes of an image
        self.queries = nn.Parameter(torch.empty(config.queries, width))
        self.anchors = nn.Parameter(torch.empty(config.queries, 4))  # logits of boxes
        self.patch_anchors: Tensor
        self.register_buffer("patch_anchors", torch.empty(config.vision.tokens, 4), persistent=False)
        self.decoder = Stack(config.decoder)
        self.class_head = nn.Linear(width, config.classes + 1)
        self.box_head = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )
        xavier_init(self.decoder)
        self._start()

    @torch.no_grad()
    def _start(self) -> None:
        """Anchors on a grid, positions and queries as sinusoids; every query begins with its anchor and no object."""
        rows, columns = self.encoder.grid
        y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
        patches, points = torch.stack([x, y], -1).flatten(0, 1), grid_points(self.count)
        for anchors, centres in ((self.anchors, points), (self.patch_anchors, patches)):
            anchors[:, :2] = centres.logit()
            anchors[:, 2:] = math.log(ANCHOR_SIDE / (1 - ANCHOR_SIDE))
        width = self.queries.shape[1]
        self.queries.copy_(sinusoids(points, width))
        self.encoder.positions.copy_(sinusoids(patches, width))
        nn.init.zeros_(self.class_head.bias)
        self.class_head.bias[-1] = math.log(PRIOR / (1 - PRIOR) * self.classes)
        for parameter in self.box_head[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(B, C, height, width) -> logits (B, N, classes + 1), the last of "no object", and boxes (B, N, 4).

        A box is its centre x and y, width and height, as shares of the image's sides.
        """
        return self.predict(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, N, D), what the heads read."""
        memory = self.decoder.project_memory(self.encoder.features(images), None)
        x_BTD: Tensor = self.decoder(self.queries.expand(len(images), -1, -1), memory=memory)
        return x_BTD

    def features_by_layer(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The encoder's output (B, T, D), and that of each layer of the decoder (B, N, D), normalised as the last."""
        hidden = self.encoder.features(images)
        memory = self.decoder.project_memory(hidden, None)
        return hidden, self.decoder.outputs(self.queries.expand(len(images), -1, -1), memory=memory)

    def predict(self, hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """The decoder's output (B, N, D) -> logits (B, N, classes + 1) and boxes (B, N, 4)."""
        return self.read(hidden_BTD), (self.box_head(hidden_BTD) + self.anchors).sigmoid()

    def predict_patches(self, hidden_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder's output (B, T, D) -> logits (B, T, classes + 1) and boxes (B, T, 4), one of each patch."""
        return self.read(hidden_BTD), (self.box_head(hidden_BTD) + self.patch_anchors).sigmoid()

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The decoder's output (B, N, D) -> logits (B, N, classes + 1)."""
        logits: Tensor = self.class_head(hidden_BTD)
        return logits

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return self.encoder.grid

    @property
    def patch_positions(self) -> Tensor:
        """The learned positions of the patches (T, D)."""
        return self.encoder.positions

    title = "DETR, a detection transformer"
    reads = frozenset({"images"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        logits, boxes = self(inputs.need("images"))
        return ModelOutputs(objects=logits, boxes=boxes)


def grid_points(count: int) -> Tensor:
    """Points (N, 2) as x and y from 0 to 1, in rows of about as many as there are rows, each row evenly spaced."""
    rows = max(round(math.sqrt(count)), 1)
    ends = [count * row // rows for row in range(rows + 1)]
    points = []
    for row, (first, last) in enumerate(pairwise(ends)):
        points += [((n + 0.5) / (last - first), (row + 0.5) / rows) for n in range(last - first)]
    return torch.tensor(points)


def sinusoids(points: Tensor, width: int) -> Tensor:
    """Points (…, 2) from 0 to 1 -> (…, D): sine and cosine of x, then of y, at wavelengths in geometric series."""
    waves = -(-width // 4)
    frequency = 2 * math.pi / SHORTEST * (SHORTEST / LONGEST) ** (torch.arange(waves) / max(waves, 1))
    angles = points.unsqueeze(-1) * frequency  # (…, 2, waves)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-3)[..., :width]
