"""Exercises: the core of a lab as a file in which one function is to be written, or has one fault to be found.

The function is the product's own. A lab names it (`Lab.exercise`), and the file is cut from its source: imports, the
signature and the docstring stay, the body or the marked lines go. So the solution is the shipped code, and nothing has
to be marked there. A planted bug is one replacement in the same source. `headway.labs.exercise_check` runs the lab with
the function of such a file in place of its own.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.labs.frame import Lab

COLUMNS = 100  # of the text in a file
LAB, BUG = "LAB", "BUG"  # the names by which a file says what it is for
TO_WRITE = "raise NotImplementedError"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """One fault: where the function's source has `right`, the file has `wrong`."""

    right: str  # occurs once in the source
    wrong: str
    fails: str  # how the name of a check begins that then fails
    hint: str  # where to look, without saying what is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """A function that is to be written, with hints from gentle to nearly the solution, and faults to be found."""

    function: str  # of the lab's module, "forget"; or "headway.ops.positions:rotate", "module:Class.method"
    task: str  # what to write, in one or two sentences
    hints: Sequence[str]
    bugs: Sequence[PlantedBug]
    cut: tuple[str, str] | None = None  # how the first and the last line to be cut begin; None: the whole body

    def __post_init__(self) -> None:
        if len(self.hints) < 2 or not self.bugs:
            raise ValueError(f"exercise {self.function}: expected at least two hints and one bug")


@dataclass(frozen=True, slots=True)
class ExerciseTarget:
    """Where the function of an exercise is: a module or a class, and the name in it."""

    module: ModuleType
    owner: Any
    name: str

    @classmethod
    def of(cls, lab: Lab[Any], exercise: Exercise) -> ExerciseTarget:
        """The function of this lab's exercise."""
        home, _, path = exercise.function.rpartition(":")
        module = import_module(home or lab.module)
        *above, name = path.split(".")
        owner: Any = module
        for each in above:
            owner = getattr(owner, each)
        return cls(module, owner, name)

    @property
    def function(self) -> Callable[..., Any]:
        """The shipped function, with its decorators."""
        found: Callable[..., Any] = vars(self.owner)[self.name]
        return found

    @property
    def source(self) -> str:
        """Its source, at the left margin."""
        return textwrap.dedent(inspect.getsource(inspect.unwrap(self.function)))


