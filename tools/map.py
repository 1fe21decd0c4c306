"""Draws docs/map.svg, a map of the packages, and writes the table of packages in docs/architecture.md.

Both are made from the source: the modules of each package, its docstring, and its imports (those that only a type
checker follows are left out). `PLAN` says where a package is drawn; a package may import only what is drawn below it.
`--check` only compares.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path

from tools.generated import DOCS, replace_part, write_or_check

SOURCE = DOCS.parent / "src" / "headway"
PICTURE = DOCS / "map.svg"
PAGE = DOCS / "architecture.md"
BEGIN, END = "<!-- written by `make map` -->", "<!-- end of the written part -->"
FOUNDATION = "foundation"  # the single modules beside the packages, drawn as one room


@dataclass(frozen=True, slots=True)
class Place:
    """Where a room is drawn: rows from the top and columns from the left, the last ones not included."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    colour: str


USE, RUN, WORK, MODEL, DATA, BASE = "#fde8d7", "#fbe3ea", "#e6e2f7", "#dcebfa", "#dff2e3", "#eceff1"
COLUMNS = 12
PLAN = {
    "cli": Place((0, 1), (0, 12), USE),
    "serving": Place((1, 2), (0, 3), USE),
    "labs": Place((1, 2), (3, 6), USE),
    "bench": Place((1, 2), (6, 9), USE),
    "reliability": Place((1, 2), (9, 12), USE),
    "presets": Place((2, 3), (0, 12), RUN),
    "estimate": Place((3, 4), (0, 12), RUN),
    "runs": Place((4, 5), (0, 12), RUN),
    "training": Place((5, 7), (0, 3), WORK),
    "inspection": Place((5, 7), (3, 7), WORK),
    "verification": Place((5, 6), (7, 12), WORK),
    "interop": Place((6, 7), (7, 12), WORK),
    "tasks": Place((7, 8), (0, 12), WORK),
    "decoding": Place((8, 9), (0, 7), MODEL),
    "models": Place((9, 10), (0, 7), MODEL),
    "nn": Place((10, 11), (0, 7), MODEL),
    "ops": Place((11, 12), (0, 7), MODEL),
    "plots": Place((8, 9), (7, 12), DATA),
    "metrics": Place((9, 10), (7, 12), DATA),
    "data": Place((10, 12), (7, 12), DATA),
    "storage": Place((12, 13), (0, 4), BASE),
    FOUNDATION: Place((12, 13), (4, 12), BASE),
}


@dataclass(slots=True)
class Room:
    """A package, or the modules beside them: what it is for, what is in it, and what it imports."""

    name: str
    about: str
    contents: list[str]  # modules, and packages with a slash
    imports: set[str] = field(default_factory=set)


def room_of(module: str) -> str:
    """The room of a module of headway, by its dotted name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (SOURCE / parts[1]).is_dir() else FOUNDATION


@cache
def rooms() -> dict[str, Room]:
    """Every package of headway by name, in the order of the plan. Raises ValueError for one that has no place in it."""
    packages = sorted(each.name for each in SOURCE.iterdir() if (each / "__init__.py").exists())
    if missing := [name for name in packages if name not in PLAN]:
        raise ValueError(f"tools/map.py: no place in PLAN for {', '.join(missing)}")
    alone = sorted(each.stem for each in SOURCE.glob("*.py") if not each.stem.startswith("__"))
    found = {FOUNDATION: Room(FOUNDATION, "Modules that every package may import.", alone)}
    for name in packages:
        found[name] = Room(name, _about(SOURCE / name / "__init__.py"), list(_contents(SOURCE / name)))
    for path in SOURCE.rglob("*.py"):
        module = ".".join(("headway", *path.relative_to(SOURCE).with_suffix("").parts))
        if path.parent != SOURCE or not path.stem.startswith("__"):
            own = room_of(module)
            found[own].imports |= {room_of(other) for other in imported(path.read_text())} - {own}
    return {name: found[name] for name in PLAN if name in found}


def imported(source: str) -> set[str]:
    """The modules of headway that a source imports when it is run, at its top or inside a function."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in node.orelse:
                visit(each)
            return
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "headway":
            found.update([node.module] if "." in node.module else [f"headway.{each.name}" for each in node.names])
        elif isinstance(node, ast.Import):
            found.update(each.name for each in node.names if each.name.startswith("headway."))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return found - {"headway.__version__"}


