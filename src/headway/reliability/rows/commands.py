"""Random command lines over all commands and options."""

from __future__ import annotations

import dataclasses
import os
import shlex
import stat
from importlib import import_module
from pathlib import Path
from random import Random

from headway.config_help import keys_of
from headway.reliability.answers import copy, explained
from headway.reliability.command_lines import CommandGrammar, Names, draw, grammar
from headway.reliability.process import CLOSED, Input, Output, run_command
from headway.reliability.row import CampaignRow, Outcome, Place, failed, noticed, ok
from headway.reliability.runs import MadeRun

COLD = 0.01  # the share of command lines that start a new Python
# Options that work for minutes or import for seconds if they work; and --debug, which is there to show tracebacks.
LEFT_OUT = ("compiled", "onnx", "tensorboard", "wandb", "mlflow", "debug")
# Settings that say how much is to be done: a large value is an order, and no hang.
WORK_KEYS = (
    "train.steps", "train.accumulate", "train.evaluate_every", "train.save_every", "task.collect", "task.round.world",
    "task.round.act", "task.dreams", "task.horizon", "task.log", "task.targets", "train.compile",
)  # fmt: skip
INPUTS: tuple[bytes, ...] = (
    b"", b"\n", b"I like dogs\n", b"3 1 2\n", b"3 1 2\t2 1 3\n", b"no end", b"\xff\xfe\n", b"a\0b\n",
    b"\xef\xbb\xbf3\n",
    b"\xed\xa0\x80\n", b"x\r\ny\r\n", b"\n" * 300, b"a" * 5000 + b"\n", b"\x1b[31m\n", "é\u2028😀\n".encode(),
)  # fmt: skip
CANARY = "canary"  # what command lines with shell code in them would make


class Commands(CampaignRow):
    """No command line gives a traceback, an exit code that is not documented, a hang or more memory than 2 GB."""

    name = "commands"
    what = "random command lines: one line of error and a documented exit code, no traceback, hang or lost memory"
    requirement = "I3"
    counted = "command lines"
    trials = 5_000
    least = 10
    weight = 2.0

    def prepare(self, place: Place) -> None:
        self.place = place
        # The command line is above this package: it is looked at by name, as the children that run it do.
        parser = import_module("headway.cli.parser").build_parser()
        self.commands = {name: _without(each, LEFT_OUT) for name, each in grammar(parser).items()}
        self.trained = [made for made in place.runs.values() if made.tiny.trained]
        self.keys = {
            made.tiny.task: {
                key.path: key.type for key in keys_of(made.tiny.config(place.cache)) if key.path not in WORK_KEYS
            }
            for made in self.trained
        }
        self.trace = place.own(self.name) / "beam.jsonl"
        for made in self.trained:
            if "translate" in made.can:
                run_command([*made.command("translate", self.trace), "--trace", str(self.trace)])

    def trial(self, number: int, chance: Random) -> Outcome:
        made = chance.choice(self.trained)
        with self.place.scratch() as folder:
            names = self._names(made, folder)
            words = draw(self.commands, names, chance)
            words = _without_overridden(words, names)
            stdin, stdout, told = _ends(chance)
            cold = chance.random() < COLD
            home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
            ended = run_command(words, cwd=folder, stdin=stdin, stdout=stdout, environment=home, cold=cold)
            canary = (folder / CANARY).exists()
        shown = f"task {made.tiny.task}, headway {' '.join(map(_short, words))}{told}"
        if canary:
            return failed(f"{shown}: a word of it was run as code")
        if ended.problem:
            return failed(f"{shown}: {ended.problem}")
        if ended.code != 0 and not explained(ended):
            return failed(f"{shown}: exit code {ended.code}, expected an error message on stderr, got {ended}")
        return ok() if ended.code == 0 else noticed()

    def _names(self, made: MadeRun, folder: Path) -> Names:
        """Make the files of a trial, and tell what the words of its command line may be."""
        copy(made.folder, folder / "run")
        files = make_files(folder, made)
        if self.trace.exists():
            copy(self.trace, folder / "beam.jsonl")
        settings = {
            **made.tiny.changes, "train.steps": 1, "train.device": "cpu", "data.cache": self.place.cache,
            "train.evaluate_every": 1, "train.save_every": 1,
        }  # fmt: skip
        given = [made.file or made.tiny.inputs.get(verb, "0") for verb in made.can]
        return Names(
            likely=(*made.can, "train", "trace"),
            runs=(*["run"] * 20, "missing", "folder", "a.txt", "pipe"),
            files=files,
            values={
                "train.preset": [made.tiny.preset or ""],
                "train.data": files,
                "train.config": ["run/config.yaml", *files],
                "lab.name": ["sentences", "sentences", "nosuch"],
                "trace.file": ["beam.jsonl", "beam.jsonl", *files],
                "device": ["auto", "cpu"],
                "bench.name": ["nosuch"],
                "presets.name": ["gpt2", "nosuch"],
                "text": given,
                "input": [*given, *files],
                "image": [*given, *files],
                "prompt": given,
                "folder": ["run", *files],
                "limit": ["beam=3", "depth=9", "beam=x", "beam=-1", "beam=", "=1", "nosuch=1", "beam", "beam=1e3"],
                "split": ["val", "train", "test", "nosuch"],
            },
            keys={"train": self.keys[made.tiny.task]},
            last={
                "train": [f"--data={made.tiny.data}", *(f"--{key}={value}" for key, value in settings.items())],
                "lab": ["--quick", "--steps=1"],
                "demo": ["--steps=0"],  # a demo trains for minutes: it is refused at last
                "reliability": ["--list"],
            },
        )


