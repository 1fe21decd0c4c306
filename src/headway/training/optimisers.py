"""Optimisers as configs, and which parameters get weight decay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headway.training.ranges import expect_not_negative, expect_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Sgd:
    """Gradient descent with momentum: v = momentum·v + g, θ -= η·v."""

    batch_exponent: ClassVar[float] = 1.0  # a batch k times as large allows k^this of the rate (Goyal et al. 2017)

    momentum: float = 0.0  # share of the last update that is kept, at least 0 and below 1
    decay: float = 0.0  # weight decay λ of matrices: λ·w is added to the gradient

    def __post_init__(self) -> None:
        expect_share("optimiser.momentum", self.momentum)
        expect_not_negative("optimiser.decay", self.decay)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Adam without weight decay; the defaults are of Vaswani et al. 2017, section 5.3."""

    batch_exponent: ClassVar[float] = 0.5  # (Malladi et al. 2022)

    beta1: float = 0.9  # decay of the running mean of the gradient
    beta2: float = 0.98  # decay of the running mean of its square
    eps: float = 1e-9  # added to the denominator

    def __post_init__(self) -> None:
        _expect_moments(self.beta1, self.beta2, self.eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019), by default on matrices only."""

    batch_exponent: ClassVar[float] = 0.5

    beta1: float = 0.9  # decay of the running mean of the gradient
    beta2: float = 0.999  # decay of the running mean of its square
    eps: float = 1e-8  # added to the denominator
    decay: float = 0.01  # weight decay λ: w ← w − lr·λ·w
    decays: Literal["matrices", "all"] = "matrices"  # what is decayed: matrices only, or biases and norms as well

    def __post_init__(self) -> None:
        _expect_moments(self.beta1, self.beta2, self.eps)
        expect_not_negative("optimiser.decay", self.decay)


@dataclass(frozen=True, slots=True, kw_only=True)
class Muon:
    """Muon (Jordan et al. 2024) on the matrices of the blocks, AdamW (at `adam_share` of the rate) on all else."""

    batch_exponent: ClassVar[float] = 0.5

    momentum: float = 0.95  # decay of the running mean of the gradient
    decay: float = 0.0  # weight decay λ of the matrices inside the stack: w ← w − lr·λ·w
    adam_share: float = 0.1  # AdamW's learning rate as a share of Muon's

    def __post_init__(self) -> None:
        expect_share("optimiser.momentum", self.momentum)
        for name in ("decay", "adam_share"):
            expect_not_negative(f"optimiser.{name}", getattr(self, name))


def _expect_moments(beta1: float, beta2: float, eps: float) -> None:
    expect_share("optimiser.beta1", beta1)
    expect_share("optimiser.beta2", beta2)
    expect_not_negative("optimiser.eps", eps)


MEANS = ("exp_avg", "exp_avg_sq", "momentum_buffer")  # the state of the optimisers that has the shape of a parameter

Optimiser = Sgd | Adam | AdamW | Muon


def state_bytes(config: Optimiser, parameters: int) -> int:
    """Bytes of an optimiser's running means; those of Muon, which has one for each matrix of a block, at most."""
    means = int(config.momentum > 0) if isinstance(config, Sgd) else 2
    return 4 * means * parameters


def build_optimisers(
    config: Optimiser, model: nn.Module, shares: Mapping[str, float] | None = None
) -> list[torch.optim.Optimizer]:
    """The optimisers that step together; each group's "share" scales the learning rate.

    `shares` has a further factor for each parameter by name; without it, all have 1.
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    factor = {id(p): 1.0 if shares is None else shares[name] for name, p in named}
    matrices = [p for _, p in named if p.ndim >= 2]
    others = [p for _, p in named if p.ndim < 2]
    fused = all(p.device.type in ("cpu", "cuda") for _, p in named)
    if isinstance(config, Sgd):
        groups = _groups(factor, (matrices, config.decay), (others, 0.0))
        return [torch.optim.SGD(groups, lr=0.0, momentum=config.momentum)]
    if isinstance(config, Adam):
        betas, groups = (config.beta1, config.beta2), _groups(factor, (matrices, 0.0), (others, 0.0))
        return [torch.optim.Adam(groups, lr=0.0, betas=betas, eps=config.eps, fused=fused)]
    if isinstance(config, AdamW):
        spared = config.decay if config.decays == "all" else 0.0
        groups, betas = _groups(factor, (matrices, config.decay), (others, spared)), (config.beta1, config.beta2)
        return [torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=config.eps, fused=fused)]
    inside = [p for name, p in named if p.ndim == 2 and ".blocks." in name]
    held = {id(p) for p in inside}
    rest = _groups(factor, ([p for _, p in named if id(p) not in held], 0.0), share=config.adam_share)
    muon = _groups(factor, (inside, config.decay))
    made: list[torch.optim.Optimizer] = []
    if muon:
        made.append(torch.optim.Muon(muon, lr=0.0, momentum=config.momentum))
    if rest:
        made.append(torch.optim.AdamW(rest, lr=0.0, betas=(0.9, 0.95), fused=fused))
    return made


def is_fused_adam(optimiser: torch.optim.Optimizer) -> bool:
    """Whether an optimiser is torch's Adam or AdamW in one kernel, which can leave out a step on the device."""
    return isinstance(optimiser, torch.optim.Adam) and bool(optimiser.defaults["fused"])


def skip_non_finite(optimisers: Sequence[torch.optim.Optimizer], *values: Tensor) -> None:
    """Let fused Adams leave weights and means alone in their next step if one of these values () is not finite."""
    bad = ~torch.stack([value.double() for value in values]).isfinite().all()
    for optimiser in optimisers:
        optimiser.found_inf = bad.float()  # type: ignore[attr-defined]


def _groups(
    factor: Mapping[int, float], *parts: tuple[Sequence[Tensor], float], share: float = 1.0
) -> list[dict[str, object]]:
    """A group for each weight decay and share of the learning rate; `factor` has each parameter's, by its id."""
    groups: list[dict[str, object]] = []
    for params, decay in parts:
        for own in dict.fromkeys(factor[id(p)] for p in params):
            members = [p for p in params if factor[id(p)] == own]
            groups.append({"params": members, "weight_decay": decay, "share": share * own})
    return groups
