"""`headway look`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from headway.cli import options

HELP = "one offline HTML file: what the model did with this input"
EXAMPLES = (
    "headway look runs/demo 'a cute puppy' -o page.html",
    "headway look runs/minilm 'the animal was too tired because it ran' --open it:animal -o it.html",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which input, and where the page goes."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument("input", metavar="INPUT", help="a text, or an image file for a run that reads images")
    parser.add_argument(
        "--open",
        metavar="QUERY:KEY",
        help="two tokens: open the page at the head that attends most from one to the other",
    )
    parser.add_argument(
        "--ablate", action="store_true", help="switch off every head, one at a time, even if that takes long"
    )
    parser.add_argument(
        "-o", "--out", metavar="FILE.html", default="page.html", help="default: %(default)s; - for stdout"
    )


def execute(arguments: Namespace) -> None:
    """Write one page about what the run does with this input."""
    from headway.cli.loading import load_run
    from headway.cli.outputs import STDOUT, TEXT, expect_outputs, write_output

    expect_outputs(arguments, out=TEXT)
    page = load_run(arguments).look(arguments.input, open=arguments.open, ablate=arguments.ablate)
    write_output(arguments.out, page)
    if arguments.out != STDOUT:
        print(f"{arguments.out}: open it in a browser; it needs no network")
