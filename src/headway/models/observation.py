"""How a world model reads what it observes, and how it draws what comes next: tokens, numbers, or a learned code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError

NARROWEST, WIDEST = -5.0, 2.0  # of the logarithm of a spread, in units of how far a number moves in a step
CODE = 16  # the width of a code


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Observations of `parts` whole numbers below `levels`; the next ones are drawn from a softmax each."""

    parts: int = 1  # whole numbers in an observation; the data sets it
    levels: int  # values each of them can have; the data sets it
    least: float = 0.0  # what is less likely than this share of the likeliest is never drawn

    def __post_init__(self) -> None:
        positive("model.observation.parts", self.parts)
        positive("model.observation.levels", self.levels)

    def build(self, width: int) -> TokenReader:
        """The reader of these sizes."""
        return TokenReader(self, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Observations of `size` real numbers; how far each moves is drawn from a Gaussian."""

    size: int  # real numbers in an observation; the data sets it

    def __post_init__(self) -> None:
        positive("model.observation.size", self.size)

    def build(self, width: int) -> NumberReader:
        """The reader of these sizes."""
        return NumberReader(self, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """Square pictures, each patch of which is one of `levels` learned codes (VQ): to the world model, tokens."""

    image: int = 40  # pixels a side
    patch: int = 8  # pixels a side; each patch becomes one code
    levels: int = 32  # codes in the codebook
    inner: int = 128  # of the encoder and the decoder
    commitment: float = 0.25  # how strongly what the encoder gives is drawn to its code
    least: float = 0.02  # codes less likely than this share of the likeliest are never drawn

    def __post_init__(self) -> None:
        if self.image % self.patch:
            raise ConfigError(f"model.observation.image={self.image} is not a multiple of patch={self.patch}")

    @property
    def parts(self) -> int:
        """Patches of a picture."""
        return (self.image // self.patch) ** 2

    def build(self, width: int) -> CodeReader:
        """The reader of these sizes."""
        return CodeReader(self, width)


Observing = Tokens | Numbers | Codes


class TokenReader(nn.Module):
    """Whole numbers (…, P) as the sum of their embeddings, and a softmax over each of the next ones."""

    def __init__(self, config: Tokens | Codes, width: int) -> None:
        super().__init__()
        self.parts, self.levels, self.least = config.parts, config.levels, config.least
        self.embedding = TokenSum(config.parts, config.levels, width)
        self.next = nn.Linear(width, config.parts * config.levels)

    def state(self, observations: Tensor) -> Tensor:
        """What is imagined of observations (…, P): themselves."""
        return observations

    def entrance(self, width: int) -> nn.Module:
        """A new first layer for a network that reads states."""
        return TokenSum(self.parts, self.levels, width)

    def normal(self, state: Tensor) -> Tensor:
        """States as a first layer reads them: as they are."""
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
        """-log p of the next state, and what is minimised, which is the same: (…)."""
        nats: Tensor = F.cross_entropy(self.logits(h).movedim(-1, 1), after.long(), reduction="none")
        return nats.sum(-1)

    def score(self, h: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """-log p of the next state (…)."""
        return self.nats(h, before, after)

    def draw(self, h: Tensor, before: Tensor) -> Tensor:
        """A next state (…, P), each part from its own softmax."""
        logits = self.logits(h)
        if self.least:
            floor = logits.amax(-1, keepdim=True) + math.log(self.least)
            logits = logits.masked_fill(logits < floor, -torch.inf)
        below = logits.softmax(-1).cumsum(-1)  # one random number a part, not one a level: they are what costs
        drawn = torch.rand_like(below[..., :1]) * below[..., -1:]
        return (below <= drawn).sum(-1).clamp(max=self.levels - 1)

    def wrong(self, guess: Tensor, real: Tensor) -> Tensor:
        """The share of parts that differ (…)."""
        return (guess != real).float().mean(-1)


class TokenSum(nn.Module):
    """Σ over the parts of a table each: (…, P) -> (…, D)."""

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
    """Real numbers (…, N), normalised, and a Gaussian over how far each moves next."""

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

    def state(self, observations: Tensor) -> Tensor:
        """What is imagined of observations (…, N): themselves, in their own units."""
        return observations.float()

    def entrance(self, width: int) -> nn.Module:
        """A new first layer for a network that reads normalised states."""
        return nn.Linear(self.size, width)

    def normal(self, state: Tensor) -> Tensor:
        """States in units of how much they vary."""
        return (state - self.mean) / self.std

    def embed(self, state: Tensor) -> Tensor:
        """(…, N) -> (…, D)."""
        x: Tensor = self.embedding(self.normal(state))
        return x

    def _moved(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the logarithm of the spread of each move (…, N), in units of how far moves go."""
        mean, spread = self.next(h).chunk(2, -1)
        return mean, NARROWEST + (WIDEST - NARROWEST) * torch.sigmoid(spread)

    def next_logits(self, h: Tensor) -> Tensor | None:
        """None: numbers have no list of next states."""
        return None

    def nats(self, h: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """What is minimised (…): the mean by its squared error, the spread by its likelihood around that mean.

        By likelihood alone a mean is not improved where its spread is already wide.
        """
        mean, spread = self._moved(h)
        move = (after - before) / self.moves
        return ((move - mean).square() + _gaussian(move - mean.detach(), spread)).sum(-1)

    def score(self, h: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """-log p of the move (…), in its normalised units."""
        mean, spread = self._moved(h)
        return _gaussian((after - before) / self.moves - mean, spread).sum(-1)

    def draw(self, h: Tensor, before: Tensor) -> Tensor:
        """A next state (…, N)."""
        mean, spread = self._moved(h)
        return before + self.moves * (mean + spread.exp() * torch.randn_like(mean))

    def wrong(self, guess: Tensor, real: Tensor) -> Tensor:
        """The mean squared error in units of the states' variance (…)."""
        return ((guess - real) / self.std).square().mean(-1)

    @torch.no_grad()
    def renormalise(self, states: Tensor, moves: Tensor, readers: list[nn.Linear]) -> None:
        """Measure with new data (N, size); layers that read normalised states compute what they did before."""
        mean, std = states.mean(0), states.std(0).clamp(min=1e-6)
        for layer in (self.embedding, *readers):
            layer.bias.add_(layer.weight @ ((mean - self.mean) / self.std))
            layer.weight.mul_(std / self.std)
        far = moves.std(0).clamp(min=1e-6)
        share = self.moves / far
        self.next.weight[: self.size].mul_(share.unsqueeze(-1))
        self.next.bias[: self.size].mul_(share)
        self.mean.copy_(mean)
        self.std.copy_(std)
        self.moves.copy_(far)


def _gaussian(off: Tensor, spread: Tensor) -> Tensor:
    """-log of a normal density, `off` its mean, of which `spread` is the logarithm of the deviation."""
    return 0.5 * (off * (-spread).exp()).square() + spread + 0.5 * math.log(2 * math.pi)


class CodeReader(TokenReader):
    """Pictures (…, 3, S, S) as bytes; each patch becomes the nearest of the learned codes, which decode to patches."""

    def __init__(self, config: Codes, width: int) -> None:
        super().__init__(config, width)
        self.patch, self.side, self.commitment = config.patch, config.image // config.patch, config.commitment
        pixels, inner = 3 * config.patch**2, config.inner
        # The norm bounds what is to be coded: encoder and code book would run away from each other otherwise.
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
        """The codes (…, P) of pictures (…, 3, S, S)."""
        flat = observations.flatten(0, -4) if observations.ndim > 4 else observations
        codes = self._nearest(self.encoder(self._patches(flat if flat.ndim == 4 else flat[None])))
        return codes.view(*observations.shape[:-3], -1)

    def pictures(self, state: Tensor) -> Tensor:
        """Codes (…, P) as pictures (…, 3, S, S), from 0 to 1."""
        patches = self.decoder(self.book[state.reshape(-1, self.parts)])
        size = self.side * self.patch
        frames = F.fold(patches.mT, (size, size), self.patch, stride=self.patch)
        return (frames.view(*state.shape[:-1], 3, size, size) * 0.5 + 0.5).clamp(0, 1)

    def autoencoded(self, pictures: Tensor) -> dict[str, Tensor]:
        """The loss of each picture (B,): how far what is decoded is off, and encoder and code book drawn together.

        The gradient of what is decoded goes past the choice of a code straight to the encoder.
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
        """Codes that no patch is nearest to are put where patches are, far from any code, one after another."""
        x = self.encoder(self._patches(pictures)).flatten(0, 1)
        used = torch.zeros(self.levels, dtype=torch.bool, device=x.device)
        used[self._nearest(x)] = True
        for dead in (~used).nonzero().flatten().tolist():
            alive = self.book[used] if used.any() else self.book[:0]
            away = torch.cdist(x, alive).amin(-1) if len(alive) else x.square().sum(-1)
            self.book[dead] = x[away.argmax()]
            used[dead] = True
