"""Can a deep network learn to do nothing? Plain, DenseNet and residual networks learn the identity at depths 2 to 64.

The open task of the decks ("combine both and try again"): x from a standard normal distribution, d = 16, the loss is
the mean squared error of the output against x. f_k(z) = relu(W_k z + b_k) with torch's initialisation.

- plain: z_k = f_k(z_{k−1}), then a linear layer.
- DenseNet: z_k = f_k([x; z_1; …; z_{k−1}]), then a linear layer of all of them (Huang et al. 2017, section 3).
- ResNet as printed: z_k = f_k(x) + z_{k−1}, a sum of layers side by side that has no depth, then a linear layer.
- ResNet: z_k = z_{k−1} + f_k(z_{k−1}) (He et al. 2016, section 3.1).
- pre-norm: z_k = z_{k−1} + f_k(LN(z_{k−1})); post-norm: z_k = LN(z_{k−1} + f_k(z_{k−1})) (Xiong et al. 2020).
- with zero-initialised branches (Goyal et al. 2017, section 5.1), the last two kinds of residual network begin as the
  identity. Here the nonlinearity is the last operation of a branch, which then also stays 0.

All seeds of a kind and depth are trained side by side by batched products; an Adam step is elementwise, so that they do
not influence one another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import (
    Lab,
    LabCheck,
    LabFigure,
    LabOutcome,
    LabTable,
    Slide,
    at_least,
    at_most,
    equals,
    progress,
)
from headway.plots import lab_figures as draw

KINDS = ("plain", "DenseNet", "ResNet, printed", "ResNet", "pre-norm", "post-norm", "ResNet, zero", "pre-norm, zero")
WITH_OUTPUT = ("plain", "DenseNet", "ResNet, printed")  # kinds that end in a linear layer
BATCH, TEST = 64, 1024
RATE = 1e-3
T_QUANTILE = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # 97.5 %
PROBED = ("plain", "DenseNet", "ResNet", "pre-norm")
QUICK_DEPTHS, QUICK_STEPS, QUICK_SEEDS = (2, 16, 32), 60, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityParameters:
    """What is trained."""

    depths: tuple[int, ...] = (2, 4, 8, 16, 32, 64)  # layers of the networks
    seeds: int = 5  # networks of each kind and depth
    width: int = 16  # numbers of x and of every layer
    steps: int = 800  # of Adam with rate 0.001, 64 new inputs each

    def __post_init__(self) -> None:
        for depth in self.depths:
            positive("--depths", depth)
        if not self.depths or max(self.depths) > 256 or list(self.depths) != sorted({*self.depths}):
            raise ConfigError(f"--depths {self.depths}: expected rising numbers from 1 to 256")
        positive("--width", self.width, least=2)
        positive("--steps", self.steps)
        if not 2 <= self.seeds <= 10:
            raise ConfigError(f"--seeds {self.seeds}: expected 2 to 10, for an interval")


@dataclass(frozen=True, slots=True)
class BatchedNetwork:
    """S networks of one kind: weights (S, fan-in, fan-out) and biases (S, 1, fan-out) of each layer."""

    kind: str
    weights: list[Tensor]
    biases: list[Tensor]

    @property
    def count(self) -> int:
        """Parameters of one of them."""
        return sum(each[0].numel() for each in (*self.weights, *self.biases))


def initialise(kind: str, depth: int, width: int, seeds: int, generator: torch.Generator) -> BatchedNetwork:
    """Uniform in ±1/√fan-in, as torch.nn.Linear; branches of kinds "…, zero" are 0."""
    fans = [width * (k + 1 if kind == "DenseNet" else 1) for k in range(depth + (kind in WITH_OUTPUT))]
    scale = 0.0 if kind.endswith(", zero") else 1.0
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    for fan in fans:
        for made, rows in ((weights, fan), (biases, 1)):
            drawn = 2 * torch.rand(seeds, rows, width, generator=generator) - 1
            made.append((scale / math.sqrt(fan) * drawn).requires_grad_())
    return BatchedNetwork(kind, weights, biases)


def branch(network: BatchedNetwork, k: int, z: Tensor) -> Tensor:
    """f_k(z) = relu(W_k z + b_k): (S, B, fan-in) -> (S, B, D)."""
    return torch.baddbmm(network.biases[k], z, network.weights[k]).relu()


def normalise(z: Tensor) -> Tensor:
    """LayerNorm without gain and bias."""
    return F.layer_norm(z, z.shape[-1:])


def layers(network: BatchedNetwork, x: Tensor) -> list[Tensor]:
    """x and what is behind each layer, the output last: (S, B, D) each."""
    kind, outputs = network.kind.removesuffix(", zero"), [x]
    depth = len(network.weights) - (kind in WITH_OUTPUT)
    z = x
    for k in range(depth):
        if kind == "plain":
            z = branch(network, k, z)
        elif kind == "DenseNet":
            z = branch(network, k, torch.cat(outputs, -1))
        elif kind == "ResNet, printed":
            z = branch(network, k, x) + (z if k else 0)
        elif kind == "ResNet":
            z = z + branch(network, k, z)
        elif kind == "pre-norm":
            z = z + branch(network, k, normalise(z))
        else:
            z = normalise(z + branch(network, k, z))
        outputs.append(z)
    if kind in WITH_OUTPUT:
        read = torch.cat(outputs, -1) if kind == "DenseNet" else z
        outputs.append(torch.baddbmm(network.biases[depth], read, network.weights[depth]))
    return outputs


def errors(network: BatchedNetwork, x: Tensor) -> Tensor:
    """The mean squared error of each network's output against x (S,)."""
    return (layers(network, x)[-1] - x).square().mean((1, 2))


