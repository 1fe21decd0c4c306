"""`headway reliability`."""

from __future__ import annotations

import json
import os
import signal
from argparse import ArgumentParser, ArgumentTypeError, Namespace

from headway.cli import options
from headway.counts import counted
from headway.errors import ConfigError, HeadwayError

HELP = "kills, damage, full disks and hostile input by the thousand on this machine, and what came of it"
EXAMPLES = (
    "headway reliability                                  about three minutes",
    "headway reliability kills bit-flips --minutes 10     two rows, for longer",
    "headway reliability --long --out report.html         the counts that the documentation states",
    "headway reliability --only kills:17                  one trial again",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which rows, for how long, and where the report goes."""
    parser.add_argument("rows", nargs="*", metavar="ROW", help="which rows (default: all; --list names them)")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    parser.add_argument("--minutes", type=_minutes, metavar="N", help="for all trials together (default: 3)")
    parser.add_argument("--long", action="store_true", help="the full number of trials, however long that takes")
    parser.add_argument("--seed", type=options.count, default=0, help="of the faults (default: %(default)s)")
    parser.add_argument("--workers", type=options.positive, metavar="N", help="processes (default: one per CPU)")
    parser.add_argument("--only", type=_trial, metavar="ROW:TRIAL", help="repeat one trial, as a failure names it")
    parser.add_argument("--out", metavar="FILE.html", help="write the report as one HTML page as well")
    options.add_json(parser, "one object on stdout")


def _minutes(text: str) -> float:
    minutes = float(text)
    if not 0 < minutes < 1e6:
        raise ArgumentTypeError(f"{text}: must be more than 0, and less than a million")
    return minutes


def _trial(text: str) -> tuple[str, int]:
    name, colon, number = text.rpartition(":")
    if not colon or not number.isascii() or not number.isdigit():
        raise ArgumentTypeError(f"{text}: expected ROW:TRIAL, for instance kills:17")
    return name, int(number)


def execute(arguments: Namespace) -> None:
    """Run the campaign and print its table; raises HeadwayError if a trial failed."""
    if not hasattr(os, "fork"):
        raise ConfigError("reliability forks processes, which this system cannot do; it needs Linux or macOS")
    from headway.cli.outputs import TEXT, expect_outputs, write_output
    from headway.cli.reliability_table import CampaignBar, show_report, show_rows
    from headway.reliability.campaign import CampaignConfig, run_campaign
    from headway.reliability.page import report_page
    from headway.reliability.rows import ROWS

    if arguments.list:
        show_rows()
        return
    expect_outputs(arguments, out=TEXT, stdout_has="the table")
    workers = {} if arguments.workers is None else {"workers": arguments.workers}
    config = CampaignConfig(
        rows=tuple(arguments.rows) or tuple(ROWS),
        seed=arguments.seed,
        minutes=arguments.minutes,
        long=arguments.long,
        only=arguments.only,
        **workers,
    )
    with CampaignBar() as bar:
        report = run_campaign(config, bar)
    if arguments.json:
        print(json.dumps(report.to_json()))
    else:
        show_report(report)
    if arguments.out is not None:
        write_output(arguments.out, report_page(report))
    if report.stopped_by is not None:
        raise CampaignStopped(report.stopped_by)
    if report.failures:
        raise HeadwayError(
            f"{len(report.failures)} of {counted(sum(row.trials for row in report.rows), 'trial')} failed"
        )


class CampaignStopped(HeadwayError):  # noqa: N818  # requested by the user, not an error
    """A signal ended the campaign; what was found until then has been printed."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number
