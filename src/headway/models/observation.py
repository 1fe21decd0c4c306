"""Observation encoders of a world model and the distributions of the next observation: tokens, numbers, VQ codes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import not_negative, positive, probability
from headway.errors import ConfigError

NARROWEST, WIDEST = -5.0, 2.0  # of the logarithm of a standard deviation, in units of the moves of a step
CODE = 16  # the width of a code


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Observations of `parts` whole numbers below `levels`; each of the next ones is sampled from a softmax."""

    parts: int = 1  # whole numbers in an observation; the data sets it
    levels: int  # values each of them can have; the data sets it
    least: float = 0.0  # values less likely than this share of the likeliest are never sampled, nor rewards and ends

    def __post_init__(self) -> None:
        positive("model.observation.parts", self.parts)
        positive("model.observation.levels", self.levels)
        probability("model.observation.least", self.least)

    def build(self, width: int) -> TokenReader:
        """The reader of these sizes."""
        return TokenReader(self, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Observations of `size` real numbers; the move of each is sampled from a Gaussian."""

    size: int  # real numbers in an observation; the data sets it

    def __post_init__(self) -> None:
        positive("model.observation.size", self.size)

    def build(self, width: int) -> NumberReader:
        """The reader of these sizes."""
        return NumberReader(self, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """Square images, each patch of which becomes one of `levels` learned codes (VQ-VAE, van den Oord et al. 2017)."""

    image: int = 40  # pixels a side
    patch: int = 8  # pixels a side; each patch becomes one code
    levels: int = 32  # codes in the codebook
    inner: int = 128  # of the encoder and the decoder
    commitment: float = 0.25  # the weight of the loss that draws the encoder's output to its code
    least: float = 0.02  # codes less likely than this share of the likeliest are never sampled, nor rewards and ends

    def __post_init__(self) -> None:
        for name in ("image", "patch", "levels", "inner"):
            positive(f"model.observation.{name}", getattr(self, name))
        probability("model.observation.least", self.least)
        not_negative("model.observation.commitment", self.commitment)
        if self.image % self.patch:
            raise ConfigError(f"model.observation.image={self.image} is not a multiple of patch={self.patch}")

    @property
    def parts(self) -> int:
        """Patches of an image."""
        return (self.image // self.patch) ** 2

    def build(self, width: int) -> CodeReader:
        """The reader of these sizes."""
        return CodeReader(self, width)


Observing = Tokens | Numbers | Codes


class TokenReader(nn.Module):
    """Whole numbers (…, P) as the sum of their embeddings, and a softmax for each of the next ones."""

    def __init__(self, config: Tokens | Codes, width: int) -> None:
        super().__init__()
        self.parts, self.levels, self.least = config.parts, config.levels, config.least
        self.embedding = TokenSum(config.parts, config.levels, width)
        self.next = nn.Linear(width, config.parts * config.levels)

    def state(self, observations: Tensor) -> Tensor:
        """The state of observations (…, P): themselves."""
        return observations

    def entrance(self, width: int) -> nn.Module:
        """A first layer for a network that reads states."""
        return TokenSum(self.parts, self.levels, width)

    def normal(self, state: Tensor) -> Tensor:
        """States as a first layer reads them: unchanged."""
        return state

    def embed(self, state: Tensor) -> Tensor:
        """(…, P) -> (…, D)."""
        x: Tensor = self.embedding(state)
        return x

    def logits(self, h: Tensor) -> Tensor:
        """(…, D) -> (…, P, levels)."""
        x: Tensor = self.next(h)
        return x.view(*x.shape[:-1], self.parts, self.levels)

    def next_logits(self, h: Tensor) -> Tensor | None:
        """(…, D) -> logits of the next state (…, levels) where a state is one symbol; None where it has several."""
        return self.logits(h).squeeze(-2) if self.parts == 1 else None

    def nats(self, h: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """The loss (…): -log p of the next state."""
        nats: Tensor = F.cross_entropy(self.logits(h).movedim(-1, 1), after.long(), reduction="none")
        return nats.sum(-1)

    def score(self, h: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """-log p of the next state (…)."""
        return self.nats(h, before, after)

    def draw(self, h: Tensor, before: Tensor) -> Tensor:
        """A next state (…, P), each part from its own softmax."""
        below = self.chances(self.logits(h)).cumsum(-1)  # one random number for each part, not one for each level
        drawn = torch.rand_like(below[..., :1]) * below[..., -1:]
        return (below <= drawn).sum(-1).clamp(max=self.levels - 1)

    def chances(self, logits: Tensor) -> Tensor:
        """Logits (…, levels) -> the probabilities by which values are sampled, 0 for those below `least`."""
        if self.least:
            floor = logits.amax(-1, keepdim=True) + math.log(self.least)
            logits = logits.masked_fill(logits < floor, -torch.inf)
        return logits.softmax(-1)

    def settled(self, logit: Tensor) -> Tensor:
        """The logit of what happens or does not (…): infinite where one of the two is below `least` of the other."""
        if self.least:
            logit = torch.where(logit.abs() > -math.log(self.least), logit.sign() * torch.inf, logit)
        return logit

    def wrong(self, guess: Tensor, real: Tensor) -> Tensor:
        """The share of parts that differ (…)."""
        return (guess != real).float().mean(-1)


class TokenSum(nn.Module):
    """The sum of the parts' embeddings, each from its own table: (…, P) -> (…, D)."""

    def __init__(self, parts: int, levels: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(parts * levels, width))
        nn.init.normal_(self.table, std=parts**-0.5)
        self.parts, self.levels = parts, levels

    def forward(self, state: Tensor) -> Tensor:
        """(…, P) -> (…, D)."""
        rows = state.long() + self.levels * torch.arange(self.parts, device=state.device)
        x = F.embedding_bag(rows.reshape(-1, self.parts), self.table, mode="sum")
        return x.view(*state.shape[:-1], -1)


class NumberReader(nn.Module):
    """Real numbers (…, N), normalised, and a Gaussian over the next move of each."""

    mean: Tensor
    std: Tensor
    moves: Tensor

    def __init__(self, config: Numbers, width: int) -> None:
        super().__init__()
        self.size = config.size
        self.embedding = nn.Linear(config.size, width)
        self.next = nn.Linear(width, 2 * config.size)
        self.register_buffer("mean", torch.zeros(config.size))
        self.register_buffer("std", torch.ones(config.size))
        self.register_buffer("moves", torch.ones(config.size))

    @property
    def fitted(self) -> bool:
        """Whether numbers were normalised before."""
        return bool((self.moves != 1).any())

    def state(self, observations: Tensor) -> Tensor:
        """The state of observations (…, N): themselves, in their own units."""
        return observations.float()

    def entrance(self, width: int) -> nn.Module:
        """A first layer for a network that reads normalised states."""
        return nn.Linear(self.size, width)

    def normal(self, state: Tensor) -> Tensor:
        """States with mean 0 and deviation 1 over the data."""
        return (state - self.mean) / self.std

    def embed(self, state: Tensor) -> Tensor:
        """(…, N) -> (…, D)."""
        x: Tensor = self.embedding(self.normal(state))
        return x

    def _moved(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the log standard deviation of each move (…, N), in units of the moves' deviation.

        The deviation's gradient stops at the features: it is large where a deviation is small, and the mean, which
        shares them, was worse for it (by four in CartPole, which has no noise at all).
        """
        (mean, _), (_, spread) = (self.next(x).chunk(2, -1) for x in (h, h.detach()))
        return mean, NARROWEST + (WIDEST - NARROWEST) * torch.sigmoid(spread)

    def next_logits(self, h: Tensor) -> Tensor | None:
        """None: numbers have no list of next states."""
        return None

    def nats(self, h: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """The loss (…): squared error for the mean, likelihood for the deviation around it, in units of it (β-NLL).

        Under the likelihood alone the mean gets little gradient where the deviation is large, and a small deviation
        a gradient so large that clipping leaves nothing of the others (Seitzer et al. 2022, β = 0.5).
        """
        mean, spread = self._moved(h)
        move = (after - before) / self.moves
        likely = spread.detach().exp() * _gaussian(move - mean.detach(), spread)
        return ((move - mean).square() + likely).sum(-1)

    def score(self, h: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """-log p of the move (…), in normalised units."""
        mean, spread = self._moved(h)
        return _gaussian((after - before) / self.moves - mean, spread).sum(-1)

    def draw(self, h: Tensor, before: Tensor) -> Tensor:
        """A next state (…, N)."""
        mean, spread = self._moved(h)
        return before + self.moves * (mean + spread.exp() * torch.randn_like(mean))

    def settled(self, logit: Tensor) -> Tensor:
        """The logit of what happens or does not (…): as it is."""
        return logit

    def wrong(self, guess: Tensor, real: Tensor) -> Tensor:
        """The mean squared error in units of the states' variance (…)."""
        return ((guess - real) / self.std).square().mean(-1)

    @torch.no_grad()
    def renormalise(self, states: Tensor, moves: Tensor, readers: list[nn.Linear]) -> None:
        """Update mean and deviation from new data (N, size); `readers` are adjusted so that their outputs stay.

        Not the first time: before anything is learned, the initial weights are meant for normalised numbers.
        """
        mean, std = states.mean(0), states.std(0).clamp(min=1e-6)
        far = moves.std(0).clamp(min=1e-6)
        if self.fitted:
            for layer in (self.embedding, *readers):
                adjust(layer, (self.mean, self.std), (mean, std))
            share = self.moves / far
            self.next.weight[: self.size].mul_(share.unsqueeze(-1))
            self.next.bias[: self.size].mul_(share)
        self.mean.copy_(mean)
        self.std.copy_(std)
        self.moves.copy_(far)


@torch.no_grad()
def adjust(layer: nn.Linear, old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> None:
    """Let a layer that read numbers normalised by an old mean and deviation read them by new ones; outputs stay."""
    layer.bias.add_(layer.weight @ ((new[0] - old[0]) / old[1]))
    layer.weight.mul_(new[1] / old[1])


def _gaussian(off: Tensor, spread: Tensor) -> Tensor:
    """-log of a normal density at distance `off` from its mean; `spread` is the logarithm of its deviation."""
    return 0.5 * (off * (-spread).exp()).square() + spread + 0.5 * math.log(2 * math.pi)


class CodeReader(TokenReader):
    """Images (…, 3, S, S) as bytes; each patch becomes the nearest of the learned codes, which decode to patches."""

    def __init__(self, config: Codes, width: int) -> None:
        super().__init__(config, width)
        self.patch, self.side, self.commitment = config.patch, config.image // config.patch, config.commitment
        pixels, inner = 3 * config.patch**2, config.inner
        # The norm bounds the encoder's output: encoder and codebook would drift apart otherwise.
        self.encoder = nn.Sequential(
            nn.Linear(pixels, inner), nn.GELU(), nn.Linear(inner, CODE), nn.LayerNorm(CODE, elementwise_affine=False)
        )
        self.decoder = nn.Sequential(nn.Linear(CODE, inner), nn.GELU(), nn.Linear(inner, pixels))
        self.book = nn.Parameter(torch.randn(config.levels, CODE))

    def _patches(self, pictures: Tensor) -> Tensor:
        """(B, 3, S, S) as bytes -> (B, P, pixels) from -1 to 1."""
        return F.unfold(pictures.float() / 127.5 - 1, self.patch, stride=self.patch).mT

    def _nearest(self, x: Tensor) -> Tensor:
        away = self.book.square().sum(-1) - 2 * x @ self.book.mT  # less |x|², the same for all
        return away.argmin(-1)

    @torch.no_grad()
    def state(self, observations: Tensor) -> Tensor:
        """The codes (…, P) of images (…, 3, S, S); codes stay as they are."""
        if observations.dtype == torch.int64:
            return observations
        flat = observations.flatten(0, -4) if observations.ndim > 4 else observations
        codes = self._nearest(self.encoder(self._patches(flat if flat.ndim == 4 else flat[None])))
        return codes.view(*observations.shape[:-3], -1)

    def pictures(self, state: Tensor) -> Tensor:
        """Codes (…, P) as images (…, 3, S, S), from 0 to 1."""
        patches = self.decoder(self.book[state.reshape(-1, self.parts)])
        size = self.side * self.patch
        frames = F.fold(patches.mT, (size, size), self.patch, stride=self.patch)
        return (frames.view(*state.shape[:-1], 3, size, size) * 0.5 + 0.5).clamp(0, 1)

    def autoencoded(self, pictures: Tensor) -> dict[str, Tensor]:
        """The losses of each image (B,): reconstruction, codebook, commitment (van den Oord et al. 2017, equation 3).

        The gradient of the decoder's input goes to the encoder unchanged (straight-through estimator).
        """
        patches = self._patches(pictures)
        x = self.encoder(patches)
        codes = self.book[self._nearest(x)]
        decoded = self.decoder(x + (codes - x).detach())
        book = (codes - x.detach()).square().sum((-1, -2))
        kept = (codes.detach() - x).square().sum((-1, -2))
        off = (decoded - patches).square().sum((-1, -2))
        return {"picture": off, "code_book": book, "commitment": self.commitment * kept}

    @torch.no_grad()
    def revive(self, pictures: Tensor) -> None:
        """Move codes that no patch is nearest to, one after another, to the patch farthest from any code in use."""
        x = self.encoder(self._patches(pictures)).flatten(0, 1)
        used = torch.zeros(self.levels, dtype=torch.bool, device=x.device)
        used[self._nearest(x)] = True
        for dead in (~used).nonzero().flatten().tolist():
            alive = self.book[used] if used.any() else self.book[:0]
            away = torch.cdist(x, alive).amin(-1) if len(alive) else x.square().sum(-1)
            self.book[dead] = x[away.argmax()]
            used[dead] = True
