"""`headway look`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from headway.cli import options

HELP = "one offline HTML file: what the model did with this input"
EXAMPLES = ("headway look runs/demo 'a cute puppy' -o page.html",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which input, and where the page goes."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument("input", metavar="INPUT", help="a text, or an image file for a run that reads images")
    parser.add_argument(
        "-o", "--out", metavar="FILE.html", default="page.html", help="default: %(default)s; - for stdout"
    )


def execute(arguments: Namespace) -> None:
    """Write one page about what the run does with this input."""
    from headway.cli.outputs import STDOUT, TEXT, expect_outputs, write_output
    from headway.runs import load

    expect_outputs(arguments, out=TEXT)
    write_output(
        arguments.out, load(arguments.run, adapter=arguments.adapter, device=arguments.device).look(arguments.input)
    )
    if arguments.out != STDOUT:
        print(f"{arguments.out}: open it in a browser; it needs no network")
