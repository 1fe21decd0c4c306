"""A transformer of vectors: rows of numbers are the tokens of a set or a sequence, which gets a class or a number.

Without positions it is a function of a set (Lee et al. 2019, "Set Transformer"): the order of the rows has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive, probability
from headway.errors import ConfigError, ShapeError, shown
from headway.models.backbone import Backbone
from headway.models.inputs import Model, ModelInputs, ModelOutputs
from headway.models.smaller import StackSizes
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.embedding import check_lengths
from headway.nn.feedforward import Activation, FeedForwardConfig
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.positions import EncoderPosition
from headway.nn.stack import StackConfig
from headway.ops import Lengths, Mask, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The numbers of a vector by name, and how each is standardised: (value - mean)/deviation."""

    names: tuple[str, ...]  # columns of a table, or numbers from 1; the data sets them
    means: tuple[float, ...]  # of each over the training split; the data sets them
    deviations: tuple[float, ...]  # standard deviation of each over the training split; the data sets them

    def __post_init__(self) -> None:
        positive("model.features: how many", len(self.names))
        if not len(self.names) == len(self.means) == len(self.deviations):
            given = f"{len(self.names)} names, {len(self.means)} means, {len(self.deviations)} deviations"
            raise ConfigError(f"model.features: {given}, expected the same number of each")
        if wrong := [value for value in self.deviations if not value > 0.0]:
            raise ConfigError(f"model.features.deviations: {shown(wrong[0])}, allowed: above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanPool:
    """The mean of the elements' vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPool:
    """A learned query attends to the elements (Lee et al. 2019, section 3.2, with one seed vector)."""

    layers: int = 1  # blocks of the query: self-attention, attention to the elements, feed-forward

    def __post_init__(self) -> None:
        positive("model.pool.layers", self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTransformerConfig:
    """Sizes and parts of a transformer of vectors; its stack is pre-norm."""

    size_limits: ClassVar[dict[str, str]] = {"outputs": "width"}

    features: Features  # the numbers of a vector; the data sets them
    outputs: int  # how many classes, or 1 for a number; the data sets it
    mean: float = 0.0  # what a predicted number is centred on; the data sets it
    deviation: float = 1.0  # the unit in which a number is predicted; the data sets it
    width: int = 64  # features of a token's vector, D
    layers: int = 2  # blocks in the stack
    heads: int = 4  # attention heads; they divide the width
    inner: int = 128  # features inside the feed-forward network, F
    position: EncoderPosition | None = None  # how positions are encoded; none: the order has no effect
    context: int = 512  # for learned positions only
    pool: MeanPool | QueryPool | None = QueryPool()  # elements to one vector; none: an output for each element
    mixing: bool = True  # elements attend to one another; false: each by itself, as in Deep Sets (Zaheer et al. 2017)
    norm: FeatureNorm = LayerNorm()  # the normalisation, with its settings
    activation: Activation = "gelu"  # of the feed-forward network
    dropout: float = 0.0  # share of features put to 0 in training, at least 0 and below 1
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        positive("outputs", self.outputs)
        probability("dropout", self.dropout)
        if not self.deviation > 0.0:
            raise ConfigError(f"deviation={self.deviation}, allowed: above 0")
        _ = self.stack  # sizes that do not fit fail here

    @property
    def backbone(self) -> Backbone:
        """Everything but the output layer, which other classes replace."""
        return Backbone(config=self, heads=("head.",))

    @property
    def stack(self) -> StackConfig:
        """The stack of the elements."""
        return StackConfig(
            layers=self.layers,
            block=self._block(cross=False),
            context=self.context,
            position=self.position,
            dropout=self.dropout,
        )

    def pooling(self, layers: int) -> StackConfig:
        """The stack of a query that attends to the elements."""
        return StackConfig(layers=layers, block=self._block(cross=True), context=1)

    def _block(self, *, cross: bool) -> BlockConfig:
        return BlockConfig(
            attention=AttentionConfig(width=self.width, heads=self.heads, dropout=self.dropout, kernel=self.kernel),
            feedforward=FeedForwardConfig(inner=self.inner, activation=self.activation),
            norm=self.norm,
            place="pre",
            dropout=self.dropout,
            cross=cross,
        )

    def build(self) -> VectorTransformer:
        return VectorTransformer(self)

    def smaller(self) -> VectorTransformerConfig | None:
        """The next smaller version."""
        found = StackSizes(self.width, self.heads, self.layers, self.inner).smaller()
        if found is None:
            return None
        return replace(self, width=found.width, heads=found.heads, layers=found.layers, inner=found.inner)

    @property
    def text(self) -> None:
        return None


class VectorTransformer(Model):
    """Vectors (B, T, N) -> logits or numbers of each set (B, outputs), or of each element (B, T, outputs)."""

    title = "transformer over vectors"
    reads = frozenset({"vectors", "lengths"})

    def __init__(self, config: VectorTransformerConfig) -> None:
        super().__init__()
        self.columns, self.mixing = config.features, config.mixing
        self.mean, self.deviation = config.mean, config.deviation
        self.embedding = nn.Linear(len(config.features.names), config.width)
        self.encoder = config.stack.build()
        self.pool: nn.Module | None = None
        if isinstance(config.pool, QueryPool):
            self.pool = QueryPooling(config.pooling(config.pool.layers))
        elif config.pool is not None:
            self.pool = MeanPooling()
        self.hidden = nn.Linear(config.width, config.width)
        self.head = nn.Linear(config.width, config.outputs)

    def forward(self, vectors_BTN: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """(B, T, N), padded on the right with any finite numbers -> (B, outputs), or (B, T, outputs) without a pool.

        Raises ShapeError for vectors of another size.
        """
        size = len(self.columns.names)
        if vectors_BTN.ndim != 3 or vectors_BTN.shape[2] != size:
            got = tuple(vectors_BTN.shape)
            raise ShapeError(f"vectors of shape {got}, the model reads (sets, elements, {size})")
        check_lengths(lengths_B, vectors_BTN[:, :, 0], "set")
        mask: Mask | None = None if lengths_B is None else Lengths(lengths_B)
        x_BTD = self.embedding(self.standardised(vectors_BTN))
        x_BTD = self.encoder(x_BTD, mask=mask if self.mixing else Window(0), lengths_B=lengths_B)
        if self.pool is not None:
            x_BTD = self.pool(x_BTD, lengths_B)
        output: Tensor = self.head(F.gelu(self.hidden(x_BTD)))
        return output.to(_exact(output.dtype)) * self.deviation + self.mean

    def standardised(self, vectors: Tensor) -> Tensor:
        """(…, N) -> (…, N) with mean 0 and deviation 1 over the training split, in the type of the weights.

        Computed in 32 bits at least: 1,000.5 and 1,001.5 are the same number in bfloat16.
        """
        dtype = next(self.parameters()).dtype  # a model in int8 has norms in float32
        exact = vectors.to(_exact(dtype))
        means, deviations = (exact.new_tensor(part) for part in (self.columns.means, self.columns.deviations))
        return ((exact - means) / deviations).to(dtype)

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        found = self(inputs.need("vectors"), inputs.lengths)
        return ModelOutputs(tokens=found) if self.pool is None else ModelOutputs(classes=found)


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


class MeanPooling(nn.Module):
    """The mean over the elements that are not padding."""

    def forward(self, x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, D)."""
        if lengths_B is None:
            return x_BTD.mean(1)
        real_BT = torch.arange(x_BTD.shape[1], device=x_BTD.device) < lengths_B[:, None]
        return torch.where(real_BT[..., None], x_BTD, 0.0).sum(1) / lengths_B[:, None]


class QueryPooling(nn.Module):
    """A learned vector that attends to the elements; departures from Lee et al. 2019: pre-norm, and no separate
    feed-forward network of the elements, which the stack below has.
    """

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(1, config.block.attention.width))
        nn.init.normal_(self.query, std=0.02)
        self.stack = config.build()

    def forward(self, x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, D)."""
        memory = self.stack.project_memory(x_BTD, lengths_B)
        pooled: Tensor = self.stack(self.query.expand(len(x_BTD), 1, -1), memory=memory)
        return pooled[:, 0]


def standardisation(names: Sequence[str], rows: Tensor) -> Features:
    """The features of training vectors (M, N), in float64; a feature that is always the same has deviation 1."""
    means, deviations = rows.double().mean(0), rows.double().std(0, correction=0)
    deviations = torch.where(deviations > 1e-12 * means.abs().clamp(min=1e-20), deviations, 1.0)
    return Features(names=tuple(names), means=tuple(means.tolist()), deviations=tuple(deviations.tolist()))
