"""Does a row get the same bits alone and among others, on this machine, with this model?

It depends on how the libraries below torch choose and divide their products, so that it is measured, not assumed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headway.decoding.joint_search import JointSearches
from headway.decoding.row_batch import Prefill, RowBatch
from headway.models.stepper import EncoderInput, RowStepper, Stepper

SIZES = (2, 4, 5, 9, 17, 32)  # rows among which a row is compared with itself alone, and the most there may be
MOST = 64  # rows that are compared, which take a second or two
STEPS = 2


def row_difference(model: RowStepper[Any], *, vocab: int, context: int, rows: int = SIZES[-1], seed: int = 0) -> float:
    """The largest difference of any logit of random rows, each of its own length, alone and together; 0: no bit."""
    draw = random.Random(seed)
    longest = max(1, min(48, context - STEPS))
    prompts = [[draw.randrange(vocab) for _ in range(draw.randint(1, longest))] for _ in range(min(rows, MOST))]
    tokens = [[draw.randrange(vocab) for _ in range(STEPS)] for _ in prompts]
    alone = [_logits(model, [prompt], [each]) for prompt, each in zip(prompts, tokens, strict=True)]
    largest = 0.0
    for size in sorted({min(size, len(prompts)) for size in (*SIZES, MOST)}):
        first = draw.randint(0, len(prompts) - size)
        some = slice(first, first + size)
        largest = max(largest, _difference(_logits(model, prompts[some], tokens[some]), torch.cat(alone[some], 1)))
    return largest


def search_difference(model: Stepper[Any], sources: Sequence[EncoderInput], seed: int = 0) -> float:
    """The same of searches that step together, one for each source, each with its beam."""
    draw, searches = random.Random(seed), JointSearches(model)
    given = [(source, draw.choice((1, 2, 4))) for source in sources]
    alone, largest = [_searched(searches, [each])[0] for each in given], 0.0
    for size in sorted({min(size, len(given)) for size in (2, 5, len(given))}):
        first = draw.randint(0, len(given) - size)
        together = _searched(searches, given[first : first + size])
        largest = max(largest, *map(_difference, together, alone[first : first + size]))
    return largest


def _difference(a: Tensor, b: Tensor) -> float:
    """The largest; infinite where one is NaN and the bits differ."""
    if torch.equal(a, b):
        return 0.0
    largest = float((a.float() - b.float()).abs().max())
    return largest if math.isfinite(largest) else math.inf


def made_up_sources(model: Any, config: Any, count: int = 12, seed: int = 0) -> list[EncoderInput] | None:
    """Random sources for a model; None for one that reads neither texts nor images nor sounds."""
    draw = random.Random(seed)
    found = [source for _ in range(count) if (source := _source(model, config, draw)) is not None]
    return found or None


def _source(model: Any, config: Any, draw: random.Random) -> EncoderInput | None:
    """A random source of a model that reads texts, images or sounds."""
    generator = torch.Generator().manual_seed(draw.randrange(1 << 30))
    if "source" in model.reads:
        vocab = config.text.vocab if config.text.source_vocab is None else config.text.source_vocab
        return EncoderInput(torch.randint(vocab, (1, draw.randint(2, 24)), generator=generator))
    if "images" in model.reads:
        height, width = config.image if isinstance(config.image, tuple) else (config.image, config.image)
        pixels = torch.rand(1, getattr(config, "channels", 3), height, width, generator=generator)
        return EncoderInput.of_images(pixels.to(next(model.parameters()).dtype))
    if "frames" in model.reads:
        lengths = torch.tensor([draw.randint(9, 40)])
        frames = torch.randn(1, int(lengths), config.bands, generator=generator)
        return EncoderInput.of_frames(frames.to(next(model.parameters()).dtype), lengths)
    return None


@torch.inference_mode()
def _searched(searches: JointSearches, given: Sequence[tuple[EncoderInput, int]]) -> list[Tensor]:
    """Of each source the logits of three steps of its hypotheses, which change places between them."""
    states = [searches.model.start(source, capacity=8) for source, _ in given]
    tokens = [torch.zeros(1, 1, dtype=torch.long) for _ in given]
    found: list[list[Tensor]] = [[] for _ in given]
    for step in range(3):
        for n, (logits, state) in enumerate(searches.extended(list(zip(tokens, states, strict=True)))):
            found[n].append(logits.flatten().clone())
            beam = given[n][1]
            order = torch.arange(beam).roll(step) if step else torch.zeros(beam, dtype=torch.long)
            states[n] = searches.model.select(state, order)
            tokens[n] = torch.arange(1, beam + 1).unsqueeze(1)
    return [torch.cat(each) for each in found]


def _logits(model: RowStepper[Any], prompts: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> Tensor:
    """(steps, B, V) of rows that step together."""
    batch: RowBatch[Any] = RowBatch(model)
    for prompt in prompts:
        prefill: Prefill[Any] = Prefill(model, prompt)
        while not prefill.done:
            prefill.advance()
        batch.add(prefill.state)
    return torch.stack([batch.step([each[step] for each in tokens]).clone() for step in range(STEPS)])
