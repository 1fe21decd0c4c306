"""`headway lab pondering`: a Universal Transformer adds; how many steps each column takes."""

from __future__ import annotations

from argparse import Namespace, _ActionsContainer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.labs.pondering import Adder

HELP = "a Universal Transformer adds, and takes more steps where a carry comes from far away"
OVERRIDES = False
STEPS = 1300
SHOWN = ("12345+54321", "1+9", "12399+1", "19999+1", "99999+1", "45454+54546")  # of the ponder map


def add_arguments(parser: _ActionsContainer) -> None:
    """What to draw."""
    parser.add_argument("--plot", metavar="FILE.png", help="the ponder map; - for stdout")


def execute(arguments: Namespace) -> None:
    """Train the adder, print how many steps its columns take, draw a few sums."""
    import torch

    from headway.cli import render as show
    from headway.cli.outputs import PNG, expect_outputs, report_console, write_output
    from headway.cli.progress import lab_bar
    from headway.labs import pondering

    plot = arguments.plot
    expect_outputs(arguments, plot=PNG)
    torch.set_num_threads(1)
    console, seed, steps = report_console(plot), arguments.seed, arguments.steps or STEPS
    with lab_bar("training", steps) as progress:
        model = pondering.train(steps=steps, seed=seed, progress=progress)
    for title, data in (
        ("held-out sums of the set addition", pondering.load_sums("test")),
        ("sums in which carries travel", pondering.random_sums(2000, torch.Generator().manual_seed(seed + 2))),
    ):
        right, taken = pondering.predict(model, data)
        console.print(f"\n[bold]{title}[/bold]: {right.float().mean():.2%} of the digits are right")
        for given, name in ((1, "with a carry"), (0, "without one")):
            console.print(f"  columns {name}: {taken[data.carries == given].float().mean():.2f} steps")
        rows = [
            [str(chain), f"{mean:.2f}", f"{count:,}"]
            for chain, (mean, count) in pondering.steps_by_chain(taken, data).items()
        ]
        console.print(show.figures(["columns to ask", "steps", "columns"], rows))
        console.print(f"  correlation of the two: {pondering.correlation(taken, data.chains):.2f}")
    if plot is not None:
        write_output(plot, _map(model))


def _map(model: Adder) -> bytes:
    import torch

    from headway.labs import pondering
    from headway.plots.ponder import plot_ponder

    numbers = [[part.zfill(pondering.COLUMNS) for part in line.split("+")] for line in SHOWN]
    labels = [[f"{a}+{b}" for a, b in zip(*pair, strict=True)] for pair in numbers]
    a, b = (torch.tensor([[int(digit) for digit in pair[side]] for pair in numbers]) for side in (0, 1))
    taken = pondering.predict(model, pondering.sums(a, b))[1].tolist()
    return plot_ponder(labels, taken, "steps a column took", names=[line.replace("+", " + ") for line in SHOWN])
