"""A lab as a Jupyter notebook: claim and slides as text, code that runs it, then its tables, figures and checks.

The file is JSON of nbformat 4.5 without outputs: running the cells makes them. In a notebook the tables, figures and
checks of a lab show themselves (`_repr_html_`, `_repr_png_`); `display` is a name that every notebook has.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from importlib import import_module
from typing import Any

from headway.labs.frame import CHAPTERS, Lab, flag


def notebook(lab: Lab[Any], parameters: Any, *, seed: int, quick: bool) -> str:
    """The text of an .ipynb file."""
    story = inspect.cleandoc(import_module(lab.module).__doc__ or "")
    slides = ", ".join(map(str, lab.slides))
    cells = [
        _text(
            f"# {lab.name}: {lab.title}\n\nChapter {lab.chapter}, {CHAPTERS[lab.chapter]}.\n\n"
            f"**Claim.** {lab.claim}\n\nSlides: {slides}."
        ),
        _text(story),
        _text("## Run it\n\n" + _flags(lab)),
        _code(
            "from headway.labs.frame import run_lab\nfrom headway.labs.registry import LABS\n\n"
            f'lab = LABS["{lab.name}"]\n{_made(lab, parameters)}\n'
            f"result = run_lab(lab, parameters, seed={seed}, quick={quick})\n"
            'print(f"{result.cpu_seconds:.1f} s of CPU")'
        ),
        _text("## Figures"),
        _code("for figure in result.outcome.figures:\n    display(figure)"),
        _text("## Tables"),
        _code("for table in result.outcome.tables:\n    display(table)"),
        _code('print("\\n\\n".join(result.outcome.notes))'),
        _text("## Checks\n\nA measured number beside its bound. The last line fails if one of them does."),
        _code("display(result.checks)\nassert result.passed, [check.name for check in result.failed]"),
    ]
    for number, cell in enumerate(cells):
        cell["id"] = hashlib.sha256(f"{lab.name} {number}".encode()).hexdigest()[:8]
    document = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}


def _code(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": source.splitlines(keepends=True),
    }


def _flags(lab: Lab[Any]) -> str:
    """What can be changed, as a list."""
    rows = [f"- `{key.path}`: {key.meaning}" for key in lab.flags()]
    known = "\n".join(rows) or "This lab has no parameters of its own."
    command = f"`headway lab {lab.name}" + "".join(f" --{flag(key.path)} …" for key in lab.flags()[:1]) + "`"
    return f"Change the parameters and run the cells again; {command} does the same.\n\n{known}"


def _made(lab: Lab[Any], parameters: Any) -> str:
    """The line that makes the parameters, each by its name."""
    fields = [each.name for each in dataclasses.fields(lab.parameters)]
    lines = "".join(f"    {name}={getattr(parameters, name)!r},\n" for name in fields)
    return f"parameters = lab.parameters(\n{lines})" if fields else "parameters = lab.parameters()"
