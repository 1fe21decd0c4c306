"""Run a lab with the function of a learner's file in place of its own, and say what came out.

The file is the user's own code, named on the command line, and is run as a Python script would be: `headway lab check`
is the only command that does so.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType
from typing import Any

from torch import Tensor

from headway.documents import read_json
from headway.errors import DataError, one_line, shown
from headway.labs.exercise import BUG, LAB, Exercise, ExerciseTarget, PlantedBug, broken, expect_exercise, replaced
from headway.labs.frame import Lab, LabResult, run_lab
from headway.labs.registry import lab
from headway.storage.commit import commit_file

NAME = "headway.labs.learner"  # the learner's file as a module; so `replaced` finds what it has imported
COMPARED = 20  # calls whose results are compared with those of the shipped function
TRIES = "exercises.json"


class _ComparedError(Exception):
    """The shipped function was called as often as is compared."""


class _UncachedLoader(SourceFileLoader):
    """Compiles the file itself: a cache could be older than an edit of the same second, and would lie beside it."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file as it is now."""
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseFile:
    """A learner's file that could be read: what it is for, and its function as it is written there."""

    path: Path
    lab: Lab[Any]
    exercise: Exercise
    bug: PlantedBug | None
    function: ast.FunctionDef

    @property
    def target(self) -> ExerciseTarget:
        """The shipped function."""
        return ExerciseTarget.of(self.lab, self.exercise)

    @property
    def hole(self) -> int | None:
        """The line at which something is still to be written."""
        for node in ast.walk(self.function):
            if isinstance(node, ast.Raise) and node.exc is not None and "NotImplementedError" in ast.unparse(node.exc):
                return node.lineno
        return None

    @property
    def hints(self) -> list[str]:
        """From gentle to nearly the solution."""
        if self.bug is None:
            return [*self.exercise.hints]
        lines = zip(broken(self.target, self.bug).splitlines(), self.target.source.splitlines(), strict=True)
        wrong = next(line.strip() for line, right in lines if line != right)
        return [
            "Hold each line against the docstring, and ask of each failed check which line decides it.",
            self.bug.hint,
            f"As it was handed out, this line is wrong: {wrong}",
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExerciseOutcome:
    """What came out: the lab's result, or the problem that kept it from ending."""

    file: ExerciseFile
    result: LabResult | None = None
    problem: str = ""
    note: str = ""  # how what the function returns differs from what the shipped one returns

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return self.result is not None and self.result.passed

    def to_json(self, hints: Sequence[str]) -> dict[str, Any]:
        """As in `lab check --json`."""
        return {
            "lab": self.file.lab.name,
            "file": str(self.file.path),
            "function": self.file.target.name,
            "bug": self.file.bug is not None,
            "passed": self.passed,
            "problem": self.problem,
            "note": self.note,
            "checks": [] if self.result is None else [check.to_json() for check in self.result.outcome.checks],
            "hints": [*hints],
        }


def read_exercise(path: Path) -> ExerciseFile:
    """A learner's file, not run yet. Raises DataError for a file that is not one, ConfigError for an unknown lab."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        line = "" if error.lineno is None else f", line {error.lineno}"
        raise DataError(f"{path}{line}: SyntaxError: {error.msg}") from None
    told = _constants(tree)
    if not isinstance(told.get(LAB), str):
        raise DataError(f'{path} has no line {LAB} = "…"; `headway lab NAME --exercise` writes a file that has it')
    found = lab(told[LAB])
    exercise = expect_exercise(found)
    number = told.get(BUG)
    if number is not None and not (isinstance(number, int) and 0 <= number < len(exercise.bugs)):
        raise DataError(f"{path}: {BUG} = {shown(number)}, allowed: 0 to {len(exercise.bugs) - 1}")
    bug = None if number is None else exercise.bugs[number]
    target = ExerciseTarget.of(found, exercise)
    (own,) = ast.parse(target.source).body
    assert isinstance(own, ast.FunctionDef)
    written = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == target.name]
    if not written:
        raise DataError(f"{path} does not define {target.name}; expected def {target.name}({_arguments(own)})")
    if _arguments(written[-1]) != _arguments(own):
        raise DataError(
            f"{path}, line {written[-1].lineno}: {target.name}({_arguments(written[-1])}), expected"
            f" {target.name}({_arguments(own)}): the lab calls it with these arguments"
        )
    return ExerciseFile(path=path, lab=found, exercise=exercise, bug=bug, function=written[-1])


def _constants(tree: ast.Module) -> dict[str, Any]:
    """NAME = constant, of the outermost level."""
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }


def _arguments(function: ast.FunctionDef) -> str:
    """The arguments without their types."""
    made = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(made, ast.FunctionDef)
    for node in ast.walk(made.args):
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(made.args)


def check_exercise(file: ExerciseFile, *, seed: int = 0, parameters: Any = None) -> ExerciseOutcome:
    """Run the quick version of the lab with the file's function. Raises DataError if the file itself cannot be run."""
    name = file.target.name
    if file.hole is not None:
        return ExerciseOutcome(file=file, problem=f"{name} is not written yet ({file.path}, line {file.hole})")
    returned: list[str] = []
    result, problem = None, ""
    with _loaded(file) as function, _in_place(file.target, _observed(function, returned)):
        try:
            result = run_lab(file.lab, parameters, seed=seed, quick=True)
        except (Exception, SystemExit) as error:  # the learner's code may raise anything
            problem = _problem(file, error)
    if result is not None and result.passed:
        note = "" if returned else f"{name} was not called"
    else:
        note = _compared(file, returned, seed)
    return ExerciseOutcome(file=file, result=result, problem=problem, note=note)


@contextmanager
def _loaded(file: ExerciseFile) -> Iterator[Callable[..., Any]]:
    """The function of a file that has been run as a module. Raises DataError for what the file raises."""
    path, name = file.path, file.target.name
    spec = spec_from_loader(NAME, _UncachedLoader(NAME, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[NAME] = module
    try:
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise DataError(f"{path} cannot be run: {_told(error)}{_at(error, path)}") from None
        if not callable(vars(module).get(name)):
            raise DataError(f"{path}: {name} is not a function any more at the end of the file")
        yield vars(module)[name]
    finally:
        del sys.modules[NAME]


def _in_place(target: ExerciseTarget, function: Callable[..., Any]) -> AbstractContextManager[None]:
    return replaced(target.owner, target.name, function)


def _observed(function: Callable[..., Any], returned: list[str], most: int | None = None) -> Callable[..., Any]:
    """The function, which notes what kind of value its first calls return; stops everything after `most` calls."""

    @functools.wraps(function)
    def observed(*positional: Any, **named: Any) -> Any:
        value = function(*positional, **named)
        if len(returned) < COMPARED:
            returned.append(described(value))
        if most is not None and len(returned) >= most:
            raise _ComparedError
        return value

    return observed


def _compared(file: ExerciseFile, returned: Sequence[str], seed: int) -> str:
    """In which of the first calls the shipped function returns another kind of value; "" for none."""
    expected: list[str] = []
    if not returned:
        return ""
    target = file.target
    with suppress(_ComparedError), _in_place(target, _observed(target.function, expected, len(returned))):
        run_lab(file.lab, seed=seed, quick=True)
    for number, (mine, own) in enumerate(zip(returned, expected, strict=False), 1):
        if mine != own:
            return f"call {number} of {target.name} returned {mine}; expected {own}"
    return ""


def described(value: object) -> str:
    """What kind of value it is: its type, and shape where it has one."""
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple) and len(value) <= 4:
        return f"({', '.join(map(described, value))})"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"


def _problem(file: ExerciseFile, error: BaseException) -> str:
    where = _at(error, file.path)
    behind = "" if where else f", behind {file.target.name}: what it returned could not be used"
    return f"the lab stopped with {_told(error)}{where}{behind}"


def _told(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}".removesuffix(": "))


def _at(error: BaseException, path: Path) -> str:
    line = line_in(error, path)
    return "" if line is None else f" ({path}, line {line})"


def line_in(error: BaseException, path: Path) -> int | None:
    """The line of a file at which an exception was raised or passed through last; None if it did not."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def count_try(folder: Path, file: ExerciseFile) -> int:
    """How many tries of this file have failed, this one among them; one that is unchanged counts once.

    They are kept in a file of `folder`. Raises StorageError.
    """
    place, key = folder / TRIES, str(file.path.resolve())
    digest = hashlib.sha256(file.path.read_bytes()).hexdigest()
    kept: Any = {}
    if place.exists():
        with suppress(DataError):
            kept = read_json(place)
    kept = kept if isinstance(kept, dict) else {}
    last = kept.get(key)
    before = last["tries"] if isinstance(last, dict) and isinstance(last.get("tries"), int) else 0
    tries = before if before and last.get("digest") == digest else before + 1
    commit_file(place, json.dumps({**kept, key: {"digest": digest, "tries": tries}}, indent=1) + "\n")
    return tries
