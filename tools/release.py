"""Checks a release: two builds give the same bytes, and the wheel works in a clean environment of every Python.

`make release` runs it after `make wheel`, with the Python of build/venv; it needs the standard library and hatchling.
A Python that cannot be found or installed is reported and does not count as a failure. Exit code 1: something failed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST, TOOLS = ROOT / "dist", ROOT / "build"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROUNDS = 5  # of a timing; the fastest counts
ASK = "import ensurepip, ssl, sys, venv; print('%d.%d' % sys.version_info[:2])"
# What a user does first, on a model of seconds; "{python}" and "{headway}" are those of the environment.
SIZES = (
    "--model.width 32 --model.inner 64 --model.heads 2 --model.encoder_layers 1 --model.decoder_layers 1 "
    "--data.tokenizer.vocab 60"
)
STEPS = "--train.steps 20 --train.evaluate_every 20 --train.save_every 20 --train.batch_tokens 256 --train.device cpu"
CHECKS = {
    "--version": "{headway} --version",
    "presets": "{headway} presets",
    "train": f"{{headway}} train transformer-tiny --data reverse {SIZES} {STEPS} --out run",
    "info": "{headway} info run",
    "translate": "{headway} translate run 1",
    "int8": "{headway} translate run 1 --precision int8",
    "evaluate": "{headway} evaluate run --split val",
    "look": "{headway} look run 1 -o page.html",
    "export": "{headway} export run --out exported",
    "import": "{headway} import exported --out again",
}
TIMED = {"--help": "{headway} --help", "import headway": "{python} -c 'import headway'"}


@dataclass(slots=True)
class Outcome:
    """What became of one Python: where it was found, its timings, and what failed."""

    version: str
    found: str  # where the interpreter is, or why it was not found
    available: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def result(self) -> str:
        """One word and its reason."""
        if not self.available:
            return "not tried"
        return (
            f"FAILED: {'; '.join(self.failures)}" if self.failures else f"all {len(CHECKS) + len(TIMED)} checks passed"
        )


# --- the archives --------------------------------------------------------------------------------------------------


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def archives(folder: Path) -> dict[str, str]:
    """The wheel and the source archive of a folder, by name, with their SHA-256."""
    return {path.name: digest(path) for path in sorted(folder.iterdir()) if path.suffix in (".whl", ".gz")}


def build(source: Path, out: Path, *targets: str) -> dict[str, str]:
    """Build a source folder with another umask, locale and time zone than usual."""
    environment = {**os.environ, "TZ": "Pacific/Chatham", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *targets]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True, umask=0o077)
    return archives(out)


def compare_builds(place: Path) -> list[str]:
    """Build the last commit again, and the wheel from the source archive. Returns what differs from `dist`."""
    first, problems = archives(DIST), []
    if sorted(Path(name).suffix for name in first) != [".gz", ".whl"]:
        return [
            f"dist holds {', '.join(first) or 'nothing'}, expected one wheel and one source archive: run `make wheel`"
        ]
    source = place / "another" / "folder"
    source.mkdir(parents=True)
    exported = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=exported, check=True)
    again = build(source, place / "again")
    problems += [f"{name} differs in a second build" for name in first if again.get(name) != first[name]]
    packed = next(name for name in first if name.endswith(".gz"))
    with tarfile.open(DIST / packed) as opened:
        opened.extractall(place / "unpacked", filter="data")
    wheel = build(place / "unpacked" / packed.removesuffix(".tar.gz"), place / "from-source", "-t", "wheel")
    problems += [f"{name} built from {packed} differs" for name in wheel if wheel[name] != first.get(name)]
    return problems


# --- the Pythons ---------------------------------------------------------------------------------------------------


def find_python(version: str, folder: Path) -> tuple[Path | None, str]:
    """An interpreter of this version, and where it comes from; or None, and why it was not found."""
    named = shutil.which(f"python{version}")
    candidates = [Path(named)] if named else []
    candidates += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)
    for candidate in candidates:
        if is_python(candidate, version):
            return candidate, "pyenv" if ".pyenv" in candidate.parts else "PATH"
    for source in (from_debian, from_uv):
        found, reason = source(version, folder)
        if found is not None and is_python(found, version):
            return found, reason
    return None, reason


def is_python(path: Path, version: str) -> bool:
    """Whether a program is a complete Python of this version; a pyenv shim may stand for one that is not chosen."""
    try:
        done = subprocess.run([str(path), "-I", "-c", ASK], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return done.stdout.strip() == version


def from_debian(version: str, folder: Path) -> tuple[Path | None, str]:
    """Install Debian's package, as root and if this Debian has one."""
    if os.geteuid() or not shutil.which("apt-get"):
        return None, "no root or no apt"
    for command in (
        ["apt-cache", "show", f"python{version}-venv"],
        ["apt-get", "install", "-yqq", f"python{version}-venv"],
    ):
        if (problem := ended(command, 300)) is not None:
            return None, problem
    return Path(f"/usr/bin/python{version}"), "Debian"


