"""Hold headway's behaviour still across a restructuring: record what it does, compare two records.

    python -m tools.golden record OUT [--source DIR] [--runs OTHER/runs] [--jobs N] [--only GROUP,GROUP]
    python -m tools.golden compare A B [--allowed FILE]

See tests/golden/README.md.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "tests" / "golden" / "allowed.toml"
INFORMATION = "information"  # entries of this kind are shown, and never count as a difference
MISSING = "(missing)"
SHOWN, PLACES = 8, 4  # lines of a difference, and differences of an entry, that are printed unless all are asked for


# --- recording -----------------------------------------------------------------------------------------------------


def environment(source: Path, base: Path) -> dict[str, str]:
    """What makes a record repeatable: one thread, no GPU, no network, no home, no terminal."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV") if name in os.environ}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return kept | threads | {
        "PYTHONPATH": os.pathsep.join([str(source / "src"), str(ROOT / "tools")]),
        "PYTHONHASHSEED": "0",
        "PYTHONPYCACHEPREFIX": str(base / "pycache"),
        "HOME": str(base / "home"),
        "TMPDIR": str(base / "tmp"),
        "MPLCONFIGDIR": str(base / "home" / "matplotlib"),
        "MPLBACKEND": "Agg",
        "SDL_VIDEODRIVER": "dummy",
        "XDG_RUNTIME_DIR": str(base / "tmp"),
        "COLUMNS": "200",
        "LINES": "50",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }  # fmt: skip


def record(out: Path, source: Path, *, runs: Path | None, jobs: int, only: str) -> int:
    """Run every case, or those of the groups `only`, against the headway below `source`; the exit code."""
    if out.exists() and any(out.iterdir()) and not (only and (out / "record.json").exists()):
        print(
            f"golden: {out} exists and is not empty; with --only, groups of a record there are made anew",
            file=sys.stderr,
        )
        return 2
    out.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="golden-")).resolve()
    try:
        for name in ("home", "tmp"):
            (base / name).mkdir()
        words = [
            "-m",
            "golden_cases",
            str(out.resolve()),
            str(base),
            str(source.resolve()),
            "--jobs",
            str(jobs),
            "--only",
            only,
        ]
        words += ["--runs", str(runs.resolve())] if runs is not None else []
        done = subprocess.run([sys.executable, *words], env=environment(source.resolve(), base), cwd=base, check=False)
        return done.returncode
    finally:
        shutil.rmtree(base, ignore_errors=True)


# --- comparing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """A place in which two records differ: the lines of the old entry there, and those of the new one."""

    name: str
    kind: str
    old: str
    new: str


@dataclass(slots=True)
class Rule:
    """A difference that is allowed, and why. Patterns are of the whole lines that differ."""

    name: str
    old: str
    new: str
    reason: str
    kind: str = "*"
    used: int = field(default=0, compare=False)

    def accepts(self, each: Difference) -> bool:
        """Whether this is such a difference."""
        return (
            fnmatch.fnmatchcase(each.name, self.name)
            and fnmatch.fnmatchcase(each.kind, self.kind)
            and re.fullmatch(self.old, each.old, re.DOTALL) is not None
            and re.fullmatch(self.new, each.new, re.DOTALL) is not None
        )


def read_rules(path: Path) -> list[Rule]:
    """The table of allowed differences. Raises ValueError naming the rule that lacks or has a key it should not."""
    rules = []
    for number, table in enumerate(tomllib.loads(path.read_text(encoding="utf-8")).get("allowed", []), 1):
        try:
            rules.append(Rule(**table))
        except TypeError as error:
            raise ValueError(f"{path}: rule {number}: {error}") from None
        for pattern in (rules[-1].old, rules[-1].new):
            re.compile(pattern)
        if not rules[-1].reason.strip():
            raise ValueError(f"{path}: rule {number}: no reason")
    return rules


class Record:
    """A record on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        whole = json.loads((folder / "record.json").read_text(encoding="utf-8"))
        self.about: dict[str, str] = whole["about"]
        self.failed: list[str] = whole["failed"]
        self.entries: dict[str, dict[str, str]] = whole["entries"]

    def text(self, name: str) -> str:
        """What an entry holds, in full."""
        entry = self.entries[name]
        return entry["value"] if "value" in entry else (self.folder / "raw" / name).read_text(encoding="utf-8")


def differences(old: Record, new: Record) -> Iterator[Difference]:
    """Every place in which two records differ, by name; information is left out."""
    for name in sorted(old.entries.keys() | new.entries.keys()):
        before, after = old.entries.get(name), new.entries.get(name)
        kind = (before or after or {})["kind"]
        if kind == INFORMATION or before == after:
            continue
        if before is None or after is None:
            here = (
                MISSING if before is None else _first(old.text(name)),
                MISSING if after is None else _first(new.text(name)),
            )
            yield Difference(name, kind, *here)
        elif before["kind"] != after["kind"]:
            yield Difference(name, kind, f"kind {before['kind']}", f"kind {after['kind']}")
        else:
            for here, there in hunks(old.text(name), new.text(name)):
                yield Difference(name, kind, here, there)


def _first(text: str) -> str:
    return text if len(text) < 200 else f"{text[:200]}…"


def hunks(old: str, new: str) -> list[tuple[str, str]]:
    """The lines in which two texts differ, place by place; of JSON the leaves, with their paths."""
    before, after = _leaves(old), _leaves(new)
    if before is None or after is None or before == after:  # equal leaves: the texts differ in order or in spaces
        before, after = old.splitlines(), new.splitlines()
    if before == after:
        return [(repr(old[-20:]), repr(new[-20:]))]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if len(before) * len(after) > 50_000_000:  # too much for a match of all with all: line by line
        pairs = zip(before, after, strict=False)
        return [(a, b) for a, b in pairs if a != b] or [(f"{len(before)} lines", f"{len(after)} lines")]
    return [
        ("\n".join(before[i:j]), "\n".join(after[k:m])) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"
    ]


def _leaves(text: str) -> list[str] | None:
    """`path = value` for each leaf of a JSON text, None for another text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return list(_walk(json.loads(text), ""))
    except ValueError:
        return None


