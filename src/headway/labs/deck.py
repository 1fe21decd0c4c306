"""The decks as printed: every listing with the error it ends with, the corrected one beside it, and all twenty errata.

A listing is run as it stands on its slide, then in a corrected form, which is compared with torch.nn and with headway's
own block. Each erratum has a number that proves it, computed here; `headway train deck` trains the corrected model.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.labs import deck_listings as listings
from headway.labs.deck_errata import Erratum, later_errata
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
    holds,
)
from headway.labs.slide_index import deck_errors
from headway.models import DeckConfig, build_model
from headway.ops import attend
from headway.plots import lab_figures as draw

WIDTHS = (listings.d_h // 2, listings.d_h, 2 * listings.d_h)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeckParameters:
    """The sizes at which errata are computed."""

    width: int = 16  # d, of vectors
    tokens: int = 6  # T, of a sequence

    def __post_init__(self) -> None:
        if not 4 <= self.width <= 1024 or self.width % 2:
            raise ConfigError(f"--width {self.width}: expected an even number from 4 to 1024")
        if not 3 <= self.tokens <= listings.T_MAX:
            raise ConfigError(f"--tokens {self.tokens}: expected 3 to {listings.T_MAX}")
        if self.tokens == self.width:
            raise ConfigError(
                f"--tokens {self.tokens}: expected a number other than --width, or T × d looks like d × T"
            )


def normalise(x: Tensor) -> Tensor:
    """LayerNorm: mean over d, the 1/d below the root."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).sqrt()


def printed_normalise(x: Tensor) -> Tensor:
    """The slide's σ, with its 1/d outside of the root; the mean is corrected."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().sum(-1, keepdim=True).sqrt() / x.shape[-1])


def self_attention(x: Tensor) -> Tensor:
    """Attention of rows to rows without parameters: (T, D) -> (T, D)."""
    found: Tensor = attend(x[None, None], x[None, None], x[None, None])
    return found[0, 0]


def raised(run: Callable[[], object]) -> Exception | None:
    """The exception that something ends with, if any."""
    try:
        run()
    except Exception as error:  # what a listing raises is what is shown
        return error
    return None


def errata(width: int, tokens: int, generator: torch.Generator) -> list[Erratum]:
    """All of them, in the order of the decks; 16, 19 and 20 have several."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x, rows = normal(tokens, width), normal(4096, width)
    heavy = normal(4096, 16) / torch.rand(4096, 16, generator=generator, dtype=torch.float64).clamp_min(1e-6)
    order = torch.randperm(tokens, generator=generator)
    while bool((order == torch.arange(tokens)).all()):
        order = torch.randperm(tokens, generator=generator)
    permutation = torch.eye(tokens, dtype=torch.float64)[order]
    positions, layers = normal(tokens, width), [normal(width, width) / math.sqrt(width) for _ in range(3)]
    cycle = torch.eye(3, dtype=torch.float64)[[1, 2, 0]]
    distances = torch.arange(0, 64, dtype=torch.float64)
    turned = torch.cos(distances[:, None] * 10000 ** (-2 * torch.arange(4, dtype=torch.float64) / 8)).sum(-1)
    base, sentence = 512, "John likes movies"

    def side_by_side(order: tuple[int, ...]) -> Tensor:
        return sum((x @ layers[k]).relu() for k in order)  # type: ignore[return-value]

    def stacked(order: tuple[int, ...]) -> Tensor:
        z = x
        for k in order:
            z = z + (z @ layers[k]).relu()
        return z

    def moved(network: Callable[[tuple[int, ...]], Tensor]) -> float:
        return float((network((0, 1, 2)) - network((2, 1, 0))).abs().max() > 1e-9)

    return [
        Erratum(error="1", number="mean over the true mean",
                printed=float((width * x.sum(-1) / x.mean(-1)).median()),
                correct=float((x.sum(-1) / width / x.mean(-1)).median()), expected=1.0, tolerance=1e-9),
        Erratum(error="2", number="deviation behind it",
                printed=_deviation(printed_normalise(rows)), correct=_deviation(normalise(rows)), expected=1.0,
                tolerance=1e-9),
        Erratum(error="3", number="share within ±3, heavy tails",
                printed=0.9973, correct=float((normalise(heavy).abs() <= 3).double().mean()), expected=0.96,
                tolerance=0.025),
        Erratum(error="4", number="does the order of layers matter?",
                printed=moved(side_by_side), correct=moved(stacked), expected=1.0),
        Erratum(error="5", number="derivative by a weight of layer 1", printed=1000.0,
                correct=_derivative(), expected=0.01, tolerance=1e-9),
        Erratum(error="6", number="attention, |f(Px) − P f(x)|",
                printed=float((self_attention(permutation @ x) - self_attention(x)).abs().max()),
                correct=float((self_attention(permutation @ x) - permutation @ self_attention(x)).abs().max()),
                expected=0.0, tolerance=1e-10),
        Erratum(error="7", number="entries of QKᵀ", printed=float((x.T @ x).numel()), correct=float((x @ x.T).numel()),
                expected=float(tokens**2)),
        Erratum(error="8", number="rows that P moves",
                printed=float((cycle[[0, 2, 1]] != torch.eye(3)).any(-1).sum()),
                correct=float((cycle != torch.eye(3)).any(-1).sum()), expected=3.0),
        Erratum(error="9", number="does the order change the output?",
                printed=float((self_attention(permutation @ (x + positions))
                               - permutation @ self_attention(x + positions)).abs().max() > 1e-9),
                correct=float((self_attention(permutation @ x + positions)
                               - permutation @ self_attention(x + positions)).abs().max() > 1e-3), expected=1.0),
        Erratum(error="10", number="classes that can be built",
                printed=float(_built(printed=True)), correct=float(_built(printed=False)), expected=2.0),
        Erratum(error="11a", number=f"widths of {', '.join(map(str, WIDTHS))} that a block takes",
                printed=float(len(WIDTHS)), correct=float(sum(map(_takes, WIDTHS))), expected=1.0),
        Erratum(error="11b", number="parameters of the network, d = 512", printed=float(2 * (base**2 + base)),
                correct=float(sum(p.numel() for p in nn.Sequential(
                    nn.Linear(base, 4 * base), nn.Linear(4 * base, base)).parameters())),
                expected=float(8 * base**2 + 5 * base)),
        Erratum(error="12", number="“words” of John likes movies", printed=float(len([*sentence])),
                correct=float(len(sentence.split())), expected=3.0),
        Erratum(error="13", number="types",
                printed=6.0, correct=float(len(listings.tokenise(
                    ("John likes movies", "Mary likes movies", "I like dogs"))[1])), expected=7.0),
        Erratum(error="14", number="distances at which the score rises", printed=0.0,
                correct=float((turned.diff() > 0).sum()), expected=30.0, tolerance=12.0),
        Erratum(error="15", number="error of LN(x) and of x + 0",
                printed=float((normalise(rows) - rows).square().mean()),
                correct=float((rows + normalise(rows) @ torch.zeros_like(layers[0]) - rows).square().mean()),
                expected=0.0),
        *later_errata(width, tokens, generator),
    ]  # fmt: skip


