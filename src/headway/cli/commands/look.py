"""`headway look`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import suppress
from pathlib import Path

from headway.cli import options
from headway.cli.lines import note_files
from headway.errors import ConfigError, NoRunError, ServeError

HELP = "one offline HTML file: what the model did with this input; or a live page that runs the model"
EXAMPLES = (
    "headway look runs/demo 'a cute puppy' -o page.html",
    "headway look runs/minilm 'the animal was too tired because it ran' --open it:animal -o it.html",
    "headway look runs/demo 'a cute puppy' --beside 620 -o two.html",
    "headway look runs/demo --live             type, branch, switch heads off; Ctrl-C ends it",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which input, and where the page goes."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument(
        "input",
        nargs="?",
        metavar="INPUT",
        help="a text, or an image file for a run that reads images (default: the input of train.keep_looks)",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="serve a page on this machine that runs the model: type, branch, switch parts off, save any view",
    )
    parser.add_argument(
        "--port", type=options.count, metavar="N", help="of --live (default: any free one, which the first line names)"
    )
    parser.add_argument("--no-browser", action="store_true", help="with --live: do not open a browser")
    parser.add_argument(
        "--open",
        metavar="QUERY:KEY",
        help="two tokens: open the page at the head that attends most from one to the other",
    )
    parser.add_argument(
        "--ablate", action="store_true", help="switch off every head, one at a time, even if that takes long"
    )
    parser.add_argument(
        "--beside",
        metavar="RUN|STEP",
        help="a second model on the same page: another run, or a checkpoint of this run by its step",
    )
    parser.add_argument(
        "--over-training",
        action="store_true",
        help="attention at each checkpoint there is, where training kept no looks of this input (train.keep_looks)",
    )
    parser.add_argument(
        "-o", "--out", metavar="FILE.html", default="page.html", help="default: %(default)s; - for stdout"
    )


def execute(arguments: Namespace) -> None:
    """Write one page about what the run does with this input, or serve a live one."""
    from headway.cli.loading import load_run
    from headway.cli.outputs import STDOUT, TEXT, expect_outputs, write_output

    if arguments.live:
        _serve(arguments)
        return
    if arguments.port is not None or arguments.no_browser:
        raise ConfigError("--port and --no-browser belong to --live; a page that is written has no server")
    if arguments.input is None and not _has_input(Path(arguments.run)):
        raise ConfigError("INPUT is missing: pass what the model is to read, or --live to type it in the page")
    expect_outputs(arguments, out=TEXT)
    beside = arguments.beside
    if beside is not None and beside.isdecimal() and not Path(beside).exists():
        beside = int(beside)
    run = load_run(arguments)
    if arguments.input is not None and not run.pipeline.reads_files:
        note_files([arguments.input])
    page = run.look(
        arguments.input,
        open=arguments.open,
        ablate=arguments.ablate,
        beside=beside,
        over_training=arguments.over_training,
    )
    write_output(arguments.out, page)
    if arguments.out != STDOUT:
        print(f"{arguments.out}: open it in a browser; it needs no network")


def _has_input(run: Path) -> bool:
    """Whether the run kept looks at an input while it trained: that is then what is looked at."""
    from headway.runs import read_config

    with suppress(NoRunError):
        return bool(read_config(run).train.keep_looks)
    return False


def _serve(arguments: Namespace) -> None:
    from headway.cli.loading import load_run
    from headway.extras import import_extra

    import_extra("uvicorn", "serve", "headway look --live", ServeError)
    from headway.runs.board import Board
    from headway.runs.listing import siblings
    from headway.serving.live.runs import LiveRuns
    from headway.serving.live.server import LiveSettings, serve_live
    from headway.serving.live.session import LiveSession

    run = load_run(arguments)
    if run.pipeline.reads_files and arguments.input is None:
        raise ConfigError("INPUT is missing: this run reads files, and a page may not choose them")
    session = LiveSession(run.pipeline, arguments.input or "")
    runs = LiveRuns(session, Board(siblings(run.folder)))  # for a comparison
    serve_live(runs, LiveSettings(port=arguments.port or 0, browser=not arguments.no_browser))
