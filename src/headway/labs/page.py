"""The course as one HTML page: every claim, figure, table, check and time. It loads nothing and runs no script."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from headway import __version__
from headway.labs.course import LabRecord
from headway.labs.frame import CHAPTERS, written
from headway.labs.slide_index import class_questions
from headway.training.quantities import duration

# Words that several labs use, for readers of nothing but the page.
WORDS = {
    "nats": "the unit of losses and entropies with the natural logarithm; one nat is 1.44 bits",
    "R²": "the share of the variance of a quantity that is told by another; 1 is all, 0 nothing",
    "deviation": "standard deviation; root mean square distance from the mean",
    "one-hot": "a vector with a single 1, all else 0",
    "trace": "the sum of a matrix's diagonal",
    "equivariant, invariant": "reordered inputs give outputs in the same new order, or outputs that do not change",
    "pre-norm, post-norm": "a residual block that normalises what its branch reads, or the sum behind it",
    "seed": "the number from which everything random is drawn: the same seed gives the same numbers again",
    "chance": "how often a guess is right",
}
_STYLE = (Path(__file__).parent / "course.css").read_text()
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'sha256-{digest}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>The course of headway {version}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#labs">Skip to the labs</a>
<header>
<h1>The course</h1>
<p class="claim">Each lab takes one claim of the lecture decks, measures it, and says whether it holds.</p>
<p>{result}</p>
<p class="soft">headway {version}, seed {seed}{quick}; {time} in all on this machine.</p>
</header>
<nav aria-label="Chapters"><ol>
{contents}
</ol></nav>
{questions}
{words}
<main id="labs">
{chapters}
</main>
</body>
</html>
"""


def course_page(records: Sequence[LabRecord], folder: Path, *, seed: int, quick: bool, total: int) -> str:
    """The page of these labs, whose figures lie in `folder`."""
    checks = [check for record in records for check in record.values.get("checks", ())]
    wrong = sum(not check["passed"] for check in checks)
    errors = [record for record in records if record.error]
    said = [f'<span class="bad">{wrong} of {len(checks)} checks failed</span>'] if wrong else []
    said += [f'<span class="bad">{len(errors)} labs ended with an error</span>'] if errors else []
    said = said or [f'<span class="good">All {len(checks)} checks hold</span>']
    by_chapter = [(number, [*found]) for number, found in groupby(_ordered(records), key=lambda each: each.lab.chapter)]
    return _PAGE.format(
        digest=base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode(),
        style=_STYLE,
        version=escape(__version__),
        result=f"{', '.join(said)} in {len(records)} of {total} labs.",
        seed=seed,
        quick=", quick versions" if quick else "",
        time=duration(sum(record.values.get("seconds", 0.0) for record in records)),
        contents="\n".join(_contents(number, found) for number, found in by_chapter),
        questions=_questions([record.lab.name for record in records]),
        words=_words(),
        chapters="\n".join(
            f'<h2 id="chapter-{number}">{number} {escape(CHAPTERS[number])}</h2>\n'
            + "\n".join(_article(record, folder) for record in found)
            for number, found in by_chapter
        ),
    )


def _ordered(records: Sequence[LabRecord]) -> list[LabRecord]:
    return sorted(records, key=lambda record: record.lab.chapter)  # stable: the registry's order within a chapter


def _contents(number: int, records: Sequence[LabRecord]) -> str:
    items = "".join(
        f'<li><a href="#{escape(each.lab.name)}">{escape(each.lab.name)}</a>'
        f" {_mark(each.passed, 'holds' if each.passed else 'fails')}</li>"
        for each in records
    )
    return f'<li value="{number}"><a href="#chapter-{number}">{escape(CHAPTERS[number])}</a><ul>{items}</ul></li>'


def _questions(there: Sequence[str]) -> str:
    """The questions of the decks to their class, with links to those of these labs whose numbers answer them."""
    items = []
    for asked in class_questions():
        labs = [name for name in asked.labs if name in there]
        if labs:
            links = ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in labs)
            items.append(
                f'<li>{escape(asked.question)} <span class="soft">(deck {asked.deck}, line {asked.line})</span><br>'
                f"{links}: {escape(asked.look)}</li>"
            )
    if not items:
        return ""
    return (
        '<section aria-label="Questions to the class"><details><summary>Questions that the decks ask their class, and'
        " where the numbers are that answer them</summary>\n<ol>\n" + "\n".join(items) + "\n</ol></details></section>"
    )


