"""Sampling: draw a token from the model's distribution, feed it back, until every row has stopped."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headway.decoding.constraint_state import ConstraintState
from headway.decoding.constraints import Constraints
from headway.decoding.events import search_finished
from headway.decoding.limits import SequenceLimits
from headway.decoding.memory import first_capacity
from headway.decoding.non_finite import numbered
from headway.decoding.rng import UniformStreams, UniformTable
from headway.errors import ConfigError, NonFiniteOutputError
from headway.limits import expect_within
from headway.models.stepper import EncoderInput, Stepper

if TYPE_CHECKING:
    from headway.decoding.replay import Replay

COMPACT_SHARE = 4  # finished rows leave the batch once they are one in this many: moving the others costs a copy
TOP_P_TOKENS = 512  # likeliest tokens among which top_p mostly ends
LOWEST_TEMPERATURE = 1e-5  # logits divided by less may overflow; the tokens drawn are those of greedy search anyway
PENALTIES = (1e-6, 1e6)  # logits times or divided by more may overflow
CHECK_STEPS = 8  # steps between two device-to-host checks for finished rows on a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a token is drawn, in this order: repetition penalty, temperature, the `top_k` likeliest, `top_p`, `min_p`."""

    temperature: float = 1.0  # 0: greedy
    top_k: int | None = None  # None: all
    top_p: float = 1.0  # the smallest set of likeliest tokens with this share of the probability top_k left
    min_p: float = 0.0  # at least this share of the likeliest token's probability
    repetition_penalty: float = 1.0  # Keskar et al. 2019 (CTRL), section 4.1; 1: none

    def __post_init__(self) -> None:
        if self.temperature and not LOWEST_TEMPERATURE <= self.temperature < float("inf"):
            raise ConfigError(
                f"temperature={self.temperature}, allowed: 0 (greedy), or {LOWEST_TEMPERATURE:g} and above"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k={self.top_k}, allowed: 1 and above")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p={self.top_p}, allowed: above 0, up to 1")
        if not 0 <= self.min_p <= 1:
            raise ConfigError(f"min_p={self.min_p}, allowed: 0 to 1")
        if not PENALTIES[0] <= self.repetition_penalty <= PENALTIES[1]:
            allowed = f"above 0, from {PENALTIES[0]:g} to {PENALTIES[1]:g} (1: no penalty)"
            raise ConfigError(f"repetition_penalty={self.repetition_penalty}, allowed: {allowed}")


PLAIN = Sampling()
GREEDY = Sampling(temperature=0.0)


def sample(
    model: Stepper[Any],
    limits: SequenceLimits,
    sampling: Sampling = PLAIN,
    *,
    source: EncoderInput | None = None,
    constraints: Constraints | None = None,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    feed_back: bool = True,
) -> list[list[int]]:
    """Continue each prompt until the stop token or `max_tokens`; the tokens drawn, without the stop token.

    Row r is sequence `numbers[r]` (default: r). Its random numbers depend on the seed, that number and the step only,
    so that no other row changes it. A row all of whose tokens are forbidden ends there. With `feed_back=False` every
    step is given the prompt's last token again instead of the drawn one: a model that does not see its own output.
    Raises NonFiniteOutputError if the model's output is NaN or infinite.
    """
    prompt_BT, max_tokens = limits.prompt(source), limits.max_tokens
    rows = len(prompt_BT)
    numbers = range(rows) if numbers is None else numbers
    if isinstance(max_tokens, Tensor):
        raise ConfigError("sampling takes one max_tokens for all rows, got one for each")
    if len(numbers) != rows:
        raise ConfigError(f"{len(numbers)} sequence numbers for {rows} rows: expected one for each")
    if max_tokens < 0:
        raise ConfigError(f"max_tokens={max_tokens}, allowed: 0 and above")
    if not rows or not max_tokens:
        return [[] for _ in range(rows)]
    uniforms = UniformStreams(seed, numbers, prompt_BT.device)
    plain = feed_back and not constraints and source is None and limits.prompt_lengths is None
    with numbered(numbers):
        if plain and (decoder := _graph_decoder(model, prompt_BT, max_tokens, None, sampling)) is not None:
            sequences = decoder.sample(prompt_BT, max_tokens, stop=limits.stop, seed=seed, numbers=numbers)
        else:
            sequences = _sampled(model, limits, max_tokens, sampling, source, constraints, uniforms, feed_back)
    search_finished(model, [[tokens] for tokens in sequences])
    return sequences


