"""Two look-ups at once with one to eight heads, all of the same number of parameters.

Eight slots hold a symbol each; a query names two slots and must say both symbols, in order. One softmax can take the
symbol of one slot, or a mean of two of which it cannot tell the order. Two heads take one each. More heads split the
same matrices further: the parameters are 4d² + 4d at any number of heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals
from headway.nn import AttentionConfig, SelfAttention
from headway.plots import lab_figures as draw

SLOTS, SYMBOLS = 8, 8
HEADS, QUICK_HEADS = (1, 2, 4, 8), (1, 2)
BATCH, TESTED = 128, 2000
QUICK_STEPS = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsParameters:
    """The model and its training."""

    width: int = 64  # d
    steps: int = 700  # of training, for each number of heads

    def __post_init__(self) -> None:
        positive("--steps", self.steps)
        if self.width < 8 or self.width % 8:
            raise ConfigError(f"--width {self.width}: expected a multiple of 8, the most heads")


def questions(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Symbols (B, slots), the two slots asked for (B, 2), and what is right (B, 2)."""
    symbols = torch.randint(SYMBOLS, (count, SLOTS), generator=generator)
    asked = torch.rand(count, SLOTS, generator=generator).argsort(1)[:, :2]  # two different ones
    return symbols, asked, symbols.gather(1, asked)


