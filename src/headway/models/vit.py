"""The vision transformer: an image as a sequence of patches (Dosovitskiy et al. 2021), and Lee et al.'s for small data.

Lee et al. 2021, "Vision Transformer for Small-Size Datasets": shifted patch tokenization and locality self-attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError, DataError, shown
from headway.models.backbone import Backbone
from headway.models.inputs import Model, ModelInputs, ModelOutputs
from headway.models.smaller import StackSizes
from headway.nn.attention import AttentionConfig
from headway.nn.block import Block, BlockConfig
from headway.nn.dropout import StochasticDepth
from headway.nn.feedforward import Activation, FeedForwardConfig
from headway.nn.linear import xavier_init
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.patches import Grid, PatchEmbedding, Patches, PatchKind, check_images, patch_grid, resize_grid
from headway.nn.stack import Stack, StackConfig
from headway.nn.taps import observed
from headway.ops import NotSelf

Pool = Literal["class", "mean"]
Start = Literal["paper", "small-data"]
FREE = ("classes", "pool", "dropout", "stochastic_depth", "start", "kernel")  # settings that weights do not depend on


@dataclass(frozen=True, slots=True, kw_only=True)
class VitConfig:
    """Sizes and parts of a vision transformer; the defaults are ViT-B/16's."""

    classes: int  # how many classes; the data sets it
    image: int | tuple[int, int] = 224  # pixels a side, or height and width
    channels: int = 3  # of an image: 3 for colour, 1 for grey and for sound
    patch: int = 16  # pixels a side
    patches: PatchKind = Patches()  # how an image becomes tokens
    width: int = 768  # features of a token's vector, D
    layers: int = 12  # blocks in the stack
    heads: int = 12  # attention heads; they divide the width
    inner: int = 3072  # features inside the feed-forward network, F
    local: bool = False  # Locality Self-Attention: a learned temperature per head, and no token attends to itself
    pool: Pool = "class"  # what the head reads: a token of its own, or the mean over patches
    norm: FeatureNorm = LayerNorm(eps=1e-6)  # the normalisation, with its settings
    activation: Activation = "gelu"  # of the feed-forward network
    qkv_bias: bool = True  # biases in the query, key and value projections
    dropout: float = 0.0  # on the input, inside the position-wise network and on what each part adds
    stochastic_depth: StochasticDepth = StochasticDepth()  # how often a layer's branches are left out in training
    start: Start = "paper"  # initial weights
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        for name in ("classes", "channels", "patch"):
            positive(name, getattr(self, name))
        if len(self.size) != 2:
            raise ConfigError(f"image={shown(self.image)}, allowed: pixels a side, or height and width")
        for side in self.size:
            positive("image", side)
        if self.pool not in get_args(Pool):
            raise ConfigError(f"pool={self.pool!r}, allowed: {', '.join(get_args(Pool))}")
        if self.start not in get_args(Start):
            raise ConfigError(f"start={self.start!r}, allowed: {', '.join(get_args(Start))}")
        _ = self.grid  # patches that do not fill the image fail here

    @property
    def size(self) -> Grid:
        """Height and width in pixels."""
        return (self.image, self.image) if isinstance(self.image, int) else self.image

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return patch_grid(self.size, self.patch)

    @property
    def tokens(self) -> int:
        """T: the patches, and the class token if there is one."""
        return self.grid[0] * self.grid[1] + (self.pool == "class")

    @property
    def stack(self) -> StackConfig:
        """The stack these sizes describe."""
        attention = AttentionConfig(
            width=self.width,
            heads=self.heads,
            bias=self.qkv_bias,
            out_bias=True,
            learn_scale=self.local,
            kernel=self.kernel,
        )
        feedforward = FeedForwardConfig(inner=self.inner, activation=self.activation, dropout=self.dropout)
        return StackConfig(
            layers=self.layers,
            block=BlockConfig(
                attention=attention, feedforward=feedforward, norm=self.norm, place="pre", dropout=self.dropout
            ),
            context=self.tokens,
            dropout=self.dropout,
            stochastic_depth=self.stochastic_depth,
        )

    def build(self) -> Vit:
        return Vit(self)

    def smaller(self) -> VitConfig | None:
        """The next smaller version."""
        found = StackSizes(self.width, self.heads, self.layers, self.inner).smaller()
        if found is None:
            return None
        return replace(self, width=found.width, heads=found.heads, layers=found.layers, inner=found.inner)

    @property
    def text(self) -> None:
        return None

    @property
    def backbone(self) -> Backbone:
        """Everything but the output layer."""
        return Backbone(config=self, heads=("head.",))

    def fit_weights(self, weights: Mapping[str, Tensor], before: VitConfig) -> dict[str, Tensor]:
        """The weights of a model of config `before` for a model of this one: fine-tuning at another image size.

        A class token that this model does not have is left out, with its position.
        """
        fitted = fit_positions(weights, before, self)
        if before.pool == "class" and self.pool == "mean":
            fitted.pop("class_token", None)
            fitted["positions"] = fitted["positions"][1:]
        return fitted

    def expect_like(self, wanted: VitConfig, what: str) -> None:
        """Raise ConfigError naming a setting in which this encoder, made like `wanted`, cannot be like it.

        What only training or a head reads may differ.
        """
        for field in fields(self):
            own, other = getattr(self, field.name), getattr(wanted, field.name)
            if field.name not in FREE and own != other:
                raise ConfigError(
                    f"--init has a vision transformer with {field.name}={shown(other)}, allowed for {what}: {own}"
                )


