"""What headway says of itself: presets, labs, flags, exported names, modules at the start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from golden_cases.common import CORPUS, GPT, LAYERS, ONCE, PAIR, SOURCE, group
from golden_cases.recorder import Done, Recorder


@group
def presets(rec: Recorder) -> None:
    """Every preset: what it says of itself, its config, and that config read again."""
    listed = rec.command("list", "presets --json")
    rec.command("list-report", "presets", kind="report")
    for name in [each["name"] for each in json.loads(listed.out)]:
        rec.command(f"{name}/json", f"presets {name} --json")
        rec.command(f"{name}/report", f"presets {name}", kind="report")
        shown = rec.command(f"{name}/print_config", f"train {name} --print_config", kind="config")
        Path(f"{name}.yaml").write_text(shown.out, encoding="utf-8")
        again = rec.quietly(f"train {name} --config {name}.yaml --print_config")
        same = again.code == "0" and again.out == shown.out
        rec.entry(
            f"{name}/config-read-again", "config", "the same" if same else f"{again.code}\n{again.out}{again.err}"
        )


@group
def labs(rec: Recorder) -> None:
    """The experiments at a few steps."""
    rec.command("list", "lab", kind="report")
    rec.command("sentences", "lab sentences --steps 5", kind="report")
    rec.command("sentences-seed", "lab sentences --steps 3 --seed 2", kind="report")
    rec.command("pondering", "lab pondering --steps 3 --plot ponder.png", kind="report")
    rec.file("ponder.png", "ponder.png")
    rec.command("party", "lab party --quick", kind="report")
    sizes = f"{GPT} --train.evaluate_every 2 --train.save_every 2 --train.device cpu --data.cache cache"
    rec.command(
        "positions", f"lab positions --data book.txt --kinds learned,alibi --steps 2 --seeds 2 {sizes}", kind="report"
    )
    rec.file("positions.png", "runs/labs/positions.png")
    for name, words in {
        "unknown": "lab nonsense", "plot": "lab sentences --plot a.gif", "setting": "lab sentences --model.width 3",
        "own-setting": "lab positions --train.steps 4",
        "kind": "lab positions --kinds learned,nonsense --data book.txt",
    }.items():  # fmt: skip
        rec.command(f"wrong-{name}", words)


@group
def interface(rec: Recorder) -> None:
    """Commands and their flags, exported names, and what starting costs in modules."""
    for name, words in {"version": "--version", "help": "--help", "nothing": "", "bench": "bench"}.items():
        done = rec.command(name, words, kind="report")
        if name == "help":
            _flags(rec, "headway", done)
            commands = re.findall(r"^    (\w+)(?: |$)", done.out, re.MULTILINE)
            rec.entry("commands", "flags", "".join(f"{each}\n" for each in sorted(commands)))
    for each in commands:
        _flags(rec, each, rec.command(f"help-{each}", f"{each} --help", kind="report"))
    rec.python("exports", "api", _exports)
    _start(rec)


PART = re.compile(r"\[[^\]]*\]|--?[a-z][\w-]*(?: [A-Z]\S*)?|\{[^}]*\}|[A-Z]+(?: \.\.\.)?")


def _flags(rec: Recorder, name: str, done: Done) -> None:
    """Options and arguments of the usage line, with their choices, whatever their help says."""
    usage = " ".join(done.out.partition("\n\n")[0].split())
    found = sorted(set(PART.findall(usage)))
    rec.entry(f"flags-{name}", "flags", "".join(f"{each}\n" for each in found))


def _exports() -> str:
    import headway

    return "".join(f"headway.{name}\n" for name in sorted(headway.__all__))


def _methods() -> str:
    import headway

    kind = type(headway.load("runs/start", device="cpu"))
    return "".join(f"Run.{name}\n" for name in dir(kind) if not name.startswith("_"))


START = """
import json, sys
from headway.cli import main
code = main(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


def _start(rec: Recorder) -> None:
    """What an 8-bit translation, in a process of its own, imports: for information."""
    rec.quietly(f"train transformer-tiny {CORPUS} {PAIR} {LAYERS} --data.tokenizer word {ONCE} --out runs/start")
    rec.python("run-methods", "api", _methods)
    command = ["translate", "runs/start", SOURCE, "--precision", "int8", "--beam", "1", "--device", "cpu"]
    for _ in range(2):  # the first makes the 8-bit copy
        done = subprocess.run([sys.executable, "-c", START, *command], capture_output=True, text=True, check=False)
    *lines, told = done.stdout.splitlines() or [""]
    rec.entry("start/stdout", "stdout", "\n".join(lines))
    modules = json.loads(told)["modules"] if told.startswith("{") else []
    rec.entry("start/exit", "exit", str(done.returncode))
    rec.entry("start/modules", "information", str(len(modules)))
    own = [name for name in modules if name.partition(".")[0] == "headway"]
    rec.entry("start/headway-modules", "information", "".join(f"{name}\n" for name in own))
    roots = sorted({name.partition(".")[0] for name in modules})
    rec.entry("start/packages", "information", "".join(f"{name}\n" for name in roots))
