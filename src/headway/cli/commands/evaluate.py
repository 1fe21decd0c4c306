"""`headway evaluate`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from headway.cli import options

HELP = "the metrics of the run's task on a split"
EXAMPLES = (
    "headway evaluate runs/en-de                                BLEU, chrF, by length, by position, samples",
    "headway evaluate runs/en-de --split val --beam 1 --json    one flat object for machines",
    "headway evaluate runs/en-de --compare runs/other           is the other one really better?",
    "headway evaluate runs/en-de --out said.txt --plot gap.png",
    "headway evaluate runs/gpt-char --data book.txt --stride 1  each token after a full context",
    "headway evaluate runs/gpt-char --lengths 32,64,128,256     loss by length, beyond training too",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which data, how to decode, and what to write."""
    options.add_run(parser)
    parser.add_argument("--data", metavar="SPEC", help="other data than the run's own")
    parser.add_argument("--split", metavar="NAME", help="default: test if there is one, else val")
    parser.add_argument("--beam", type=options.positive, help="of translations or captions (default: the recipe's)")
    options.add_precision(parser)
    options.add_average(parser)
    parser.add_argument(
        "--lengths", metavar="A,B,…", help="loss in windows of these lengths in tokens, beyond the training length too"
    )
    parser.add_argument(
        "--stride",
        type=options.positive,
        metavar="N",
        help="of a language model's sliding windows (default: half a window)",
    )
    parser.add_argument("--compare", metavar="RUN2", help="paired bootstrap with another translation run")
    parser.add_argument("--out", metavar="FILE", help="write the translations, classes or captions, one per line")
    parser.add_argument(
        "--plot", metavar="FILE.png", help="accuracy by position, loss by length, or the confusion matrix"
    )
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """Print the metrics of a split."""
    from headway.cli.evaluation import evaluate

    evaluate(arguments)