@torch.no_grad()
def _sampled(
    model: Stepper[Any],
    limits: SequenceLimits,
    max_tokens: int,
    sampling: Sampling,
    source: EncoderInput | None,
    constraints: Constraints | None,
    uniforms: UniformStreams,
    feed_back: bool,
) -> list[list[int]]:
    prompt_BT, stop = limits.prompt(source), limits.stop
    rows, device = len(prompt_BT), prompt_BT.device
    state = model.start(source, capacity=first_capacity(rows, prompt_BT.shape[1], max_tokens))
    logits, state = model.extend(prompt_BT, state, limits.prompt_lengths)
    ends = limits.prompt_lengths
    if ends is None:
        ends = torch.full((rows,), prompt_BT.shape[1], device=device)
    logits = logits[torch.arange(rows, device=device), ends - 1]
    seen = tokens_in(prompt_BT, ends, logits.shape[1], sampling)
    sampler = TokenSampler(sampling, uniforms, seen)
    if constraints:
        held = ConstraintState(constraints, logits.shape[1], stop=stop, device=device)
        sampler.constrain(held, rows, max_tokens)
    final = prompt_BT.gather(1, (ends - 1).unsqueeze(1))
    place = torch.arange(rows, device=device)  # of each row still in the batch
    done = torch.zeros(rows, dtype=torch.bool, device=device)
    out = torch.full((rows, max_tokens), -1, device=device)
    largest: list[tuple[Tensor, Tensor]] = []  # of each step: the rows and their largest logits
    for step in range(max_tokens):
        token = sampler.draw(logits, step, out[place, :step] if constraints else None)
        out[place, step] = token
        largest.append((place, sampler.largest))
        if step == max_tokens - 1:
            break
        if stop >= 0 or constraints:
            done |= (token == stop) | (token < 0)
            here = _remaining(done, step)
            if here is not None:
                if not len(here):
                    break
                place, done, token, final = (part[here] for part in (place, done, token, final))
                state = model.select(state, here)
                sampler.select(here)
        extended, state = model.extend(token.clamp(min=0).unsqueeze(1) if feed_back else final, state)
        logits = extended[:, -1]
    _expect_finite(largest)
    return [before_stop(tokens, stop) for tokens in out.tolist()]


class TokenSampler:
    """Draws a token for each of B rows, with the state that takes: random streams, tokens seen, constraints."""

    def __init__(self, sampling: Sampling, uniforms: UniformStreams | UniformTable, seen_BV: Tensor | None) -> None:
        self.sampling, self.uniforms, self.seen = sampling, uniforms, seen_BV
        self.constraints: ConstraintState | None = None
        self.max_tokens = 0
        self.largest = torch.empty(0)  # (B,) the largest logit of each row in the last draw: NaN if any is

    def constrain(self, constraints: ConstraintState, rows: int, max_tokens: int) -> None:
        """Apply constraints to the rows, from their first token on."""
        constraints.begin(rows, max_tokens)
        self.constraints, self.max_tokens = constraints, max_tokens

    def draw(self, logits_BV: Tensor, step: int, written_BT: Tensor | None = None) -> Tensor:
        """A token for each row (B,), -1 where none is allowed; constraints also need the tokens written so far."""
        logits = logits_BV.float()
        if self.seen is not None:
            theta = self.sampling.repetition_penalty
            logits = torch.where(self.seen, torch.where(logits > 0, logits / theta, logits * theta), logits)
        greedy = self.sampling.temperature == 0 and self.constraints is None
        if not greedy:
            self.largest = logits.amax(-1)
        if self.constraints is not None:
            assert written_BT is not None
            room = torch.full((len(logits),), self.max_tokens - step, device=logits.device)
            logits = self.constraints.forbid(logits, written_BT.clamp(min=0), room)
        token = choose(logits, self.sampling, self.uniforms.at(step) if self.sampling.temperature else None)
        if greedy:  # the largest is the one chosen, and argmax takes a NaN for the largest
            self.largest = logits.gather(1, token.unsqueeze(1)).squeeze(1)
        if self.seen is not None:
            self.seen.scatter_(1, token.unsqueeze(1), True)
        if self.constraints is not None:
            self.constraints.move(torch.arange(len(token), device=token.device), token)
            token = torch.where(logits.amax(-1) == -torch.inf, -1, token)
        return token

    def select(self, rows_B: Tensor) -> None:
        """Keep these rows only."""
        self.uniforms.select(rows_B)
        self.seen = None if self.seen is None else self.seen[rows_B]
        if self.constraints is not None:
            self.constraints.select(rows_B)


