"""Runs headway's command line in-process, and keeps what came of it: exit codes, output, files."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import random
import re
import shlex
import shutil
import struct
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMES = ("seconds",)  # keys of log.jsonl that a clock fills
LEFT_OUT = (".lock",)  # files of a run folder that hold a process id
PAYLOAD = re.compile(r'<script type="application/json" id="payload">(.*?)</script>', re.DOTALL)
CHANGING = ((r"[\d,]+ bytes free", "N bytes free"), (r"\.draft-\d+-", ".draft-PID-"))  # in messages, by run and machine
SHORT = 200  # characters that are kept in the record itself, not in a file beside it


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    code: str
    out: str
    err: str


class Recorder:
    """The entries of one group, and the commands that make them."""

    def __init__(self, group: str, out: Path, base: Path, runs: Path | None) -> None:
        self.group, self.out, self.base = group, out, str(base)
        self.runs = runs  # run folders of another record, which `reread` loads
        self.entries: dict[str, dict[str, str]] = {}
        self.times: dict[str, float] = {}  # processor seconds of commands, for `times/`

    # --- entries ---------------------------------------------------------------------------------------------------

    def entry(self, name: str, kind: str, value: str) -> None:
        """Keep a text under a name, in the record if it is short, else as a digest with the text in a file."""
        name = f"{self.group}/{name}"
        if name in self.entries:
            raise ValueError(f"two entries are called {name}")
        value = value.replace(self.base, "<tmp>")
        for pattern, instead in CHANGING:
            value = re.sub(pattern, instead, value)
        if len(value) <= SHORT:
            self.entries[name] = {"kind": kind, "value": value}
            return
        digest = hashlib.sha256(value.encode()).hexdigest()
        self.entries[name] = {"kind": kind, "hash": digest}
        path = self.out / "raw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value, encoding="utf-8")

    def command(
        self, name: str, words: str | Sequence[str], *, given: str | bytes = "", kind: str | None = None
    ) -> Done:
        """Run `headway WORDS`: its exit code, what it printed (as `kind`), and what it wrote to stderr."""
        argv = shlex.split(words) if isinstance(words, str) else [str(word) for word in words]
        began = time.process_time()
        done = self._run(argv, given.encode() if isinstance(given, str) else given)
        self.times[f"{self.group}/{name}"] = round(time.process_time() - began, 2)
        self.entry(f"{name}#exit", "exit", done.code)
        self.entry(f"{name}#stdout", kind or ("json" if "--json" in argv else "stdout"), done.out)
        self.entry(f"{name}#stderr", "message", done.err)
        return done

    def quietly(self, words: str) -> Done:
        """Run a command that only prepares others."""
        return self._run(shlex.split(words), b"")

    def _run(self, argv: list[str], given: bytes) -> Done:
        from headway.cli import main

        _seed()
        out, err = io.StringIO(), io.StringIO()
        before = sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
                code = str(main(argv))
        except SystemExit as ended:
            code = str(0 if ended.code is None else ended.code)
        except Exception as error:  # a command that crashes is a fact like any other
            code = f"1 ({type(error).__name__})"
            err.write(f"{type(error).__name__}: {error}\n")
        finally:
            sys.stdin = before
        return Done(code, out.getvalue(), _without_padding(err.getvalue()))

    # --- files -----------------------------------------------------------------------------------------------------

    def file(self, name: str, path: str | Path, kind: str | None = None) -> None:
        """Keep what a file holds; pictures and other bytes as a digest."""
        path = Path(path)
        if not path.exists():
            self.entry(name, kind or "file", "(no such file)")
        elif path.suffix == ".safetensors":
            self.entry(name, kind or "weights", tensors(path))
        elif path.suffix == ".onnx":
            self.entry(name, kind or "graph", graph(path))
        elif path.name == "log.jsonl":
            self.entry(name, kind or "log", timeless(path.read_text()))
        elif path.suffix in (".png", ".svg", ".gif"):
            self.entry(name, kind or "picture", digest(path))
        else:
            try:
                text = path.read_bytes().decode()
            except UnicodeDecodeError:
                text = digest(path)
            self.entry(name, kind or ("json" if path.suffix == ".json" else "file"), text)

    def folder(self, name: str, path: str | Path, *, without: Sequence[str] = ()) -> None:
        """Keep every file of a folder, and which there are."""
        path = Path(path)
        found = [each for each in sorted(path.rglob("*")) if each.is_file() and each.name not in LEFT_OUT]
        self.entry(f"{name}#files", "files", "".join(f"{each.relative_to(path).as_posix()}\n" for each in found))
        for each in found:
            if each.name not in without:
                self.file(f"{name}/{each.relative_to(path).as_posix()}", each)

    def page(self, name: str, path: str | Path) -> None:
        """Keep the payload of a page that `look` wrote."""
        text = Path(path).read_text(encoding="utf-8")
        found = PAYLOAD.search(text)
        self.entry(name, "page", found[1] if found else f"(no payload in {len(text)} characters)")
        shell = re.sub(r"<title>.*?</title>", "", PAYLOAD.sub("", text), flags=re.DOTALL)
        self.entry(f"{name}-shell", "page", hashlib.sha256(shell.encode()).hexdigest())

    def keep(self, run: str) -> None:
        """Hand a run folder on to `reread`, of this record or of another."""
        shutil.copytree(run, self.out / "runs" / self.group / Path(run).name)

    def python(self, name: str, kind: str, ask: Callable[[], str]) -> None:
        """Keep what a call of headway's Python interface gives, or the error it raises."""
        _seed()
        try:
            self.entry(name, kind, ask())
        except Exception as error:
            self.entry(name, kind, f"{type(error).__name__}: {error}")


