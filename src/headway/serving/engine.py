"""The engine process: one run, its model, and the loop that steps it. Frames come in, frames go out.

It is started by `serving.supervisor` with one end of a socket pair, and ends when the other end closes. Nothing else
reaches it: no port, no file but the run's folder.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import HeadwayError, NonFiniteError, UnknownTokensWarning, one_line
from headway.serving.frames import Frames
from headway.serving.requests import Call, Request

if TYPE_CHECKING:
    from headway.serving.calls import Calls

IDLE_SECONDS = 1.0  # between two looks at an empty inbox


class Engine:
    """A loaded run that answers frames."""

    def __init__(self, frames: Frames, settings: dict[str, Any]) -> None:
        import torch

        from headway.runs.run import Run
        from headway.serving.scheduler import Scheduler, SchedulerLimits

        if settings["threads"]:
            torch.set_num_threads(settings["threads"])
        self.frames = frames
        self.run = Run(Path(settings["run"]), device="cpu", precision=settings["precision"])
        self.scheduler: Scheduler | None = None
        self.exact: bool | None = None
        model: Any = self._row_model()
        if model is not None:
            limits = SchedulerLimits(**settings["scheduler"])
            self.exact = self._check(model, limits.rows)
            self.scheduler = Scheduler(model, limits)
            self.scheduler.on_failure = lambda error: _tell(f"a request failed: {type(error).__name__}")
        self.calls = self._prepared_calls(settings["scheduler"])

    def _row_model(self) -> Any:
        """The model, prepared, if this run continues prompts and its rows can come and go; or None."""
        from headway.decoding.row_batch import joins_rows, prepare
        from headway.tasks.capabilities import Generates

        model = self.run.model
        if not isinstance(self.run.pipeline, Generates) or not joins_rows(model):
            return None
        prepare(self.run.model)
        return model

    def _prepared_calls(self, limits: dict[str, int]) -> Calls:
        """What answers verbs; a model that searches is prepared for searches that step together, and checked."""
        from headway.decoding.company import made_up_sources, search_difference
        from headway.decoding.row_batch import prepare
        from headway.serving.calls import Calls
        from headway.serving.fair_queue import FairQueue

        model: Any = self.run.model
        queue: FairQueue[Call] = FairQueue(limits["waiting"], limits["waiting_of_client"])
        calls = Calls(self.run, self._called, rows=limits["rows"], queue=queue)
        if calls.searches is not None:
            prepare(model)
            sources = made_up_sources(model, self.run.config.model)
            self.exact = None if sources is None else not search_difference(model, sources)
        return calls

    def _check(self, model: Any, rows: int) -> bool:
        from headway.decoding.company import row_difference

        return not row_difference(model, vocab=self._vocab, context=self._context or 64, rows=rows)

    @property
    def _vocab(self) -> int:
        sizes = self.run.config.model.text
        assert sizes is not None
        return sizes.vocab

    @property
    def _context(self) -> int | None:
        sizes = self.run.config.model.text
        return None if sizes is None else sizes.context

    def description(self) -> dict[str, Any]:
        """What the front needs to know: what the run is and can do, and how its texts become tokens."""
        from headway.training.checkpoints import Checkpoints

        checkpoints, steps = Checkpoints(self.run.folder), list(self.run.steps)
        folder = checkpoints.path(steps[-1])
        return {
            "task": self.run.task.title,
            "precision": self.run.precision,
            "steps": steps,
            "created": int(folder.stat().st_mtime) if folder.exists() else 0,
            "fingerprint": f"hw-{checkpoints.key_of(steps)[:12]}-{self.run.precision}",
            "weights": checkpoints.key_of(steps),
            "exact": self.exact,
            "context": self._context,
            "calls": {name: each.to_json() for name, each in self.calls.offered.items()},
            "languages": self._languages(),
            "text": None if self.scheduler is None else self._text(),
        }

    def _languages(self) -> list[str] | None:
        """The languages of a translation: source and target."""
        data = self.run.config.data
        return [data.source, data.target] if "translate" in self.run.can() else None

    def _text(self) -> dict[str, Any]:
        from headway.tasks.capabilities import Chats

        tokenizer, pipeline = self.run.tokenizer, self.run.pipeline
        special = tokenizer.marks
        chat = asdict(pipeline.template) if isinstance(pipeline, Chats) else None
        return {
            "tokenizer": tokenizer.to_json(),
            "marks": None if special is None else asdict(special),
            "before": list(special.before if special else ()),
            "stops": sorted(special.stops if special else ()),
            "vocab": self._vocab,
            "chat": chat,
        }

    def serve(self) -> None:
        """Answer frames and step until the front is gone."""
        while not self.frames.closed:
            busy = not self.calls.idle or (self.scheduler is not None and not self.scheduler.idle)
            for message in self.frames.receive(0.0 if busy else IDLE_SECONDS):
                self._handle(message)
            if self.scheduler is not None and not self.scheduler.idle:
                self._step()
            if not self.calls.idle:
                for id, answer in self.calls.step(time.monotonic()):
                    self.frames.send({"result": id, **answer})

    def _step(self) -> None:
        assert self.scheduler is not None
        began, cached = time.monotonic(), self.scheduler.cached
        events = self.scheduler.step(began)
        self.frames.send(
            {
                "events": [event.to_json() for event in events],
                "rows": self.scheduler.rows,
                "waiting": len(self.scheduler.queue),
                "reserved": self.scheduler.reserved,
                "cached": self.scheduler.cached - cached,
                "seconds": time.monotonic() - began,
            }
        )

    def _handle(self, message: dict[str, Any]) -> None:
        if "ping" in message:
            self.frames.send({"pong": message["ping"]})
        elif "weights" in message:
            self.frames.send({"newest": self.run.newest_key()})
        elif "cancel" in message and self.scheduler is not None:
            self.scheduler.cancel(message["cancel"])
        elif "cancel_call" in message:
            self.calls.cancel(message["cancel_call"])
        elif "request" in message and self.scheduler is not None:
            request = Request.from_json(message["request"])
            refused = self.scheduler.offer(request)
            if refused is not None:
                self.frames.send({"refused": request.id, "code": refused})
        elif "call" in message:
            call = Call(message["call"], message["client"], message["verb"], message["inputs"], message["arguments"])
            refused = self.calls.queue.offer(call)
            if refused is not None:
                self.frames.send({"result": call.id, "refused_call": refused})

    def _called(self, call: Call) -> dict[str, Any]:
        """The result of a verb, or the error that the front makes of its failure."""
        from headway.decoding.joint_search import SearchCancelledError
        from headway.serving.verbs import computed

        try:
            value, tokens = computed(self.run.pipeline, call)
            return {"value": value, "tokens": tokens}
        except SearchCancelledError:
            raise
        except NonFiniteError:
            return {"failed": True, "code": "nonfinite"}
        except HeadwayError as error:
            return {"error": one_line(error)}
        except Exception as error:
            _tell(f"a call of {call.verb} failed: {type(error).__name__}")
            return {"failed": True}


def _tell(line: str) -> None:
    print(f"headway serve: {line}", file=sys.stderr, flush=True)


def main() -> int:
    """Serve the run that the first frame names, over the socket whose number is the argument."""
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)  # the front decides when requests in flight have ended
    warnings.showwarning = lambda message, *_: _tell(str(message))
    warnings.simplefilter("ignore", UnknownTokensWarning)
    frames = Frames(socket.socket(fileno=int(sys.argv[1])))
    settings = next(iter(frames.receive(60.0)), None)
    if settings is None:
        return 1
    try:
        engine = Engine(frames, settings)
        frames.send({"ready": engine.description()})
        engine.serve()
    except HeadwayError as error:
        frames.send({"fatal": one_line(error)})
        return error.exit_code
    except (BrokenPipeError, ConnectionResetError):
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
