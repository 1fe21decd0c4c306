"""What a user sees while a model trains: the plan, a bar or plain lines on stderr, a line for each evaluation."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from headway.cli.console import SafeConsole
from headway.cli.terminal import one_line, tell
from headway.training.callbacks import Callback, PlanCallback
from headway.training.devices import peak_memory
from headway.training.quantities import duration, size

EVERY = 30.0  # seconds between the lines of a log
SOON = 3.0  # seconds, and FIRST_STEPS steps, after which the time is estimated
FIRST_STEPS = 6  # the first one is slower and does not count
RECENT = 50  # steps by whose median the time is estimated
SAMPLE = 100  # characters of a sample on a line of a log


def plain_bar() -> Progress:
    """A description, a bar and the time gone, on stderr; prints nothing unless stderr is a terminal."""
    console = SafeConsole(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_interactive)


@contextmanager
def share_bar(title: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that is moved by calling what it gives: what is done at the moment, how much of it, and of how much."""
    with plain_bar() as made:
        task = made.add_task(title, total=None)

        def told(what: str, done: int, total: int) -> None:
            made.update(task, description=f"{title}: {what}", completed=done, total=total)

        yield told


class TrainingBar:
    """A live bar with loss, speed and time left; without a terminal, a line now and then. Use as a context manager."""

    def __init__(
        self, title: str, steps: int, unit: str = "tokens", notes: Sequence[str] = (), *, samples: bool = False
    ) -> None:
        self.console = SafeConsole(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[loss]}"), TextColumn("{task.fields[speed]}"), TimeRemainingColumn(),
        )  # fmt: skip
        # Without a terminal rich shows no bar, and would end it with an empty line.
        self.bar = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_interactive)
        self.title, self.steps, self.unit, self.notes = title, steps, unit, notes
        self.samples = samples or self.console.is_interactive
        self.task = self.bar.add_task(title, total=steps, loss="", speed="")
        self.loss: float | None = None
        self.tokens = self.taken = 0
        self.started = self.told = self.moved = time.perf_counter()
        self.recent: deque[float] = deque(maxlen=RECENT)  # seconds of steps, without validations
        self.validating = 0.0  # seconds
        self.estimated = False

    def __enter__(self) -> TrainingBar:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def planned(self, steps: int, facts: Mapping[str, str]) -> None:
        """The block of facts before the first step."""
        self.steps, self.loss, self.tokens, self.taken, self.estimated = steps, None, 0, 0, False
        self.recent.clear()
        self.validating = 0.0
        room = max(map(len, facts))
        for name, value in facts.items():
            self.note(f"{name:{room}}  {value}")
        for note in self.notes:
            self.note(note)
        self.started = self.told = self.moved = time.perf_counter()

    def step(self, entry: dict[str, Any]) -> None:
        """Move on; the loss shown is smoothed over about twenty steps."""
        self.loss = entry["loss"] if self.loss is None else 0.95 * self.loss + 0.05 * entry["loss"]
        self.tokens += entry["tokens"]
        self.taken += 1
        now = time.perf_counter()
        if self.taken > 1:
            self.recent.append(now - self.moved)
        self.moved = now
        speed = f"{self.tokens / max(now - self.started, 1e-9):,.0f} {self.unit}/s"
        self.bar.update(
            self.task,
            description=self.title,
            total=self.steps,
            completed=entry["step"],
            loss=f"loss {self.loss:.4f}",
            speed=speed,
        )
        due = not self.console.is_interactive and now - self.told >= EVERY
        if due or (not self.estimated and self.taken >= FIRST_STEPS and now - self.started >= SOON):
            self._tell_progress(entry["step"], speed)

    def _tell_progress(self, step: int, speed: str) -> None:
        """Step, loss and speed; after a few steps their time, the time left, and once the memory.

        A step takes the median of the recent ones, and validations go on as often and as long as they did so far.
        """
        text = f"step {step:,}/{self.steps:,}: loss {self.loss:.4f}, {speed}"
        if self.taken >= FIRST_STEPS:
            each = statistics.median(self.recent) + self.validating / self.taken
            text += f", {duration(each)} a step, about {duration((self.steps - step) * each)} left"
            if not self.estimated:
                device = torch.device("cuda" if torch.cuda.is_initialized() else "cpu")
                text += f"; memory used {size(peak_memory(device))}"
            self.estimated = True
        self._line(text)

    def _line(self, text: str) -> None:
        self.note(text)
        self.told = time.perf_counter()

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """One line, and at a terminal, or if asked for, three samples; a log has the beginning of one on that line."""
        now = time.perf_counter()
        self.validating, self.moved = self.validating + now - self.moved, now
        beside = {name.removeprefix("val_"): value for name, value in entry.items() if name not in ("step", "val_loss")}
        more = "".join(f", {name} {_figure(name, value)}" for name, value in beside.items())
        told = f"step {entry['step']}: validation loss {entry['val_loss']:.4f}{more}"
        if samples and not self.samples:
            sample = " ".join(samples[0].split())
            told += f"; sample: {sample if len(sample) <= SAMPLE else f'{sample[: SAMPLE - 1]}…'}"
        self.console.print(one_line(told), soft_wrap=True, markup=False)
        for sample in samples[:3] if self.samples else ():
            for line in sample.strip("\n").split("\n"):
                self.console.print(Text(f"  {line}", style="dim"), soft_wrap=not self.console.is_interactive)

    def note(self, text: str) -> None:
        """One line."""
        self.console.print(one_line(text), soft_wrap=True, markup=False)

    def preparing(self, what: str, done: int, total: int) -> None:
        """The same bar, before the first step; in a log a line now and then."""
        self.bar.update(self.task, description=what, completed=done, total=total)
        self.started = time.perf_counter()
        if not self.console.is_interactive and self.started - self.told >= EVERY:
            self._line(f"{what}: {done:,} of {total:,}")