def _walk(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _walk(value, f"{path}.{key}" if path else key)
    elif isinstance(tree, list) and tree:
        for number, value in enumerate(tree):
            yield from _walk(value, f"{path}[{number}]")
    else:
        yield f"{path} = {json.dumps(tree, ensure_ascii=False)}"


def compare(old: Record, new: Record, rules: Sequence[Rule], *, whole: bool = False) -> int:
    """Print every difference and what is allowed of it; 1 if there is one that is not."""
    for key in sorted(old.about.keys() | new.about.keys()):
        if key != "source" and old.about.get(key) != new.about.get(key):
            print(f"note: {key} was {old.about.get(key)}, is {new.about.get(key)}")
    wrong: list[Difference] = []
    allowed = 0
    for each in differences(old, new):
        rule = next((rule for rule in rules if rule.accepts(each)), None)
        if rule is not None:
            rule.used += 1
            allowed += 1
        else:
            wrong.append(each)
    _show(wrong, whole=whole)
    for rule in rules:
        if not rule.used:
            print(f"note: allowed but not met: {rule.name} ({rule.kind}) {rule.old!r} -> {rule.new!r}: {rule.reason}")
    for record, which in ((old, "first"), (new, "second")):
        for name in record.failed:
            print(f"group {name} failed in the {which} record")
    kinds = sorted({each.kind for each in wrong})
    counts = ", ".join(f"{kind} {sum(each.kind == kind for each in wrong)}" for kind in kinds)
    print(
        f"{len(old.entries)} and {len(new.entries)} entries; {allowed} differences allowed; "
        f"{len(wrong)} not allowed{f' ({counts})' if counts else ''}, in {len({each.name for each in wrong})} entries"
    )
    return 1 if wrong or old.failed or new.failed else 0


def _show(wrong: Sequence[Difference], *, whole: bool) -> None:
    """An entry's name and the places in which it differs, the first few of them unless all are asked for."""
    for name, found in groupby(wrong, lambda each: each.name):
        places = list(found)
        print(f"{name} ({places[0].kind})")
        for each in places if whole else places[:PLACES]:
            for sign, text in (("-", each.old), ("+", each.new)):
                lines = text.splitlines()
                for line in lines if whole else lines[:SHOWN]:
                    print(f"  {sign} {line if whole else line[:300]}")
                if len(lines) > SHOWN and not whole:
                    print(f"  {sign} … {len(lines) - SHOWN} lines more")
        if len(places) > PLACES and not whole:
            print(f"  … {len(places) - PLACES} places more")


def main(argv: Sequence[str] | None = None) -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(prog="golden", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run every case, and write down what came of it")
    recording.add_argument("out", type=Path, help="a folder to make")
    recording.add_argument("--source", type=Path, default=ROOT, help="a checkout of headway (default: this one)")
    recording.add_argument("--runs", type=Path, help="run folders for the group `reread`: those of the old record")
    recording.add_argument("--jobs", type=int, default=1, help="groups at a time (default: 1)")
    recording.add_argument(
        "--only", default="", help="these groups alone; in a record that is there already they are replaced"
    )
    comparing = commands.add_parser("compare", help="print the differences of two records; 1 if one is not allowed")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--allowed", type=Path, default=ALLOWED, help="default: tests/golden/allowed.toml")
    comparing.add_argument("--whole", action="store_true", help="print long differences in full")
    comparing.add_argument("--only", default="*", help="entries whose names match, such as 'gpt/*' or '*#exit'")
    arguments = parser.parse_args(argv)
    if arguments.command == "record":
        return record(arguments.out, arguments.source, runs=arguments.runs, jobs=arguments.jobs, only=arguments.only)
    old, new = Record(arguments.old), Record(arguments.new)
    for each in (old, new):
        each.entries = {name: value for name, value in each.entries.items() if fnmatch.fnmatch(name, arguments.only)}
    return compare(old, new, read_rules(arguments.allowed), whole=arguments.whole)


if __name__ == "__main__":
    sys.exit(main())
