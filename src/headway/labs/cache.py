"""Writing one token after the other, with and without a KV cache: the same logits, other costs.

A token's keys and values do not depend on later tokens, so that a decoder keeps them. Without a cache every step
computes all tokens again. The operations of both are counted by torch, not timed: a step with a cache costs each weight
once and 4·D for each token kept, one without costs that for every token so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, progress
from headway.models import Gpt, GptConfig, build_model
from headway.plots import lab_figures as draw

VOCAB, HEADS = 64, 4
NUMBER = 4  # bytes of a float32
QUICK_TOKENS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheParameters:
    """The decoder and how much it writes."""

    tokens: int = 256  # that are written, one after the other
    width: int = 128  # features of a token
    layers: int = 4  # blocks of the decoder

    def __post_init__(self) -> None:
        if not 32 <= self.tokens <= 2048 or not 1 <= self.layers <= 16:
            raise ConfigError(f"--tokens {self.tokens} --layers {self.layers}: expected 32 to 2,048, and 1 to 16")
        if self.width % HEADS or not HEADS <= self.width <= 512:
            raise ConfigError(f"--width {self.width}: expected a multiple of {HEADS} up to 512")


@dataclass(frozen=True, slots=True)
class Written:
    """What writing cost, by step."""

    logits: Tensor  # (T, V)
    operations: list[int]
    bytes_kept: list[int]


def without_cache(model: Gpt, tokens_T: Tensor) -> Written:
    """All tokens so far are computed at every step."""
    rows, operations = [], []
    for n in range(1, len(tokens_T) + 1):
        with FlopCounterMode(display=False) as counter:
            rows.append(model.read(model.features(tokens_T[None, :n])[:, -1:])[0, 0])
        operations.append(counter.get_total_flops())
        progress("without a cache", n, len(tokens_T))
    return Written(torch.stack(rows), operations, [0] * len(tokens_T))


def with_cache(model: Gpt, tokens_T: Tensor) -> Written:
    """Each step computes its token alone and reads the keys and values of the others."""
    rows, operations, kept = [], [], []
    state = model.start(capacity=len(tokens_T))
    for n, token in enumerate(tokens_T, 1):
        with FlopCounterMode(display=False) as counter:
            logits, state = model.extend(token.view(1, 1), state)
        rows.append(logits[0, 0])
        operations.append(counter.get_total_flops())
        held = [buffer for layer in state.layers for buffer in (layer.k, layer.v) if buffer is not None]
        kept.append(sum(buffer[:, :, : state.used].numel() * buffer.element_size() for buffer in held))
        progress("with a cache", n, len(tokens_T))
    return Written(torch.stack(rows), operations, kept)


def slope(totals: list[int]) -> float:
    """The exponent p of total ~ n^p over the last doubling of the length."""
    return math.log2(totals[-1] / totals[len(totals) // 2 - 1])


@torch.no_grad()
def run(parameters: CacheParameters, seed: int, quick: bool) -> LabOutcome:
    """Both ways over the same tokens, and caches with fewer key heads."""
    count = min(QUICK_TOKENS, parameters.tokens) if quick else parameters.tokens
    layers, width = parameters.layers, parameters.width
    config = GptConfig(
        vocab=VOCAB, context=count, width=width, layers=layers, heads=HEADS, init_std=0.05, kernel="reference"
    )
    model = cast(Gpt, build_model(config, seed=seed).eval())
    tokens = torch.randint(VOCAB, (count,), generator=torch.Generator().manual_seed(seed))
    cached, plain = with_cache(model, tokens), without_cache(model, tokens)
    difference = float((cached.logits - plain.logits).abs().max())
    totals = {name: _sums(each.operations) for name, each in (("with", cached), ("without", plain))}
    weights = sum(
        p.numel() for block in model.stack.blocks for n, p in block.named_parameters() if n.endswith("weight")
    )
    weights -= layers * 2 * width  # LayerNorm's gains are no products
    step = 2 * (weights + VOCAB * width) + 4 * layers * width * count
    few = cast(Gpt, build_model(replace(config, kv_heads=1), seed=seed).eval())
    grouped = with_cache(few, tokens[:32])
    half = cast(Gpt, build_model(config, seed=seed).eval().to(torch.bfloat16))
    small = with_cache(half, tokens[:32])
    token = 2 * layers * width * NUMBER
    small_context = count <= 2 * width  # the look back, 4·D a token, is then small beside the weights, 24·D²
    checks = [
        at_most("logits with a cache = without, largest difference", difference, 1e-5),
        equals("bytes kept for a token: 2·layers·D·4", cached.bytes_kept[-1] / count, token),
        equals("the same with one key head for four: a quarter", grouped.bytes_kept[-1] / 32, token / HEADS),
        equals("the same in bfloat16: half", small.bytes_kept[-1] / 32, token / 2),
        equals("operations of the last step / (2 a weight + 4·layers·D·T)", cached.operations[-1] / step, 1, 1e-9),
        *([at_most("with a cache: exponent of all operations by length", slope(totals["with"]), 1.2)] * small_context),
        at_least("without: exponent of all operations by length", slope(totals["without"]), 1.9),
        at_least("exponent without − with", slope(totals["without"]) - slope(totals["with"]), 0.85),
    ]  # fmt: skip
    lengths = [n for n in (1, 16, 32, 64, 128, 256, 512, 1024, 2048) if n <= count]
    tables = [
        LabTable(
            title=f"writing n tokens with a GPT of {layers} layers × {width}",
            header=("tokens n", "operations with cache", "without", "ratio", "bytes kept"),
            rows=[
                (
                    n,
                    totals["with"][n - 1],
                    totals["without"][n - 1],
                    totals["without"][n - 1] / totals["with"][n - 1],
                    cached.bytes_kept[n - 1],
                )
                for n in lengths
            ],
        ),
        LabTable(
            title="bytes kept for a token",
            header=("cache", "bytes", "of"),
            rows=[
                ("float32", token, f"2·{layers}·{width}·4"),
                ("float32, one key head for four (grouped-query attention)", token // HEADS, f"2·{layers}·{width}·4/4"),
                ("bfloat16", token // 2, f"2·{layers}·{width}·2"),
                ("GPT-2 small in float32", 2 * 12 * 768 * 4, "2·12·768·4"),
            ],
        ),
    ]
    notes = [
        "A cache changes no output, only what is computed: writing n tokens costs about n² times a token's work"
        " without it, about n times with it, until 4·layers·D·n, the look back, outgrows the weights. It is paid for in"
        f" memory: {token:,} bytes a token here."
    ]
    return LabOutcome(tables=tables, figures=[_figure(cached, plain)], checks=checks, notes=notes)


def _sums(values: list[int]) -> list[int]:
    found, total = [], 0
    for value in values:
        total += value
        found.append(total)
    return found


def _figure(cached: Written, plain: Written) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.4)
    at = range(1, len(cached.operations) + 1)
    draw.line(left, at, [x / 1e6 for x in plain.operations], "without a cache", 1, markers=False)
    draw.line(left, at, [x / 1e6 for x in cached.operations], "with a cache", 0, markers=False)
    left.set_yscale("log")
    draw.style(left, "Cost of one step", "step (tokens so far)", "operations (millions)", legend="center right")
    draw.line(right, at, [x / 1024 for x in cached.bytes_kept], "with a cache", 0, markers=False)
    right.set_ylim(bottom=0)
    draw.style(right, "Keys and values kept", "step (tokens so far)", "memory (KiB)", legend="upper left")
    dear, first, last = (x / 1e6 for x in (plain.operations[-1], cached.operations[0], cached.operations[-1]))
    alt = (
        "Left: operations of one step by tokens so far, logarithmic: without a cache they grow to"
        f" {dear:.0f} million at step {len(at)}, with one from {first:.2f} to {last:.2f} million. Right: the memory of"
        f" the cache, a straight line to {cached.bytes_kept[-1] / 1024:.0f} KiB."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="cache",
    chapter=7,
    title="writing with and without a KV cache",
    claim="Keeping keys and values changes no logit, makes the cost of n tokens grow like n instead of n² or more, and"
    " costs exactly 2 · layers · width numbers for each token.",
    slides=(Slide("004", "p. 49–54", 590), Slide("004", "p. 48", 578)),
    parameters=CacheParameters,
    run=run,
    mechanism=("with_cache", "without_cache"),
    exercise=Exercise(
        function="with_cache",
        cut=("state =", "progress("),
        task="Feed one token after another. model.start(capacity=…) gives an empty cache, model.extend(token (1,"
        " 1), state) logits (1, 1, V) and the next state; state.layers have buffers k and v (1, G, capacity,"
        " E), of which state.used are filled. Collect logits, operations (as without_cache does) and the"
        " bytes that the cache keeps.",
        hints=(
            "with FlopCounterMode(display=False) as counter: … counter.get_total_flops().",
            "Each step gets the state of the step before.",
            "The bytes of a buffer are those of buffer[:, :, : state.used]: numel() times element_size().",
        ),
        bugs=(
            PlantedBug(
                right="logits, state = model.extend(token.view(1, 1), state)",
                wrong="logits, state = model.extend(token.view(1, 1), model.start(capacity=len(tokens_T)))",
                fails="logits with a cache",
                hint="What does a step know of the tokens before?",
            ),
            PlantedBug(
                right=".numel() * buffer.element_size()",
                wrong=".numel()",
                fails="bytes kept for a token",
                hint="Numbers, or bytes?",
            ),
        ),
    ),
)
