"""One encoder for words, pixels, sound, amino acids and robots: only the layer that reads the input differs.

The stack of blocks, its sizes, its training and the output that averages over tokens are the same five times. What
differs is how data become T vectors: a table for words and amino acids, a linear layer for patches, frames and robots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.data.synthetic.protein import emissions
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit_model, share_right
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most
from headway.labs.small_digits import HEIGHT, digits
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.norms import LayerNorm
from headway.nn.patches import patchify
from headway.nn.positions import Sinusoidal
from headway.nn.stack import Stack, StackConfig
from headway.plots import lab_figures as draw

WIDTH, CONTEXT = 48, 64
BATCH, TESTED, QUICK_STEPS = 64, 1000, 80
RATE = 8000  # samples a second of the sounds
Data = tuple[Tensor, Tensor]  # tokens (N, T) or vectors (N, T, features), and classes (N,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnythingParameters:
    """How long each is trained."""

    steps: int = 250  # of training, 64 new examples each

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def words(count: int, generator: torch.Generator) -> Data:
    """“The dog bites the man today”: who bites? Three names in any order around a verb; the class is the first one."""
    order = torch.rand(count, 3, generator=generator).argsort(1)
    verb = 3 + torch.randint(4, (count, 1), generator=generator)
    the = torch.full((count, 1), 7)
    return torch.cat([the, order[:, :1], verb, the, order[:, 1:]], 1), order[:, 0]


def pixels(count: int, generator: torch.Generator) -> Data:
    """Digits of 5 × 5 pixels at three places, each row of pixels a token."""
    images, labels = digits(count, HEIGHT, generator, noise=0.1)
    return patchify(images, 1).unflatten(1, (HEIGHT, HEIGHT)).flatten(2), labels


def sound(count: int, generator: torch.Generator) -> Data:
    """Two tones of 32 ms with noise: does the pitch rise or fall? Frames of 8 ms, the sizes of their frequencies."""
    pitches = 300 + 1200 * torch.rand(count, 2, generator=generator)
    pitches = torch.where((pitches[:, :1] - pitches[:, 1:]).abs() < 200, pitches + torch.tensor([0.0, 500.0]), pitches)
    time = torch.arange(256) / RATE
    phase = 6.28 * torch.rand(count, 2, 1, generator=generator)
    waves = torch.sin(6.2832 * pitches[:, :, None] * time + phase)
    waves = waves + 0.1 * torch.randn(waves.shape, generator=generator)
    frames = waves.flatten(1).unflatten(1, (8, 64))
    return torch.fft.rfft(frames * torch.hann_window(64)).abs()[:, :, :16].log1p(), (
        pitches[:, 1] > pitches[:, 0]
    ).long()


def amino_acids(count: int, generator: torch.Generator) -> Data:
    """Thirty residues of a helix or of a strand (Chou and Fasman 1978)."""
    labels = torch.randint(2, (count,), generator=generator)
    chances = torch.tensor(emissions())[labels]
    return torch.multinomial(chances, 30, replacement=True, generator=generator), labels


def robots(count: int, generator: torch.Generator) -> Data:
    """Eight robots on a plane (x, y, battery), in no order: has one of them an empty battery?"""
    labels = torch.randint(2, (count,), generator=generator)
    place = 2 * torch.rand(count, 8, 2, generator=generator) - 1
    battery = 0.3 + 0.7 * torch.rand(count, 8, generator=generator)
    who = torch.randint(8, (count,), generator=generator)
    battery[torch.arange(count), who] *= 1 - 0.9 * labels
    return torch.cat([place, battery.unsqueeze(-1)], -1), labels


KINDS: dict[str, tuple[Callable[[int, torch.Generator], Data], int, int, int]] = {
    # data, size of the vocabulary (0: vectors), features of a vector, classes
    "words": (words, 8, 0, 3),
    "pixels": (pixels, 0, HEIGHT, 10),
    "sound": (sound, 0, 16, 2),
    "amino acids": (amino_acids, 20, 0, 2),
    "robots": (robots, 0, 3, 2),
}


def stack() -> StackConfig:
    """The encoder of all five."""
    return StackConfig(
        layers=2,
        block=BlockConfig(
            attention=AttentionConfig(width=WIDTH, heads=4),
            feedforward=FeedForwardConfig(inner=2 * WIDTH),
            norm=LayerNorm(),
            place="pre",
        ),
        context=CONTEXT,
        position=Sinusoidal(),
    )


class PooledReader(nn.Module):
    """An input layer, the encoder, the mean over tokens, a linear layer."""

    def __init__(self, vocab: int, features: int, classes: int) -> None:
        super().__init__()
        self.input: nn.Module = nn.Embedding(vocab, WIDTH) if vocab else nn.Linear(features, WIDTH)
        self.stack = Stack(stack())
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Tokens (B, T) or vectors (B, T, features) -> logits (B, classes)."""
        logits: Tensor = self.head(self.stack(self.input(inputs)).mean(1))
        return logits


