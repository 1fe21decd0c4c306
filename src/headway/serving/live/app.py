"""The endpoints of the live page: the dashboard of runs, and what a page asks the model of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar

from headway.inspection.page.html import live_document
from headway.serving.api_errors import invalid
from headway.serving.fields import Fields
from headway.serving.gate import Gate, Route
from headway.serving.gated_app import GatedApp, Handler
from headway.serving.http import EventStream, HttpAnswer
from headway.serving.live.fields import WRITTEN, LookRequest, RunChoice, read_number, read_sampling, read_versions
from headway.serving.live.runs import LiveRuns
from headway.serving.metrics import Metrics

ROUTES = {
    "/": Route(method="GET", open=True),  # has nothing of the run in it
    "/page/run": Route(method="GET"),
    "/page/runs": Route(method="POST"),
    "/page/open": Route(method="POST"),
    "/page/look": Route(method="POST"),
    "/page/number": Route(method="POST"),
    "/page/write": Route(method="POST"),
    "/page/save": Route(method="POST"),
}
T = TypeVar("T")


class LiveApp(GatedApp):
    """Serves the page, and what it asks its runs."""

    def __init__(self, runs: LiveRuns, gate: Gate, metrics: Metrics) -> None:
        self.runs = runs
        self._model = asyncio.Lock()  # hooks of an intervention are the model's, so requests take turns
        handlers: dict[str, Handler] = {
            "/": self._page,
            "/page/run": self._run,
            "/page/runs": self._dashboard,
            "/page/open": self._open,
            "/page/look": self._look,
            "/page/number": self._number,
            "/page/write": self._write,
            "/page/save": self._save,
        }
        super().__init__(gate, metrics, handlers)

    async def _page(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        text, policy = live_document()
        headers = [
            ("content-security-policy", policy),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ]
        return HttpAnswer(text, headers=headers, kind="text/html; charset=utf-8")

    async def _run(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        return HttpAnswer(await self._computed(self.runs.described))

    async def _dashboard(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        known = read_versions(fields)
        fields.refuse_rest()
        return HttpAnswer(await asyncio.to_thread(self.runs.dashboard, known))

    async def _open(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        run = RunChoice.read(fields)
        fields.refuse_rest()
        return HttpAnswer(await self._computed(lambda: self.runs.opened(run.name, run.step)))

    async def _look(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        request, run = LookRequest.read(fields), RunChoice.read(fields)
        every_head, beside = fields.flag("every_head"), RunChoice.beside(fields)
        over_training = fields.flag("over_training")
        fields.refuse_rest()

        def computed() -> dict[str, Any]:
            session = self.runs.session(run.name, run.step)
            other = None if beside is None else self.runs.session(beside.name, beside.step)
            over = self.runs.checkpoints(run.name) if over_training else []
            return session.look(request, every_head=every_head, beside=other, over=over)

        return HttpAnswer(await self._computed(computed))

    async def _number(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        look, number, run = fields.text("look"), read_number(fields), RunChoice.read(fields)
        fields.refuse_rest()
        return HttpAnswer(await self._computed(lambda: self.runs.session(run.name, run.step).origin(look, number)))

    async def _write(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> EventStream:
        request, run, sampling = LookRequest.read(fields), RunChoice.read(fields), read_sampling(fields)
        seed, count = fields.integer("seed", 0, 0, 1 << 62), fields.integer("max_tokens", 32, 1, WRITTEN)
        fields.refuse_rest()
        session = await self._computed(lambda: self.runs.session(run.name, run.step))
        chunks = self._tokens(lambda: session.write(request, sampling, seed, count))
        return EventStream(chunks, close=_closing(chunks))

    async def _tokens(self, begin: Callable[[], Iterator[dict[str, Any]]]) -> AsyncIterator[dict[str, Any]]:
        async with self._model:
            tokens = begin()
            try:
                while (chunk := await _in_thread(lambda: next(tokens, None))) is not None:
                    yield chunk
            finally:
                await _in_thread(tokens.close)  # type: ignore[attr-defined]  # a generator; it removes its hooks

    async def _save(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        look, state, run = fields.text("look"), fields.take("state", {}), RunChoice.read(fields)
        fields.refuse_rest()
        if not isinstance(state, dict) or len(state) > 64:
            raise invalid("state: expected an object of up to 64 values", "state")
        text = await asyncio.to_thread(lambda: self.runs.session(run.name, run.step).saved(look, state))
        return HttpAnswer(text, kind="text/html; charset=utf-8", headers=[("content-disposition", "attachment")])

    async def _computed(self, work: Callable[[], T]) -> T:
        """The result of some work with the model; a request that was given up before its turn does none."""
        async with self._model:
            return await _in_thread(work)

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """No line for an answer: a page asks at every pause of the typing."""


async def _in_thread(work: Callable[[], T]) -> T:
    """The result of some work in a thread; cancelled, it waits for the thread, which still uses the model."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    finally:
        if not task.done():
            await asyncio.wait({task})


def _closing(chunks: AsyncIterator[dict[str, Any]]) -> Callable[[], None]:
    """What ends a stream that is not read to its end."""

    def close() -> None:
        ending = asyncio.ensure_future(chunks.aclose())  # type: ignore[attr-defined]  # an async generator
        _ENDING.add(ending)
        ending.add_done_callback(_ENDING.discard)

    return close


_ENDING: set[asyncio.Future[None]] = set()  # the loop itself keeps no reference to a task
