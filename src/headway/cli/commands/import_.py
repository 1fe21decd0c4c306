"""`headway import`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from pathlib import Path

from headway.cli.terminal import is_terminal, tell
from headway.counts import counted

HELP = "a Hugging Face model folder (config.json, safetensors, tokenizer) or a GGUF file as a run"
EXAMPLES = (
    "headway import gpt2 --out runs/gpt2",
    "headway import smollm2.gguf --out runs/smollm2         a GGUF file, its weights dequantised",
    "headway import gpt2 --out runs/checked --reference     and keep transformers' logits, for `headway verify`",
    "headway import nli --pairs --out runs/nli              a classifier of pairs of texts",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which folder or file, and where the run goes."""
    parser.add_argument(
        "folder",
        metavar="DIR",
        help="the model folder or GGUF file: Llama, Mistral, Qwen, Gemma, BERT, RoBERTa … (all: docs/interop.md); "
        "no code in it is executed",
    )
    parser.add_argument("--out", metavar="RUN", help="the run folder to make (default: runs/NAME of the model)")
    parser.add_argument(
        "--reference", action="store_true", help="keep logits of transformers' own model for `headway verify`"
    )
    parser.add_argument(
        "--pairs",
        action=BooleanOptionalAction,
        help="a classifier of texts reads pairs of texts, or single ones (default: what its config shows)",
    )


def execute(arguments: Namespace) -> None:
    """Make a run of a model folder, with a bar by bytes on stderr; the run's name goes to stdout."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from headway.cli.console import SafeConsole
    from headway.cli.outputs import expect_folder
    from headway.cli.units import sizes_text
    from headway.runs.import_folder import import_folder
    from headway.runs.sizes import run_sizes

    source = Path(arguments.folder)
    out = Path("runs", source.resolve().name.removesuffix(".gguf")) if arguments.out is None else Path(arguments.out)
    expect_folder(str(out))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    watched = is_terminal(sys.stderr)
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True, disable=not watched) as bar:
        task = bar.add_task(f"import {source.name}", total=None)
        imported = import_folder(
            source,
            out,
            lambda done, all: bar.update(task, completed=done, total=all),
            with_reference=arguments.reference,
            pairs=arguments.pairs,
        )
    for note in imported.notes:
        tell(f"note: {note}")
    tell(
        f"{imported.family}, {imported.parameters:,} parameters in {counted(imported.tensors, 'tensor')}, "
        f"{imported.bytes:,} bytes ({imported.dtype}); self-check: finite, largest output {imported.largest:.4g}"
    )
    sizes = run_sizes(out)
    parts = {"weights": sizes.checkpoints, "reference": sizes.reference}
    tell(f"wrote {sizes_text(parts | {'config and tokenizer': sizes.total - sum(parts.values())})}")
    print(out)
