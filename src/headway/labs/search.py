"""Greedy search, beam search and all sequences: on a tree with a trap, and on small random GPTs.

Greedy search takes the likeliest word of each step; a beam keeps the `width` likeliest beginnings. On models so small
that every sequence can be scored, a beam as wide as there are beginnings must find what trying all of them finds. A
longer sequence has a lower probability, so that scores are divided by a penalty of the length (Wu et al. 2016, section
7: ((5 + n)/6)^α).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.decoding.beam import BeamSettings, Hypothesis, beam_search, length_penalty
from headway.decoding.limits import SequenceLimits
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, progress
from headway.models import EncoderInput, GptConfig, Model, build_model
from headway.plots import lab_figures as draw

WORDS = ("EOS", "a", "the", "cute", "small", "puppy", "dog", "START")
STOP, START = 0, len(WORDS) - 1
TREE: dict[tuple[str, ...], dict[str, float]] = {  # the next word's probabilities; EOS where nothing is said
    (): {"a": 0.6, "the": 0.4},
    ("a",): {"cute": 0.4, "small": 0.3, "puppy": 0.3},
    ("a", "cute"): {"puppy": 0.6, "dog": 0.4},
    ("a", "small"): {"dog": 0.6, "puppy": 0.4},
    ("the",): {"puppy": 0.9, "dog": 0.1},
}
TREE_TOKENS = 5
VOCAB, TOKENS = 5, 4  # of the random models: stop and four words; (VOCAB - 1)^TOKENS sequences have no stop
WIDTHS = (1, 2, 4, 8, 16, 64, 256)
ALPHAS = (0.0, 0.3, 0.6, 1.0, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParameters:
    """The random models."""

    prompts: int = 64  # sequences to continue
    peak: float = 0.5  # standard deviation of the random weights: how sure the models are

    def __post_init__(self) -> None:
        if not 1 <= self.prompts <= 1000 or not 0 < self.peak <= 10:
            raise ConfigError(f"--prompts {self.prompts} --peak {self.peak}: expected 1 to 1,000, and above 0 to 10")


class TreeModel:
    """A model of the tree: the state is the words so far (B, n). A `Stepper`, as every model that generates."""

    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> Tensor | None:
        """Nothing so far."""
        return None

    def extend(self, tokens_BK: Tensor, state: Tensor | None, counts_B: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits (B, 1, V) for what follows the last token."""
        said = tokens_BK if state is None else torch.cat([state, tokens_BK], 1)
        return torch.stack([_tree_logits(row) for row in said.tolist()]).unsqueeze(1), said

    def select(self, state: Tensor | None, rows_B: Tensor) -> Tensor | None:
        """These rows, in this order."""
        return None if state is None else state[rows_B]


def _tree_logits(said: list[int]) -> Tensor:
    following = TREE.get(tuple(WORDS[token] for token in said[1:]), {WORDS[STOP]: 1.0})
    return torch.tensor([following.get(word, 0.0) + 1e-9 for word in WORDS]).log()


def find(model: Any, prompts_BT: Tensor, width: int, alpha: float, tokens: int) -> list[Hypothesis]:
    """The best hypothesis for each prompt, of a model that is a `Stepper`."""
    settings = BeamSettings(width=width, alpha=alpha, stop_rule="best")
    limits = SequenceLimits(start=prompts_BT, stop=STOP, max_tokens=tokens)
    return [found[0] for found in beam_search(model, None, settings, limits)]


def greedy(model: Model, prompts_BT: Tensor) -> list[list[int]]:
    """The likeliest word of each step, by whole forward passes."""
    said = prompts_BT
    for _ in range(TOKENS):
        said = torch.cat([said, model(said)[:, -1].argmax(-1, keepdim=True)], 1)
    rows = said[:, prompts_BT.shape[1] :].tolist()
    return [row[: row.index(STOP)] if STOP in row else row for row in rows]


def every_sequence() -> list[tuple[int, ...]]:
    """Every output of up to TOKENS tokens: ended by STOP, or cut."""
    words = range(1, VOCAB)
    ended = [(*line, STOP) for n in range(TOKENS) for line in itertools.product(words, repeat=n)]
    return [*ended, *itertools.product(words, repeat=TOKENS)]


def log_probabilities(model: Model, prompts_BT: Tensor) -> Tensor:
    """(prompts, sequences): each sequence's log-probability, by teacher forcing."""
    lines = every_sequence()
    padded = torch.tensor([(*line, *(STOP,) * (TOKENS - len(line))) for line in lines])
    real = torch.tensor([[n < len(line) for n in range(TOKENS)] for line in lines])
    found = []
    for prompt in prompts_BT:
        logits = model(torch.cat([prompt.expand(len(lines), -1), padded], 1))[:, len(prompt) - 1 : -1]
        picked = logits.log_softmax(-1).gather(-1, padded.unsqueeze(-1)).squeeze(-1)
        found.append(picked.masked_fill(~real, 0.0).sum(-1))
    return torch.stack(found)


