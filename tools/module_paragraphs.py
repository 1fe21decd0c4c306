"""Writes a table of paragraphs of Python's documentation with the module that each is about, to measure classifiers on.

    python -m tools.module_paragraphs HTML_FOLDER OUT_FOLDER

HTML_FOLDER is the folder `library` of Python's documentation as HTML (on Debian: the package python3.11-doc). To its
paragraphs come those of the docstrings of the same modules in the running Python. The names of all classes are
replaced by `module`, since a text that names its module needs no classifier; of paragraphs that begin alike one is
kept. OUT_FOLDER gets test.csv (35 paragraphs of each module) and train-N.csv with N of each, the smaller ones being the
beginnings of the larger; which paragraph is where depends on its hash alone.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

MODULES = (
    "asyncio", "decimal", "email", "http", "importlib", "logging", "multiprocessing", "os", "tkinter", "unittest",
    "xml",
)  # fmt: skip
FILES = {"decimal": ("_pydecimal.py",), "os": ("os.py", "posixpath.py", "ntpath.py", "pathlib.py", "shutil.py")}
PAGES = {"os": ("os", "pathlib", "shutil")}  # the same subject on several pages
TEST, SIZES = 35, (32, 128, 512)
MIN_WORDS, BEGINNING = 8, 40  # words of a paragraph; characters by which two are taken for the same


class Paragraphs(HTMLParser):
    """The texts between <p> and </p>."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p":
            self.open = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "p" and self.open is not None:
            self.found.append("".join(self.open))
            self.open = None

    def handle_data(self, data: str) -> None:
        if self.open is not None:
            self.open.append(data)


def pages(folder: Path, module: str) -> Iterator[str]:
    """The paragraphs of a module's pages."""
    for page in sorted(folder.glob("*.html")):
        if re.split(r"[-.]", page.stem)[0] in PAGES.get(module, (module,)):
            reader = Paragraphs()
            reader.feed(page.read_text(encoding="utf-8"))
            yield from reader.found


def docstrings(module: str) -> Iterator[str]:
    """The paragraphs of the docstrings of a module of the running Python."""
    library = Path(ast.__file__).parent
    files = [library / name for name in FILES.get(module, (f"{module}.py",))] + sorted((library / module).rglob("*.py"))
    for path in files:
        if path.is_file() and not {"test", "tests"} & set(path.parts):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from re.split(r"\n\s*\n", ast.get_docstring(node) or "")


def collect(folder: Path) -> dict[str, list[str]]:
    """The paragraphs of each module, in the order of their hashes."""
    names = re.compile(rf"\b({'|'.join(MODULES)})\b", re.IGNORECASE)
    found: dict[str, dict[str, str]] = {module: {} for module in MODULES}
    owners: dict[str, set[str]] = {}
    for module in MODULES:
        for text in (*pages(folder, module), *docstrings(module)):
            plain = names.sub("module", " ".join(text.replace("¶", "").split()))
            if len(plain.split()) >= MIN_WORDS:
                beginning = plain[:BEGINNING].casefold()
                found[module].setdefault(beginning, plain)
                owners.setdefault(beginning, set()).add(module)
    return {
        module: sorted(
            (text for beginning, text in texts.items() if len(owners[beginning]) == 1),
            key=lambda text: sha256(text.encode()).digest(),
        )
        for module, texts in found.items()
    }


def write(path: Path, rows: list[tuple[str, str]]) -> None:
    """A table with the columns text and module, its rows in the order of their hashes."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("text", "module"))
        table.writerows(sorted(rows, key=lambda row: sha256(row[0].encode()).hexdigest()))


def main() -> None:
    """Write the tables."""
    source, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    texts = collect(source)
    for module, found in texts.items():
        if len(found) < TEST + max(SIZES):
            print(f"{module}: {len(found)} paragraphs, needed {TEST + max(SIZES)}", file=sys.stderr)
    write(out / "test.csv", [(text, module) for module, found in texts.items() for text in found[:TEST]])
    for size in SIZES:
        rows = [(text, module) for module, found in texts.items() for text in found[TEST : TEST + size]]
        write(out / f"train-{size}.csv", rows)
        print(f"train-{size}.csv: {len(rows):,} paragraphs")


if __name__ == "__main__":
    main()
