"""The runs that a live page may show: a dashboard of all, and the sessions of those that were opened last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError, one_line
from headway.runs import Run, load
from headway.runs.board import Board
from headway.serving.api_errors import ApiError, invalid
from headway.serving.live.session import LiveSession

LOADED = 4  # models that stay in memory beside the first
Choice = tuple[str, int | None]  # a run and the step of a checkpoint; None: the one that `load` takes


class LiveRuns:
    """The run of `headway look RUN --live`, if there is one, and the runs of a board. No other folder is opened."""

    def __init__(
        self, first: LiveSession | None, board: Board | None = None, loaded: Callable[[Path], Run] = load
    ) -> None:
        self.first, self.board, self._load = first, board, loaded
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._sessions: OrderedDict[Choice, LiveSession] = OrderedDict()

    def described(self) -> dict[str, Any]:
        """What the page shows first: the dashboard, or the run."""
        return {"screen": "runs"} if self.first is None else self.opened(None, None)

    def opened(self, run: str | None, step: int | None) -> dict[str, Any]:
        """What the page has to know of a run before its first look, and what it can be compared with."""
        session = self.session(run, step)
        return {
            "screen": "look",
            **session.described(),
            "beside": self._comparable(session),
            "checkpoints": len(session.checkpoints()),
        }

    def dashboard(self, known: Mapping[str, str]) -> dict[str, Any]:
        """The rows and curves of all runs; of those whose version is known, little."""
        return {"runs": []} if self.board is None else self.board.to_json(known)

    def session(self, run: str | None, step: int | None) -> LiveSession:
        """The session of a run of the board and, if given, of a checkpoint. Raises ApiError for another one."""
        first = self.first
        if first is not None and run in (None, str(first.pipeline.folder)) and step in (None, *first.own_steps):
            return first
        if run is None and first is not None:
            run = str(first.pipeline.folder)
        choice = (run or "", step)
        if choice not in self._sessions:
            self._sessions[choice] = self._opened(*choice)
            while len(self._sessions) > LOADED:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(choice)
        return self._sessions[choice]

    def checkpoints(self, run: str | None) -> list[LiveSession]:
        """A session of each checkpoint of a run. Raises ApiError for another run."""
        return [self.session(run, step) for step in self.session(run, None).checkpoints()]

    def _opened(self, name: str, step: int | None) -> LiveSession:
        if name not in self._folders():
            raise ApiError(404, "there is no such run here", code="run_not_found")
        try:
            if name not in self._runs:
                self._runs[name] = self._load(Path(name))
                while len(self._runs) > LOADED:
                    self._runs.popitem(last=False)
            run = self._runs[name]
            return LiveSession(run.pipeline if step is None else run.at(step))
        except HeadwayError as error:
            raise invalid(one_line(error), "run", "unsupported") from None

    def _folders(self) -> list[str]:
        own = [] if self.first is None else [str(self.first.pipeline.folder)]
        return [*own, *(entry.name for entry in (self.board.entries() if self.board else []))]

    def _comparable(self, session: LiveSession) -> list[dict[str, Any]]:
        """Other checkpoints of the run, and other runs of its task."""
        name = str(session.pipeline.folder)
        steps = [{"run": name, "step": step} for step in session.checkpoints() if step not in session.own_steps]
        task = session.pipeline.task.name
        others = [
            {"run": entry.name, "step": None}
            for entry in (self.board.entries() if self.board else [])
            if entry.name != name and entry.task == task
        ]
        return [*steps, *others]
