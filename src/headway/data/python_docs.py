"""Built-in `pydocs` and `docstrings`: the language reference and the docstrings that ship with Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from headway.data.text_files import PlainText
from headway.errors import DataError

SECTION = 2_000  # minimum characters of a section
SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}
NOT_DOCUMENTED = {"site-packages", "test", "tests", "idle_test", "pydoc_data"}  # folders below the standard library


@cache
def pydocs() -> PlainText:
    """The language reference of the running Python, about 450,000 characters, in sections of about a page.

    Split by section, about 8:1:1 in characters; sections that share paragraphs stay together, so that no held-out
    paragraph is in train.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError("pydocs: this Python comes without pydoc_data, which contains its language reference") from None
    sections = {f"{name} {n:03}": text for name in topics for n, text in enumerate(_sections(topics[name]))}
    return PlainText(name="pydocs", splits=_split(sections))


@cache
def docstrings() -> PlainText:
    """The docstrings of the standard library of the running Python, about 1,800,000 characters, a document each file.

    Split by file, about 8:1:1 in characters; files that share paragraphs stay together, so that no held-out paragraph
    is in train.
    """
    library = Path(ast.__file__).parent
    texts = {}
    for path in sorted(library.rglob("*.py")):
        name = path.relative_to(library)
        if NOT_DOCUMENTED.isdisjoint(name.parts) and (found := [*file_docstrings(path)]):
            texts[name.as_posix()] = "\n\n".join(found)
    if not texts:
        raise DataError(f"docstrings: no sources of the standard library in {library}")
    return PlainText(name="docstrings", splits=_split(texts))


def file_docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a source file, its classes and functions, in order; none of one that cannot be parsed."""
    try:
        open_nodes: list[ast.AST] = [ast.parse(path.read_bytes())]
    except (OSError, SyntaxError, ValueError):  # ValueError: a NUL in the source
        return
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield text
            open_nodes += reversed(node.body)


def _split(sections: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Sections by split, in the order of their names, each with a final blank line."""
    lacking = {name: share * sum(map(len, sections.values())) for name, share in SHARES.items()}
    chosen: dict[str, list[str]] = {name: [] for name in SHARES}

    def size(group: list[str]) -> int:
        return sum(len(sections[name]) for name in group)

    # Large groups first, while they fit; the others in a pseudo-random order.
    for group in sorted(
        _related(sections), key=lambda group: (-(size(group) // 10_000), sha256(group[0].encode()).digest())
    ):
        split = max(lacking, key=lambda name: lacking[name] / SHARES[name])
        chosen[split] += group
        lacking[split] -= size(group)
    return {split: tuple(f"{sections[name]}\n\n" for name in sorted(group)) for split, group in chosen.items()}


def _sections(text: str) -> list[str]:
    """Split a text between paragraphs into sections of at least SECTION characters; a short rest joins the last."""
    pieces: list[list[str]] = [[]]
    for paragraph in text.strip("\n").split("\n\n"):
        if sum(map(len, pieces[-1])) >= SECTION:
            pieces.append([])
        pieces[-1].append(paragraph)
    if len(pieces) > 1 and sum(map(len, pieces[-1])) < SECTION // 2:
        rest = pieces.pop()
        pieces[-1] += rest
    return ["\n\n".join(piece) for piece in pieces]


def _related(topics: Mapping[str, str]) -> list[list[str]]:
    """Groups of texts connected by shared paragraphs of at least 40 characters."""
    group = {name: [name] for name in sorted(topics)}
    first: dict[str, str] = {}
    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            if len(paragraph.strip()) < 40:
                continue
            other = first.setdefault(paragraph.strip(), name)
            if group[other] is not group[name]:
                group[other] += group[name]
                for member in group[name]:
                    group[member] = group[other]
    return [members for name, members in group.items() if members[0] == name]
