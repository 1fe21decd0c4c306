"""`headway embed`."""

from __future__ import annotations

import io
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path

from headway.cli import options
from headway.cli.lines import blocks, stdin_lines, write_lines
from headway.errors import ConfigError

HELP = "sentence vectors from an encoder"
EXAMPLES = ("headway embed runs/minilm 'a cute puppy'",)
LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts, and where the vectors go."""
    options.add_run(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="without it, lines are read from stdin")
    parser.add_argument("--out", metavar="FILE.npy", help="write the vectors as a numpy array")
    options.add_json(parser, "one object with the vectors")


def execute(arguments: Namespace) -> None:
    """A vector a text: a line of numbers each, or all of them as one JSON object or one .npy file."""
    import numpy as np

    from headway.runs import load
    from headway.storage.commit import commit_file

    out = arguments.out
    if out is not None and Path(out).suffix != ".npy":
        raise ConfigError(f"--out {out}, allowed: a name that ends in .npy")
    found = load(arguments.run, device=arguments.device)
    lines: Iterable[str] = arguments.text or stdin_lines()
    kept = []
    for block in blocks(lines, LINES_AT_ONCE):
        vectors = found.embed(block)
        if out is None and not arguments.json:
            write_lines([" ".join(f"{number:.6g}" for number in vector) for vector in vectors.tolist()])
        else:
            kept.append(vectors)
    if out is None and not arguments.json:
        return
    all_vectors = np.concatenate(kept) if kept else np.zeros((0, 0), np.float32)
    if out is not None:
        file = io.BytesIO()
        np.save(file, all_vectors, allow_pickle=False)
        commit_file(Path(out), file.getvalue())
    if arguments.json:
        count, width = all_vectors.shape
        print(json.dumps({"vectors": all_vectors.tolist(), "texts": count, "width": width}))