@torch.no_grad()
def _takes(width: int) -> bool:
    """Whether the corrected block can be given vectors of this width."""
    return raised(lambda: listings.CorrectedBlock()(torch.zeros(3, width))) is None


def _deviation(x: Tensor) -> float:
    return float(x.square().mean(-1).sqrt().mean())


def _derivative() -> float:
    """Of a second layer by one weight of the first, 1000 inputs of 1, every weight 0.01."""
    first = torch.full((1000, 1000), 0.01, dtype=torch.float64, requires_grad=True)
    out = torch.full((1000,), 0.01, dtype=torch.float64) @ (first @ torch.ones(1000, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(out, first)
    return float(gradient[0, 0])


def _built(*, printed: bool) -> int:
    """How many of the classes of the slides can be built."""
    made: tuple[Callable[[], object], ...] = (listings.CorrectedBlock, listings.CorrectedTransformer)
    if printed:
        made = (listings.PrintedTransformerBlock, listings.PrintedFinalTransformer)
    return sum(raised(each) is None for each in made)


@torch.no_grad()
def parity(x: Tensor) -> tuple[float, float]:
    """The corrected block against torch.nn and against headway's block, on the same weights: largest differences."""
    block, d = listings.CorrectedBlock(), listings.d_h
    theirs = nn.TransformerEncoderLayer(d, 1, d, dropout=0.0, activation=nn.LeakyReLU(), batch_first=True).eval()
    names = ("query", "key", "value")
    joined = {
        part: torch.cat([getattr(getattr(block.attn, name), part) for name in names]) for part in ("weight", "bias")
    }
    up, down = (module for module in block.mlp if isinstance(module, nn.Linear))
    own = build_model(DeckConfig(vocab=4, width=d, layers=1))
    ours: nn.Module = own.get_submodule("stack.blocks.0")
    state: dict[str, Tensor] = {}
    torch_state: dict[str, Tensor] = {}
    for part in ("weight", "bias"):
        torch_state[f"self_attn.in_proj_{part}"] = state[f"attention.qkv.{part}"] = joined[part]
        for mine, torch_name, module in (
            ("attention.out", "self_attn.out_proj", block.attn.out),
            ("attention_norm", "norm1", block.norm1),
            ("feedforward_norm", "norm2", block.norm2),
            ("feedforward.up", "linear1", up),
            ("feedforward.down", "linear2", down),
        ):
            state[f"{mine}.{part}"] = torch_state[f"{torch_name}.{part}"] = getattr(module, part)
    theirs.load_state_dict(torch_state)
    ours.load_state_dict(state)
    expected = block(x)
    stack: Callable[[Tensor], Tensor] = own.get_submodule("stack")
    table = own.get_parameter("stack.input_positions.table")
    table.zero_()
    return float((theirs(x) - expected).abs().max()), float((stack(x) - expected).abs().max())


def run(parameters: DeckParameters, seed: int, quick: bool) -> LabOutcome:
    """Listings, parity of the corrected block, errata."""
    generator = torch.Generator().manual_seed(seed)
    found = errata(parameters.width, parameters.tokens, generator)
    ended = {each.name: raised(each.run) for each in listings.LISTINGS}
    checks: list[LabCheck] = [
        holds(f"listing “{each.name}” as printed: {each.error.__name__}", type(ended[each.name]) is each.error)
        for each in listings.LISTINGS
    ]
    failed = [each.name for each in listings.LISTINGS if raised(each.corrected_run) is not None]
    x = torch.randn(2, parameters.tokens, listings.d_h, generator=generator)
    rows = torch.randn(64, parameters.width, generator=generator, dtype=torch.float64) + 5
    torch_parity, own_parity = parity(x)
    shaped = listings.CorrectedTransformer()(x).shape
    unequal = raised(lambda: listings.CorrectedBlock()(torch.randn(parameters.tokens, listings.d_h + 1)))
    checks += [
        equals("corrected listings that fail", len(failed), 0),
        at_most("corrected block = torch.nn.TransformerEncoderLayer, largest difference", torch_parity, 1e-5),
        at_most("corrected block = headway's block, largest difference", own_parity, 1e-5),
        at_most("LayerNorm by hand = torch's without ε, largest difference",
                float((normalise(rows) - F.layer_norm(rows, rows.shape[-1:], eps=0.0)).abs().max()), 1e-9),
        holds("shapes: T×d → T×d", shaped == x.shape),
        holds("shapes: d_x ≠ d_h is an error", isinstance(unequal, RuntimeError)),
        *(equals(f"erratum {each.error}: {each.number}", each.correct, each.expected, each.tolerance)
          for each in found),
        at_least("errata whose printed form gives another number",
                 sum(not math.isclose(each.printed, each.correct, rel_tol=1e-6, abs_tol=1e-9) for each in found),
                 len(found)),
    ]  # fmt: skip
    texts = {each.error: (each.error, each.slide, each.says, each.right) for each in deck_errors()}
    tables = [
        LabTable(
            title="the listings as printed, and corrected",
            header=("listing", "slide", "as printed", "corrected"),
            rows=[(each.name, each.slide, _told(ended[each.name]), each.corrected) for each in listings.LISTINGS],
        ),
        LabTable(
            title=f"twenty errata, {len(found)} numbers",
            header=("error", "slide", "says", "right", "number", "as printed", "corrected"),
            rows=[(*texts[each.error], each.number, each.printed, each.correct) for each in found],
            note="Numbers of lines are those of the decks' texts.",
        ),
        LabTable(
            title="errors without a number of their own here",
            header=("error", "slide", "says", "right", "lab with a number"),
            rows=[(*texts[each.error], each.lab or "a misprint") for each in deck_errors() if each.lab != LAB.name],
        ),
    ]
    notes = [
        f"T × d goes in and T × d comes out ({tuple(x.shape[1:])} → {tuple(shaped[1:])} here): a residual adds x to"
        " what is computed of it, so that d_x = d_h, and a block fits behind a block.",
        "The corrected model is the preset `deck`: `headway train deck` trains it to guess hidden words.",
    ]
    return LabOutcome(tables=tables, figures=[_figure(found)], checks=checks, notes=notes)


def _told(error: Exception | None) -> str:
    return "runs" if error is None else f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _figure(found: list[Erratum]) -> LabFigure:
    """The block with the shapes behind each part, and how far the printed numbers are off."""
    figure, (block, off) = draw.panels(2, height=6.0, widths=(1, 1.1))
    parts = ("x", "attention", "+ x", "LayerNorm", "d → d, LeakyReLU, d → d", "+ x", "LayerNorm", "y")
    for at, part in enumerate(parts):
        plain = part in ("x", "y")
        block.text(0.5, at, part, ha="center", va="center", fontsize=10, color=draw.INK,
                   bbox={"boxstyle": "round,pad=0.35", "facecolor": "white" if plain else "#DCEAF7",
                         "edgecolor": draw.BLUE if not plain else "white"})  # fmt: skip
        if at:
            block.annotate("", (0.5, at - 0.32), (0.5, at - 0.68), arrowprops={"arrowstyle": "->", "color": draw.SOFT})
            block.text(0.53, at - 0.5, "T × d", fontsize=7.5, color=draw.SOFT, va="center")
    for start, end in ((0, 2), (3, 5)):
        block.plot([0.44, 0.12, 0.12, 0.42], [start, start, end, end], color=draw.ORANGE, linewidth=1.6)
    block.set_xlim(0, 1)
    block.set_ylim(-0.5, len(parts) - 0.5)
    block.axis("off")
    block.set_title("The block, corrected", loc="left", color=draw.INK, fontsize=11, fontweight="bold", pad=8)
    factors = {
        each.error: each.printed / each.correct
        for each in found
        if each.printed > 0 and each.correct > 1e-6 and each.printed != each.correct
    }
    off.barh(range(len(factors)), [each - 1 for each in factors.values()], left=1, color=draw.ORANGE, height=0.6)
    off.set_xscale("log")
    off.set_xlim(min(factors.values()) / 3, max(factors.values()) * 3)
    off.axvline(1.0, color=draw.INK, linewidth=1)
    off.set_yticks(
        range(len(factors)),
        [
            textwrap.fill(f"{each.error}: {each.number}".replace(" = ", "\u00a0=\u00a0"), 34)
            for each in found
            if each.error in factors
        ],
    )
    off.invert_yaxis()
    draw.style(off, "Printed over right", "factor (1: right)", "")
    off.tick_params(axis="y", labelsize=7.5)
    worst = max(factors.values())
    alt = (
        "Left: the corrected block from bottom to top: attention, residual, LayerNorm, two linear layers, residual,"
        " LayerNorm; every arrow has the shape T × d. Right: for the errata with a factor, the printed number over the"
        f" right one, from {min(factors.values()):.2g} to {worst:.2g}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="deck",
    chapter=7,
    title="the decks as printed, and their twenty errors",
    claim="Five listings of the decks end with an error as they are printed and run when corrected, the corrected"
    " block is torch.nn's; and each of twenty statements of the decks is off by a number that can be computed.",
    slides=(
        Slide("000", "Transformers 30–32", 999), Slide("001", "Positional Encoding 51", 1686),
        Slide("001", "Text 57–58", 1788), Slide("002", "p. 17, 31, 35"), Slide("003", "line 221"),
        Slide("004", "p. 20, 33"),
    ),
    parameters=DeckParameters,
    run=run,
    mechanism=("normalise", "self_attention", "parity", "raised"),
    exercise=Exercise(
        function="normalise",
        task="Centre the last axis and divide by its standard deviation, the mean of squares below one root.",
        hints=(
            "The mean over d is Σ/d: deck 000 prints d·Σ.",
            "1/d belongs below the root: deck 000 prints it outside.",
            "centred / centred.square().mean(-1, keepdim=True).sqrt().",
        ),
        bugs=(
            PlantedBug(
                right="centred.square().mean(-1, keepdim=True).sqrt()",
                wrong="(centred.square().sum(-1, keepdim=True).sqrt() / x.shape[-1])",
                fails="erratum 2",
                hint="Where is the 1/d?",
            ),
        ),
    ),
)  # fmt: skip