def choose(logits_BV: Tensor, sampling: Sampling, uniform_B: Tensor | None) -> Tensor:
    """One token per row (B,) by inverse transform sampling with u in [0, 1); the argmax without u.

    The cumulative distribution runs in the order of the vocabulary, not of probability: logits that differ in their
    last bits, as they do between batches, then move its bounds by as little and never swap two tokens.
    """
    if uniform_B is None:
        return logits_BV.argmax(-1)
    scaled = logits_BV / sampling.temperature
    cumulative = scaled.masked_fill(~allowed_tokens(scaled, sampling), -torch.inf).double().softmax(-1).cumsum(-1)
    total = cumulative[:, -1:]
    # u · total may round up to total, for which searchsorted would return an index past the last token with a
    # probability; the largest double below total still falls into that token's interval.
    aim = torch.minimum(uniform_B.unsqueeze(1) * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, aim, right=True).squeeze(1).clamp(max=logits_BV.shape[1] - 1)


def allowed_tokens(logits_BV: Tensor, sampling: Sampling) -> Tensor:
    """(B, V) bool: the tokens that top_k, top_p and min_p leave; the likeliest always stays."""
    vocab = logits_BV.shape[1]
    keep = logits_BV > -torch.inf
    if sampling.top_k is not None and sampling.top_k < vocab:
        keep &= logits_BV >= logits_BV.topk(sampling.top_k).values[:, -1:]
    if sampling.top_p < 1:
        probs = logits_BV.masked_fill(~keep, -torch.inf).softmax(-1)
        keep &= probs >= _top_p_threshold(probs, sampling.top_p)
    if sampling.min_p > 0:
        keep &= (logits_BV - logits_BV.amax(-1, keepdim=True)).exp() >= sampling.min_p
    return keep


def _top_p_threshold(probs_BV: Tensor, share: float) -> Tensor:
    """(B, 1): the lowest probability in the smallest set of likeliest tokens that holds this share."""
    ranked = probs_BV.topk(min(TOP_P_TOKENS, probs_BV.shape[1])).values
    if probs_BV.is_cuda or bool((ranked.sum(-1) < share).any()):  # rare on a CPU, where a full sort is slow
        ranked = probs_BV.sort(descending=True).values
    before = ranked.cumsum(-1) - ranked
    return ranked.gather(1, ((before < share).sum(-1, keepdim=True) - 1).clamp(min=0))  # none is below share: NaN


def stream(
    model: Stepper[Any],
    prompt_1T: Tensor,
    *,
    max_tokens: int,
    sampling: Sampling = PLAIN,
    seed: int = 0,
    number: int = 0,
    stops: Collection[int] = (),
    context: int | None = None,
) -> Iterator[int]:
    """The tokens that `sample` gives sequence `number` as they are drawn, up to one of `stops`.

    A text that outgrows `context` continues from its later half. Raises NonFiniteOutputError if the model's output is
    NaN or infinite.
    """
    expect_within("output-tokens", max_tokens, "max_tokens")
    decoder = _graph_decoder(model, prompt_1T, max_tokens, context, sampling)
    if decoder is not None:
        return decoder.stream(prompt_1T, max_tokens, stops=stops, context=context, seed=seed, number=number)
    return _stream(model, prompt_1T, max_tokens, sampling, seed, number, stops, context)


