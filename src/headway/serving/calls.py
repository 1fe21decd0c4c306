"""Calls of a run's verbs: those that search a translation or a caption step together, the others go one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.decoding.joint_search import JointSearches, Search, SearchCancelledError, SharedModel, searches_with
from headway.runs.run import Run
from headway.serving.fair_queue import FairQueue
from headway.serving.requests import Call
from headway.tasks.json_calls import calls_of


class Calls:
    """The calls of an engine, in turns between clients; `step` is called in a loop."""

    def __init__(
        self, run: Run, answer: Callable[[Call], dict[str, Any]], *, rows: int, queue: FairQueue[Call]
    ) -> None:
        """`answer` computes a call; at most `rows` searches are under way at once."""
        self.answer, self.rows, self.queue = answer, rows, queue
        self.searches: JointSearches | None = None
        self._under_way: dict[str, Search] = {}
        self.offered = calls_of(run.pipeline)
        self._searching = {name for name, each in self.offered.items() if each.searches}
        model: Any = run.model
        if self._searching and searches_with(model):
            self.searches = JointSearches(model)
            shared: Any = SharedModel(run.model, self.searches)
            run.share_model(shared)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not len(self.queue) and not self._under_way

    def cancel(self, id: str) -> None:
        """Let a call end before its next step, without an answer."""
        for _ in self.queue.remove(lambda call: call.id == id):
            return
        search = self._under_way.get(id)
        if search is not None:
            search.cancelled = True

    def step(self, now: float) -> list[tuple[str, dict[str, Any]]]:
        """Begin what fits, compute one step of every search or one other call -> the answers there are."""
        self.queue.forget(now)
        answers: list[tuple[str, dict[str, Any]]] = []
        while len(self._under_way) < self.rows and (call := self.queue.head()) is not None:
            self.queue.take()
            self.queue.spend(call.client, len(call.inputs))
            if self.searches is None or call.verb not in self._searching:
                answers.append((call.id, self.answer(call)))
                break
            self._under_way[call.id] = self.searches.start(lambda call=call: self.answer(call))  # type: ignore[misc]
        if self.searches is not None and self._under_way:
            ended = {id(search) for search in self.searches.step()}
            for name, search in [each for each in self._under_way.items() if id(each[1]) in ended]:
                del self._under_way[name]
                if not isinstance(search.error, SearchCancelledError):
                    answers.append((name, {"failed": True} if search.error is not None else search.result))
        return answers
