"""`headway embed`."""

from __future__ import annotations

import io
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import blocks, note_files, stdin_lines, write_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.cli.jobs import JobWork

HELP = "sentence vectors from an encoder"
EXAMPLES = ("headway embed runs/minilm 'a cute puppy'",)
LINES_AT_ONCE = 512  # enough to sort by length inside; a stdin of any size streams through


def add_arguments(parser: ArgumentParser) -> None:
    """Which texts, and where the vectors go."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument("text", nargs="*", metavar="TEXT", help="without it, lines are read from stdin")
    parser.add_argument(
        "--out",
        metavar="FILE.npy",
        help="write the vectors as a numpy array; - for stdout; with --input: the job's folder",
    )
    options.add_json(parser, "one object with the vectors, with --input about the job")
    options.add_job(parser, out=False)


def execute(arguments: Namespace) -> None:
    """A vector a text: a line of numbers each, or all of them as one JSON object or one .npy file."""
    if options.is_job(arguments, never=("text",), only=()):
        from headway.cli.jobs import run_job
        from headway.runs.jobs import VectorOutput

        run_job(arguments, VectorOutput(), lambda: _job(arguments))
        return

    import numpy as np

    from headway.cli.loading import load_run
    from headway.cli.outputs import expect_outputs, write_output
    from headway.decoding.non_finite import numbered
    from headway.tasks.capabilities import Embeds

    out = arguments.out
    expect_outputs(arguments, out=(".npy",))
    found = load_run(arguments)
    found.require(Embeds)
    note_files(arguments.text, "embed")
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


def _job(arguments: Namespace) -> JobWork:
    from headway.cli.jobs import JobWork
    from headway.cli.loading import load_run
    from headway.decoding.non_finite import numbered
    from headway.tasks.capabilities import Embeds

    run = load_run(arguments)
    pipeline = run.require(Embeds)

    def answer(block: Sequence[str], before: int) -> NDArray[np.float32]:
        with numbered(range(before, before + len(block)), "line"):
            return pipeline.embed(block)

    return JobWork(runs=[run], answer=answer, lines_at_once=LINES_AT_ONCE)
