"""Pictures of one coloured shape, and the words for them: a CNN sets the first state of a GRU, end to end.

The deck's captioner (deck 002, pages 9 and 10) has h_0 from the picture and nothing else; with attention each word also
looks at the picture. Given the pictures of other captions, it says the others' words: the picture, and not the
language, decides. Pictures are drawn here, 16 × 16 pixels, in four places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import GREEDY, sample
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.fitting import fit
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least
from headway.models import CaptionerRnn, CaptionerRnnConfig, EncoderInput, build_model
from headway.nn import AlignmentConfig, RecurrentConfig
from headway.plots import lab_figures as draw

START, EOS = "<start>", "<eos>"
COLOURS = {"red": (0.85, 0.1, 0.1), "green": (0.1, 0.65, 0.15), "blue": (0.1, 0.2, 0.85), "yellow": (0.95, 0.9, 0.15)}
SHAPES, ROWS, COLUMNS = ("square", "ring", "cross"), ("top", "bottom"), ("left", "right")
WORDS = (START, EOS, "a", "at", "the", *COLOURS, *SHAPES, *ROWS, *COLUMNS)
IDS = {word: number for number, word in enumerate(WORDS)}
SIZE, RADIUS, NOISE, BACKGROUND = 16, 3, 0.08, 0.9
BATCH, TESTED = 32, 300
QUICK_STEPS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionsParameters:
    """Training."""

    steps: int = 1200  # of each model

    def __post_init__(self) -> None:
        positive("--steps", self.steps)


def scenes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pictures (B, 3, 16, 16) of one shape, and START “a red ring at the top left” EOS (B, 9)."""

    def drawn(options: int) -> Tensor:
        return torch.randint(options, (count,), generator=generator)

    colour, shape, row, column = (drawn(len(each)) for each in (COLOURS, SHAPES, ROWS, COLUMNS))
    jitter = torch.randint(-1, 2, (2, count), generator=generator)
    y, x = (4 + 8 * place + off for place, off in zip((row, column), jitter, strict=True))
    axis = torch.arange(SIZE)
    down = (axis[None, :, None] - y[:, None, None]).abs()
    across = (axis[None, None, :] - x[:, None, None]).abs()
    square = torch.maximum(down, across) < RADIUS
    ring = (torch.maximum(down, across) == RADIUS - 1) & (down + across < 2 * RADIUS - 2)
    cross = (torch.minimum(down, across) == 0) & (torch.maximum(down, across) <= RADIUS)
    masks = torch.stack([square, ring, cross], 1)[torch.arange(count), shape]
    palette = torch.tensor([*COLOURS.values()])[colour]
    pictures = torch.where(masks[:, None], palette[:, :, None, None], torch.tensor(BACKGROUND))
    pictures = pictures + NOISE * torch.randn(pictures.shape, generator=generator)

    def word(name: str) -> Tensor:
        return torch.full((count,), IDS[name])

    columns = [word(START), word("a"), colour + IDS["red"], shape + IDS[SHAPES[0]], word("at"), word("the"),
               row + IDS[ROWS[0]], column + IDS[COLUMNS[0]], word(EOS)]  # fmt: skip
    return pictures, torch.stack(columns, 1)


def shown(pictures: Tensor) -> Tensor:
    """What the model is given of the pictures: the background is 0."""
    return pictures - BACKGROUND


def train(*, attends: bool, steps: int, seed: int) -> CaptionerRnn:
    """A captioner of two convolutional blocks and a GRU of 48 units."""
    config = CaptionerRnnConfig(
        vocab=len(WORDS), image=SIZE, widths=(12, 24), width=16, decoder=RecurrentConfig(hidden=48, cell="gru"),
        attention=AlignmentConfig(kind="additive", width=32) if attends else None,
    )  # fmt: skip
    model = cast(CaptionerRnn, build_model(config, seed=seed))
    generator = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        pictures, words = scenes(BATCH, generator)
        return F.cross_entropy(model(shown(pictures), words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())

    fit(model.parameters(), loss, steps=steps, learning_rate=0.01, what=f"training, {_name(attends=attends)}", clip=1.0)
    return model.eval()


def _name(*, attends: bool) -> str:
    return "with attention" if attends else "first state alone"


def says(model: CaptionerRnn, pictures: Tensor) -> list[str]:
    """The captions of pictures, word after word."""
    limits = SequenceLimits(start=IDS[START], stop=IDS[EOS], max_tokens=12)
    found = sample(model, limits, GREEDY, source=EncoderInput.of_images(shown(pictures)))
    return [" ".join(WORDS[token] for token in line) for line in found]


@torch.no_grad()
def nats(model: CaptionerRnn, pictures: Tensor, words: Tensor) -> float:
    """Nats of a caption, all its words together."""
    logits = model(shown(pictures), words[:, :-1])
    return float(F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten(), reduction="sum") / len(words))


@torch.no_grad()
def looks(model: CaptionerRnn, pictures: Tensor, words: Tensor) -> Tensor:
    """Where each word of the first caption looks (T, rows, columns)."""
    attention = model.source_attention()
    assert attention is not None
    kept: list[Tensor] = []
    hook = attention.tap.register_forward_hook(lambda tap, inputs, out: kept.append(out))
    model(shown(pictures), words[:, :-1])
    hook.remove()
    found: Tensor = kept[-1][0].unflatten(-1, model.grid)
    return found


