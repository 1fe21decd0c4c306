"""Table 2 of the 2017 paper as data: its costs from hours, what a step really computes, BLEU by hand, sizes by formula.

The training cost of the paper's own rows is hours × 8 GPUs × 9.5 TFLOP/s, the peak of a P100 (Vaswani et al. 2017,
section 6.1, footnote 5): what the GPUs could have computed, not what was computed. The multiplications of a training
step are counted here on our own model. BLEU depends on how text is split into tokens, so that one output has several
(Post 2018, "A Call for Clarity in Reporting BLEU Scores", section 2).
"""

from __future__ import annotations

import math
import random
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, within
from headway.metrics.translation import translation_report
from headway.models import EncoderDecoderConfig, build_model
from headway.plots import lab_figures as draw
from headway.presets import build, preset

PUBLISHED = (  # model, BLEU EN-DE and EN-FR, training cost in FLOP EN-DE and EN-FR; None: not given
    ("ByteNet", 23.75, None, None, None),
    ("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    ("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    ("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    ("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    ("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    ("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    ("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    ("Transformer (base)", 27.3, 38.1, 3.3e18, 3.3e18),
    ("Transformer (big)", 28.4, 41.8, 2.3e19, 2.3e19),
)
BASE_HOURS, BIG_HOURS = 12.0, 3.5 * 24
BATCH_TOKENS, BASE_STEPS = 25_000, 100_000  # source tokens, and as many target tokens (section 5.1)
SENTENCE = 25  # tokens of a sentence in the counted step
REFERENCES = (
    "The well-known state-of-the-art model was trained on eight GPUs, wasn't it?",
    "A man in a T-shirt is climbing a rock-face near San Francisco.",
    "Two young girls are playing with a ball; their mother is watching.",
    "In 2014, the U.S. economy grew by 2.4 percent, the report said.",
    "\u201cI found a special restaurant,\u201d said John, who had been to New York.",
    "The cat opened its eyes and looked at the half-open door.",
    "It wasn't until the twenty-first century that translation became good.",
    "A dog is running through the snow, and a child follows it.",
)
SYMBOL = re.compile("([" + re.escape("".join(sorted({*string.punctuation} - {*"'-.,"}))) + "])")
SHARE_CHANGED = 0.12  # of the words of an output, at random


@dataclass(frozen=True, slots=True, kw_only=True)
class TableParameters:
    """The machine that the paper trained on."""

    gpus: int = 8  # that train at once
    tera: float = 9.5  # TFLOP/s of one GPU at its peak; a P100 has 9.5

    def __post_init__(self) -> None:
        if self.gpus < 1 or not self.tera > 0:
            raise ConfigError(f"--gpus {self.gpus} --tera {self.tera}: expected numbers above 0")


def cost(hours: float, gpus: int, tera: float) -> float:
    """Operations that GPUs at their peak could do in these hours."""
    return hours * 3600 * gpus * tera * 1e12


def counted_step(config: EncoderDecoderConfig, sentences: int) -> float:
    """Floating-point operations of one forward pass over pairs of sentences, counted by torch; nothing is computed."""
    model = build_model(replace(config, kernel="reference"), device="meta").eval()
    tokens = torch.zeros(sentences, SENTENCE, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        model(tokens, tokens)
    return float(counter.get_total_flops())


def step_by_formula(config: EncoderDecoderConfig, sentences: int) -> float:
    """The same by hand: 2 operations for each weight a token meets, 4·S·D for the scores and sums of each attention."""
    d, tokens = config.width, sentences * SENTENCE
    linear = 2 * tokens * (12 * d * d + 4 * d * config.inner)  # encoder 4d²+2dF, decoder 8d²+2dF, one layer each
    attention = 3 * 4 * tokens * SENTENCE * d  # encoder's, decoder's own, and over the source
    return config.encoder_layers * (linear + attention) + 2 * tokens * d * config.vocab


def block_size(width: int, inner: int, attentions: int = 1) -> int:
    """Weights of a block: each attention 4d² + 4d, the network 2dF + F + d, a LayerNorm of 2d for each part."""
    network = 2 * width * inner + inner + width
    return attentions * (4 * width * width + 4 * width) + network + (attentions + 1) * 2 * width


def transformer_size(width: int, inner: int, layers: int, vocab: int) -> int:
    """An encoder-decoder whose source, target and output share one matrix; sinusoids have no weights."""
    return vocab * width + layers * (block_size(width, inner) + block_size(width, inner, attentions=2))


def gpt_size(width: int, layers: int, vocab: int = 50_257, context: int = 1024) -> int:
    """GPT-2: words, positions, blocks, a last LayerNorm; the output is the embedding."""
    return (vocab + context) * width + layers * block_size(width, 4 * width) + 2 * width


def vit_size(width: int, layers: int, inner: int, patch: int, image: int = 224, classes: int = 1000) -> int:
    """ViT: the patch projection, class token, positions, blocks, a last LayerNorm and the output layer."""
    tokens = (image // patch) ** 2 + 1
    front = 3 * patch * patch * width + width + width + tokens * width
    return front + layers * block_size(width, inner) + 2 * width + width * classes + classes


SIZES: dict[str, Callable[[], int]] = {
    "transformer-base": lambda: transformer_size(512, 2048, 6, 37_000),
    "transformer-big": lambda: transformer_size(1024, 4096, 6, 37_000),
    "gpt2": lambda: gpt_size(768, 12),
    "gpt2-medium": lambda: gpt_size(1024, 24),
    "gpt2-large": lambda: gpt_size(1280, 36),
    "gpt2-xl": lambda: gpt_size(1600, 48),
    "vit-b16": lambda: vit_size(768, 12, 3072, 16),
    "vit-l16": lambda: vit_size(1024, 24, 4096, 16),
    "vit-h14": lambda: vit_size(1280, 32, 5120, 14),
}


def built_size(name: str) -> int:
    """The weights of a preset's model, counted one tensor after the other; nothing is allocated."""
    return sum(parameter.numel() for parameter in build(name, device="meta").parameters())


def brevity(hypothesis: int, reference: int) -> float:
    """BLEU's penalty for outputs that are shorter than their references."""
    return min(1.0, math.exp(1 - reference / hypothesis))


def bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU of tokens by its definition (Papineni et al. 2002, section 2.3), unsmoothed."""
    logarithms = []
    for n in range(1, 5):
        right = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            mine, theirs = (
                Counter(zip(*(words[k:] for k in range(n)), strict=False)) for words in (hypothesis, reference)
            )
            right += sum(min(count, theirs[gram]) for gram, count in mine.items())
            total += sum(mine.values())
        logarithms.append(math.log(right / total))
    lengths = (sum(map(len, side)) for side in (hypotheses, references))
    return 100 * brevity(*lengths) * math.exp(sum(logarithms) / 4)


def split_13a(line: str) -> list[str]:
    """mteval's tokens, which sacreBLEU uses: punctuation is a token of its own unless it is between digits."""
    line = SYMBOL.sub(r" \1 ", f" {line} ")
    line = re.sub(r"(\D)([.,])", r"\1 \2 ", line)
    line = re.sub(r"([.,])(\D)", r" \1 \2", line)
    return re.sub(r"(\d)-", r"\1 - ", line).split()


def split_compounds(line: str) -> list[str]:
    """As the 2017 paper's scores were made: a hyphen inside a word is a token (get_ende_bleu.sh of tensor2tensor)."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", " ".join(split_13a(line))).split()


def noisy(lines: Sequence[str], seed: int) -> list[str]:
    """Each line with some words left out, doubled or exchanged: the output of a middling system."""
    draw_from, found = random.Random(seed), []
    for line in lines:
        words = []
        for word in line.split():
            kind = draw_from.random() / SHARE_CHANGED
            words += [word] if kind >= 1 else [] if kind < 0.6 else [word, word] if kind < 0.85 else [word.capitalize()]
        found.append(" ".join(words))
    return found


def run(parameters: TableParameters, seed: int, quick: bool) -> LabOutcome:
    """Costs from hours and by counting, one output under four BLEUs, sizes by formula."""
    base, big = (cost(hours, parameters.gpus, parameters.tera) for hours in (BASE_HOURS, BIG_HOURS))
    config = cast(EncoderDecoderConfig, preset("transformer-base").config())
    sentences = 10 if quick else BATCH_TOKENS // SENTENCE
    step, formula = counted_step(config, sentences), step_by_formula(config, sentences)
    # Backward, each product has two gradients of the same cost.
    run_flops = 3 * step * (BATCH_TOKENS // SENTENCE) / sentences * BASE_STEPS
    sizes = {name: (formula_of(), built_size(name)) for name, formula_of in SIZES.items()}
    output = noisy(REFERENCES * 4, seed)
    references = [*REFERENCES * 4]
    report = translation_report(output, references, seed=seed, resamples=100)
    kinds: dict[str, tuple[Callable[[str], list[str]], bool]] = {
        "sacreBLEU (13a)": (split_13a, False),
        "the same, lower case": (split_13a, True),
        "white space, lower case (multi-bleu -lc)": (str.split, True),
        "hyphens split (the 2017 paper's)": (split_compounds, False),
    }
    found = {
        kind: bleu(*([split(line.lower() if lower else line) for line in side] for side in (output, references)))
        for kind, (split, lower) in kinds.items()
    }
    spread = max(found.values()) - min(found.values())
    standard = (parameters.gpus, parameters.tera) == (8, 9.5)
    checks = [
        *(
            [
                equals("base: 12 hours in 1e18 FLOP", base / 1e18, 3.28, 0.005),
                equals("big: 3.5 days in 1e19 FLOP", big / 1e19, 2.30, 0.005),
            ]
            if standard
            else []
        ),
        equals("counted operations of a forward pass / by formula", step / formula, 1.0, 1e-9),
        within("counted operations of 100,000 steps / cost of the table's row", run_flops / base, 0.05, 0.95),
        at_most("sizes by formula that differ from the model built", sum(a != b for a, b in sizes.values()), 0),
        at_most(
            "sizes that differ from the published ones",
            sum(preset(name).parameters != size for name, (size, _) in sizes.items()), 0,
        ),
        equals("BLEU by hand (13a tokens) = sacreBLEU", found["sacreBLEU (13a)"], report.bleu, 0.01),
        equals(
            "BLEU by hand (white space, lower case) = evaluate's",
            found["white space, lower case (multi-bleu -lc)"], report.tokenized_lower.score, 0.01,
        ),
        at_least("points between the highest and the lowest BLEU of one output", spread, 1.0),
    ]  # fmt: skip
    tables = [
        LabTable(
            title="Table 2 of Vaswani et al. 2017, newstest2014",
            header=("model", "BLEU EN-DE", "BLEU EN-FR", "FLOP EN-DE", "FLOP EN-FR"),
            rows=[tuple("" if cell is None else cell for cell in row) for row in PUBLISHED],
            note="The paper prints the cost of its own rows once, for both languages; the slide has it below EN-FR"
            " alone. The paper's text says 41.0 for big, EN-FR, its table 41.8.",
        ),
        LabTable(
            title="where the cost comes from",
            header=("what", "FLOP"),
            rows=[
                (f"base: 12 h × {parameters.gpus} × {parameters.tera:g} TFLOP/s", base),
                (f"big: 3.5 d × {parameters.gpus} × {parameters.tera:g} TFLOP/s", big),
                ("base: counted on headway's model, 100,000 steps of 25,000 + 25,000 tokens", run_flops),
                ("share of the GPUs' peak that this is", run_flops / base),
            ],
        ),
        LabTable(title="one output, four BLEUs", header=("tokens", "BLEU"), rows=[*found.items()],
                 note="The output is the references with an eighth of their words changed. Only the way of splitting"
                 " differs."),
        LabTable(
            title="weights",
            header=("model", "by formula", "counted on the model"),
            rows=[(name, *both) for name, both in sizes.items()],
        ),
    ]  # fmt: skip
    notes = [
        "The cost column is an upper bound: what eight GPUs could have done in the time. The products of the base"
        f" model's training come to {run_flops / base:.0%} of it. And a BLEU without the name of its tokens is not a"
        f" number: the same output has {min(found.values()):.1f} to {max(found.values()):.1f}."
    ]
    return LabOutcome(tables=tables, figures=[_figure(run_flops, found)], checks=checks, notes=notes)


def _figure(run_flops: float, found: dict[str, float]) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.7, widths=(1.7, 1))
    labelled = {}
    for name, bleu_de, _, flops_de, _ in PUBLISHED:
        if bleu_de is not None and flops_de is not None:
            ours = name.startswith("Transformer")
            left.scatter([flops_de], [bleu_de], s=45, color=draw.ORANGE if ours else draw.BLUE, zorder=3)
            labelled[name] = (flops_de, bleu_de)
    for name, (x, y) in labelled.items():
        low = name == "GNMT + RL, ensemble"
        left.annotate(
            name,
            (x, y),
            xytext=(6, -14 if low else 5),
            ha="center" if low else "left",
            textcoords="offset points",
            fontsize=8.5,
            color=draw.INK,
        )
    left.scatter([run_flops], [27.3], s=45, facecolor="white", edgecolor=draw.ORANGE, zorder=3)
    left.annotate("base, counted here", (run_flops, 27.3), xytext=(-4, -14), textcoords="offset points", fontsize=8.5,
                  color=draw.SOFT)  # fmt: skip
    left.set_xscale("log")
    left.set_xlim(3e17, 2e21)
    left.set_ylim(24, 29.2)
    draw.style(left, "Quality by cost, EN-DE", "training cost (FLOP)", "BLEU, newstest2014")
    names = ["13a", "13a,\nlower case", "white space,\nlower case", "hyphens\nsplit"]
    right.barh(range(4), [*found.values()], color=draw.BLUE, height=0.6)
    for place, value in enumerate(found.values()):
        right.text(value - 1, place, f"{value:.1f}", ha="right", va="center", color="white", fontsize=9)
    right.set_yticks(range(4), names)
    right.invert_yaxis()
    draw.style(right, "One output, four BLEUs", "BLEU", "")
    alt = (
        "Left: BLEU EN-DE against training cost for the systems of Table 2; Transformer base at 3.3e18 FLOP has 27.3,"
        f" big at 2.3e19 has 28.4, all others lie below; counted here, base takes {run_flops:.1e} FLOP. Right: BLEU of"
        f" one output under four ways to split it, {', '.join(f'{value:.1f}' for value in found.values())}."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="table",
    chapter=7,
    title="Table 2, its costs, and four BLEUs of one output",
    claim="The costs of Table 2 are hours times peak speed (3.28e18 and 2.30e19 FLOP), several times what the training"
    " computes; one output has BLEUs points apart by how it is split; nine model sizes follow from a formula exactly.",
    slides=(Slide("004", "p. 56", 635), Slide("004", "p. 58", 695), Slide("002", "p. 48"), Slide("004", "p. 59", 721)),
    parameters=TableParameters,
    run=run,
    mechanism=("cost", "step_by_formula", "block_size", "brevity", "split_13a"),
    exercise=Exercise(
        function="block_size",
        task="Count the weights: an attention has four matrices d×d with biases, the network d→F→d with biases,"
        " and each part a LayerNorm with gain and bias. A decoder block has two attentions.",
        hints=(
            "One attention: 4d² + 4d. The network: 2dF + F + d.",
            "There is a LayerNorm for each attention and one for the network.",
            "attentions·(4d² + 4d) + network + (attentions + 1)·2d.",
        ),
        bugs=(
            PlantedBug(
                right="4 * width * width + 4 * width",
                wrong="4 * width * width",
                fails="sizes by formula",
                hint="What does a linear layer have beside its matrix?",
            ),
            PlantedBug(
                right="(attentions + 1) * 2 * width",
                wrong="2 * 2 * width",
                fails="sizes by formula",
                hint="How many parts does a block of the decoder have?",
            ),
        ),
    ),
)
