"""Writes a table of paragraphs of Python's documentation with the module that each is about, to measure classifiers on.

    python -m tools.module_paragraphs HTML_FOLDER OUT_FOLDER

HTML_FOLDER is the folder `library` of Python's documentation as HTML (on Debian: the package python3.11-doc). To its
paragraphs come those of the docstrings of the same modules in the running Python. The names of all classes are
replaced by `module`, since a text that names its module needs no classifier; of paragraphs that begin alike one is
kept. OUT_FOLDER gets test.csv (35 paragraphs of each module) and train-N.csv with N of each, the smaller ones being the
beginnings of the larger; which paragraph is where depends on its hash alone. The last tenth of the largest, val.csv,
is for choosing settings: tune.csv is the largest without it. It also gets texts to pretrain on, both without the
paragraphs that share RUN words in a row with one of test.csv or val.csv: unlabelled.txt, headway's sets `pydocs` and
`docstrings`, and documentation.txt, which has the paragraphs of all folders of the documentation as well; and pairs of
paragraphs of these texts that stand near each other, in neighbours.csv and documentation-neighbours.csv.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from random import Random

from headway.data.datasets import load_text

MODULES = (
    "asyncio", "decimal", "email", "http", "importlib", "logging", "multiprocessing", "os", "tkinter", "unittest",
    "xml",
)  # fmt: skip
FILES = {"decimal": ("_pydecimal.py",), "os": ("os.py", "posixpath.py", "ntpath.py", "pathlib.py", "shutil.py")}
PAGES = {"os": ("os", "pathlib", "shutil")}  # the same subject on several pages
TEST, SIZES = 35, (32, 128, 512)
VAL = max(SIZES) // 10  # paragraphs of each module to choose settings on, the last of the largest table
MIN_WORDS, BEGINNING = 8, 40  # words of a paragraph; characters by which two are taken for the same
RUN = 8  # words in a row by which a paragraph is taken for one that is held out, or for a part of it
NEAR, NEAR_WORDS = 5, 5  # paragraphs from one to its neighbour at most; words of each at least
NAMES = re.compile(rf"\b({'|'.join(MODULES)})\b", re.IGNORECASE)


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


def paragraphs(page: Path) -> list[str]:
    """The paragraphs of a page of HTML."""
    reader = Paragraphs()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader.found


def pages(folder: Path, module: str) -> Iterator[str]:
    """The paragraphs of a module's pages."""
    for page in sorted(folder.glob("*.html")):
        if re.split(r"[-.]", page.stem)[0] in PAGES.get(module, (module,)):
            yield from paragraphs(page)


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
    found: dict[str, dict[str, str]] = {module: {} for module in MODULES}
    owners: dict[str, set[str]] = {}
    for module in MODULES:
        for text in (*pages(folder, module), *docstrings(module)):
            plain = NAMES.sub("module", " ".join(text.replace("¶", "").split()))
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


def runs(text: str) -> set[tuple[str, ...]]:
    """The runs of RUN words of a text, without the names of classes."""
    words = NAMES.sub("module", text).casefold().split()
    return {tuple(words[n : n + RUN]) for n in range(len(words) - RUN + 1)}


def shipped() -> Iterator[list[str]]:
    """The paragraphs of each document of the texts that ship with Python."""
    for text in (load_text("pydocs"), load_text("docstrings")):
        for document in (each for split in text.splits for each in text.documents(split)):
            yield [" ".join(each.split()) for each in re.split(r"\n\s*\n", "".join(document))]


def documentation(folder: Path) -> Iterator[list[str]]:
    """The paragraphs of each page of all folders of the documentation, `folder` being one of them."""
    for page in sorted(folder.parent.glob("*/*.html")):
        yield [" ".join(each.replace("¶", "").split()) for each in paragraphs(page)]


def without(documents: Iterable[list[str]], held_out: list[str]) -> list[str]:
    """Documents, a paragraph a line, without the paragraphs that share RUN words in a row with a held-out one."""
    banned = set().union(*map(runs, held_out))
    kept = ([each for each in document if each and banned.isdisjoint(runs(each))] for document in documents)
    return ["".join(f"{each}\n" for each in document) for document in kept if document]


def neighbours(documents: list[str]) -> list[tuple[str, str]]:
    """Each paragraph with one that follows it in its document, in a random order."""
    random, pairs = Random(0), []
    for document in documents:
        texts = [line for line in document.split("\n") if len(line.split()) >= NEAR_WORDS]
        for n, text in enumerate(texts[:-1]):
            pairs.append((text, texts[min(n + 1 + random.randrange(NEAR), len(texts) - 1)]))
    random.shuffle(pairs)
    return pairs


def write(path: Path, rows: list[tuple[str, str]], columns: tuple[str, str] = ("text", "module")) -> None:
    """A table with two columns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(rows)


def by_hash(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Rows in the order of the hashes of their texts."""
    return sorted(rows, key=lambda row: sha256(row[0].encode()).hexdigest())


def main() -> None:
    """Write the tables."""
    source, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    texts = collect(source)
    for module, found in texts.items():
        if len(found) < TEST + max(SIZES):
            print(f"{module}: {len(found)} paragraphs, needed {TEST + max(SIZES)}", file=sys.stderr)
    tests = [(text, module) for module, found in texts.items() for text in found[:TEST]]
    largest = [(text, module) for module, found in texts.items() for text in found[TEST : TEST + max(SIZES)]]
    chosen = {text for found in texts.values() for text in found[TEST : TEST + max(SIZES)][-VAL:]}
    held_out = [(text, module) for text, module in largest if text in chosen]
    write(out / "test.csv", by_hash(tests))
    write(out / "val.csv", by_hash(held_out))
    write(out / "tune.csv", by_hash([(text, module) for text, module in largest if text not in chosen]))
    for size in SIZES:
        rows = [(text, module) for module, found in texts.items() for text in found[TEST : TEST + size]]
        write(out / f"train-{size}.csv", by_hash(rows))
        print(f"train-{size}.csv: {len(rows):,} paragraphs")
    ships = list(shipped())
    for name, pairs, documents in (
        ("unlabelled.txt", "neighbours.csv", ships),
        ("documentation.txt", "documentation-neighbours.csv", [*ships, *documentation(source)]),
    ):
        kept = without(documents, [text for text, _ in (*tests, *held_out)])
        (out / name).write_text("\n".join(kept), encoding="utf-8")
        write(out / pairs, neighbours(kept), ("first", "second"))
        print(f"{name}: {sum(map(len, kept)):,} characters")


if __name__ == "__main__":
    main()
