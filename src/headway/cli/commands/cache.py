"""`headway cache`: tokenised text and decoded images, which headway keeps so as not to make them twice."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headway.cli import options
from headway.cli.terminal import tell
from headway.errors import ConfigError

HELP = "what the cache of prepared data holds; `cache clean` removes it"
EXAMPLES = (
    "headway cache",
    "headway cache --json",
    "headway cache clean --yes    it is made again when a training needs it",
)
ACTIONS = ("clean",)


def add_arguments(parser: ArgumentParser) -> None:
    """Show or clean, and which folder."""
    parser.add_argument("action", nargs="?", choices=ACTIONS, metavar="clean", help="remove what headway wrote there")
    parser.add_argument("--dir", metavar="DIR", help="the folder (default: that of the config key data.cache)")
    parser.add_argument("--yes", action="store_true", help="remove it without asking")
    options.add_json(parser, "one object on stdout")


def execute(arguments: Namespace) -> None:
    """Show the entries, and remove them if asked."""
    from headway.cli.confirm import confirmed
    from headway.cli.housekeeping_tables import show_cache
    from headway.cli.units import bytes_text
    from headway.data.cache import cache_entries, clean_cache
    from headway.data.config import DataConfig

    if arguments.yes and arguments.action is None:
        raise ConfigError("--yes is an option of cache clean, not of cache")
    folder = Path(arguments.dir or DataConfig().cache).expanduser()
    entries = cache_entries(folder)
    if not arguments.json:
        show_cache(folder, entries)
    removed, freed = [entry for entry in entries if entry.removable], False
    if arguments.action is not None and removed:
        total = bytes_text(sum(entry.bytes for entry in removed))
        freed = confirmed(total, yes=arguments.yes, ask=not arguments.json)
        if freed:
            removed = clean_cache(folder)
            tell(f"freed {bytes_text(sum(entry.bytes for entry in removed))}")
    if arguments.json:
        listed = removed if freed else entries
        from dataclasses import asdict  # with its imports, a quarter of what `headway --help` would wait for

        shown = {"path": str(folder), "entries": [asdict(entry) for entry in listed]}
        print(json.dumps({**shown, "bytes": sum(entry.bytes for entry in listed), "freed": freed}))
