"""The recording process of `golden.py`, which starts it with the environment that makes a record repeatable.

A group of cases runs in a fork of its own, in a folder of its own, so that groups neither see nor disturb each other.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from golden_cases import data
from golden_cases.common import GROUPS
from golden_cases.recorder import Recorder

MODULES = ("text", "senses", "variants", "interface", "mistakes", "reread")  # in this order: `reread` is last
# What most groups import anyway is imported once, before the first fork.
PRELOADED = ("torch", "numpy", "matplotlib.font_manager", "PIL.Image", "rich.console", "sacrebleu", "transformers")


def record_group(name: str, out: Path, base: Path, runs: Path | None) -> None:
    """Run a group's cases in a folder of its own, and write its entries."""
    folder = base / "groups" / name
    folder.mkdir(parents=True)
    data.write_all(folder)
    os.chdir(folder)
    recorder = Recorder(name, out, base, runs)
    GROUPS[name](recorder)
    (out / "parts" / f"{name}.json").write_text(json.dumps(recorder.entries))
    times = sorted(recorder.times.items(), key=lambda item: -item[1])
    (out / "times" / f"{name}.txt").write_text("".join(f"{took:7.2f} {case}\n" for case, took in times))


def start(name: str, out: Path, base: Path, runs: Path | None) -> int:
    """Fork for a group; the number of the process."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        record_group(name, out, base, runs)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def record(names: Sequence[str], out: Path, base: Path, runs: Path | None, *, jobs: int) -> list[str]:
    """Run the groups, `jobs` at a time; the names of those that failed. `reread` needs the others' runs: it is last."""
    waiting, running, failed = list(names), {}, []
    while waiting or running:
        alone = waiting and waiting[0] == "reread" and running
        if waiting and len(running) < jobs and not alone:
            name = waiting.pop(0)
            running[start(name, out, base, runs)] = (name, time.monotonic())
            continue
        child, status = os.wait()
        name, began = running.pop(child)
        if status:
            failed.append(name)
        shutil.rmtree(base / "groups" / name, ignore_errors=True)
        said = "FAILED" if status else "done"
        print(f"{name:24s} {time.monotonic() - began:6.1f} s  {said}", file=sys.stderr, flush=True)
    return failed


def about(source: str) -> dict[str, str]:
    """What a record depends on beside the code."""
    found = {"source": source, "python": sys.version.split()[0]}
    for name in ("torch", "numpy", "transformers", "tokenizers", "gymnasium", "onnx", "matplotlib", "PIL", "rich"):
        with contextlib.suppress(ImportError):
            found[name] = str(getattr(importlib.import_module(name), "__version__", "?"))
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found["processor"] = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return found


def main() -> int:
    """Record what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("source")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    import headway

    expected = Path(arguments.source).resolve() / "src"
    if not Path(headway.__file__).resolve().is_relative_to(expected):
        print(f"golden: headway comes from {headway.__file__}, expected below {expected}", file=sys.stderr)
        return 2
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in MODULES:
        importlib.import_module(f"golden_cases.{name}")
    wanted = [name for name in arguments.only.split(",") if name] or list(GROUPS)
    unknown = [name for name in wanted if name not in GROUPS]
    if unknown:
        print(f"golden: unknown groups {', '.join(unknown)}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    out = arguments.out
    entries, earlier = without(wanted, out)
    for name in ("parts", "times"):
        (out / name).mkdir(parents=True, exist_ok=True)
    failed = record(wanted, out, arguments.base, arguments.runs, jobs=arguments.jobs)
    for name in wanted:
        if name not in failed:
            entries |= json.loads((out / "parts" / f"{name}.json").read_text())
    shutil.rmtree(out / "parts")
    failed += earlier
    whole = {"about": about(arguments.source), "failed": failed, "entries": dict(sorted(entries.items()))}
    (out / "record.json").write_text(json.dumps(whole, indent=1) + "\n")
    print(f"{len(entries)} entries in {out / 'record.json'}", file=sys.stderr)
    return 1 if failed else 0


def without(groups: Sequence[str], out: Path) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The entries of the other groups in a record that is there already, and which of those failed."""
    for name in groups:
        for below in ("raw", "runs"):
            shutil.rmtree(out / below / name, ignore_errors=True)
    if not (out / "record.json").exists():
        return {}, []
    before = json.loads((out / "record.json").read_text())
    kept = {name: entry for name, entry in before["entries"].items() if name.partition("/")[0] not in groups}
    return kept, [name for name in before["failed"] if name not in groups]


if __name__ == "__main__":
    sys.exit(main())