def _seed() -> None:
    """Every command starts from the same random state, as a process of its own would."""
    random.seed(0)
    for name, path in (("torch", "manual_seed"), ("numpy", "random.seed")):
        if name in sys.modules:
            found: Any = sys.modules[name]
            for part in path.split("."):
                found = getattr(found, part)
            found(0)


def _without_padding(text: str) -> str:
    """Without the blank lines and the spaces that a progress bar leaves."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())


# --- forms in which files are compared -----------------------------------------------------------------------------


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def timeless(log: str) -> str:
    """A log without what a clock measured."""
    lines = (json.loads(line) for line in log.splitlines())
    kept = ({key: value for key, value in line.items() if key not in TIMES} for line in lines)
    return "".join(f"{json.dumps(line)}\n" for line in kept)


def tensors(path: Path) -> str:
    """A safetensors file: its digest, then each tensor's name, type, shape and digest, in the order of the bytes."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    lines = [f"sha256 {hashlib.sha256(data).hexdigest()}"]
    lines += [f"metadata {json.dumps(header.pop('__metadata__', None), sort_keys=True)}"]
    for name, each in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, end = (8 + size + offset for offset in each["data_offsets"])
        lines.append(f"{name} {each['dtype']} {each['shape']} {hashlib.sha256(data[start:end]).hexdigest()}")
    return "\n".join(lines) + "\n"


def graph(path: Path) -> str:
    """An ONNX graph: inputs, outputs, weights and nodes. What it says of the source code it came from is left out."""
    model: Any = importlib.import_module("onnx").load(str(path))
    lines = [f"opset {each.domain} {each.version}" for each in model.opset_import]
    for what, values in (("input", model.graph.input), ("output", model.graph.output)):
        lines += [f"{what} {each.name} {_one_line(each.type)}" for each in values]
    for each in model.graph.initializer:
        each = type(each).FromString(each.SerializeToString())
        name = each.name
        each.ClearField("name")
        lines.append(f"weights {name} {list(each.dims)} {hashlib.sha256(each.SerializeToString()).hexdigest()}")
    for node in model.graph.node:
        settings = ", ".join(_one_line(each) for each in node.attribute)
        lines.append(f"node {node.op_type} {list(node.input)} -> {list(node.output)} {settings}")
    return "\n".join(lines) + "\n"


def _one_line(message: Any) -> str:
    return " ".join(str(message).split())