def run(parameters: CaptionsParameters, seed: int, quick: bool) -> LabOutcome:
    """Both captioners: exact captions, swapped and shuffled pictures."""
    steps = min(QUICK_STEPS, parameters.steps) if quick else parameters.steps
    models = {attends: train(attends=attends, steps=steps, seed=seed) for attends in (False, True)}
    pictures, words = scenes(TESTED, torch.Generator().manual_seed(seed + 1000))
    right = [" ".join(WORDS[token] for token in line[1:-1]) for line in words.tolist()]
    captions = {attends: says(model, pictures) for attends, model in models.items()}
    exact = {attends: sum(a == b for a, b in zip(found, right, strict=True)) / TESTED
             for attends, found in captions.items()}  # fmt: skip
    swapped = {attends: says(model, pictures.flip(0)) for attends, model in models.items()}
    pairs = [(n, TESTED - 1 - n) for n in range(TESTED) if right[n] != right[TESTED - 1 - n]]  # of unlike pictures
    follows = {attends: sum(found[n] == right[other] for n, other in pairs) / len(pairs)
               for attends, found in swapped.items()}  # fmt: skip
    cost = {attends: (nats(model, pictures, words), nats(model, pictures.roll(1, 0), words))
            for attends, model in models.items()}  # fmt: skip
    checks = [
        *(at_least(f"{_name(attends=attends)}: captions that are right word for word", exact[attends],
                   0.4 if quick else 0.95) for attends in models),
        *(at_least(f"{_name(attends=attends)}: of unlike pictures swapped, captions swapped", follows[attends],
                   0.4 if quick else 0.95) for attends in models),
        *(at_least(f"{_name(attends=attends)}: nats that a caption costs more with another picture",
                   cost[attends][1] - cost[attends][0], 1.0) for attends in models),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"{TESTED} new pictures after {steps} steps",
            header=("captioner", "exactly right", "nats of a caption", "nats with another picture"),
            rows=[(_name(attends=attends), exact[attends], *cost[attends]) for attends in models],
        ),
        LabTable(
            title="the first captions",
            header=("the picture shows", *(_name(attends=attends) for attends in models)),
            rows=[(right[n], *(captions[attends][n] for attends in models)) for n in range(4)],
        ),
    ]
    notes = [
        "The captioner of deck 002 puts all it knows of the picture into its first state; for one shape that is enough:"
        f" {exact[False]:.0%} of the captions are right, with attention {exact[True]:.0%}. The picture decides, not the"
        " language: with the pictures swapped the captions are swapped, and another picture makes the right caption"
        f" cost {cost[False][1]:.0f} nats instead of {cost[False][0]:.2f}."
    ]
    maps = looks(models[True], pictures, words)
    figure = _figure(pictures[0], right[0].split(), maps, captions[True][0])
    return LabOutcome(tables=tables, figures=[figure], checks=checks, notes=notes)


def _figure(picture: Tensor, words: list[str], maps: Tensor, said: str) -> LabFigure:
    figure, axes = draw.panels(4, rows=2, height=4.9)
    axes[0].imshow(picture.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest")
    axes[0].set_title("The picture", loc="left", fontsize=11, fontweight="bold", color=draw.INK)
    axes[0].set_xlabel("pixels", fontsize=10, color=draw.INK)
    for each, word, weights in zip(axes[1:], words, maps, strict=False):
        each.imshow(weights.numpy(), cmap=draw.HEATMAP, vmin=0, vmax=float(maps.max()), interpolation="nearest")
        each.set_title(f"“{word}”", loc="left", fontsize=11, color=draw.INK)
        each.set_xlabel(f"largest weight {float(weights.max()):.2f}", fontsize=9, color=draw.INK)
    for each in axes:
        each.set_xticks([])
        each.set_yticks([])
    alt = (
        f"A picture of “{' '.join(words)}” and, for each word of the caption, where the captioner with attention looks"
        f" on a grid of {maps.shape[1]} by {maps.shape[2]} places. It says “{said}”."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="captions",
    chapter=4,
    title="words for a picture",
    claim="A CNN that sets the first state of a GRU, trained end to end, captions pictures of a shape exactly; swapped"
    " pictures swap the captions, and a caption costs nats more beside another picture.",
    slides=(Slide("002", "p. 9–10"),),
    parameters=CaptionsParameters,
    run=run,
    mechanism=("shown",),
    exercise=Exercise(
        function="says",
        task="Write captions word after word, the likeliest at each step, from START until EOS, at most 12 words,"
        " and give them back as texts. `sample` with GREEDY does it; model.start and model.extend let you"
        " write the loop yourself.",
        hints=(
            "The model sees pictures through `shown`; EncoderInput.of_images makes them a source.",
            "SequenceLimits has the start token, the stop token and the most tokens.",
            "sample gives rows of numbers, without the stop token: join their WORDS by spaces.",
        ),
        bugs=(
            PlantedBug(
                right="stop=IDS[EOS]",
                wrong="stop=IDS[START]",
                fails="with attention: captions that are right",
                hint="When does a caption end?",
            ),
            PlantedBug(
                right="shown(pictures)",
                wrong="shown(pictures.flip(0))",
                fails="with attention: captions that are right",
                hint="Whose caption is it?",
            ),
        ),
    ),
)
