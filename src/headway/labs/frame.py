"""What a lab is: one file that shows one claim of the decks and checks itself.

A lab is a module of this package that ends in `LAB`, one object of the class `Lab`, and one line in
`headway.labs.registry`. The contract:

- `claim` is one sentence that the lab proves or disproves; where a deck is wrong, it states what is true. `slides` are
  the slides that it is about. The module's docstring tells the story; its first sentence is what the lab computes.
- `parameters` is a frozen, keyword-only dataclass whose fields are the flags of the lab: `guests: int = 5  # guests at
  the party` becomes `--guests N` with that comment as its help. Every field has a default and a comment, its value is
  checked in `__post_init__` (ConfigError), and no field is named like a flag of all labs (`COMMON`). A field
  `settings: tuple[str, ...] = ()` receives config keys, `--model.width 64` as "model.width=64".
- `run(parameters, seed, quick)` computes and returns a `LabOutcome` of tables, figures and checks. It prints and writes
  nothing, draws every random number from `seed`, and does not change the global state of torch (a thread count and
  the global generator are set and restored by `run_lab`). With the defaults it takes at most two minutes on two cores;
  with `quick` seconds, for the tests: smaller sizes or fewer steps of the same code, and checks that still hold.
- A check is a name, a measured number and a bound (`at_most`, `at_least`, `equals`, `within`, `holds`). It must be true
  for seeds 0, 1 and 2, and able to fail. A number that cannot be measured is NaN, which fails; `run` does not raise.
- `mechanism` names the functions (module attributes) on which the checks rest. `run` calls them by their module's name,
  so that a test can replace one: `tests/labs/broken/NAME.py` has a table `BROKEN` of replacements, each with a check
  that must fail then, and `tests/labs/test_labs.py` walks it.
- `exercise` names the function of the lab that a learner can write or repair (`headway.labs.exercise`): one that the
  checks rest on, with hints and at least one planted bug, each with a check that fails then.
- A lab imports no other lab. Code that two share lies in a module of this package that is not registered.
- A lab that takes seconds tells how far it is by `progress("training", step, steps)`.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from headway import display
from headway.config import override
from headway.config_help import Key, keys_of_class
from headway.errors import ConfigError, shown
from headway.labs.exercise import Exercise
from headway.suggestions import did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMMON = (  # flags of every lab
    "seed", "out", "quick", "json", "plot", "exercise", "bug", "hint", "notebook", "limit", "debug", "help",
)  # fmt: skip
SETTINGS = "settings"  # the field that receives config keys
CHAPTERS = {
    1: "Memory",
    2: "Depth",
    3: "Speaking",
    4: "Reading and writing",
    5: "Attention",
    6: "Order",
    7: "The transformer",
    8: "Pretraining",
    9: "Pictures and anything",
    10: "Further",
}
P = TypeVar("P")
Cell = str | int | float
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Slide:
    """A place in the decks."""

    deck: str  # "000" … "004"
    page: str  # as the deck counts: "p. 13", "Review 5"
    line: int | None = None  # of the deck's text, where it has no pages

    def __str__(self) -> str:
        return f"{self.deck} {self.page}" + ("" if self.line is None else f" (line {self.line})")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabCheck:
    """A measured number and the bounds that it must keep; NaN keeps none."""

    name: str
    measured: float
    low: float | None = None
    high: float | None = None
    bound: str  # the bounds in words: "≤ 0.05", "6.579 ± 0.001"

    @property
    def passed(self) -> bool:
        """Whether the number is within its bounds."""
        if math.isnan(self.measured):
            return False
        return (self.low is None or self.measured >= self.low) and (self.high is None or self.measured <= self.high)

    def to_json(self) -> dict[str, Any]:
        """As in `lab --json`; a number that JSON does not have is a string."""
        numbers = {"measured": self.measured, "low": self.low, "high": self.high}
        return {"name": self.name, **_finite(numbers), "bound": self.bound, "passed": self.passed}


def at_most(name: str, measured: float, bound: float) -> LabCheck:
    """measured ≤ bound."""
    return LabCheck(name=name, measured=float(measured), high=bound, bound=f"≤ {written(bound)}")


def at_least(name: str, measured: float, bound: float) -> LabCheck:
    """measured ≥ bound."""
    return LabCheck(name=name, measured=float(measured), low=bound, bound=f"≥ {written(bound)}")


def within(name: str, measured: float, low: float, high: float) -> LabCheck:
    """low ≤ measured ≤ high."""
    return LabCheck(name=name, measured=float(measured), low=low, high=high, bound=f"{written(low)} to {written(high)}")


def equals(name: str, measured: float, expected: float, tolerance: float = 0.0) -> LabCheck:
    """|measured − expected| ≤ tolerance."""
    bound = f"= {written(expected)}" + (f" ± {written(tolerance)}" if tolerance else "")
    low, high = expected - tolerance, expected + tolerance
    return LabCheck(name=name, measured=float(measured), low=low, high=high, bound=bound)


def holds(name: str, truth: bool) -> LabCheck:
    """A statement: 1 where it is true, 0 where it is not."""
    return LabCheck(name=name, measured=float(truth), low=1.0, bound="true (1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabTable:
    """Rows under a header; numbers are written with four significant digits, texts as they are."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.header)]
        if wrong:
            raise ValueError(f"table {self.title!r}: {len(wrong[0])} cells under {len(self.header)} headers")

    def to_json(self) -> dict[str, Any]:
        """As in `lab --json`."""
        rows = [[_finite({"": cell})[""] for cell in row] for row in self.rows]
        return {"title": self.title, "header": list(self.header), "rows": rows, "note": self.note}

    def _repr_html_(self) -> str:
        rows = [[written(cell) for cell in row] for row in self.rows]
        return display.figures(self.header, rows, self.title, self.note)