@contextmanager
def replaced(owner: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Within this context a function stands in the place of one of a module or class.

    A module's function is also replaced wherever another module of headway has imported it by its name.
    """
    shipped = vars(owner)[name]
    owners = [owner]
    if isinstance(owner, ModuleType):
        modules = [each for home, each in [*sys.modules.items()] if home.partition(".")[0] == "headway"]
        owners += [each for each in modules if vars(each).get(name) is shipped and each is not owner]
    try:
        for each in owners:
            setattr(each, name, function)
        yield
    finally:
        for each in owners:
            setattr(each, name, shipped)


def unsolved(target: ExerciseTarget, exercise: Exercise) -> str:
    """The function with the lines cut out that are to be written."""
    lines = target.source.splitlines()
    first, last = _cut(target, exercise)
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    hole = [f"{indent}# Write what belongs here, and remove the next line.", f"{indent}{TO_WRITE}"]
    return "\n".join([*lines[:first], *hole, *lines[last + 1 :]]) + "\n"


def broken(target: ExerciseTarget, bug: PlantedBug) -> str:
    """The function with one fault."""
    source = target.source
    if source.count(bug.right) != 1:
        raise ValueError(f"{target.name}: {bug.right!r} occurs {source.count(bug.right)} times, expected once")
    return source.replace(bug.right, bug.wrong)


def _cut(target: ExerciseTarget, exercise: Exercise) -> tuple[int, int]:
    """The first and the last line that are to be written, from 0."""
    if exercise.cut is None:
        return _body(target.source)
    return _between(target.source.splitlines(), *exercise.cut)


def _body(source: str) -> tuple[int, int]:
    """The first and the last line of a function behind its docstring, from 0."""
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    assert function.end_lineno is not None
    return statements[0].lineno - 1, function.end_lineno - 1


def _between(lines: Sequence[str], first: str, last: str) -> tuple[int, int]:
    starts = [n for n, line in enumerate(lines) if line.lstrip().startswith(first)]
    ends = [n for n, line in enumerate(lines) if line.lstrip().startswith(last) and starts and n >= starts[0]]
    if len(starts) != 1 or not ends:
        raise ValueError(f"cut from {first!r} to {last!r}: {len(starts)} first and {len(ends)} last lines")
    return starts[0], ends[0]


def exercise_file(lab: Lab[Any], exercise: Exercise, file: str) -> str:
    """The text of a file in which the function is to be written."""
    target = ExerciseTarget.of(lab, exercise)
    what = f"Write {_what(lab, target)}. {exercise.task}"
    lines, (first, last) = target.source.splitlines(), _cut(target, exercise)
    head = lines[: _body(target.source)[0]]  # names of its arguments' types
    given = given_names(target, "\n".join([*head, *lines[first : last + 1]]))
    marks = f'{LAB} = "{lab.name}"  # which checks this file'
    return _file(lab, target, what, given, file, unsolved(target, exercise), marks)


def bug_file(lab: Lab[Any], exercise: Exercise, file: str, number: int) -> str:
    """The text of a file in which the function has one fault: bug `number`, counted round and round."""
    target, number = ExerciseTarget.of(lab, exercise), number % len(exercise.bugs)
    what = f"One thing is wrong in {_what(lab, target)}. Find it, and put it right."
    marks = f'{LAB} = "{lab.name}"  # which checks this file\n{BUG} = {number}'
    return _file(
        lab, target, what, given_names(target, target.source), file, broken(target, exercise.bugs[number]), marks
    )


def _what(lab: Lab[Any], target: ExerciseTarget) -> str:
    of = (
        f"the method `{target.name}` of {target.owner.__name__}"
        if inspect.isclass(target.owner)
        else f"`{target.name}`"
    )
    return of if target.module.__name__ == lab.module else f"{of} of {target.module.__name__}"


def _file(
    lab: Lab[Any], target: ExerciseTarget, what: str, given: Sequence[str], file: str, source: str, marks: str
) -> str:
    slides = ", ".join(map(str, lab.slides))
    listed = [textwrap.fill(each, COLUMNS, initial_indent=" " * 4, subsequent_indent=" " * 8) for each in given]
    paragraphs = [
        f"Lab {lab.name}: {lab.title}.",
        f"Claim: {lab.claim}",
        f"Slides: {slides}.",
        what,
        *(["Given:\n\n" + "\n".join(listed)] if listed else []),
        f"Then run\n\n    headway lab check {file}\n\nIt runs the quick version of the lab with this function in place"
        " of its own. Each new try that fails gets one more hint; `--hint N` gives the first N at once.",
    ]
    text = "\n\n".join(_wrapped(each) for each in paragraphs)
    imports = "\n".join(imports_for(target, target.source))  # also what the solution needs
    return f'"""{text}\n"""\n\nfrom __future__ import annotations\n\n{imports}\n\n{marks}\n\n\n{source}'


def _wrapped(text: str) -> str:
    """Lines of a paragraph; indented lines stay as they are."""
    parts = text.split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else textwrap.fill(part, COLUMNS) for part in parts)


def free_names(source: str) -> set[str]:
    """The names that a function takes from its module, those of its annotations and decorators among them."""

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        outermost = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_global() or (outermost and symbol.is_referenced()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return {*walk(symtable.symtable(source, "exercise", "exec"))} - {function.name}


def given_names(target: ExerciseTarget, text: str) -> list[str]:
    """What of headway is used in this text: functions with arguments and first sentence, classes, constants."""
    used = {*re.findall(r"\w+", text)}
    found = []
    if inspect.isclass(target.owner):
        found.append(f"self, of the class {_described(target.owner)}")
    for name in sorted(free_names(target.source) & used & {*vars(target.module)}):
        value = vars(target.module)[name]
        of_headway = str(getattr(value, "__module__", "")).partition(".")[0] == "headway"
        constant = isinstance(value, int | float | str | tuple | list | dict)
        if name.isupper() and constant and " at 0x" not in repr(value):  # no addresses of functions
            found.append(f"{name} = {textwrap.shorten(repr(value), 2 * COLUMNS, placeholder=' …')}")
        elif of_headway and inspect.isfunction(value):
            found.append(f"{name}({', '.join(inspect.signature(value).parameters)}): {_first_paragraph(value)}")
        elif of_headway and inspect.isclass(value) and value is not target.owner:
            found.append(_described(value))
    return found


def _described(owner: type) -> str:
    """A class: its name, what it is, and its fields where it has some."""
    fields = ", ".join(each.name for each in dataclasses.fields(owner)) if dataclasses.is_dataclass(owner) else ""
    return f"{owner.__name__}: {_first_paragraph(owner)}" + (f" Fields: {fields}." if fields else "")


def _first_paragraph(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


def imports_for(target: ExerciseTarget, source: str) -> list[str]:
    """The import statements that make a function of this module work in a file of its own."""
    wanted = free_names(source)
    taken: dict[str, set[str]] = {}  # from module import names
    whole: set[str] = set()  # import module
    for node in ast.walk(ast.parse(inspect.getsource(target.module))):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if bound not in wanted:
                continue
            wanted = wanted - {bound}
            said = alias.name if alias.asname in (None, alias.name) else f"{alias.name} as {alias.asname}"
            if isinstance(node, ast.Import):
                whole.add(f"import {said}")
            elif node.module != "__future__":
                taken.setdefault(str(node.module), set()).add(said)
    own = {name for name in wanted if name in vars(target.module)}
    if own:
        taken.setdefault(target.module.__name__, set()).update(own)
    statements = [*sorted(whole), *(_from(module, names) for module, names in sorted(taken.items()))]
    groups = [[each for each in statements if _group(each) == group] for group in range(3)]
    return "\n\n".join("\n".join(group) for group in groups if group).split("\n")


def _from(module: str, names: set[str]) -> str:
    line = f"from {module} import {', '.join(sorted(names))}"
    if len(line) <= COLUMNS:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in sorted(names)), ")"])


def _group(statement: str) -> int:
    """0 for the standard library, 2 for headway, 1 for the rest."""
    package = statement.split()[1].partition(".")[0]
    return 0 if package in sys.stdlib_module_names else 2 if package == "headway" else 1


def expect_exercise(lab: Lab[Any]) -> Exercise:
    """The exercise of a lab. Raises ConfigError where there is none."""
    from headway.errors import ConfigError

    if lab.exercise is None:
        raise ConfigError(f"lab {lab.name} has no exercise")
    return lab.exercise


def default_name(lab: Lab[Any], *, bug: bool) -> str:
    """The file that is written where none is named, in the current folder."""
    return f"{Path(lab.module.replace('.', '/')).name}_{'bug' if bug else 'exercise'}.py"