class Vit(Model):
    """Images -> logits; every patch is a token with a learned position."""

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        self.classes, self.channels, self.size = config.classes, config.channels, config.size
        self.patches = PatchEmbedding(
            config.patches, patch=config.patch, channels=config.channels, width=config.width, norm=config.norm
        )
        self.class_token = nn.Parameter(torch.empty(config.width)) if config.pool == "class" else None
        self.positions = nn.Parameter(torch.empty(config.tokens, config.width))
        self.stack = Stack(config.stack)
        self.head = nn.Linear(config.width, config.classes)
        self.mask = NotSelf() if config.local else None  # one mask for all calls: its dense form is cached in it
        _STARTS[config.start](self)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> logits (B, classes)."""
        return self.read(self.features(images))

    def logits(self, images: Tensor) -> Tensor:
        """What `forward` returns, to rounding, but faster: the last block computes only the class token.

        Hooks and observers of the last block see all tokens.
        """
        whole = self.class_token is None or any(observed(block, inside=True) for block in self.stack.blocks[-1:])
        return self.read(self.features(images, output_tokens=None if whole else 1))

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The stack's output (B, T, D) -> logits (B, classes)."""
        logits: Tensor = self.head(self.summary(hidden_BTD))
        return logits

    def features(self, images: Tensor, *, output_tokens: int | None = None) -> Tensor:
        """(B, C, height, width) -> (B, T, D), normalised; the class token's first, then the patches row by row.

        With `output_tokens`, only the first `output_tokens` tokens: (B, output_tokens, D).
        """
        check_images(images, self.channels)
        if images.shape[2:] != self.size:
            got, want = (f"{height} x {width} pixels" for height, width in (images.shape[2:], self.size))
            raise DataError(f"images are {got}, this model reads {want}; `fit_positions` makes it read another size")
        x_BTD = self.patches(images)
        if self.class_token is not None:
            x_BTD = torch.cat([self.class_token.expand(len(x_BTD), 1, -1), x_BTD], 1)
        hidden: Tensor = self.stack(x_BTD + self.positions, mask=self.mask, output_tokens=output_tokens)
        return hidden

    def summary(self, hidden_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, D): what the head reads."""
        return hidden_BTD.mean(1) if self.class_token is None else hidden_BTD[:, 0]

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return patch_grid(self.size, self.patches.patch)

    @property
    def patch_positions(self) -> Tensor:
        """The learned positions of the tokens (T, D), the class token's first if there is one."""
        return self.positions

    title = "vision transformer (ViT)"
    reads = frozenset({"images"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(classes=self(inputs.need("images")))


@torch.no_grad()
def _start_as_paper(model: Vit) -> None:
    """The initialisation of the authors' JAX code: the head and the class token are 0."""
    xavier_init(model, gain=1.0)
    projection = model.patches.projection
    std = projection.in_features**-0.5 / 0.87962566  # the deviation of a standard normal truncated at 2
    nn.init.trunc_normal_(projection.weight, std=std, a=-2 * std, b=2 * std)
    for block in model.stack.blocks:
        assert isinstance(block, Block)
        for name, parameter in block.named_parameters():
            if name in ("feedforward.up.bias", "feedforward.down.bias"):
                nn.init.normal_(parameter, std=1e-6)
    nn.init.normal_(model.positions, std=0.02)
    if model.class_token is not None:
        nn.init.zeros_(model.class_token)
    nn.init.zeros_(model.head.weight)


@torch.no_grad()
def _start_for_small_data(model: Vit) -> None:
    """The initialisation of the code of Lee et al. 2021: positions and class token N(0, 1), as a normalised token."""
    xavier_init(model, shape="normal")
    nn.init.normal_(model.positions)
    if model.class_token is not None:
        nn.init.normal_(model.class_token)


_STARTS = {"paper": _start_as_paper, "small-data": _start_for_small_data}


def fit_positions(weights: Mapping[str, Tensor], before: VitConfig, after: VitConfig) -> dict[str, Tensor]:
    """The weights of a model of config `before` with positions for the image size of `after`: fine-tuning's first step.

    The grid is resized bicubically; the class token's position, and everything else, stays as it is.
    """
    return {**weights, "positions": resize_grid(weights["positions"], before.grid, after.grid)}