def _words() -> str:
    items = "".join(f"<dt>{escape(word)}</dt><dd>{escape(said)}</dd>" for word, said in WORDS.items())
    return (
        '<section aria-label="Words"><details><summary>Words that the labs use</summary>\n'
        f"<dl>{items}</dl></details></section>"
    )


def _article(record: LabRecord, folder: Path) -> str:
    lab, values = record.lab, record.values
    slides = ", ".join(map(str, lab.slides))
    parts = [
        f'<article id="{escape(lab.name)}" aria-labelledby="{escape(lab.name)}-title">',
        f'<h3 id="{escape(lab.name)}-title">{escape(lab.name)}: {escape(lab.title)}</h3>',
        f'<p class="claim">{escape(lab.claim)}</p>',
        f'<p class="soft">Slides: {escape(slides)}. Run it: <code>headway lab {escape(lab.name)}</code></p>',
    ]
    if record.error:
        parts.append(f'<p class="bad">The lab ended with an error: {escape(record.error)}</p>')
    else:
        parts += [_figure(name, alt, folder) for name, alt in values["figures"].items()]
        parts += [f"<p>{escape(note)}</p>" for note in values["notes"]]
        parts += [_table(lab.name, table) for table in values["tables"]]
        parts.append(_checks(lab.name, values["checks"]))
        took = f"{values['seconds']:.1f} s ({values['cpu_seconds']:.1f} s of CPU)"
        parts.append(f'<p class="soft">Took {took}, seed {values["seed"]}.</p>')
    return "\n".join([*parts, "</article>"])


def _figure(name: str, alt: str, folder: Path) -> str:
    data = (folder / f"{name}.png").read_bytes()
    width, height = struct.unpack(">II", data[16:24])  # of the header, so that the page does not jump while it loads
    source = base64.b64encode(data).decode()
    return (
        f'<figure><div class="wide" role="region" aria-label="Figure {escape(name)}" tabindex="0">'
        f'<img src="data:image/png;base64,{source}" width="{width}" height="{height}" loading="lazy" decoding="async"'
        f' alt="{escape(alt)}"></div>'
        f"<figcaption>{escape(alt)}</figcaption></figure>"
    )


def _table(lab: str, table: Mapping[str, Any]) -> str:
    number = [
        bool(table["rows"]) and all(isinstance(row[at], int | float) for row in table["rows"])
        for at in range(len(table["header"]))
    ]
    head = "".join(
        f'<th scope="col"{_class(is_number)}>{escape(str(name))}</th>'
        for name, is_number in zip(table["header"], number, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + f'<th scope="row"{_class(number[0])}>{escape(written(row[0]))}</th>'
        + "".join(
            f"<td{_class(is_number)}>{escape(written(cell))}</td>"
            for cell, is_number in zip(row[1:], number[1:], strict=True)
        )
        + "</tr>"
        for row in table["rows"]
    )
    note = f'<p class="soft">{escape(table["note"])}</p>' if table["note"] else ""
    title = table["title"]
    return f"<h4>{escape(title)}</h4>\n{_wide(f'{lab}: {title}', head, rows)}{note}"


def _checks(lab: str, checks: Sequence[Mapping[str, Any]]) -> str:
    head = '<th scope="col">check</th><th scope="col" class="number">measured</th><th scope="col">bound</th>'
    head += '<th scope="col">holds</th>'
    rows = "\n".join(
        f'<tr><th scope="row">{escape(each["name"])}</th><td class="number">{escape(written(each["measured"]))}</td>'
        f"<td>{escape(each['bound'])}</td><td>{_mark(each['passed'])}</td></tr>"
        for each in checks
    )
    return f"<h4>Checks</h4>\n{_wide(f'{lab}: checks', head, rows)}"


def _wide(title: str, head: str, rows: str) -> str:
    """A table that scrolls sideways on its own where the window is narrow."""
    return (
        f'<div class="wide" role="region" aria-label="{escape(title)}" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _mark(passed: bool, word: str = "") -> str:
    kind, sign = ("good", "✓ " + (word or "yes")) if passed else ("bad", "✗ " + (word or "no"))
    return f'<span class="{kind}">{sign}</span>'