@torch.no_grad()
def run(parameters: SearchParameters, seed: int, quick: bool) -> LabOutcome:
    """The tree, then random models."""
    tree, prompt = TreeModel(), torch.tensor([[START]])
    found = {width: find(tree, prompt, width, 0.0, TREE_TOKENS)[0] for width in (1, 2, 4)}

    count = min(48, parameters.prompts) if quick else parameters.prompts
    config = GptConfig(vocab=VOCAB, context=16, width=16, layers=2, heads=2, init_std=parameters.peak, tied=False)
    model = build_model(config, seed=seed).eval()
    prompts = torch.randint(VOCAB, (count, 4), generator=torch.Generator().manual_seed(seed))
    truth = log_probabilities(model, prompts)
    by_width = {}
    for number, width in enumerate(WIDTHS):
        by_width[width] = torch.tensor([each.log_probability for each in find(model, prompts, width, 0.0, TOKENS)])
        progress("beam search", number + 1, len(WIDTHS))
    best = truth.amax(-1)
    same = {width: float(((best - scores).abs() < 1e-4).float().mean()) for width, scores in by_width.items()}
    single = [each.tokens for each in find(model, prompts, 1, 0.0, TOKENS)]
    by_alpha = {alpha: _lengths(find(model, prompts, WIDTHS[-1], alpha, TOKENS)) for alpha in ALPHAS}
    norms = {a: torch.tensor([length_penalty(len(s), a, "gnmt") for s in every_sequence()]) for a in ALPHAS}
    wide = {a: [each.score for each in find(model, prompts, WIDTHS[-1], a, TOKENS)] for a in ALPHAS}
    worst = max(_worst(torch.tensor(wide[a]) - (truth / norms[a]).amax(-1)) for a in ALPHAS)
    shrunk = sum(
        int((by_alpha[high] < by_alpha[low]).sum()) for low, high in itertools.pairwise(ALPHAS)
    )  # exact search: a larger α never prefers a shorter sequence
    differ = sum(a != b for a, b in zip(single, greedy(model, prompts), strict=True))
    checks = [
        equals("tree: probability of what greedy search finds", math.exp(found[1].log_probability), 0.144, 1e-4),
        equals("tree: probability of what a beam of 2 finds", math.exp(found[2].log_probability), 0.36, 1e-4),
        at_most("beam of 1 = greedy search, outputs that differ", differ, 0),
        at_most("probabilities of all sequences, distance of their sum from 1", _worst(truth.exp().sum(-1) - 1), 1e-4),
        at_most(f"beam of {WIDTHS[-1]} = all sequences tried, largest difference of a score", worst, 1e-4),
        at_least("nats that a beam of 4 gains over greedy search, mean", _mean(by_width[4] - by_width[1]), 0.02),
        at_most("prompts with a shorter best output under a larger α", shrunk, 0),
        at_least("words that α = 2 adds to the best outputs, mean", _mean(by_alpha[2.0] - by_alpha[0.0]), 0.1),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="the tree with a trap",
            header=("search", "finds", "probability"),
            rows=[
                ("greedy (beam of 1)" if w == 1 else f"beam of {w}", _text(each), math.exp(each.log_probability))
                for w, each in found.items()
            ],
            note="Greedy search takes “a” (0.6 > 0.4) and can then only find sequences of at most 0.6 × 0.4 × 0.6.",
        ),
        LabTable(
            title=f"{count} prompts of a random GPT, {len(every_sequence())} possible outputs each",
            header=("beam", "mean log-probability (nats)", "as good as trying all"),
            rows=[(width, float(by_width[width].mean()), same[width]) for width in WIDTHS]
            + [("all", float(best.mean()), 1.0)],
        ),
        LabTable(
            title=f"length penalty ((5 + n)/6)^α, beam of {WIDTHS[-1]}",
            header=("α", "words of the best output, mean"),
            rows=[(alpha, float(lengths.mean())) for alpha, lengths in by_alpha.items()],
        ),
    ]
    notes = [
        "The likeliest next word is not the next word of the likeliest sentence. A beam of 2 keeps “the” for one more"
        " step, and that is enough here; in general only a beam as wide as there are beginnings is certain."
    ]
    return LabOutcome(tables=tables, figures=[_figure(by_width, same, float(best.mean()))], checks=checks, notes=notes)


def _lengths(found: list[Hypothesis]) -> Tensor:
    return torch.tensor([len(each.tokens) for each in found], dtype=torch.float)


