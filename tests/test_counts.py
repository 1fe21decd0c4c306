"""Numbers of things in messages."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import headway
from headway.counts import counted

# Things of which a user often has one: their number is written by `counted`, so that nothing says "1 steps".
THINGS = ("threads", "runs,", "epochs", "checks,", "entries,", "training pairs", "environment steps", "fresh episodes")


def test_one_is_singular():
    assert [counted(n, "step") for n in (0, 1, 2, 1000, 0.5, 1.0)] == [
        "0 steps", "1 step", "2 steps", "1,000 steps", "0.5 steps", "1 step",
    ]  # fmt: skip
    assert [counted(n, "entry", "entries") for n in (1, 3)] == ["1 entry", "3 entries"]


def test_messages_count_with_it():
    wrong = []
    for path in Path(headway.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for value, text in itertools.pairwise(parts):
                plain = isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)
                if plain and str(text.value).startswith(tuple(f" {thing}" for thing in THINGS)):
                    wrong.append(f"{path.name}:{node.lineno}: {str(text.value)[:30]}")
    assert not wrong
