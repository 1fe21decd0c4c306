"""Which rows step next. Knows rows, room and time; nothing of HTTP and text, and of models only how rows step.

Between two steps rows come and go: those that were cancelled or are late leave, those that wait begin. A step writes
one token on every row and reads prompts, each in chunks and one after the other, up to a number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headway.decoding.prompt_cache import PromptCache
from headway.decoding.row_batch import CHUNK, Prefill, RowBatch
from headway.models.stepper import RowStepper
from headway.serving.fair_queue import FairQueue
from headway.serving.requests import Ending, Request, TokenEvent
from headway.serving.token_choice import RowSampler, choose_tokens, token_event


@dataclass(slots=True)
class ActiveRequest:
    """A request that is being answered: its prompt is read, or it is a row of the batch."""

    request: Request
    sampler: RowSampler
    last: Tensor = field(default_factory=lambda: torch.empty(0))  # the logits (V,) after the last token read
    first: Tensor | None = None  # (1, V) after the whole prompt, where that is known from an earlier request


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLimits:
    """How much is done at a time, and how much may wait."""

    rows: int = 32  # in one step
    tokens: int = 16_384  # reserved by all rows together: those of a prompt and those it may write
    chunk: int = CHUNK  # of a prompt, read at once
    reading: int = 2 * CHUNK  # tokens of prompts that are read between two tokens of the other rows, and a chunk
    known: int = 4096  # tokens of prompts read before, whose beginnings are not read again
    waiting: int = 256
    waiting_of_client: int = 64


class Scheduler:
    """Rows come and go between two calls of `step`, which one thread makes in a loop."""

    def __init__(self, model: RowStepper[Any], limits: SchedulerLimits | None = None) -> None:
        self.model, self.limits = model, limits or SchedulerLimits()
        self.queue: FairQueue[Request] = FairQueue(self.limits.waiting, self.limits.waiting_of_client)
        self.reserved = 0  # tokens
        self._batch: RowBatch[Any] = RowBatch(model)
        self._rows: list[ActiveRequest] = []  # of the batch, by place
        self._reading: tuple[ActiveRequest, Prefill[Any]] | None = None
        self._cancelled: set[str] = set()
        self._prompts: PromptCache[Any] = PromptCache(model, self.limits.known, self.limits.chunk)
        self.cached = 0  # tokens of prompts that did not have to be read
        self.on_failure: Callable[[BaseException], None] = lambda _: None  # is told why a row failed

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._rows and self._reading is None and not len(self.queue)

    @property
    def rows(self) -> int:
        """Rows in flight."""
        return len(self._rows) + (self._reading is not None)

    def offer(self, request: Request) -> str | None:
        """Accept a request, or return the code of the refusal: too_large, queue_full or client_limit."""
        if request.room > self.limits.tokens:
            return "too_large"
        return self.queue.offer(request)

    def cancel(self, id: str) -> None:
        """Let a request end before the next step."""
        self._cancelled.add(id)

    def step(self, now: float) -> list[TokenEvent]:
        """Remove who leaves, begin what fits, read a chunk of a prompt, write a token on every other row."""
        events = self._leave(now)
        self.queue.forget(now)
        if self._rows:
            events += self._write()
        room = self.limits.reading
        while room > 0:
            self._begin()
            if self._reading is None:
                break
            before = self._reading[1].read
            prefill = self._reading[1]
            events += self._read()
            room -= max(prefill.read - before, 1)
        return events

    def _leave(self, now: float) -> list[TokenEvent]:
        def why(request: Request) -> Ending:
            return "cancelled" if request.id in self._cancelled else "deadline" if now > request.deadline else ""

        events = [TokenEvent(each.id, ended=why(each)) for each in self.queue.remove(lambda each: bool(why(each)))]
        if self._reading is not None and (reason := why(self._reading[0].request)):
            events.append(self._end(self._reading[0], reason))
            self._reading = None
        gone = {place: reason for place, row in enumerate(self._rows) if (reason := why(row.request))}
        events += [self._end(self._rows[place], reason) for place, reason in gone.items()]
        self._remove(gone.keys())
        self._cancelled.clear()
        return events

    def _begin(self) -> None:
        """Begin the request that goes next if a row and all the room it may need are free.

        One that is too large for now holds back those behind it: smaller ones must not keep it waiting for ever.
        """
        head = self.queue.head()
        if head is None or self._reading is not None or len(self._rows) >= self.limits.rows:
            return
        if self.reserved + head.room > self.limits.tokens:
            return
        request = self.queue.take()
        self.reserved += request.room
        row, known = ActiveRequest(request, RowSampler(request)), None
        if not request.prompt_log_probs:  # every token of its prompt has to be read
            found = self._prompts.find(request.client, request.prompt)
            if found is not None:
                known, row.first = (found.read, found.state), found.logits
                self.cached += found.read
        self._reading = row, Prefill(self.model, request.prompt, self.limits.chunk, known)

    def _read(self) -> list[TokenEvent]:
        """Read a chunk of the prompt; after the last one its row joins the batch with its first token."""
        assert self._reading is not None
        row, prefill = self._reading
        request, before = row.request, prefill.read
        try:
            logits_TV = prefill.advance(every=request.prompt_log_probs) if row.first is None else row.first
        except Exception as error:
            self._reading = None
            self.on_failure(error)
            return [self._end(row, "failed")]
        self.queue.spend(request.client, prefill.read - before)
        if logits_TV is None:
            return []
        events = self._prompt_events(row, before, logits_TV) if request.prompt_log_probs else []
        row.last = logits_TV[-1]
        if not prefill.done:
            return events
        self._reading = None
        if row.first is None:
            self._prompts.add(request.client, request.prompt, prefill.state, logits_TV[-1:])
        if not request.max_tokens:
            return [*events, self._end(row, "length")]
        first = self._chosen([row], logits_TV[-1:])
        if not first[-1].ended:
            self._batch.add(prefill.state)
            self._rows.append(row)
        return [*events, *first]

    def _prompt_events(self, row: ActiveRequest, before: int, logits_TV: Tensor) -> list[TokenEvent]:
        """The tokens of a chunk; each is predicted by the logits of the one before it, the first by none."""
        request, events = row.request, []
        for place in range(before, before + len(logits_TV)):
            token = request.prompt[place]
            if not place:
                events.append(TokenEvent(request.id, token, in_prompt=True))
                continue
            logits_V = row.last if place == before else logits_TV[place - before - 1]
            events.append(token_event(request, token, logits_V, in_prompt=True))
        return events

    def _write(self) -> list[TokenEvent]:
        tokens = [row.sampler.written[-1] for row in self._rows]
        try:
            logits_BV = self._batch.step(tokens)
        except Exception:
            events, logits_BV = self._bisect(tokens)
        else:
            events = []
        chosen = self._chosen(self._rows, logits_BV)
        ended = {event.id for event in chosen if event.ended}
        self._remove([place for place, row in enumerate(self._rows) if row.request.id in ended])
        return [*events, *chosen]

    def _bisect(self, tokens: Sequence[int]) -> tuple[list[TokenEvent], Tensor]:
        """Step halves of a batch that failed, and halves of these, until each row that fails is alone: it ends."""
        done: list[tuple[RowBatch[Any], Sequence[int], Tensor]] = []
        failed: list[int] = []

        def attempt(places: Sequence[int]) -> None:
            part = self._batch.fork(places)
            try:
                done.append((part, places, part.step([tokens[place] for place in places])))
            except Exception as error:
                if len(places) == 1:
                    self.on_failure(error)
                    failed.extend(places)
                    return
                middle = len(places) // 2
                attempt(places[:middle])
                attempt(places[middle:])

        everyone = range(len(tokens))
        if len(tokens) == 1:
            attempt(everyone)
        else:
            attempt(everyone[: len(tokens) // 2])
            attempt(everyone[len(tokens) // 2 :])
        events = [self._end(self._rows[place], "failed") for place in failed]
        self._rows = [self._rows[place] for _, places, _ in done for place in places]
        self._batch.absorb([part for part, _, _ in done])
        return events, torch.cat([logits for _, _, logits in done]) if done else torch.empty(0, 1)

    def _chosen(self, rows: Sequence[ActiveRequest], logits_BV: Tensor) -> list[TokenEvent]:
        """The next token of each row as events, and the end of a row that has written its last."""
        events: list[TokenEvent] = []
        tokens = choose_tokens([row.sampler for row in rows], logits_BV) if rows else []
        for row, logits_V, token in zip(rows, logits_BV, tokens, strict=False):
            request = row.request
            if token is None:
                events.append(self._end(row, "nonfinite"))
            elif token in request.stops:
                events.append(self._end(row, "stop"))
            else:
                row.sampler.written.append(token)
                self.queue.spend(request.client, 1)
                events.append(token_event(request, token, logits_V))
                if len(row.sampler.written) == request.max_tokens:
                    events.append(self._end(row, "length"))
        return events

    def _end(self, row: ActiveRequest, reason: Ending) -> TokenEvent:
        self.reserved -= row.request.room
        return TokenEvent(row.request.id, ended=reason)

    def _remove(self, places: Collection[int]) -> None:
        if places:
            self._rows = [self._rows[place] for place in self._batch.remove(places)]