def accuracy(name: str, steps: int, seed: int) -> tuple[float, PooledReader]:
    """The share of new examples that are right, and the trained model."""
    make, vocab, features, classes = KINDS[name]
    torch.default_generator.manual_seed(seed)
    model, generator = PooledReader(vocab, features, classes), torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        inputs, labels = make(BATCH, generator)
        return F.cross_entropy(model(inputs), labels)

    fit_model(model, loss, steps=steps, what=f"training, {name}")
    return share_right(model, *make(TESTED, torch.Generator().manual_seed(seed + 1000))), model


@torch.no_grad()
def order_matters(model: PooledReader, name: str, seed: int) -> float:
    """The share of examples whose class changes when their tokens are reversed."""
    inputs, _ = KINDS[name][0](TESTED, torch.Generator().manual_seed(seed + 2000))
    return float((model(inputs).argmax(-1) != model(inputs.flip(1)).argmax(-1)).float().mean())


def run(parameters: AnythingParameters, seed: int, quick: bool) -> LabOutcome:
    """Train five times."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    found = {name: accuracy(name, steps, seed) for name in KINDS}
    encoders = {name: sum(p.numel() for p in model.stack.parameters()) for name, (_, model) in found.items()}
    turned = {name: order_matters(model, name, seed) for name, (_, model) in found.items()}
    least = 0.6 if quick else 0.95
    checks = [
        *(at_least(f"{name}: share right", right, least) for name, (right, _) in found.items()),
        at_most("kinds of data whose encoder has another size", len({*encoders.values()}) - 1, 0),
        at_least("sound: classes that change when it is reversed", turned["sound"], 0.3 if quick else 0.8),
        at_most("robots: classes that change when they are reversed", turned["robots"], 0.2 if quick else 0.1),
    ]
    rows = []
    for name, (right, model) in found.items():
        make, vocab, features, classes = KINDS[name]
        inputs, _ = make(1, torch.Generator().manual_seed(0))
        how = f"table of {vocab} rows" if vocab else f"matrix {features} × {WIDTH}"
        front = sum(p.numel() for p in model.input.parameters())
        rows.append((name, inputs.shape[1], how, front, encoders[name], classes, right, turned[name]))
    tables = [
        LabTable(
            title=f"five kinds of data, one encoder, {steps} steps",
            header=("data", "tokens", "input layer", "its weights", "encoder", "classes", "right", "changed, reversed"),
            rows=rows,
        )
    ]
    notes = [
        "Nothing in the encoder knows what it reads: it gets T vectors with a position each. Where order decides, as in"
        " a melody, it uses it; where it does not, as with robots, it learns to leave it alone."
    ]
    return LabOutcome(tables=tables, figures=[_figure(found, turned)], checks=checks, notes=notes)


def _figure(found: dict[str, tuple[float, PooledReader]], turned: dict[str, float]) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.0)
    places = range(len(found))
    left.barh(places, [100 * each[0] for each in found.values()], color=draw.BLUE, height=0.6)
    right.barh(places, [100 * share for share in turned.values()], color=draw.ORANGE, height=0.6)
    chance = [100 / KINDS[name][3] for name in found]
    left.scatter(chance, places, color=draw.BLACK, marker="|", s=140, zorder=3)
    for axes in (left, right):
        axes.set_yticks(places, [*found])
        axes.invert_yaxis()
        axes.set_xlim(0, 104)
    draw.style(left, "One encoder, five kinds of data", "new examples right (%); | is chance", "")
    draw.style(right, "Does order matter to it?", "classes changed by reversing (%)", "")
    alt = (
        "Left: share of new examples right, "
        + ", ".join(f"{name} {each[0]:.1%}" for name, each in found.items())
        + ". Right: classes that change when the tokens are reversed, "
        + ", ".join(f"{name} {share:.0%}" for name, share in turned.items())
        + "."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="anything",
    chapter=9,
    title="one encoder for any data",
    claim="The same encoder reads words, pixels, sound, amino acids and robots, 95 % right each; only the layer that"
    " turns the input into vectors differs, and order is used where it decides and left alone where it does not.",
    slides=(Slide("003", "any data", 20), Slide("000", "Positional Encoding 33", 1073), Slide("003", "audio", 340)),
    parameters=AnythingParameters,
    run=run,
    mechanism=("stack", "order_matters"),
    exercise=Exercise(
        function="order_matters",
        task="Make TESTED new examples of this kind of data, reverse the order of their tokens, and return the share"
        " whose class changes. KINDS[name][0](count, generator) gives inputs (N, T, …) and classes, model(inputs) the"
        " logits (N, classes).",
        hints=(
            "The class that the model says is the argmax of the logits; the right classes are not needed.",
            "Tokens are axis 1 of the inputs, for words and for vectors.",
            "(model(inputs).argmax(-1) != model(inputs.flip(1)).argmax(-1)).float().mean().",
        ),
        bugs=(
            PlantedBug(
                right="inputs.flip(1)",
                wrong="inputs.flip(0)",
                fails="robots: classes that change",
                hint="What is reversed: the tokens of an example, or the examples?",
            ),
            PlantedBug(
                right="!=",
                wrong="==",
                fails="robots: classes that change",
                hint="The share that changes, or that stays?",
            ),
        ),
    ),
)
