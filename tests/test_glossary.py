"""docs/glossary.md: the terms the documents need, each once, and files that exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "glossary.md").read_text()
NEEDED = (
    "tap", "hypothesis", "special token", "KV cache", "memory", "split", "recipe", "preset", "departure", "phase",
    "capability", "pipeline", "payload", "trace", "manifest", "task", "run", "mask", "kernel", "stepper", "tokenizer",
)  # fmt: skip


def terms() -> list[str]:
    return [term for found in re.findall(r"\*\*([^*]+)\*\*:", TEXT) for term in found.split(", ")]


def test_every_term_is_there_once():
    found = Counter(terms())
    assert [term for term in NEEDED if term not in found] == []
    assert [term for term, count in found.items() if count > 1] == []


def test_the_terms_of_a_section_are_sorted():
    for section in TEXT.split("\n## ")[2:]:  # after the dimensions
        first = [term.lower() for term in re.findall(r"^- \*\*([^*,]+)", section, re.MULTILINE)]
        assert first == sorted(first), section.splitlines()[0]


def test_every_file_it_names_exists():
    paths = re.findall(r"`([a-z_0-9]+/[\w/]+(?:\.py|/))`", TEXT.partition("\n## ")[2])
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / "src" / "headway" / path).exists()] == []
