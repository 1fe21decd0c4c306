"""ViTPose (Xu et al. 2022, section 3.1): a vision transformer whose patches become a heat map for each keypoint."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.models.backbone import Backbone
from headway.models.inputs import Model, ModelInputs, ModelOutputs
from headway.models.vit import Vit, VitConfig
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.patches import Grid

FINER = 4  # cells of a heat map along the side of a patch, in either head


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleHead:
    """ReLU, bilinear ×4 and a 3 × 3 convolution."""

    def build(self, given: int, keypoints: int) -> nn.Module:
        """(B, D, rows, columns) -> (B, K, 4·rows, 4·columns)."""
        return nn.Sequential(nn.ReLU(), _Enlarge(), nn.Conv2d(given, keypoints, 3, padding=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicHead:
    """Two transposed convolutions (4 × 4, stride 2, BatchNorm, ReLU) and a 1 × 1 one."""

    width: int = 256  # channels of the transposed convolutions

    def __post_init__(self) -> None:
        positive("head.width", self.width)

    def build(self, given: int, keypoints: int) -> nn.Module:
        """(B, D, rows, columns) -> (B, K, 4·rows, 4·columns)."""
        parts: list[nn.Module] = []
        for before in (given, self.width):
            parts.append(nn.ConvTranspose2d(before, self.width, 4, stride=2, padding=1, bias=False))
            parts += [nn.BatchNorm2d(self.width), nn.ReLU()]
        return nn.Sequential(*parts, nn.Conv2d(self.width, keypoints, 1))


class _Enlarge(nn.Module):
    """Bilinear, by FINER."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, D, rows, columns) -> (B, D, FINER·rows, FINER·columns)."""
        return F.interpolate(x, scale_factor=FINER, mode="bilinear", align_corners=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoseConfig:
    """Sizes and parts of a pose model; the defaults are ViTPose-B's."""

    keypoints: int = 17  # how many keypoints; a heat map each
    image: int | tuple[int, int] = (256, 192)  # pixels a side, or height and width
    channels: int = 3  # of an image: 3 for colour, 1 for grey and for sound
    patch: int = 16  # pixels a side
    width: int = 768  # features of a token's vector, D
    layers: int = 12  # blocks in the stack
    heads: int = 12  # attention heads; they divide the width
    inner: int = 3072  # features inside the feed-forward network, F
    head: SimpleHead | ClassicHead = ClassicHead()  # how features become heat maps
    norm: FeatureNorm = LayerNorm(eps=1e-6)  # the normalisation, with its settings
    dropout: float = 0.0  # share of features put to 0 in training, at least 0 and below 1
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        positive("keypoints", self.keypoints)
        _ = self.encoder  # its own checks

    @property
    def encoder(self) -> VitConfig:
        """The vision transformer below the head."""
        return VitConfig(
            classes=1,
            image=self.image,
            channels=self.channels,
            patch=self.patch,
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            inner=self.inner,
            pool="mean",  # no class token: the head reads patches only
            norm=self.norm,
            dropout=self.dropout,
            kernel=self.kernel,
        )

    @property
    def size(self) -> Grid:
        """Height and width in pixels."""
        return self.encoder.size

    @property
    def map(self) -> Grid:
        """Rows and columns of a heat map."""
        rows, columns = self.encoder.grid
        return FINER * rows, FINER * columns

    def build(self) -> Pose:
        return Pose(self)

    @property
    def backbone(self) -> Backbone:
        """The vision transformer."""
        return Backbone(config=self.encoder, prefix="encoder.")

    def with_backbone(self, encoder: VitConfig) -> PoseConfig:
        """These heat maps on another vision transformer. Raises ConfigError where it does not fit."""
        made = replace(
            self,
            image=encoder.image,
            channels=encoder.channels,
            patch=encoder.patch,
            width=encoder.width,
            layers=encoder.layers,
            heads=encoder.heads,
            inner=encoder.inner,
            norm=encoder.norm,
        )
        made.encoder.expect_like(encoder, "a pose model")
        return made

    @property
    def text(self) -> None:
        return None


class Pose(Model):
    """Images -> a heat map for each keypoint."""

    def __init__(self, config: PoseConfig) -> None:
        super().__init__()
        self.keypoints, self.grid, self.map = config.keypoints, config.encoder.grid, config.map
        self.encoder = Vit(config.encoder)
        self.encoder.head = nn.Identity()  # type: ignore[assignment]  # a classifier's, which has no place here
        self.head = config.head.build(config.width, config.keypoints)
        _start(self.head)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, K, rows, columns)."""
        tokens: Tensor = self.encoder.features(images)
        maps: Tensor = self.head(tokens.mT.unflatten(2, self.grid))
        return maps

    @property
    def patch_positions(self) -> Tensor:
        """The learned positions of the patches (T, D)."""
        return self.encoder.positions

    title = "vision transformer with heat maps"
    reads = frozenset({"images"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(heatmaps=self(inputs.need("images")))


@torch.no_grad()
def _start(head: nn.Module) -> None:
    """Convolutions N(0, 0.001) as in the baseline whose head this is (Xiao et al. 2018), biases 0."""
    for part in head.modules():
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(part.weight, std=0.001)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
