"""What a user sees while a model trains: a bar on stderr, a line for each evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headway.training.callbacks import Callback


class TrainingBar:
    """A live bar with loss, speed and time left. Use as a context manager."""

    def __init__(self, title: str, steps: int, unit: str = "tokens") -> None:
        self.console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[loss]}"), TextColumn("{task.fields[speed]}"), TimeRemainingColumn(),
        )  # fmt: skip
        # Without a terminal rich shows no bar, and would end it with an empty line.
        self.bar = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_interactive)
        self.title, self.steps, self.unit = title, steps, unit
        self.task = self.bar.add_task(title, total=steps, loss="", speed="")
        self.loss: float | None = None
        self.tokens, self.started = 0, time.perf_counter()

    def __enter__(self) -> TrainingBar:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def step(self, entry: dict[str, Any]) -> None:
        """Move on; the loss shown is smoothed over about twenty steps."""
        self.loss = entry["loss"] if self.loss is None else 0.95 * self.loss + 0.05 * entry["loss"]
        self.tokens += entry["tokens"]
        speed = self.tokens / max(time.perf_counter() - self.started, 1e-9)
        self.bar.update(
            self.task,
            description=self.title,
            total=self.steps,
            completed=entry["step"],
            loss=f"loss {self.loss:.4f}",
            speed=f"{speed:,.0f} {self.unit}/s",
        )

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        """Say how it goes, with a sample."""
        beside = {name.removeprefix("val_"): value for name, value in entry.items() if name not in ("step", "val_loss")}
        more = "".join(f", {name} {value:.2%}" for name, value in beside.items())
        self.console.print(f"step {entry['step']}: validation loss {entry['val_loss']:.4f}{more}")
        for line in samples[:3]:
            self.console.print(f"  [dim]{escape(line)}[/dim]")

    def note(self, text: str) -> None:
        """One line."""
        self.console.print(escape(text), soft_wrap=True)

    def preparing(self, what: str, done: int, total: int) -> None:
        """The same bar, before the first step."""
        self.bar.update(self.task, description=what, completed=done, total=total)
        self.started = time.perf_counter()


class CallbackList:
    """Several callbacks as one."""

    def __init__(self, *callbacks: Callback) -> None:
        self.callbacks = callbacks

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
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=steps, loss="")

        def progress(step: int, nats: float) -> None:
            bar.update(task, completed=step, loss=f"loss {nats:.4f}")

        yield progress
