"""`headway embed`."""

from __future__ import annotations

import io
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from headway.cli import options
from headway.cli.lines import blocks, stdin_lines, write_lines

HELP = "sentence vectors from an encoder"
EXAMPLES = ("headway embed runs/minilm 'a cute puppy'",)
LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts, and where the vectors go."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="without it, lines are read from stdin")
    parser.add_argument("--out", metavar="FILE.npy", help="write the vectors as a numpy array; - for stdout")
    options.add_json(parser, "one object with the vectors")


def execute(arguments: Namespace) -> None:
    """A vector a text: a line of numbers each, or all of them as one JSON object or one .npy file."""
    import numpy as np

    from headway.cli.loading import load_run
    from headway.cli.outputs import expect_outputs, write_output
    from headway.decoding.non_finite import numbered

    out = arguments.out
    expect_outputs(arguments, out=(".npy",))
    found = load_run(arguments)
    lines: Iterable[str] = arguments.text or stdin_lines()
    kept, done = [], 0
    for block in blocks(lines, LINES_AT_ONCE):
        with numbered(range(done, done + len(block)), "line"):
            vectors = found.embed(block)
        done += len(block)
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
        write_output(out, file.getvalue())
    if arguments.json:
        count, width = all_vectors.shape
        print(json.dumps({"vectors": all_vectors.tolist(), "texts": count, "width": width}))