@torch.no_grad()
def _stream(
    model: Stepper[Any],
    prompt_1T: Tensor,
    max_tokens: int,
    sampling: Sampling,
    seed: int,
    number: int,
    stops: Collection[int],
    context: int | None,
) -> Iterator[int]:
    with numbered([number]):
        known = prompt_1T if context is None else prompt_1T[:, -context:]
        logits, state = model.extend(known, model.start(capacity=first_capacity(1, known.shape[1], max_tokens)))
        ends = torch.tensor([prompt_1T.shape[1]], device=prompt_1T.device)
        seen = tokens_in(prompt_1T, ends, logits.shape[2], sampling)
        sampler = TokenSampler(sampling, UniformStreams(seed, [number], prompt_1T.device), seen)
        written: list[int] = []
        for step in range(max_tokens):
            token = sampler.draw(logits[:, -1], step)
            if not math.isfinite(float(sampler.largest)):
                raise NonFiniteOutputError(0, step + 1)
            drawn = int(token)
            if drawn in stops:
                return
            written.append(drawn)
            search_finished(model, [[written]])
            yield written[-1]
            if step == max_tokens - 1:
                return
            fresh = token.unsqueeze(1)
            if context is not None:
                known = torch.cat([known, fresh], 1)
                if known.shape[1] > context:
                    known, written = known[:, -max(context // 2, 1) :], []
                    fresh, state = known, model.start(capacity=context)
            logits, state = model.extend(fresh, state)


def _graph_decoder(
    model: Stepper[Any], prompt_BT: Tensor, max_tokens: int, context: int | None, sampling: Sampling
) -> Replay | None:
    """Replays the steps of this generation as a CUDA graph; None where that is not supported or not worth it."""
    if not prompt_BT.is_cuda:
        return None
    from headway.decoding.replay import replay_for

    return replay_for(model, prompt_BT, max_tokens, context, sampling)


def _expect_finite(largest: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Raise NonFiniteOutputError for the first step in which the largest logit of a row is NaN or infinite.

    Asked once, at the end: on a GPU a question at each step would wait for the device.
    """
    if bool(torch.cat([values for _, values in largest]).isfinite().all()):
        return
    for step, (place, values) in enumerate(largest, 1):
        bad = place[~values.isfinite()]
        if len(bad):
            raise NonFiniteOutputError(int(bad[0]), step)


def tokens_in(prompt_BT: Tensor, ends_B: Tensor, vocab: int, sampling: Sampling) -> Tensor | None:
    """(B, V) bool: the tokens of each prompt, where the repetition penalty needs them."""
    if sampling.repetition_penalty == 1:
        return None
    real = torch.arange(prompt_BT.shape[1], device=prompt_BT.device) < ends_B.unsqueeze(1)
    counted = torch.zeros(len(prompt_BT), vocab, dtype=torch.int32, device=prompt_BT.device)
    return counted.scatter_add_(1, prompt_BT, real.int()) > 0


def _remaining(done_B: Tensor, step: int) -> Tensor | None:
    """The unfinished rows, once enough have finished to be worth compacting the batch; None: keep all."""
    if done_B.is_cuda and (step + 1) % CHECK_STEPS:
        return None
    count = int(done_B.sum())
    return None if count == 0 or count * COMPACT_SHARE < len(done_B) else (~done_B).nonzero().squeeze(1)


def before_stop(tokens: list[int], stop: int) -> list[int]:
    """The tokens up to the stop token, or up to where no token was allowed."""
    ends = [n for n, token in enumerate(tokens) if token < 0 or token == stop]
    return tokens[: ends[0]] if ends else tokens