@dataclass(frozen=True, kw_only=True)
class LabFigure:
    """A figure of matplotlib (`headway.plots.lab_figures` makes them), with what it shows in words for all readers."""

    alt: str  # what can be seen, with its numbers: read to those who do not see the figure
    figure: Figure
    name: str = ""  # behind the lab's name in the file's name, where a lab has several figures

    @cached_property
    def png(self) -> bytes:
        """The figure in pixels."""
        from headway.plots.curves import to_png

        return to_png(self.figure)

    def _repr_png_(self) -> bytes:
        return self.png

    @cached_property
    def svg(self) -> bytes:
        """The figure as SVG, the same bytes each time."""
        from headway.plots.curves import to_svg

        return to_svg(self.figure)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOutcome:
    """What a lab found."""

    tables: Sequence[LabTable]
    figures: Sequence[LabFigure]
    checks: Sequence[LabCheck]
    notes: Sequence[str] = ()  # what is to be seen, a sentence or two each

    def __post_init__(self) -> None:
        names = [check.name for check in self.checks]
        if not names or len({*names}) < len(names):
            raise ValueError(f"checks {names}: expected at least one, each with a name of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab(Generic[P]):
    """A lab; the module's docstring has the contract."""

    name: str
    chapter: int
    title: str  # a few words
    claim: str  # one sentence
    slides: Sequence[Slide]
    parameters: type[P]
    run: Callable[[P, int, bool], LabOutcome]
    mechanism: Sequence[str]  # functions of the module that the checks rest on
    exercise: Exercise | None = None  # what can be written or repaired

    def __post_init__(self) -> None:
        if self.chapter not in CHAPTERS or not self.mechanism or not self.slides:
            raise ValueError(f"lab {self.name}: expected a chapter of {list(CHAPTERS)}, slides and a mechanism")
        # argparse completes flags: `--s` would be `--seed`.
        taken = [each.name for each in self._fields() if any(name.startswith(each.name) for name in COMMON)]
        if taken:
            raise ValueError(f"lab {self.name}: --{taken[0]} is a flag of every lab, or begins one")

    @property
    def module(self) -> str:
        """The module that the lab is defined in."""
        return self.run.__module__

    def flags(self) -> list[Key]:
        """The flags of this lab alone: path (`--max-guests` is `max_guests`), type, default and meaning."""
        return [key for key in keys_of_class(self.parameters) if key.path != SETTINGS]

    def with_flags(self, given: Mapping[str, str]) -> P:
        """The parameters with these flags set. Raises ConfigError for an unknown flag or a wrong value."""
        known = {flag(each.name): each.name for each in self._fields() if each.name != SETTINGS}
        changes: dict[str, object] = {}
        settings = []
        for name, value in given.items():
            if "." in name and self._takes_settings():
                settings.append(f"{name}={value}")
            elif name not in known:
                allowed = ", ".join(f"--{each}" for each in known) or "none of its own"
                what = "a config key, which this lab does not take" if "." in name else "no flag of this lab"
                hint = did_you_mean(name, known)
                raise ConfigError(f"lab {self.name}: --{shown(name)[1:-1]} is {what}; {hint}its flags: {allowed}")
            else:
                changes[known[name]] = value
        if settings:
            changes[SETTINGS] = tuple(settings)
        return override(self.parameters(), changes) if changes else self.parameters()

    def _takes_settings(self) -> bool:
        return any(each.name == SETTINGS for each in self._fields())

    def _fields(self) -> Sequence[dataclasses.Field[Any]]:
        return dataclasses.fields(self.parameters)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabResult:
    """A lab that was run: with what, what it found, and how long it took."""

    lab: Lab[Any]
    parameters: Any
    seed: int
    quick: bool
    outcome: LabOutcome
    seconds: float  # by the clock
    cpu_seconds: float  # of this process

    @property
    def figures(self) -> dict[str, LabFigure]:
        """The figures by the name of their files, without an ending: "party", or "party-capacity" for a second one."""
        return {"-".join(filter(None, (self.lab.name, each.name))): each for each in self.outcome.figures}

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.outcome.checks)

    @property
    def failed(self) -> list[LabCheck]:
        """The checks that do not hold."""
        return [check for check in self.outcome.checks if not check.passed]

    @property
    def checks(self) -> LabTable:
        """All checks as a table."""
        return LabTable(
            title=f"checks of {self.lab.name}",
            header=("check", "measured", "bound", "holds"),
            rows=[
                (each.name, each.measured, each.bound, "yes" if each.passed else "no") for each in self.outcome.checks
            ],
        )

    def to_json(self) -> dict[str, Any]:
        """As in `lab --json`: values without the figures themselves."""
        from headway.config import plain

        values = {key: value for key, value in plain(self.parameters).items() if key != "type"}
        return {
            "lab": self.lab.name,
            "chapter": self.lab.chapter,
            "claim": self.lab.claim,
            "slides": [str(slide) for slide in self.lab.slides],
            "parameters": values,
            "seed": self.seed,
            "quick": self.quick,
            "passed": self.passed,
            "checks": [check.to_json() for check in self.outcome.checks],
            "tables": [table.to_json() for table in self.outcome.tables],
            "figures": {name: figure.alt for name, figure in self.figures.items()},
            "notes": list(self.outcome.notes),
            "seconds": round(self.seconds, 2),
            "cpu_seconds": round(self.cpu_seconds, 2),
        }


