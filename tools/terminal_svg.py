"""Draws an asciinema recording (version 2) as an animated SVG: one file, CSS alone, no script and no font of its own.

`Screen` is the part of a terminal that headway's output needs; `frames` plays a recording on it, `draw` lays the frames
side by side and lets a CSS animation step through them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

CELL, LINE, SIZE = 8.4, 18, 14  # pixels: width of a character, height of a line, size of the font
MARGIN, BAR = 16, 34  # around the text, and the title above it
BACKGROUND, BORDER, FOREGROUND, FAINT = "#11151c", "#2b3340", "#d5dbe5", "#8b95a5"
PALETTE = (
    "#4b5565", "#ef6b73", "#8ccf7e", "#e5c76b", "#67b0e8", "#c47fd5", "#6cbfbf", "#d5dbe5",
    "#6b7688", "#ff8f96", "#a8e39b", "#f2db92", "#8fcaf5", "#dba2ea", "#93d8d8", "#ffffff",
)  # fmt: skip
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
ENDING = 4.0  # seconds the last frame stays before the film begins again


@dataclass(frozen=True, slots=True)
class Style:
    """How a character is written; a colour is an index of 256, "#rrggbb", or None for the default."""

    colour: int | str | None = None
    behind: int | str | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underlined: bool = False
    reverse: bool = False


PLAIN = Style()
Cell = tuple[str, Style]
Row = tuple[Cell, ...]
_SEQUENCE = re.compile(r"\x1b(?:\[([?<>=]?)([0-9;:]*)([@-~])|\]([^\x07\x1b]*)(?:\x07|\x1b\\)|([()][0-9A-B]|[=>78M]))")
_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underlined", 7: "reverse"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underlined",), 27: ("reverse",)}


class Screen:
    """The cells of a terminal. Raises ValueError for a control sequence that it does not know."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.rows = [self._blank() for _ in range(height)]
        self.x = self.y = 0
        self.style, self.cursor = PLAIN, True
        self.rest = ""  # a control sequence whose end has not come yet

    def _blank(self) -> list[Cell]:
        return [(" ", PLAIN)] * self.width

    def feed(self, text: str) -> None:
        """Write a text as a terminal would."""
        text, self.rest, at = self.rest + text, "", 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
                continue
            found = _SEQUENCE.match(text, at)
            if found is None:
                if len(text) - at > 200:
                    raise ValueError(f"unknown control sequence {text[at : at + 20]!r}")
                self.rest = text[at:]
                return
            self._obey(found)
            at = found.end()

    def _put(self, char: str) -> None:
        if char == "\n":
            self._down()
        elif char == "\r":
            self.x = 0
        elif char == "\b":
            self.x = max(self.x - 1, 0)
        elif char == "\t":
            self.x = min((self.x // 8 + 1) * 8, self.width - 1)
        elif char != "\x07":
            if not char.isprintable():
                raise ValueError(f"unknown control character {char!r}")
            if self.x == self.width:  # a line that is full wraps at its next character, not before
                self.x = 0
                self._down()
            self.rows[self.y][self.x] = (char, self.style)
            self.x += 1

    def _down(self) -> None:
        if self.y + 1 < self.height:
            self.y += 1
        else:
            self.rows = [*self.rows[1:], self._blank()]

    def _obey(self, found: re.Match[str]) -> None:
        private, numbers, final = found[1], found[2], found[3]
        if final is None:  # a title, a character set: nothing that is drawn
            return
        given = [int(each or 0) for each in re.split("[;:]", numbers)] if numbers else []
        first = given[0] if given else 0
        count = max(first, 1)
        if private:
            if final in "hl" and given == [25]:
                self.cursor = final == "h"
        elif final == "m":
            self._restyle(given or [0])
        elif final in "ABCDG":
            self._move(final, count)
        elif final in "Hf":
            column = given[1] if len(given) > 1 else 1
            self.y, self.x = min(count, self.height) - 1, min(max(column, 1), self.width) - 1
        elif final == "K":
            begin, end = {0: (self.x, self.width), 1: (0, self.x + 1), 2: (0, self.width)}[first]
            self.rows[self.y][begin:end] = self._blank()[begin:end]
        elif final == "J":
            cleared = {0: range(self.y + 1, self.height), 1: range(self.y), 2: range(self.height)}[first]
            for row in cleared:
                self.rows[row] = self._blank()
            if first == 0:
                self.rows[self.y][self.x :] = self._blank()[self.x :]
        else:
            raise ValueError(f"unknown control sequence {found[0]!r}")

    def _move(self, final: str, count: int) -> None:
        if final in "AB":
            self.y = min(max(self.y + (count if final == "B" else -count), 0), self.height - 1)
        elif final == "G":
            self.x = min(count, self.width) - 1
        else:
            self.x = min(max(self.x + (count if final == "C" else -count), 0), self.width - 1)

    def _restyle(self, codes: list[int]) -> None:
        waiting = iter(codes)
        for code in waiting:
            if code == 0:
                self.style = PLAIN
            elif code in _FLAGS:
                self.style = replace(self.style, **{_FLAGS[code]: True})
            elif code in _OFF:
                self.style = replace(self.style, **dict.fromkeys(_OFF[code], False))
            elif code in (38, 48):
                self.style = replace(self.style, **{"colour" if code == 38 else "behind": _extended(waiting)})
            elif code in (39, 49):
                self.style = replace(self.style, **{"colour" if code == 39 else "behind": None})
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.style = replace(self.style, colour=code - 30 if code < 90 else code - 82)
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self.style = replace(self.style, behind=code - 40 if code < 100 else code - 92)
            else:
                raise ValueError(f"unknown style {code}")

    def snapshot(self) -> Frame:
        """The screen as it is, without the empty cells at the end of each line."""
        rows = []
        for row in self.rows:
            used = len(row)
            while used and row[used - 1] == (" ", PLAIN):
                used -= 1
            rows.append(tuple(row[:used]))
        return Frame(0.0, tuple(rows), (self.x, self.y) if self.cursor else None)

    def text(self) -> str:
        """The characters alone."""
        return "\n".join("".join(char for char, _ in row).rstrip() for row in self.rows).rstrip()


def _extended(codes: Iterator[int]) -> int | str:
    """A colour of 256, or one in red, green and blue."""
    if next(codes) == 5:
        return next(codes)
    return f"#{next(codes):02x}{next(codes):02x}{next(codes):02x}"


def _hex(colour: int | str) -> str:
    """A colour as CSS writes it."""
    if isinstance(colour, str):
        return colour
    if colour < 16:
        return PALETTE[colour]
    if colour >= 232:
        return "#" + f"{8 + 10 * (colour - 232):02x}" * 3
    levels = (0, 95, 135, 175, 215, 255)
    cube = colour - 16
    return "#" + "".join(f"{levels[cube // step % 6]:02x}" for step in (36, 6, 1))


# --- recordings ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """What the screen shows from a moment on: its rows, and where the cursor is."""

    time: float
    rows: tuple[Row, ...]
    cursor: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Recording:
    """An asciinema recording: the size of the terminal, a title, and what was written when."""

    width: int
    height: int
    title: str
    events: tuple[tuple[float, str], ...]

    def write(self, path: Path) -> None:
        """Write the file that `asciinema play` plays."""
        head = {"version": 2, "width": self.width, "height": self.height, "title": self.title}
        lines = [json.dumps(head)]
        lines += [json.dumps([round(at, 3), "o", text], ensure_ascii=False) for at, text in self.events]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read such a file."""
        head, *lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        return cls(head["width"], head["height"], head["title"], tuple((at, text) for at, _, text in lines))


def frames(recording: Recording) -> list[Frame]:
    """What is shown, one frame for each change."""
    screen, found = Screen(recording.width, recording.height), [Frame(0.0, ((),) * recording.height, (0, 0))]
    for at, text in recording.events:
        screen.feed(text)
        now = replace(screen.snapshot(), time=at)
        if (now.rows, now.cursor) != (found[-1].rows, found[-1].cursor):
            if at <= found[-1].time:
                found.pop()
            found.append(now)
    return found


# --- the drawing ---------------------------------------------------------------------------------------------------


def draw(recording: Recording) -> str:
    """The animation as SVG. Who asked for less motion sees the last frame."""
    shown = frames(recording)
    wide, high = _size(recording)
    duration = shown[-1].time + ENDING
    numbers: dict[Row, int] = {}
    for frame in shown:
        for row in frame.rows:
            if row:
                numbers.setdefault(row, len(numbers))
    steps = "".join(
        f"{100 * f.time / duration:.3f}%{{transform:translateX({-wide * n}px)}}" for n, f in enumerate(shown)
    )
    last = f"transform:translateX({-wide * (len(shown) - 1)}px)"
    style = (
        f"text{{font:{SIZE}px {FONT};fill:{FOREGROUND};white-space:pre}}.b{{font-weight:bold}}.i{{font-style:italic}}"
        f".d{{opacity:.65}}.u{{text-decoration:underline}}"
        f"#film{{animation:play {duration:.2f}s steps(1,end) infinite}}@keyframes play{{{steps}100%{{{last}}}}}"
        f"@media(prefers-reduced-motion:reduce){{#film{{animation:none;{last}}}}}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        'role="img" xml:space="preserve">',
        f"<title>{escape(recording.title)}</title>",
        f"<style>{style}</style>",
        "<defs>",
        *(f'<g id="r{number}">{_row(row)}</g>' for row, number in numbers.items()),
        f'<rect id="c" width="{CELL}" height="{LINE}" fill="{FOREGROUND}" opacity=".55"/>',
        "</defs>",
        f'<rect x=".5" y=".5" width="{wide - 1}" height="{high - 1}" rx="9" fill="{BACKGROUND}" stroke="{BORDER}"/>',
        *(f'<circle cx="{20 + 18 * n}" cy="17" r="5.5" fill="{_hex(c)}"/>' for n, c in enumerate((1, 3, 2))),
        f'<text x="80" y="22" style="font-size:12px;fill:{FAINT}">{escape(recording.title)}</text>',
        f'<svg x="0" y="{BAR}" width="{wide}" height="{high - BAR}" overflow="hidden"><g id="film">',
        *(_frame(frame, numbers, wide * n) for n, frame in enumerate(shown)),
        "</g></svg>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _size(recording: Recording) -> tuple[int, int]:
    return round(recording.width * CELL + 2 * MARGIN), recording.height * LINE + BAR + MARGIN


def _frame(frame: Frame, numbers: dict[Row, int], left: int) -> str:
    used = "".join(f'<use href="#r{numbers[row]}" y="{LINE * y}"/>' for y, row in enumerate(frame.rows) if row)
    if frame.cursor is not None:
        x, y = frame.cursor
        used += f'<use href="#c" x="{CELL * x + MARGIN:.1f}" y="{LINE * y}"/>'
    return f'<g transform="translate({left})">{used}</g>'


def _row(row: Row) -> str:
    """A line, each stretch of one style set to its width, so that columns stay in line in any font."""
    parts, begin = [], 0
    for end in range(1, len(row) + 1):
        if end < len(row) and row[end][1] == row[begin][1]:
            continue
        parts.append(_stretch("".join(char for char, _ in row[begin:end]), row[begin][1], begin))
        begin = end
    return "".join(parts)


def _stretch(text: str, style: Style, column: int) -> str:
    colour, behind = (style.behind, style.colour) if style.reverse else (style.colour, style.behind)
    fill = BACKGROUND if style.reverse and colour is None else None if colour is None else _hex(colour)
    back = FOREGROUND if style.reverse and behind is None else None if behind is None else _hex(behind)
    drawn = ""
    if back is not None:
        width = CELL * len(text)
        drawn = f'<rect x="{MARGIN + CELL * column:.1f}" width="{width:.1f}" height="{LINE}" fill="{back}"/>'
    bare = text.rstrip(" ")
    lead = len(bare) - len(bare.lstrip(" "))
    bare = bare.lstrip(" ")
    if not bare:
        return drawn
    flags = (("b", style.bold), ("d", style.dim), ("i", style.italic), ("u", style.underlined))
    names = " ".join(name for name, on in flags if on)
    more = (f' class="{names}"' if names else "") + ("" if fill is None else f' style="fill:{fill}"')
    place = f'x="{MARGIN + CELL * (column + lead):.1f}" y="14" textLength="{CELL * len(bare):.1f}"'
    return f'{drawn}<text {place} lengthAdjust="spacingAndGlyphs"{more}>{escape(bare, quote=False)}</text>'
