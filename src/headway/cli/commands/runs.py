"""`headway runs`: a list of runs, a comparison, and freeing what runs can do without."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.terminal import tell
from headway.errors import ConfigError, NoRunError, shown
from headway.suggestions import did_you_mean

if TYPE_CHECKING:
    from headway.runs.clean import Removal
    from headway.runs.listing import RunRow

HELP = "list the runs below a folder; compare some; free what they can do without"
EXAMPLES = (
    "headway runs                                         all below runs/",
    "headway runs --sort size",
    "headway runs --filter state=stopped --filter train.seed=0 --json",
    "headway runs --live                                  a dashboard in the browser; Ctrl-C ends it",
    "headway runs --page runs.html                        the same as a file",
    "headway runs compare runs/en-de runs/other --out curves.png",
    "headway runs clean                                   what could be freed",
    "headway runs clean runs/en-de --yes                  free it",
)
DEFAULT = "runs"
LIST = "list"
COMPARE, CLEAN = ACTIONS = ("compare", "clean")
# What other programs call the list and the actions.
MEANT = {
    LIST: ("list", "ls", "dir", "all", "show"),
    COMPARE: ("diff", "comp", "vs"),
    CLEAN: ("rm", "remove", "delete", "prune", "gc", "free", "purge"),
}
SORTS = ("name", "task", "model", "parameters", "step", "best", "size", "age", "state")
# The options of one of the three alone, each with its default.
OWN: dict[str | None, dict[str, object]] = {
    None: {"sort": "name", "filter": [], "live": False, "page": None, "port": None, "no_browser": False},
    COMPARE: {"out": None},
    CLEAN: {"only": None, "optimiser": False, "yes": False},
}


def add_arguments(parser: ArgumentParser) -> None:
    """What to do, with which runs, and the options of each."""
    parser.add_argument(
        "folders",
        nargs="*",
        metavar="FOLDER",
        help="runs, or folders that have runs (default: runs); the word compare or clean before them says what to do",
    )
    options.add_json(parser, "one object on stdout")
    group = parser.add_argument_group("the list")
    group.add_argument("--sort", choices=SORTS, default="name", help="the order of the list (default: %(default)s)")
    group.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="WORD",
        help="only runs with this word in name, task, model, data or state, or with this KEY=VALUE: a key of --json or "
        "of the config (repeatable: all must hold)",
    )
    group = parser.add_argument_group("the dashboard", "curves, settings and figures of the runs, as a page")
    group.add_argument("--live", action="store_true", help="serve it on this machine: curves grow, runs can be opened")
    group.add_argument("--page", metavar="FILE.html", help="write it as a file that opens without a network")
    group.add_argument("--port", type=options.count, metavar="N", help="of --live (default: any free one)")
    group.add_argument("--no-browser", action="store_true", help="with --live: do not open a browser")
    group = parser.add_argument_group("runs compare RUN RUN …", "settings that differ, scores, validation losses")
    group.add_argument("--out", metavar="FILE.png", help="draw the validation losses of all into one picture")
    group = parser.add_argument_group("runs clean [RUN …]", "what can be freed; removed only with --yes or when asked")
    group.add_argument("--only", metavar="KIND,…", help="of damaged, checkpoints, optimiser, int8, reference, pages")
    group.add_argument("--optimiser", action="store_true", help="also the state that resuming needs")
    group.add_argument("--yes", action="store_true", help="free it without asking")


def execute(arguments: Namespace) -> None:
    """List, compare or clean."""
    first = arguments.folders[0] if arguments.folders else None
    action = first if first in ACTIONS else None
    if first is not None and action is None:
        _expect_folder(first)
    folders = [Path(each) for each in arguments.folders[action is not None :]]
    for other, own in OWN.items():
        for option, default in own.items() if other != action else ():
            if getattr(arguments, option) != default:
                raise ConfigError(
                    f"--{option.replace('_', '-')} is an option of {_called(other)}, not of {_called(action)}"
                )
    if action == COMPARE:
        _compare(arguments, folders)
    elif action == CLEAN:
        _clean(arguments, folders)
    else:
        _list(arguments, folders)


def _expect_folder(word: str) -> None:
    """Raise ConfigError, with the action that may be meant, for a word that is neither an action nor a folder."""
    if os.path.lexists(word):
        return
    meant = next((name for name, words in MEANT.items() if word.lower() in words), None)
    hint = did_you_mean(word, ACTIONS)
    if meant is not None:
        hint = f"use headway {_called(None if meant == LIST else meant)}; "
    actions = " and ".join(_called(action) for action in ACTIONS)
    raise ConfigError(f"{shown(word)}: {hint}no such folder; runs FOLDER lists runs, there are also {actions}")


def _called(action: str | None) -> str:
    return "runs" if action is None else f"runs {action}"


def _found(folders: list[Path]) -> list[Path]:
    from headway.runs.listing import find_runs

    if not folders and not Path(DEFAULT).is_dir():
        return []
    return find_runs(folders or [Path(DEFAULT)])


def _list(arguments: Namespace, folders: list[Path]) -> None:
    if arguments.live or arguments.page is not None:
        _dashboard(arguments, folders)
        return
    if arguments.port is not None or arguments.no_browser:
        raise ConfigError("--port and --no-browser belong to --live")
    from headway.cli.housekeeping_tables import show_runs
    from headway.runs.listing import matches, run_row, sorted_rows

    rows: list[RunRow] = [run_row(folder) for folder in _found(folders)]
    rows = [row for row in rows if all(matches(row, wanted) for wanted in arguments.filter)]
    rows = sorted_rows(rows, arguments.sort)
    if arguments.json:
        print(json.dumps({"runs": [row.to_json() for row in rows], "bytes": sum(row.bytes for row in rows)}))
    elif rows:
        show_runs(rows)
    else:
        where = ", ".join(map(str, folders)) or DEFAULT
        tell(f"no run in {where}{' that meets the filter' if arguments.filter else ''}; headway train makes one")


def _dashboard(arguments: Namespace, folders: list[Path]) -> None:
    from headway.runs.board import Board

    for option, default in OWN[None].items():
        if option in ("sort", "filter") and getattr(arguments, option) != default:
            raise ConfigError(f"--{option} is an option of the list; the dashboard filters and sorts in the page")
    if arguments.json:
        raise ConfigError("--json is an option of the list, not of the dashboard")
    board = Board(folders or [Path(DEFAULT)])
    if arguments.page is not None:
        from headway.cli.outputs import STDOUT, expect_outputs, write_output

        if arguments.live:
            raise ConfigError("--page with --live: the one writes a file, the other serves; leave one of them out")
        expect_outputs(arguments, page=(".html", ".htm"))
        write_output(arguments.page, board.page())
        if arguments.page != STDOUT:
            print(f"{arguments.page}: open it in a browser; it needs no network")
        return
    from headway.errors import ServeError
    from headway.extras import import_extra

    import_extra("uvicorn", "serve", "headway runs --live", ServeError)
    from headway.serving.live.runs import LiveRuns
    from headway.serving.live.server import LiveSettings, serve_live

    serve_live(LiveRuns(None, board), LiveSettings(port=arguments.port or 0, browser=not arguments.no_browser))


def _compare(arguments: Namespace, folders: list[Path]) -> None:
    from headway.cli.housekeeping_tables import show_comparison
    from headway.cli.outputs import PNG, expect_outputs, write_output
    from headway.plots.curves import plot_validation
    from headway.runs.compare import compare_runs

    expect_outputs(arguments, stdout_has="the comparison", out=PNG)
    found = compare_runs(folders)
    if arguments.out is not None:
        names = short_names(list(found.runs))
        series = dict(zip(names, found.curves, strict=True))
        picture = plot_validation(series, ylabel=f"validation loss ({found.loss_unit})")
        write_output(arguments.out, picture, f"a picture in {arguments.out}")
    if arguments.json:
        print(json.dumps(found.to_json(), allow_nan=False))
    else:
        show_comparison(found, short_names(list(found.runs)))


def short_names(runs: list[str]) -> list[str]:
    """The names of the folders alone, if they tell the runs apart."""
    names = [Path(run).name for run in runs]
    return names if len(set(names)) == len(names) and all(names) else runs


def _clean(arguments: Namespace, folders: list[Path]) -> None:
    from headway.cli.confirm import confirmed
    from headway.cli.housekeeping_tables import show_removals
    from headway.cli.units import bytes_text
    from headway.runs.clean import KINDS, clean_run, removals
    from headway.storage.locks import lock_holder

    kinds = tuple(KINDS) if arguments.only is None else tuple(arguments.only.split(","))
    plan: dict[Path, list[Removal]] = {}
    for folder in _found(folders):
        holder = lock_holder(folder)
        if holder is not None:
            if folder in folders:
                raise ConfigError(f"{folder} is in use by process {holder}; clean it when that has ended")
            tell(f"note: {folder} is in use by process {holder} and is left as it is")
            continue
        try:
            plan[folder] = removals(folder, kinds, optimiser=arguments.optimiser)
        except NoRunError as error:
            if folder in folders:
                raise
            tell(f"note: {error}; left as it is")
    total = sum(each.bytes for found in plan.values() for each in found)
    if not arguments.json:
        show_removals(plan)
    freed = False
    if any(plan.values()) and confirmed(bytes_text(total), yes=arguments.yes, ask=not arguments.json):
        plan = {
            folder: clean_run(folder, kinds, optimiser=arguments.optimiser) for folder, found in plan.items() if found
        }
        total, freed = sum(each.bytes for found in plan.values() for each in found), True
        tell(f"freed {bytes_text(total)}")
    if arguments.json:
        listed = [
            {"run": str(folder), "kind": each.kind, "path": str(each.path), "bytes": each.bytes}
            for folder, found in plan.items()
            for each in found
        ]
        print(json.dumps({"removals": listed, "bytes": total, "freed": freed}))