def _figure(name: str, value: float) -> str:
    """A figure of a validation: a share, unless its name says that it is a loss or a number of epochs."""
    return (
        f"{value:.4f}" if name.startswith("loss") else f"{value:.3g}" if name.startswith("epochs") else f"{value:.2%}"
    )


def progress_lines(now: Callable[[], float] = time.perf_counter) -> Callable[[str, int, int], None]:
    """A line on stderr every EVERY seconds; call what it gives with what is done, and how many of how many."""
    started = told = now()

    def progress(what: str, done: int, total: int) -> None:
        nonlocal told
        at = now()
        if at - told >= EVERY and done < total:
            told = at
            tell(f"{what}: {done:,} of {total:,} after {duration(at - started)}")

    return progress


class CallbackList:
    """Several callbacks as one."""

    def __init__(self, *callbacks: Callback) -> None:
        self.callbacks = callbacks

    def planned(self, steps: int, facts: Mapping[str, str]) -> None:
        """Before the first step."""
        for callback in self.callbacks:
            if isinstance(callback, PlanCallback):
                callback.planned(steps, facts)

    def step(self, entry: dict[str, Any]) -> None:
        """After every step."""
        for callback in self.callbacks:
            callback.step(entry)

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """After every evaluation."""
        for callback in self.callbacks:
            callback.evaluated(entry, samples)

    def note(self, text: str) -> None:
        """One line for the user."""
        for callback in self.callbacks:
            callback.note(text)

    def preparing(self, what: str, done: int, total: int) -> None:
        """While data is made ready."""
        for callback in self.callbacks:
            callback.preparing(what, done, total)


@contextmanager
def lab_bar(title: str, steps: int) -> Iterator[Callable[[int, float], None]]:
    """A progress bar on stderr; call what it gives with each step and its loss."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=steps, loss="")

        def progress(step: int, nats: float) -> None:
            bar.update(task, completed=step, loss=f"loss {nats:.4f}")

        yield progress
