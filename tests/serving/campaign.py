"""The promise as a campaign: every logit of every row in company, compared with those of its request alone.

hypothesis draws requests with their arrivals, lengths, seeds, beginnings in common and cancellations, for every
generating model of the registry in fp32, bf16 and int8, with one and two threads. Beside it every number of rows from
one to twice the default of `headway serve` takes a step. The tests have a small form of it; the whole is

    python -m tests.serving.campaign --requests 2000

which prints what was compared and ends with exit code 1 if a bit differed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import hypothesis
import torch
from hypothesis import strategies as st
from torch import Tensor

from headway.decoding.beam import BeamSettings, beam_search
from headway.decoding.joint_search import JointSearches, Search, SearchCancelledError, SharedModel
from headway.decoding.limits import SequenceLimits
from headway.decoding.row_batch import Prefill, RowBatch
from headway.models import EncoderInput
from headway.serving.limits import ServerLimits
from headway.serving.requests import Request, SamplingFields, TokenEvent
from headway.serving.scheduler import ActiveRequest, Scheduler, SchedulerLimits
from tests.models import tiny
from tests.serving.companions import SEARCHED, SMALL, model_of

PRECISIONS = ("fp32", "bf16", "int8")
THREADS = (1, 2)
LARGEST = 2 * ServerLimits().rows
EXAMPLES, LEAST, MOST = 3, 8, 24  # of a model in a campaign, at least, and requests of one of them
GENERATE = (hypothesis.Phase.generate,)  # nothing is shrunk: what differs is counted
BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}

samplings = st.builds(
    SamplingFields,
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    top_k=st.sampled_from([None, 5]),
    top_p=st.sampled_from([1.0, 0.8]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    frequency_penalty=st.sampled_from([0.0, 0.5]),
)
requests = st.builds(
    Request,
    id=st.just(""),
    client=st.sampled_from(["a", "b"]),
    # Some begin alike, so that what is known of one is used for another.
    prompt=st.tuples(
        st.sampled_from([(), (5, 9, 2, 7), (5, 9, 2, 7, 1, 1, 8, 4)]),
        st.lists(st.integers(0, tiny.VOCAB - 1), min_size=1, max_size=5).map(tuple),
    ).map(lambda parts: (*parts[0], *parts[1])),
    max_tokens=st.integers(1, 16),
    sampling=samplings,
    seed=st.integers(0, 99),
    stops=st.sampled_from([(), (3,)]),
    top=st.sampled_from([0, 2]),
    prompt_log_probs=st.booleans(),
)


class SearchRequest(NamedTuple):
    """A search for a source that is made of a seed."""

    seed: int
    beam: int
    max_tokens: int


searches = st.builds(
    SearchRequest, seed=st.integers(0, 9999), beam=st.sampled_from([1, 3, 4]), max_tokens=st.integers(1, 9)
)


def arrivals(asked: st.SearchStrategy[Any], least: int = 5, most: int = 9) -> st.SearchStrategy[Any]:
    """(when a request arrives, the request, after how many steps it is cancelled if at all), several times."""
    leaves = st.one_of(st.none(), st.integers(1, 20))
    return st.lists(st.tuples(st.integers(0, 12), asked, leaves), min_size=least, max_size=most)


@dataclass
class Counts:
    """What was compared, and what differed."""

    requests: int = 0
    logits: int = 0  # rows of V of them
    cancelled: int = 0
    cached: int = 0  # tokens of prompts that were not read again
    sizes: set[int] = field(default_factory=set)  # rows of a step
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        """Add the counts of another."""
        for name in ("requests", "logits", "cancelled", "cached"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.sizes |= other.sizes
        self.wrong += other.wrong

    def compare(self, what: str, together: Sequence[Tensor], alone: Sequence[Tensor], cancelled: bool = False) -> None:
        """The logits of one request: all of them, or as many as were computed before it was cancelled."""
        self.requests += 1
        self.logits += sum(each.numel() // each.shape[-1] for each in together)
        self.cancelled += cancelled
        if not cancelled and len(together) != len(alone):
            self.wrong.append(f"{what}: {len(together)} steps, alone {len(alone)}")
        elif not all(itertools.starmap(same_bits, zip(together, alone, strict=False))):
            self.wrong.append(f"{what}: logits differ")


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal to the bit, the sign of zero included."""
    return a.shape == b.shape and torch.equal(a.contiguous().view(BITS[a.dtype]), b.contiguous().view(BITS[b.dtype]))