def from_uv(version: str, folder: Path) -> tuple[Path | None, str]:
    """Let uv download a Python into the folder; a missing uv is installed into an environment there."""
    uv = shutil.which("uv") or str(folder / "uv/bin/uv")
    if not Path(uv).exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "uv")], check=True)
        if (problem := ended([str(folder / "uv/bin/python"), "-m", "pip", "install", "-q", "uv"], 300)) is not None:
            return None, f"uv cannot be installed: {problem}"
    place = folder / "pythons"
    if (problem := ended([uv, "python", "install", "--no-bin", "--install-dir", str(place), version], 300)) is not None:
        return None, f"uv: {problem}"
    found = sorted(place.glob(f"cpython-{version}.*/bin/python{version}"))
    return (found[-1], "uv") if found else (None, "uv installed no such Python")


def ended(command: Sequence[str], seconds: float) -> str | None:
    """Run a command. None if it succeeded, otherwise the last line it wrote."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"{Path(command[0]).name} took more than {seconds:.0f} s"
    except OSError as error:
        return str(error)
    lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
    errors = [line for line in lines if re.match(r"(ERROR|error|E):", line)]
    return None if done.returncode == 0 else (errors or lines)[-1].strip()


# --- an environment ------------------------------------------------------------------------------------------------


@contextmanager
def environment(python: Path, wheel: Path) -> Iterator[tuple[Path, str | None]]:
    """A clean environment with the wheel, and what went wrong with the installation. It is deleted in the end."""
    with tempfile.TemporaryDirectory(prefix="headway-release-") as name:
        folder = Path(name)
        install = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
        problem = ended([str(python), "-m", "venv", str(folder / "venv")], 300)
        yield folder, problem if problem is not None else ended([*install, str(wheel)], 1800)


def try_wheel(outcome: Outcome, python: Path, wheel: Path) -> None:
    """Install the wheel for this Python, do what a user does first, and note what failed and how long a start takes."""
    with environment(python, wheel) as (folder, problem):
        if problem is not None:
            outcome.found = f"{outcome.found}, and {problem}"
            return
        outcome.available = True
        words = {"headway": folder / "venv/bin/headway", "python": folder / "venv/bin/python"}
        outside = folder / "outside"
        outside.mkdir()
        settings = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        settings |= {"HOME": str(outside), "XDG_CACHE_HOME": str(outside / "cache")}
        for name, command in (CHECKS | TIMED).items():
            line = ["/bin/sh", "-c", command.format(**words)]
            fastest = float("inf")
            for _ in range(ROUNDS if name in TIMED else 1):
                started = time.perf_counter()
                done = subprocess.run(line, cwd=outside, env=settings, capture_output=True, text=True, timeout=600)
                fastest = min(fastest, time.perf_counter() - started)
                if done.returncode:
                    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
                    outcome.failures.append(f"{name}: exit code {done.returncode}, {said[-1] if said else 'silent'}")
                    break
            outcome.seconds[name] = fastest


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each Python."""
    rows = [("Python", "found by", *TIMED, "result")]
    for each in outcomes:
        times = [f"{each.seconds[name]:.3f} s" if name in each.seconds else "" for name in TIMED]
        rows.append((each.version, each.found, *times, each.result))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def main(arguments: list[str] | None = None) -> int:
    """Compare two builds, then try the wheel with each Python, one at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "versions", nargs="*", default=VERSIONS, metavar="VERSION", help=f"default: {' '.join(VERSIONS)}"
    )
    versions = parser.parse_args(arguments).versions
    with tempfile.TemporaryDirectory(prefix="headway-builds-") as place:
        problems = compare_builds(Path(place))
    for name, sha256 in archives(DIST).items():
        print(f"{sha256}  {name}")
    print("\n".join(problems) or "two builds, and the wheel built from the source archive, give the same bytes")
    wheel = next(iter(DIST.glob("*.whl")))
    outcomes = []
    for version in versions:
        python, found = find_python(version, TOOLS)
        outcome = Outcome(version, found)
        if python is not None:
            print(f"Python {version} ({found}): installing and trying the wheel …", flush=True)
            try_wheel(outcome, python, wheel)
        outcomes.append(outcome)
    print(table(outcomes))
    return 1 if problems or any(each.failures for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