def make_files(folder: Path, made: MadeRun) -> list[str]:
    """Make files of many kinds in a folder; their names, and those of files that are not there."""
    (folder / "a.txt").write_text("I like dogs\nI like cats\n" * 20)
    (folder / "pairs.tsv").write_text("en\tde\n" + "3 1 2\t2 1 3\n" * 20)
    (folder / "empty").touch()
    (folder / "bad.json").write_bytes(b'{"a": [')
    (folder / "noise.png").write_bytes(bytes(range(256)))
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "link").symlink_to("a.txt")
    os.mkfifo(folder / "pipe")
    try:  # a device of its own: a command that replaces what it writes to would destroy the system's
        os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        (folder / "null").symlink_to(os.devnull)
    return [
        "a.txt", "pairs.tsv", "empty", "bad.json", "noise.png", "folder", "loop", "dangling", "link", "pipe", "null",
        "missing",
        "missing/deeper", "a.txt/x", "run/config.yaml", "run/log.jsonl", "run/checkpoints", "-", "", " ", "x" * 300,
        "a\nb", "\x1b[31m", "\udcff", "new", "folder/new.png", *([made.file] if made.file else []),
    ]  # fmt: skip


def _short(word: str) -> str:
    """A word of a message: quoted where a shell needs it, without control characters, and cut where it is long."""
    word = ascii(word)[1:-1]
    return shlex.quote(word if len(word) <= 60 else f"{word[:50]}…{len(word)}")


def _without(command: CommandGrammar, names: tuple[str, ...]) -> CommandGrammar:
    return dataclasses.replace(command, options=tuple(each for each in command.options if each.name not in names))


def _without_overridden(words: list[str], names: Names) -> list[str]:
    """The command line without those of its last words that would take back a setting drawn before them."""
    last = names.last.get(words[0], ()) if words else ()
    if not last or words[0] not in names.keys:
        return words
    drawn, settings = words[: -len(last)], words[-len(last) :]
    keys = {word.partition("=")[0] for word in drawn}
    return [*drawn, *(word for word in settings if word.partition("=")[0] not in keys)]


def _ends(chance: Random) -> tuple[Input, Output, str]:
    """What stdin and stdout are, and how that is said in a message."""
    given = chance.choice(INPUTS)
    stdin: Input = given
    stdout: Output = None
    told = f" < {given[:40]!r}" if given else ""
    kind = chance.random()
    if kind < 0.05:
        stdin, told = CLOSED, " <&-"
    kind = chance.random()
    if kind < 0.05:
        stdout, told = CLOSED, f"{told} >&-"
    elif kind < 0.1 and Path("/dev/full").exists():
        stdout, told = Path("/dev/full"), f"{told} > /dev/full"
    return stdin, stdout, told