def _mean(values: Tensor) -> float:
    return float(values.mean())


def _worst(values: Tensor) -> float:
    return float(values.abs().max())


def _text(found: Hypothesis) -> str:
    return " ".join(WORDS[token] for token in found.tokens)


def _figure(by_width: dict[int, Tensor], same: dict[int, float], best: float) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.8, widths=(1.45, 1))
    places = {
        (): (0.0, 2.6), ("a",): (1.0, 3.8), ("the",): (1.0, 0.8), ("a", "cute"): (2.0, 5.0), ("a", "small"): (2.0, 3.5),
        ("a", "puppy"): (2.0, 2.3), ("the", "puppy"): (2.0, 1.2), ("the", "dog"): (2.0, 0.1),
        ("a", "cute", "puppy"): (3.0, 5.4), ("a", "cute", "dog"): (3.0, 4.6), ("a", "small", "dog"): (3.0, 3.8),
        ("a", "small", "puppy"): (3.0, 3.1),
    }  # fmt: skip
    trap, right_way = ("a", "cute", "puppy"), ("the", "puppy")
    for said, (x, y) in places.items():
        if said:
            x0, y0 = places[said[:-1]]
            on_trap, on_way = said == trap[: len(said)], said == right_way[: len(said)]
            colour = draw.ORANGE if on_trap else draw.GREEN if on_way else draw.SOFT
            left.plot([x0, x], [y0, y], color=colour, linewidth=2.4 if on_trap or on_way else 1.0, zorder=1)
            beside = -0.05 if y > y0 else 0.07
            chance = f"{TREE[said[:-1]][said[-1]]:.2f}".lstrip("0")
            at = (x0 + 2 * x) / 3 + beside, (y0 + 2 * y) / 3 + 0.16
            left.text(*at, chance, ha="center", fontsize=8.5, color=colour)
        left.text(x, y, said[-1] if said else "START", ha="center", va="center", fontsize=9.5, color=draw.INK,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
                  zorder=2)  # fmt: skip
    left.text(3.0, 5.85, "greedy: .144", ha="center", fontsize=9, color=draw.ORANGE)
    left.text(2.45, 1.2, "best: .36", va="center", fontsize=9, color=draw.GREEN)
    left.set_xlim(-0.25, 3.35)
    left.set_ylim(-0.4, 6.3)
    draw.style(left, "A tree with a trap", "step (words said)", "")
    left.set_yticks([])
    left.set_xticks([0, 1, 2, 3])
    left.grid(visible=False)
    left.spines["left"].set_visible(False)
    draw.line(right, WIDTHS, [float(by_width[w].mean()) for w in WIDTHS], "beam search", 0)
    draw.reference(right, best, "all sequences tried")
    right.set_xscale("log", base=2)
    draw.style(right, "Random GPT", "beam width", "best output (nats, mean)", legend="lower right")
    alt = (
        "Left: a tree of words. Greedy search goes by “a” to “a cute puppy” with probability 0.144; the best sentence"
        " is “the puppy” with 0.36. Right: the mean log-probability of what a beam finds on a random GPT rises from"
        f" {float(by_width[1].mean()):.3f} nats at width 1, where {same[1]:.0%} of the outputs are the best ones, to"
        f" {best:.3f}, which is what trying all sequences finds."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="search",
    chapter=7,
    title="greedy search, beam search and all sequences",
    claim="Taking the likeliest word at each step misses the likeliest sentence (.144 for .36), a beam of 2 finds it; a"
    " beam of 1 is greedy search, one as wide as there are beginnings is exact, and a length penalty only lengthens.",
    slides=(Slide("004", "p. 49–54", 590), Slide("002", "p. 6")),
    parameters=SearchParameters,
    run=run,
    mechanism=("find", "greedy", "log_probabilities"),
    exercise=Exercise(
        function="greedy",
        task="model(words (N, T)) gives the logits (N, T, V) of what follows each place. TOKENS times: append the"
        " likeliest next word of the whole text so far. Return what was said behind each prompt, up to STOP and"
        " without it.",
        hints=(
            "The next word is decided by the logits of the last place, [:, -1].",
            "argmax(-1, keepdim=True) is (B, 1), which torch.cat puts behind said.",
            "Cut the prompt off, then each row at its first STOP.",
        ),
        bugs=(
            PlantedBug(
                right="model(said)",
                wrong="model(prompts_BT)",
                fails="beam of 1 = greedy",
                hint="What does the second step read?",
            ),
            PlantedBug(
                right="[:, prompts_BT.shape[1] :]",
                wrong="[:, prompts_BT.shape[1] - 1 :]",
                fails="beam of 1 = greedy",
                hint="Where does the prompt end?",
            ),
        ),
    ),
)