def train(network: BatchedNetwork, steps: int, generator: torch.Generator) -> None:
    """Adam on new inputs at every step, for all networks at once."""
    seeds, width = network.weights[0].shape[0], network.weights[0].shape[-1]
    optimiser = torch.optim.Adam([*network.weights, *network.biases], lr=RATE, fused=True)
    for _ in range(steps):
        loss = errors(network, torch.randn(seeds, BATCH, width, generator=generator)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@torch.no_grad()
def readable(network: BatchedNetwork, generator: torch.Generator) -> list[float]:
    """How much of x a linear map can read from each layer: the share of its variance (R²) on new inputs."""
    seeds, width = network.weights[0].shape[0], network.weights[0].shape[-1]
    x = torch.randn(seeds, 2 * TEST, width, generator=generator)
    found = []
    for z in layers(network, x):
        known = torch.cat([z, torch.ones_like(z[..., :1])], -1).double()
        fitted, tested = known[:, :TEST], known[:, TEST:]
        ridge = 1e-9 * fitted.square().mean((1, 2), keepdim=True) * TEST * torch.eye(known.shape[-1]).double()
        solved = torch.linalg.solve(fitted.mT @ fitted + ridge, fitted.mT @ x[:, :TEST].double())
        left = (tested @ solved - x[:, TEST:]).square().mean() / x[:, TEST:].square().mean()
        found.append(max(0.0, 1 - float(left)))
    return found


@dataclass(frozen=True, slots=True)
class Trained:
    """The errors of S networks of one kind and depth, at the beginning and at the end, and their size."""

    first: Tensor
    last: Tensor
    count: int

    @property
    def mean(self) -> float:
        """The geometric mean over seeds, 0 if one is 0."""
        return float(self.last.log().mean().exp())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the geometric mean, by Student's t of the logarithms."""
        logs = self.last.clamp_min(1e-30).log()
        around = T_QUANTILE[len(logs)] * float(logs.std()) / math.sqrt(len(logs))
        return math.exp(float(logs.mean()) - around), math.exp(float(logs.mean()) + around)


def study(
    parameters: IdentityParameters, depths: Sequence[int], seeds: int, steps: int, seed: int
) -> tuple[dict[tuple[str, int], Trained], dict[str, list[float]]]:
    """Train every kind at every depth -> the errors, and what can be read from each layer of the probed depth."""
    made: dict[tuple[str, int], Trained] = {}
    probes: dict[str, list[float]] = {}
    probed = min(max(depths), 32)
    jobs = [(kind, depth) for depth in depths for kind in KINDS]
    for number, (kind, depth) in enumerate(jobs):
        progress(f"{kind}, depth {depth}", number, len(jobs))
        generator = torch.Generator().manual_seed(1000 * seed + number)
        network = initialise(kind, depth, parameters.width, seeds, generator)
        test = torch.randn(seeds, TEST, parameters.width, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            first = errors(network, test)
        if kind in PROBED and depth == probed:
            probes[kind] = readable(network, torch.Generator().manual_seed(seed))
        train(network, steps, generator)
        with torch.no_grad():
            made[kind, depth] = Trained(first, errors(network, test), network.count)
        if kind in PROBED and depth == probed:
            probes[f"{kind}, trained"] = readable(network, torch.Generator().manual_seed(seed))
    return made, probes


def floor(width: int) -> float:
    """The error of LN(x) against x, which no post-norm network can go below: it loses mean and scale.

    x = μ + σ x̂, so that the error is E μ² + E (σ − 1)², with d σ² from a χ² distribution of d − 1 degrees of freedom.
    """
    log_ratio = math.lgamma(width / 2) - math.lgamma((width - 1) / 2)
    mean_sigma = math.sqrt(2 / width) * math.exp(log_ratio)
    return 1 / width + (width - 1) / width - 2 * mean_sigma + 1


def dense_count(depth: int, width: int) -> int:
    """Parameters of a DenseNet with its linear layer: d²(k+1)(k+2)/2 weights, (k+1)·d biases."""
    return width**2 * (depth + 1) * (depth + 2) // 2 + (depth + 1) * width


def run(parameters: IdentityParameters, seed: int, quick: bool) -> LabOutcome:
    """The study, with 95 % intervals over seeds."""
    depths = [d for d in parameters.depths if not quick or d in QUICK_DEPTHS] or [parameters.depths[0]]
    seeds = min(QUICK_SEEDS, parameters.seeds) if quick else parameters.seeds
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    made, probes = study(parameters, depths, seeds, steps, seed)
    header = ("kind", *(f"depth {depth}" for depth in depths))
    tables = [
        LabTable(
            title=f"mean squared error after {steps} steps, geometric mean of {seeds} seeds",
            header=header,
            rows=[(kind, *(_short(made[kind, depth].mean) for depth in depths)) for kind in KINDS],
            note="Predicting 0 has an error of 1.",
        ),
        LabTable(
            title="the same: 95 % interval over the seeds (Student's t of the logarithms)",
            header=header,
            rows=[
                (kind, *("–".join(map(_short, made[kind, depth].interval)) for depth in depths)) for kind in KINDS[:6]
            ],
        ),
        LabTable(
            title="parameters",
            header=header,
            rows=[(kind, *(made[kind, depth].count for depth in depths)) for kind in ("plain", "DenseNet", "ResNet")],
            note="DenseNet's grow with the square of the depth, since layer k reads all k outputs before it.",
        ),
        LabTable(
            title=f"share of x that a linear map can read from a layer (R²), depth {min(max(depths), 32)}",
            header=("kind", "layer 1", "layer 4", "half way", "last layer"),
            rows=[
                (kind, *(found[at] for at in (1, min(4, len(found) - 1), len(found) // 2, -1)))
                for kind, found in probes.items()
            ],
            note="1: all of x can be read there, 0: nothing. Without “trained”: as initialised.",
        ),
    ]
    notes = [
        "A network whose target is its own input is an autoencoder; this one has no narrow layer, so that nothing"
        " forces it to lose anything.",
        "There are two ways to hand the input past a layer: a residual block gives f(x) + x, and a layer of a DenseNet"
        " reads the outputs of all layers before it.",
        "The slide says that ResNet does not work as well as DenseNet. Here that holds from depth 4 on, and from depth"
        " 16 on ResNet is worse than the plain network, too, but not because information is lost: half of x can still"
        " be read from its last layer, nothing from that of the plain one. A sum of positive branches grows with every"
        " layer, and Adam has to take it back: what is representable need not be learnable. LayerNorm before the branch"
        " bounds what is added: pre-norm keeps most of x and still has an error far from 0. Zero-initialised branches"
        " begin at the answer, with no more weights than ResNet: it is learning that fails, not the information."
        " Post-norm cannot be the identity at all, and ResNet as printed has no depth: its error is the same at every"
        " one.",
    ]
    return LabOutcome(
        tables=tables, figures=[_figure(made, probes, depths)], checks=_checks(made, probes, parameters, depths, quick),
        notes=notes,
    )  # fmt: skip


def _short(value: float) -> str:
    return f"{value:.0f}" if 10 <= value < 1e5 else f"{value:.2g}"


def _checks(
    made: dict[tuple[str, int], Trained],
    probes: dict[str, list[float]],
    parameters: IdentityParameters,
    depths: Sequence[int],
    quick: bool,
) -> list[LabCheck]:
    width, deep, last = parameters.width, [d for d in depths if d >= 16], depths[-1]
    zero = [made[kind, depth] for kind in ("ResNet, zero", "pre-norm, zero") for depth in depths]
    printed = [made["ResNet, printed", depth].mean for depth in depths]
    normed = min(float(made["post-norm", depth].last.min()) for depth in depths)
    checks = [
        at_most("zero-initialised residual branches: largest error before training", _most(zero, "first"), 0.0),
        at_most("zero-initialised residual branches: largest error after training", _most(zero, "last"), 0.0),
        at_least("post-norm: smallest error over that of LN(x), which it cannot go below", normed / floor(width), 0.9),
        equals("DenseNet: parameters less d²(k+1)(k+2)/2 + (k+1)d",
               made["DenseNet", last].count - dense_count(last, width), 0),
        equals("ResNet: parameters less k(d² + d)", made["ResNet", last].count - last * (width**2 + width), 0),
        at_most("ResNet as printed: largest error of a depth over the smallest", max(printed) / min(printed), 2.0),
    ]  # fmt: skip
    if not deep:
        return checks
    checks += [
        at_least("plain, from depth 16 on: smallest error of a seed", _least(made, "plain", deep), 0.8),
        at_most("DenseNet: largest error of a seed" + (" from depth 16 on" if quick else " at any depth"),
                _most([made["DenseNet", d] for d in (deep if quick else depths)], "last"), 0.05),
        at_most("pre-norm over ResNet, from depth 16 on: largest ratio of the means",
                max(made["pre-norm", d].mean / made["ResNet", d].mean for d in deep), 0.6),
        at_most("plain, untrained: R² of the last layer", probes["plain"][-1], 0.1),
        at_least("ResNet, untrained: R² of the last layer", probes["ResNet"][-1], 0.2),
    ]  # fmt: skip
    if 32 in depths:
        least = float(made["ResNet", 32].last.min())
        checks.append(at_least("ResNet at depth 32: smallest error of a seed; predicting 0 has 1", least, 10.0))
    return checks


def _most(found: Sequence[Trained], which: str) -> float:
    return max(float(getattr(each, which).max()) for each in found)


def _least(made: dict[tuple[str, int], Trained], kind: str, depths: Sequence[int]) -> float:
    return min(float(made[kind, depth].last.min()) for depth in depths)


def _figure(made: dict[tuple[str, int], Trained], probes: dict[str, list[float]], depths: Sequence[int]) -> LabFigure:
    figure, (errors_at, probes_at, counts_at) = draw.panels(3, height=3.9, widths=(1.25, 1, 0.9))
    for number, kind in enumerate(KINDS[:6]):
        found = [made[kind, depth] for depth in depths]
        low, high = zip(*(each.interval for each in found), strict=True)
        draw.line(errors_at, depths, [each.mean for each in found], kind, number, low=low, high=high)
    draw.reference(errors_at, 1.0)
    for kind in PROBED:
        colour = KINDS.index(kind)
        for name, dashed in ((kind, True), (f"{kind}, trained", False)):
            label = "" if dashed else kind
            draw.line(probes_at, range(len(probes[name])), probes[name], label, colour, markers=False, dashed=dashed)
    for kind in ("DenseNet", "ResNet"):
        counts = [made[kind, depth].count for depth in depths]
        draw.line(counts_at, depths, counts, kind, KINDS.index(kind))
    for axes in (errors_at, counts_at):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(depths, [str(depth) for depth in depths])
    draw.style(errors_at, "Error of the identity", "depth (layers)", "mean squared error")
    errors_at.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)
    draw.style(probes_at, "What is left of x", "layer (dashed: untrained)", "R² of a linear map")
    probes_at.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)
    draw.style(counts_at, "Parameters", "depth (layers)", "parameters")
    counts_at.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)
    ends = "; ".join(f"{kind} {made[kind, depths[-1]].mean:.2g}" for kind in KINDS)
    alt = (
        f"Left: error of the identity by depth with 95 % intervals; at depth {depths[-1]}: {ends}. An"
        " error of 0 is not drawn. Middle: how much of"
        f" x a linear map can read from each layer; of an untrained plain network nothing ({probes['plain'][-1]:.2f}),"
        f" of an untrained ResNet {probes['ResNet'][-1]:.2f}. Right: parameters by depth, which grow with its square in"
        " DenseNet."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="identity",
    chapter=2,
    title="can a deep network learn to do nothing?",
    claim="A plain network from depth 16 on cannot learn the identity; DenseNet can, with weights that grow with the"
    " square of the depth; a sum of residuals explodes; pre-norm bounds it, and zero-initialised branches begin at the"
    " answer.",
    slides=(Slide("000", "Going Deeper 12–28", 385), Slide("001", "Going Deeper 12–28", 382)),
    parameters=IdentityParameters,
    run=run,
    mechanism=("branch", "normalise", "layers", "initialise"),
    exercise=Exercise(
        function="layers",
        cut=('if kind == "plain":', "z = normalise(z + branch("),
        task="Six kinds of network differ in one line each: z behind layer k from z before it, x and all outputs"
        " so far. The docstring of the lab has the formulas; branch(network, k, z) is f_k(z), normalise is"
        " LayerNorm.",
        hints=(
            "kind is one of plain, DenseNet, ResNet, printed, ResNet, pre-norm, post-norm: one branch of an"
            " if for each.",
            "DenseNet reads torch.cat(outputs, -1). As printed, every layer reads x, and z is a sum that"
            " begins at layer 0.",
            "pre-norm: z + branch(network, k, normalise(z)); post-norm: normalise(z + branch(network, k, z)).",
        ),
        bugs=(
            PlantedBug(
                right="z = z + branch(network, k, z)\n",
                wrong="z = x + branch(network, k, z)\n",
                fails="ResNet at depth 32",
                hint="A residual network adds each branch to what came before it: hold each kind against its formula.",
            ),
            PlantedBug(
                right="branch(network, k, x) + (z if k else 0)",
                wrong="branch(network, k, z) + (z if k else 0)",
                fails="ResNet as printed",
                hint="One kind is wrong on purpose, as the slide prints it: what do its layers read?",
            ),
        ),
    ),
)
