"""`headway search`."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headway.cli import options
from headway.cli.lines import blocks, stdin_lines, write_lines
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.runs.search import Hit, Index

HELP = "the passages of a file or folder that are nearest to a query, by an encoder's vectors"
EXAMPLES = (
    "headway search runs/minilm new.en 'a cute puppy'",
    "headway search runs/minilm notes 'how to resume a run' --top 3 --index notes-index",
    "headway search runs/minilm reviews.csv --text review --json < prompts.txt",
)
LINES_AT_ONCE = 256  # queries that are embedded together if stdin is not a terminal
SHOWN = 300  # characters of a passage in a line


def add_arguments(parser: ArgumentParser) -> None:
    """Which passages, which queries, and where the index is kept."""
    options.add_run(parser)
    parser.add_argument(
        "corpus", metavar="CORPUS", help="a text, a folder of texts, or a table (TSV, CSV, JSONL, parquet)"
    )
    parser.add_argument("query", nargs="*", metavar="QUERY", help="without it, lines are read from stdin")
    parser.add_argument(
        "--top", type=options.positive, default=5, metavar="K", help="passages of each query (default: %(default)s)"
    )
    parser.add_argument("--text", default="text", metavar="COLUMN", help="of a table (default: %(default)s)")
    parser.add_argument(
        "--by", choices=("lines", "paragraphs"), help="what a passage is (default: lines of a file, else paragraphs)"
    )
    parser.add_argument("--index", metavar="DIR", help="a folder for the index (default: in the cache)")
    parser.add_argument(
        "--store",
        choices=("float32", "float16", "int8"),
        default="float32",
        help="how vectors are stored; scores are exact with %(default)s, the default",
    )
    parser.add_argument("--rebuild", action="store_true", help="make the index again")
    parser.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="bytes that are not UTF-8 (default: %(default)s)",
    )
    parser.add_argument("--rerank", metavar="RUN2", help="a run that classifies pairs of texts orders the nearest ones")
    parser.add_argument(
        "--candidates",
        type=options.positive,
        default=100,
        metavar="N",
        help="passages that RUN2 judges (default: %(default)s)",
    )
    parser.add_argument("--relevant", metavar="CLASS", help="the class of RUN2 that means relevant")
    options.add_adapter(parser)
    options.add_json(parser, "one object with the passages found and the times")


def execute(arguments: Namespace) -> None:
    """A line for each passage: score, place and text, tabs between; with several queries each has a heading."""
    from headway.cli.loading import load_run
    from headway.cli.progress import TrainingBar
    from headway.runs import load
    from headway.runs.search import Reranker

    run = load_run(arguments)
    judge = None
    if arguments.rerank is not None:
        judge = Reranker(load(arguments.rerank, device=arguments.device), arguments.relevant)
    elif arguments.relevant is not None:
        raise ConfigError("--relevant names a class of the run given with --rerank; pass that too")
    begin = time.perf_counter()
    with TrainingBar("index", 0) as bar:
        index = run.index(
            arguments.corpus,
            text=arguments.text,
            by=arguments.by,
            index=arguments.index,
            store=arguments.store,
            rebuild=arguments.rebuild,
            errors=arguments.errors,
            progress=bar.preparing,
        )
    seconds = time.perf_counter() - begin
    _tell_built(index, seconds)
    queries: Iterable[str] = arguments.query or stdin_lines()
    size = 1 if arguments.query or (sys.stdin is not None and sys.stdin.isatty()) else LINES_AT_ONCE
    several, found = len(arguments.query) != 1, []
    for block in blocks(queries, size):
        answers, times = index.timed(
            block, arguments.top if judge is None else max(arguments.top, arguments.candidates)
        )
        for query, hits in zip(block, answers, strict=True):
            if judge is not None:
                hits = judge.rerank(query, hits)[: arguments.top]
            if arguments.json:
                found.append(
                    {
                        "query": query,
                        "embed_milliseconds": round(times.embedding, 3),
                        "search_milliseconds": round(times.search, 3),
                        "hits": [hit.to_json() for hit in hits],
                    }
                )
            else:
                write_lines([*([f"# {_short(query)}"] if several else []), *map(_line, hits)])
    if arguments.json:
        print(json.dumps({**_facts(index, seconds), "queries": found}))


def _facts(index: Index, seconds: float) -> dict[str, Any]:
    vectors, built = index.vectors, index.built
    return {
        "index": str(vectors.folder),
        "passages": len(index),
        "width": vectors.width,
        "stored": vectors.stored,
        "embedded": built.embedded,
        "reused": built.reused,
        "dropped": built.dropped,
        "index_seconds": round(seconds, 3),
    }


def _tell_built(index: Index, seconds: float) -> None:
    """What building took, on stderr; nothing where the index was there."""
    from headway.cli.terminal import tell

    built = index.built
    if built.embedded or built.dropped:
        told = f"{built.embedded:,} passages embedded, {built.reused:,} used again, {built.dropped:,} dropped"
        tell(f"note: index of {len(index):,} passages: {told}, in {seconds:.1f} s")


def _line(hit: Hit) -> str:
    return f"{hit.score:.4f}\t{hit.file}:{hit.line}\t{_short(hit.text)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