class RecordingScheduler(Scheduler):
    """Keeps the logits from which each token was chosen or scored, by request."""

    def __init__(self, model: Any, limits: SchedulerLimits) -> None:
        super().__init__(model, limits)
        self.logits: dict[str, list[Tensor]] = {}
        self.sizes: set[int] = set()

    def _chosen(self, rows: Sequence[ActiveRequest], logits_BV: Tensor) -> list[TokenEvent]:
        self.sizes.add(len(rows))
        for row, logits_V in zip(rows, logits_BV, strict=True):
            self.logits.setdefault(row.request.id, []).append(logits_V.clone())
        return super()._chosen(rows, logits_BV)

    def _prompt_events(self, row: ActiveRequest, before: int, logits_TV: Tensor) -> list[TokenEvent]:
        self.logits.setdefault(row.request.id, []).append(logits_TV.clone())
        return super()._prompt_events(row, before, logits_TV)


def _scheduled(
    scheduler: RecordingScheduler, arriving: Sequence[tuple[int, Request, int | None]]
) -> dict[str, list[TokenEvent]]:
    """The events of requests that arrive, and leave, between steps of these numbers."""
    events: dict[str, list[TokenEvent]] = {each.id: [] for _, each, _ in arriving}
    for step in range(2000):
        if step > 40 and scheduler.idle:
            return events
        for at, each, leaves in arriving:
            if at == step:
                assert scheduler.offer(each) is None
            if leaves is not None and at + leaves == step:
                scheduler.cancel(each.id)
        for event in scheduler.step(0.0):
            events[event.id].append(event)
    raise AssertionError("the scheduler does not come to an end")


def requests_together(
    model: Any, arriving: Sequence[tuple[int, Request, int | None]], limits: SchedulerLimits = SMALL
) -> Counts:
    """Requests of a language model, together and each alone."""
    counts, scheduler = Counts(), RecordingScheduler(model, limits)
    numbered = [(at, replace(each, id=str(n)), leaves) for n, (at, each, leaves) in enumerate(arriving)]
    events = _scheduled(scheduler, numbered)
    counts.cached, counts.sizes = scheduler.cached, scheduler.sizes
    if scheduler.reserved or scheduler.rows:
        counts.wrong.append(f"{scheduler.reserved} tokens and {scheduler.rows} rows are still reserved")
    for _, each, _ in numbered:
        by_itself = RecordingScheduler(model, limits)
        expected, got = _scheduled(by_itself, [(0, each, None)])[each.id], events[each.id]
        cancelled = bool(got) and got[-1].ended == "cancelled"
        counts.compare(str(each), scheduler.logits.get(each.id, []), by_itself.logits.get(each.id, []), cancelled)
        if got[:-1] != expected[: len(got) - 1] if cancelled else got != expected:
            counts.wrong.append(f"{each}: events differ")
    return counts


class RecordingModel(SharedModel):
    """The model as one search sees it; keeps the logits of its steps."""

    def __init__(self, model: Any, searches: JointSearches) -> None:
        super().__init__(model, searches)
        self.logits: list[Tensor] = []

    def extend(self, tokens_BK: Tensor, state: Any, counts_B: Tensor | None = None) -> tuple[Tensor, Any]:
        logits, state = super().extend(tokens_BK, state, counts_B)
        self.logits.append(logits.clone())
        return logits, state


