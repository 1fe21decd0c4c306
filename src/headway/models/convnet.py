"""A small residual convolutional network (He et al. 2016), to compare vision transformers with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.models.backbone import Backbone
from headway.models.inputs import Model, ModelInputs, ModelOutputs
from headway.models.smaller import halved
from headway.nn.convolutions import Residual, channels_last, convolution
from headway.nn.patches import check_images


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvnetConfig:
    """Stages of residual blocks, each stage at half the resolution of the one before; for images of any size."""

    classes: int  # how many classes; the data sets it
    channels: int = 3  # of an image: 3 for colour, 1 for grey and for sound
    widths: tuple[int, ...] = (64, 128, 256)  # channels of each stage
    blocks: int = 2  # in each stage

    def __post_init__(self) -> None:
        positive("classes", self.classes)
        positive("channels", self.channels)
        positive("blocks", self.blocks)
        if not self.widths:
            raise ConfigError("widths=(), allowed: one width or more, one for each stage")
        for width in self.widths:
            positive("widths", width)

    def build(self) -> Convnet:
        return Convnet(self)

    def smaller(self) -> ConvnetConfig | None:
        """One block a stage, then half the channels, down to 16."""
        if self.blocks > 1:
            return replace(self, blocks=self.blocks // 2)
        widths = halved(self.widths, least=16)
        return None if widths is None else replace(self, widths=widths)

    @property
    def backbone(self) -> Backbone:
        """Everything but the output layer."""
        return Backbone(config=self, heads=("head.",))

    @property
    def text(self) -> None:
        return None


class Convnet(Model):
    """Images -> logits: a 3 x 3 stem, stages of residual blocks, the mean over positions, a linear layer."""

    def __init__(self, config: ConvnetConfig) -> None:
        super().__init__()
        self.classes, self.channels = config.classes, config.channels
        self.stem = convolution(config.channels, config.widths[0], kernel=3, stride=1)
        blocks, given = [], config.widths[0]
        for stage, width in enumerate(config.widths):
            for block in range(config.blocks):
                blocks.append(Residual(given, width, stride=2 if stage and not block else 1))
                given = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(given, config.classes)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> logits (B, classes)."""
        logits: Tensor = self.head(self.features(images).mean(1))
        return logits

    def features(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, T, D): a vector for each position of the last stage, row by row."""
        check_images(images, self.channels)
        x: Tensor = self.blocks(self.stem(channels_last(images)).relu())
        return x.flatten(2).mT

    title = "ConvNet"
    reads = frozenset({"images"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(classes=self(inputs.need("images")))
