"""The sequences of one request on their way from an engine to a client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from headway.serving.answers import AnswerWriter
from headway.serving.api_errors import ApiError
from headway.serving.choices import CompletionChoice
from headway.serving.completions import Completion
from headway.serving.supervisor import EngineProcess, Inbox
from headway.serving.text_model import TextModel


class Generation:
    """The sequences of one request on their way from the engine."""

    def __init__(self, engine: EngineProcess, model: TextModel, completion: Completion, client: str) -> None:
        self.metrics, self.engine, self.client, self.completion = engine.metrics, engine, client, completion
        count = len(completion.prompts) * completion.best_of
        self.choices = [CompletionChoice(completion, model, place) for place in range(count)]
        self._inbox: Inbox = asyncio.Queue()
        self._began = time.monotonic()
        self._open: dict[str, CompletionChoice] = {}

    async def begin(self) -> CompletionChoice:
        """Submit the requests and wait for the first event of any. Raises ApiError where it is refused."""
        requests = self.completion.requests(self.client, time.monotonic())
        self._open = dict(zip((each.id for each in requests), self.choices, strict=True))
        try:
            for request in requests:
                self.engine.submit(request, self._inbox)
            first = await self._next()
        except BaseException:
            self.leave()
            raise
        name = self.engine.settings.name
        self.metrics.observe("headway_first_token_seconds", time.monotonic() - self._began, model=name)
        self.metrics.add("headway_tokens_total", sum(map(len, self.completion.prompts)), model=name, kind="prompt")
        return first

    async def changes(self, first: CompletionChoice | None = None) -> AsyncIterator[CompletionChoice]:
        """A choice each time one has something new, until all have ended."""
        try:
            yield await self.begin() if first is None else first
            while self._open:
                yield await self._next()
        finally:
            self.leave()
            written = sum(choice.tokens for choice in self.choices)
            self.metrics.add("headway_tokens_total", written, model=self.engine.settings.name, kind="written")

    async def chunks(self, answers: AnswerWriter, first: CompletionChoice) -> AsyncIterator[dict[str, Any]]:
        """The chunks of a stream."""
        if self.completion.chat:
            for choice in self.choices:
                yield answers.role(choice)
        changes = self.changes(first)
        try:
            async for choice in changes:
                if (chunk := answers.chunk(choice)) is not None:
                    yield chunk
        finally:
            await changes.aclose()  # type: ignore[attr-defined]
        if self.completion.usage:
            yield answers.last(self.choices)

    async def _next(self) -> CompletionChoice:
        """Take one event. Raises ApiError for one that ends the whole request."""
        while True:
            event = await self._inbox.get()
            if isinstance(event, ApiError):
                raise event
            choice = self._open.get(event.id)
            if choice is None:
                continue
            if event.ended in ("nonfinite", "failed"):
                raise ApiError(500, "the model failed on this request", code=event.ended)
            if event.ended == "deadline":
                raise ApiError(503, "the deadline of the request has passed", code="deadline", retry_after=5)
            choice.add(event)
            if choice.done:
                del self._open[event.id]
                if not event.ended:
                    self.engine.cancel(event.id)  # a stop string was found: nothing more is wanted
            return choice

    def leave(self) -> None:
        """End the sequences that are still being written."""
        for id in self._open:
            self.engine.cancel(id)
        self._open = {}