class TwoLookups(nn.Module):
    """One layer of headway's self-attention over the slots and the query, and a linear output for each answer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.symbol, self.slot = nn.Embedding(SYMBOLS, width), nn.Embedding(SLOTS, width)
        self.first, self.second = nn.Embedding(SLOTS, width), nn.Embedding(SLOTS, width)
        self.attention = SelfAttention(AttentionConfig(width=width, heads=heads))
        self.answers = nn.Linear(width, 2 * SYMBOLS)

    def forward(self, symbols: Tensor, asked: Tensor) -> Tensor:
        """(B, slots), (B, 2) -> logits (B, 2, symbols)."""
        slots = self.symbol(symbols) + self.slot.weight
        query = self.first(asked[:, :1]) + self.second(asked[:, 1:])
        found = self.attention(torch.cat([slots, query], 1))[:, -1]
        return self.answers(found).unflatten(-1, (2, SYMBOLS))  # type: ignore[no-any-return]


def build(width: int, heads: int) -> TwoLookups:
    """The model with this many heads."""
    return TwoLookups(width, heads)


def train(model: TwoLookups, steps: int, generator: torch.Generator, what: str) -> None:
    """Cross-entropy of both answers on new questions at each step."""

    def loss(step: int) -> Tensor:
        symbols, asked, right = questions(BATCH, generator)
        return F.cross_entropy(model(symbols, asked).flatten(0, 1), right.flatten())

    fit(model.parameters(), loss, steps=steps, learning_rate=0.01, what=what)


@torch.no_grad()
def both_right(model: TwoLookups, generator: torch.Generator) -> float:
    """The share of new questions of which both answers are right."""
    symbols, asked, right = questions(TESTED, generator)
    return float((model(symbols, asked).argmax(-1) == right).all(-1).float().mean())


@torch.no_grad()
def weights(model: TwoLookups, symbols: Tensor, asked: Tensor) -> Tensor:
    """What the query attends to, (B, H, slots + 1)."""
    kept: list[Tensor] = []
    hook = model.attention.tap_weights.register_forward_hook(lambda tap, inputs, out: kept.append(out))
    model(symbols, asked)
    hook.remove()
    return kept[0][:, :, -1]


def run(parameters: HeadsParameters, seed: int, quick: bool) -> LabOutcome:
    """Train the same model with each number of heads."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    tried = QUICK_HEADS if quick else HEADS
    width = min(32, parameters.width) if quick else parameters.width
    models, right, sizes = {}, {}, {}
    for heads in tried:
        generator = torch.Generator().manual_seed(seed)
        models[heads] = build(width, heads)
        sizes[heads] = sum(p.numel() for p in models[heads].attention.parameters())
        train(models[heads], steps, generator, f"training, {heads} head{'s' if heads > 1 else ''}")
        right[heads] = both_right(models[heads].eval(), generator)
    generator = torch.Generator().manual_seed(seed + 1000)
    symbols, asked, _ = questions(500, generator)
    maps = {heads: weights(models[heads], symbols, asked) for heads in tried}
    # How much of the best head's weight is on each slot that is asked for, mean over both and over questions.
    found = {heads: float(each.gather(2, asked[:, None].expand(-1, each.shape[1], -1)).amax(1).mean())
             for heads, each in maps.items()}  # fmt: skip
    expected = 4 * width**2 + 4 * width
    checks = [
        at_most("1 head: both symbols right", right[1], 0.4),
        *(at_least(f"{heads} heads: both symbols right", right[heads], 0.97 if quick else 0.99)
          for heads in tried if heads > 1),
        *(equals(f"parameters with {heads} head{'s' if heads > 1 else ''}, 4d² + 4d", sizes[heads], expected)
          for heads in tried),
        at_least("2 heads: weight of the better head on each slot asked for", found[2], 0.85),
        at_most("1 head: its weight on each slot asked for", found[1], 0.6),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"two look-ups at once, {steps} steps",
            header=("heads", "features of a head", "parameters", "both right", "weight on each slot asked for"),
            rows=[(heads, width // heads, sizes[heads], right[heads], found[heads]) for heads in tried],
            note=f"Chance is 1/{SYMBOLS**2} = {1 / SYMBOLS**2:.3f}. The weight is that of the head with most of it.",
        )
    ]
    notes = [
        f"{SLOTS} slots hold a symbol each; the question names two slots and asks for both symbols, in order."
        f" One head answers both in {right[1]:.0%} of the cases: it reads one slot, or a mixture of two that does not"
        " say which symbol was asked for first. With heads the matrices are not larger: deck 004's h·d columns would be"
        " h times as many; the right size of a head is d/h, joined again to d (Vaswani et al. 2017, 3.2.2)."
    ]
    figure = _figure(right, maps[2][0], asked[0])
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _figure(right: dict[int, float], map_HS: Tensor, asked: Tensor) -> LabFigure:
    figure, (left, middle) = draw.panels(2, height=3.4, widths=(1, 1.5))
    left.bar(range(len(right)), [100 * share for share in right.values()], color=draw.BLUE, width=0.6)
    for n, share in enumerate(right.values()):
        left.annotate(f"{share:.0%}", (n, 100 * share + 1.5), ha="center", fontsize=9)
    left.set_xticks(range(len(right)), [str(heads) for heads in right])
    left.set_ylim(0, 112)
    draw.style(left, "Both look-ups right", "heads (same parameters)", "% of questions")
    first, second = (int(each) for each in asked)
    draw.heatmap(
        figure, middle, map_HS, title=f"Two heads, asked for slots {first + 1} and {second + 1}", xlabel="slot",
        ylabel="head", rows=["1", "2"], columns=[*(str(n + 1) for n in range(SLOTS)), "query"], write=".2f",
        label="weight", limit=1.0,
    )  # fmt: skip
    alt = (
        "Left: both look-ups right by number of heads, "
        + ", ".join(f"{share:.0%} with {heads}" for heads, share in right.items())
        + f". Right: the weights of two heads for a question about slots {first + 1} and {second + 1}: each head is at"
        " one of them."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="heads",
    chapter=5,
    title="why more than one head",
    claim="One softmax cannot look up two things at once and tell them apart; two heads can, with the same 4d² + 4d"
    " parameters, since a head has d/h features and not d.",
    slides=(Slide("002", "p. 36–39"), Slide("003", "Multi-Head", 210), Slide("004", "p. 31–35", 382)),
    parameters=HeadsParameters,
    run=run,
    mechanism=("build", "weights"),
    exercise=Exercise(
        function="headway.nn.attention:split_heads",
        task="Cut the D features of each token into heads of E = D/H features, and put the heads before the tokens.",
        hints=(
            "Two steps: give each token's features the shape (heads, D/heads), then exchange two axes.",
            "A view to (B, T, H, E) keeps the features of a token together; a view to (B, H, T, E) would not.",
            "x_BTD.view(rows, steps, heads, width // heads).transpose(1, 2).",
        ),
        bugs=(
            PlantedBug(
                right="view(rows, steps, heads, width // heads).transpose(1, 2)",
                wrong="reshape(rows, heads, steps, width // heads)",
                fails="2 heads: both",
                hint="The shape is right. Does a head have features of one token, or of several?",
            ),
        ),
    ),
)