def source_of(model: Any, config: Any, seed: int) -> EncoderInput:
    """A random source of any kind, of one or two rows."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    dtype = next(model.parameters()).dtype
    if "images" in model.reads:
        height, width = config.image if isinstance(config.image, tuple) else (config.image, config.image)
        return EncoderInput.of_images(torch.rand(1, 3, height, width, generator=generator).to(dtype))
    rows = draw.randint(1, 2)
    lengths = torch.tensor([draw.randint(1, 7) for _ in range(rows)])
    if "frames" in model.reads:
        lengths = lengths + 8
        frames = torch.randn(rows, int(lengths.max()), config.bands, generator=generator)
        return EncoderInput.of_frames(frames.to(dtype), lengths)
    return EncoderInput(torch.randint(3, tiny.VOCAB, (rows, int(lengths.max())), generator=generator), lengths)


def _searched(
    model: Any, config: Any, arriving: Sequence[tuple[int, SearchRequest, int | None]]
) -> tuple[list[Search], list[list[Tensor]], set[int]]:
    """The searches that arrive, and leave, between steps of these numbers, and the logits of each."""
    together, sizes = JointSearches(model), set[int]()
    models = [RecordingModel(model, together) for _ in arriving]

    def task(request: SearchRequest, shared: RecordingModel) -> Any:
        limits = SequenceLimits(start=1, stop=2, max_tokens=request.max_tokens)
        return beam_search(shared, source_of(model, config, request.seed), BeamSettings(width=request.beam), limits)

    begun: dict[int, Search] = {}
    for step in range(2000):
        for n, (at, request, leaves) in enumerate(arriving):
            if at == step:
                begun[n] = together.start(partial(task, request, models[n]))
            if leaves is not None and at + leaves == step:
                begun[n].cancelled = True
        together.step()
        sizes.add(together.rows)
        if step > 40 and not together.count:
            return [begun[n] for n in range(len(arriving))], [each.logits for each in models], sizes
    raise AssertionError("the searches do not come to an end")


def searches_together(model: Any, config: Any, arriving: Sequence[tuple[int, SearchRequest, int | None]]) -> Counts:
    """Searches of a model that reads a source, together and each alone."""
    counts = Counts()
    found, logits, counts.sizes = _searched(model, config, arriving)
    for n, (_, request, _) in enumerate(arriving):
        (expected,), (alone,), _ = _searched(model, config, [(0, request, None)])
        cancelled = isinstance(found[n].error, SearchCancelledError)
        counts.compare(str(request), logits[n], alone, cancelled)
        if not cancelled and (found[n].error is not None or found[n].result != expected.result):
            counts.wrong.append(f"{request}: hypotheses differ ({found[n].error})")
    return counts


def every_size(model: Any, largest: int = LARGEST) -> Counts:
    """A step of every number of rows of a language model, each row after a prompt of its own length, and each alone."""
    counts, draw, batch, alone = Counts(), random.Random(0), RowBatch(model), []
    tokens = [draw.randrange(tiny.VOCAB) for _ in range(largest)]
    for token in tokens:
        prefill: Prefill[Any] = Prefill(model, [draw.randrange(tiny.VOCAB) for _ in range(draw.randint(1, 24))], 4)
        while not prefill.done:
            prefill.advance()
        batch.add(prefill.state)
        alone.append(batch.fork([batch.count - 1]).step([token]).clone())
    for size in range(1, largest + 1):
        places = draw.sample(range(largest), size)
        logits_BV = batch.fork(places).step([tokens[place] for place in places])
        counts.sizes.add(size)
        counts.logits += size
        rows = [row for row, place in enumerate(places) if not same_bits(logits_BV[row], alone[place][0])]
        counts.wrong += [f"row {row} of {size} differs" for row in rows]
    return counts


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with as many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def drawn(name: str, precision: str, *, examples: int, seed: int, least: int = LEAST, most: int = MOST) -> Counts:
    """What hypothesis draws for one model, compared; differences are counted, and the campaign goes on."""
    counts, model = Counts(), model_of(name, precision)
    config: Any = SEARCHED.get(name)

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=examples, database=None, deadline=None, derandomize=False, phases=GENERATE)
    @hypothesis.given(
        arriving=arrivals(requests if config is None else searches, least, most),
        rows=st.sampled_from([1, SMALL.rows, 2 * SMALL.rows]),
    )
    def compared(arriving: Any, rows: int) -> None:
        if config is None:
            counts.add(requests_together(model, arriving, replace(SMALL, rows=rows, tokens=40 * rows)))
        else:
            counts.add(searches_together(model, config, arriving))

    compared()
    return counts


def campaign(least: int, seed: int = 0) -> Iterator[tuple[str, Counts]]:
    """At least so many requests, over all models, precisions and numbers of threads -> the counts of each."""
    cases = list(itertools.product((*tiny.LANGUAGE, *SEARCHED), PRECISIONS, THREADS))
    examples = max(EXAMPLES, -(-least // (LEAST * len(cases))))
    for place, (name, precision, count) in enumerate(cases):
        with threads(count):
            counts = drawn(name, precision, examples=examples, seed=seed * len(cases) + place)
            if name not in SEARCHED:
                counts.add(every_size(model_of(name, precision)))
        yield f"{precision}, {count} thread{'s' if count > 1 else ''}: {name}", counts


def main(words: Sequence[str] | None = None) -> int:
    """The whole campaign, with a line for each precision and number of threads."""
    parser = argparse.ArgumentParser(prog="python -m tests.serving.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000, metavar="N", help="at least (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn (default: %(default)s)")
    arguments = parser.parse_args(words)
    kinds: dict[str, Counts] = {}
    began = time.monotonic()
    for place, (case, counts) in enumerate(campaign(arguments.requests, arguments.seed), 1):
        kinds.setdefault(case.partition(":")[0], Counts()).add(counts)
        for each in counts.wrong:
            print(f"DIFFERS {case}: {each}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{place} models, {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
    total = Counts()
    for kind, counts in kinds.items():
        total.add(counts)
        print(shown(kind, counts))
    print(f"{shown('all', total)}, {time.monotonic() - began:.0f} s")
    return int(bool(total.wrong))


def shown(kind: str, counts: Counts) -> str:
    """The counts in a line."""
    return (
        f"{kind}: {counts.requests} requests, {counts.cancelled} of them cancelled, {counts.logits} rows of logits, "
        f"{counts.cached} tokens known before, steps of {len(counts.sizes)} sizes up to {max(counts.sizes)} rows, "
        f"{len(counts.wrong)} differ"
    )


if __name__ == "__main__":
    sys.exit(main())
