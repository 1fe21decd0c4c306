"""Searches that begin at any time and step together: each runs as it would alone, in a thread of its own, and where it
calls the model it waits until all others do. One thread computes the steps of all in one pass.

What a search computes from its logits is its own; what it shares with others is one pass over the rows of all, in which
no row changes another (`nn.joint_cache`). So a search has the same bits in every company.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from headway.decoding.row_batch import ROW_MULTIPLE, row_multiple
from headway.errors import HeadwayError
from headway.models.stepper import EncoderInput, JointStepper, Stepper

MAX_ROWS = 256  # of one pass: hypotheses of all searches


class SearchCancelledError(HeadwayError):
    """A search was ended from outside."""


def searches_with(model: object) -> TypeGuard[Stepper[Any]]:
    """Whether a model writes texts by steps, in which a search extends its hypotheses."""
    return hasattr(model, "extend") and hasattr(model, "select")


def steps_jointly(model: object) -> TypeGuard[JointStepper[Any]]:
    """Whether searches of a model can share its steps; those of others take turns."""
    return hasattr(model, "joint") and hasattr(model, "members")


class _ModelCall:
    """A call of the model by a search, which waits for its result."""

    def __init__(self, search: Search, compute: Callable[[], Any] | None, step: tuple[Tensor, Any] | None) -> None:
        self.search, self.compute, self.step = search, compute, step
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def attempt(self, compute: Callable[[], Any]) -> None:
        try:
            self.result = compute()
        except Exception as error:
            self.error = error


class Search:
    """A task that searches, in its thread, and its result."""

    def __init__(self, task: Callable[[], Any]) -> None:
        self.task, self.cancelled = task, False
        self.result: Any = None
        self.error: BaseException | None = None


class JointSearches:
    """The searches of one model that are under way. `step` is called in a loop, always by the same thread."""

    def __init__(self, model: Stepper[Any]) -> None:
        self.model = model
        self.multiple = row_multiple(model) if isinstance(model, nn.Module) else ROW_MULTIPLE
        self.count = 0  # searches under way
        self.rows = 0  # of the last step
        self._changed = threading.Condition()
        self._computing = 0  # searches that do not wait for the model
        self._calls: list[_ModelCall] = []
        self._ended: list[Search] = []
        self._local = threading.local()

    def start(self, task: Callable[[], Any]) -> Search:
        """Begin a task, whose calls of `SharedModel(self)` are computed by `step`."""
        search = Search(task)
        self.count += 1
        with self._changed:
            self._computing += 1
        threading.Thread(target=self._run, args=[search], name="search", daemon=True).start()
        return search

    def _run(self, search: Search) -> None:
        self._local.search = search
        try:
            search.result = search.task()
        except BaseException as error:
            search.error = error
        with self._changed:
            self._computing -= 1
            self._ended.append(search)
            self._changed.notify()

    def call(self, compute: Callable[[], Any], step: tuple[Tensor, Any] | None = None) -> Any:
        """The result of a call of the model, computed by the thread of `step` if a search makes it."""
        search: Search | None = getattr(self._local, "search", None)
        if search is None:
            return compute()
        call = _ModelCall(search, compute, step)
        with self._changed:
            self._computing -= 1
            self._calls.append(call)
            self._changed.notify()
        call.done.wait()
        if call.error is not None:
            raise call.error
        return call.result

    def step(self) -> list[Search]:
        """Wait until every search has ended or waits for the model; compute what they wait for -> those that ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._computing)
            calls, self._calls = self._calls, []
            ended, self._ended = self._ended, []
        self.count -= len(ended)
        with torch.inference_mode():
            self._compute(calls)
        with self._changed:
            self._computing += len(calls)
        for call in calls:
            call.done.set()
        return ended

    def _compute(self, calls: Sequence[_ModelCall]) -> None:
        steps: list[_ModelCall] = []
        for call in calls:
            if call.search.cancelled:
                call.error = SearchCancelledError("the search was cancelled")
            elif call.step is not None:
                steps.append(call)
            else:
                assert call.compute is not None
                call.attempt(call.compute)
        self.rows = sum(len(call.step[0]) for call in steps if call.step is not None)
        some: list[_ModelCall] = []
        for call in steps:
            assert call.step is not None
            if some and sum(len(each.step[0]) for each in some if each.step) + len(call.step[0]) > MAX_ROWS:
                self._extend(some)
                some = []
            some.append(call)
        if some:
            self._extend(some)

    def _extend(self, calls: Sequence[_ModelCall]) -> None:
        """One pass for all; where it fails, halves of them, until the call that fails is alone."""
        try:
            for call, result in zip(calls, self.extended([call.step for call in calls if call.step]), strict=True):
                call.result = result
        except Exception as error:
            if len(calls) == 1:
                calls[0].error = error
                return
            middle = len(calls) // 2
            self._extend(calls[:middle])
            self._extend(calls[middle:])

    def extended(self, steps: Sequence[tuple[Tensor, Any]]) -> list[tuple[Tensor, Any]]:
        """Tokens (N, 1) and state of each search -> its logits (N, 1, V) and the state after them."""
        tokens, states = [tokens for tokens, _ in steps], [state for _, state in steps]
        rows = [len(each) for each in tokens]
        blanks, model = -sum(rows) % self.multiple, self.model
        joint = model.joint(states, rows, blanks) if steps_jointly(model) else None
        if joint is None or not steps_jointly(model):
            return [model.extend(*step) for step in steps]
        column = torch.cat([*tokens, tokens[0].new_zeros(blanks, 1)])
        logits, joint = model.extend(column, joint)
        parts = logits.split_with_sizes([*rows, blanks])
        return list(zip(parts, model.members(joint), strict=False))


class SharedModel(nn.Module):
    """The model as a search sees it: its steps are computed together with those of other searches."""

    def __init__(self, model: nn.Module, searches: JointSearches) -> None:
        super().__init__()
        self.model = model
        self.searches = searches

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def forward(self, *args: Any, **options: Any) -> Any:
        """As the model."""
        return self.searches.call(lambda: self.model(*args, **options))

    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> Any:
        """As the model."""
        return self.searches.call(lambda: self.searches.model.start(source, capacity=capacity))

    def extend(self, tokens_BK: Tensor, state: Any, counts_B: Tensor | None = None) -> tuple[Tensor, Any]:
        """As the model."""
        together = tokens_BK.shape[1] == 1 and counts_B is None
        found: tuple[Tensor, Any] = self.searches.call(
            lambda: self.searches.model.extend(tokens_BK, state, counts_B), (tokens_BK, state) if together else None
        )
        return found

    def select(self, state: Any, rows_B: Tensor) -> Any:
        """As the model: copies, which are the same in any thread."""
        return self.searches.model.select(state, rows_B)