def _about(file: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    return " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0].split())


def _contents(folder: Path) -> Iterator[str]:
    """The modules of a package, then its packages with a slash."""
    yield from sorted(each.stem for each in folder.glob("*.py") if each.stem != "__init__")
    yield from sorted(f"{each.name}/" for each in folder.iterdir() if (each / "__init__.py").exists())


def upward() -> list[str]:
    """The imports that do not go down in the plan, "nn imports models"; an empty list is right."""
    return [
        f"{room.name} imports {other}"
        for room in rooms().values()
        for other in sorted(room.imports)
        if PLAN[other].rows[0] < PLAN[room.name].rows[1] and other != FOUNDATION
    ]


# --- the picture ----------------------------------------------------------------------------------------------------

WIDTH, MARGIN, GAP, PADDING = 1200, 24, 26, 14
TITLE, TEXT, SMALL = 18, 13, 11.5  # font sizes
LINE = 1.42  # line height over font size
SANS = "font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\""
MONO = "font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\""
INK, FAINT = "#1d2733", "#52606d"
HEAD = 64  # room for the heading


def wrapped(words: list[str], width: float, size: float, *, mono: bool = False) -> list[str]:
    """Words in lines that fit a width in pixels, by an estimate of the width of a letter."""
    letter = size * (0.61 if mono else 0.53)
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if len(longer) * letter > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


@dataclass(frozen=True, slots=True)
class Drawn:
    """The lines of text in a room."""

    title: str
    about: list[str]
    contents: list[str]
    imports: list[str]

    @property
    def height(self) -> float:
        """What they need, with the space around them."""
        lines = len(self.about) * TEXT + (len(self.contents) + len(self.imports)) * SMALL
        return 2 * PADDING + TITLE * 1.2 + lines * LINE + (8 if self.contents else 0) + (6 if self.imports else 0)


def _drawn(room: Room, width: float) -> Drawn:
    inside = width - 2 * PADDING
    imports = [name for name in rooms() if name in room.imports]
    return Drawn(
        room.name,
        wrapped(room.about.replace("`", "").split(), inside, TEXT),
        wrapped(room.contents, inside, SMALL, mono=True),
        wrapped(["imports", *", ".join(imports).split()], inside, SMALL) if imports else [],
    )


def picture() -> str:
    """The map as SVG."""
    unit = (WIDTH - 2 * MARGIN + GAP) / COLUMNS

    def across(place: Place) -> tuple[float, float]:
        left, right = place.columns
        return MARGIN + left * unit, (right - left) * unit - GAP

    texts = {name: _drawn(room, across(PLAN[name])[1]) for name, room in rooms().items()}
    tops = _tops({name: text.height for name, text in texts.items()})
    boxes = {}
    for name in texts:
        (x, width), (first, last) = across(PLAN[name]), PLAN[name].rows
        boxes[name] = (x, tops[first], width, tops[last] - tops[first] - GAP)
    height = tops[-1] - GAP + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img" aria-label="Map of the packages of headway">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{FAINT}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>',
        _line(MARGIN, MARGIN + 14, 20, "headway: its packages, and what imports what", INK, bold=True),
        _line(
            MARGIN, MARGIN + 36, TEXT, "A package imports only what stands below it. An arrow: the upper of two "
            "neighbours imports the lower; each room lists all its imports.", FAINT
        ),
    ]  # fmt: skip
    for name, (x, y, width, tall) in boxes.items():
        parts += _room(texts[name], x, y, width, tall, PLAN[name].colour)
    parts += _arrows(boxes)
    return "\n".join([*parts, "</svg>", ""])


def _tops(heights: dict[str, float]) -> list[float]:
    """Where each row begins, and where the last one ends: a row is as tall as its tallest room."""
    count = max(place.rows[1] for place in PLAN.values())
    tall = [0.0] * count
    for name, height in sorted(heights.items(), key=lambda each: PLAN[each[0]].rows[1] - PLAN[each[0]].rows[0]):
        first, last = PLAN[name].rows
        missing = height + GAP - sum(tall[first:last])
        for row in range(first, last):
            tall[row] += max(0.0, missing) / (last - first)
    tops = [float(HEAD + MARGIN)]
    for each in tall:
        tops.append(tops[-1] + each)
    return tops


def _room(text: Drawn, x: float, y: float, width: float, height: float, colour: str) -> Iterator[str]:
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8" fill="{colour}" '
        'stroke="#9aa5b1" stroke-width="1"/>'
    )
    left, at = x + PADDING, y + PADDING + TITLE * 0.8
    yield _line(left, at, TITLE, text.title, INK, bold=True)
    at += TITLE * 0.4
    for line in text.about:
        at += TEXT * LINE
        yield _line(left, at - TEXT * 0.3, TEXT, line, INK)
    at += 8
    for line in text.contents:
        at += SMALL * LINE
        yield _line(left, at - SMALL * 0.3, SMALL, line, FAINT, mono=True)
    at = y + height - PADDING - (len(text.imports) - 1) * SMALL * LINE
    for line in text.imports:
        yield _line(left, at, SMALL, line, "#7a3e00")
        at += SMALL * LINE


def _line(x: float, y: float, size: float, text: str, colour: str, *, bold: bool = False, mono: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    letters = MONO if mono else SANS
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" {letters}{weight}>{escape(text)}</text>'


def _arrows(boxes: dict[str, tuple[float, float, float, float]]) -> Iterator[str]:
    """An arrow between each two rooms that touch, from the upper to the lower one it imports."""
    for name, room in rooms().items():
        x, y, width, height = boxes[name]
        for other in sorted(room.imports):
            left, top, wide, _ = boxes[other]
            if PLAN[other].rows[0] == PLAN[name].rows[1]:
                begin, end = max(x, left), min(x + width, left + wide)
                if begin < end:
                    middle = (begin + end) / 2
                    yield (
                        f'<line x1="{middle:.1f}" y1="{y + height + 3:.1f}" x2="{middle:.1f}" y2="{top - 3:.1f}" '
                        f'stroke="{FAINT}" stroke-width="1.6" marker-end="url(#tip)"/>'
                    )


# --- the table ------------------------------------------------------------------------------------------------------


def table() -> str:
    """A row for each package: what it is for and what it imports."""
    lines = ["| package | what it is for | imports |", "| --- | --- | --- |"]
    for room in rooms().values():
        name = ", ".join(f"`{each}.py`" for each in room.contents) if room.name == FOUNDATION else f"`{room.name}`"
        imports = ", ".join(other for other in rooms() if other in room.imports)
        lines.append(f"| {name} | {room.about} | {imports} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """A page with the table between its markers."""
    return replace_part(page, BEGIN, END, table())


if __name__ == "__main__":
    sys.exit(write_or_check({PICTURE: picture(), PAGE: written(PAGE.read_text(encoding="utf-8"))}, "make map"))