def run_lab(lab: Lab[P], parameters: P | None = None, *, seed: int = 0, quick: bool = False) -> LabResult:
    """Run a lab on one thread, with torch's generator set to `seed` and restored, and time it."""
    given = lab.parameters() if parameters is None else parameters
    threads = torch.get_num_threads()
    started, cpu = time.perf_counter(), time.process_time()
    try:
        torch.set_num_threads(1)  # matrices are small: a second thread only waits for the first
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            outcome = lab.run(given, seed, quick)
    finally:
        torch.set_num_threads(threads)
    return LabResult(
        lab=lab,
        parameters=given,
        seed=seed,
        quick=quick,
        outcome=outcome,
        seconds=time.perf_counter() - started,
        cpu_seconds=time.process_time() - cpu,
    )


_PROGRESS: ContextVar[Progress | None] = ContextVar("lab progress", default=None)


def progress(what: str, done: int, total: int) -> None:
    """Tell how far a lab is: for the bar of the command, and nothing where there is none."""
    told = _PROGRESS.get()
    if told is not None:
        told(what, done, total)


@contextmanager
def observed_progress(tell: Progress) -> Iterator[None]:
    """Within this context, `progress` calls `tell`."""
    token = _PROGRESS.set(tell)
    try:
        yield
    finally:
        _PROGRESS.reset(token)


def flag(field_name: str) -> str:
    """A field as a flag: `max_guests` is `max-guests`."""
    return field_name.replace("_", "-")


def written(value: Cell) -> str:
    """A cell as text: whole numbers in full, others with four significant digits."""
    if isinstance(value, str):
        return value
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e6
    return f"{int(value):,}" if whole or isinstance(value, int) else f"{value:.4g}"


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values for JSON, which has neither NaN nor infinity."""
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }
