"""`make release` finds the Pythons there are, tries the wheel outside of the clone, and tells what failed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli.parser import build_parser
from tools import release

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_python_is_taken_only_if_it_is_one_of_that_version(tmp_path, monkeypatch):
    """pyenv puts shims of every Python on PATH; those of a version that is not chosen only print how to choose it."""
    assert release.is_python(Path(sys.executable), HERE)
    assert not release.is_python(Path(sys.executable), "3.99")
    assert not release.is_python(script(tmp_path / "shim", "echo 'pyenv: command not found' >&2; exit 127"), HERE)
    assert not release.is_python(tmp_path / "nothing", HERE)
    script(tmp_path / f"bin/python{HERE}", f'exec {sys.executable} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert release.find_python(HERE, tmp_path) == (tmp_path / f"bin/python{HERE}", "PATH")


def test_a_python_that_cannot_be_had_says_why_and_is_no_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(release, "from_debian", lambda version, folder: (None, "no such package"))
    monkeypatch.setattr(release, "from_uv", lambda version, folder: (None, "uv: no network"))
    assert release.find_python("3.99", tmp_path) == (None, "uv: no network")
    monkeypatch.setattr(release, "DIST", tmp_path)
    (tmp_path / "headway-1-py3-none-any.whl").write_bytes(b"wheel")
    monkeypatch.setattr(release, "compare_builds", lambda place: [])
    assert release.main(["3.99"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split("  ")[0] == "3.99"
    monkeypatch.setattr(release, "compare_builds", lambda place: ["a.whl differs in a second build"])
    assert release.main(["3.99"]) == 1
    assert "a.whl differs in a second build" in capsys.readouterr().out


def test_uv_is_asked_for_one_version_and_its_error_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    script(tmp_path / "uv/bin/uv", 'echo "$@" > "$(dirname "$0")/asked"; echo "error: no such host" >&2; exit 2')
    assert release.from_uv("3.14", tmp_path) == (None, "uv: error: no such host")
    assert (tmp_path / "uv/bin/asked").read_text().split()[:2] == ["python", "install"]
    script(tmp_path / "uv/bin/uv", "exit 0")
    script(tmp_path / "pythons/cpython-3.14.1-linux/bin/python3.14", "")
    assert release.from_uv("3.14", tmp_path) == (tmp_path / "pythons/cpython-3.14.1-linux/bin/python3.14", "uv")


def test_what_a_command_ended_with():
    assert release.ended(["true"], 5) is None
    assert release.ended(["sh", "-c", "echo 'ERROR: no torch'; echo note >&2; exit 1"], 5) == "note"
    assert (
        release.ended(["sh", "-c", "printf 'ERROR: no torch\\n[notice] news\\n' >&2; exit 1"], 5) == "ERROR: no torch"
    )
    assert release.ended(["sleep", "5"], 0.1) == "sleep took more than 0 s"
    assert "No such file" in release.ended(["/no/such/program"], 5)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An environment with a stand-in for headway, which notes what it was asked and fails at `evaluate`."""
    script(
        tmp_path / "venv/bin/headway",
        'echo "$1 ${PYTHONPATH-unset} $HOME" >> asked; test "$1" != evaluate || { echo broken >&2; exit 1; }',
    )
    script(tmp_path / "venv/bin/python", "exit 0")
    monkeypatch.setattr(release.tempfile, "TemporaryDirectory", lambda **_: _Folder(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "the/clone/src")
    return tmp_path


class _Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> str:
        return str(self.path)

    def __exit__(self, *_: object) -> None:
        pass


def test_every_check_runs_outside_of_the_clone_and_failures_are_in_the_table(installed, monkeypatch):
    outcome = release.Outcome("3.14", "PATH")
    release.try_wheel(outcome, script(installed / "python", "exit 0"), Path("a.whl"))
    assert outcome.available
    assert outcome.failures == ["evaluate: exit code 1, broken"]
    asked = (installed / "outside/asked").read_text().split("\n")
    assert f"train unset {installed / 'outside'}" in asked
    assert sum(line.startswith("--help") for line in asked) == release.ROUNDS
    last = release.table([outcome]).splitlines()[-1]
    assert last.endswith("FAILED: evaluate: exit code 1, broken")
    outcome.failures.clear()
    assert "checks passed" in release.table([outcome])


def test_a_wheel_that_cannot_be_installed_is_told_with_the_reason(installed):
    script(installed / "venv/bin/python", "echo 'ERROR: No matching distribution found for torch==2.13.0' >&2; exit 1")
    outcome = release.Outcome("3.14", "PATH")
    release.try_wheel(outcome, script(installed / "python", "exit 0"), Path("a.whl"))
    assert not outcome.available
    assert release.table([outcome]).splitlines()[-1].endswith("not tried")
    assert "No matching distribution found for torch==2.13.0" in outcome.found


@pytest.mark.parametrize("name", release.CHECKS)
def test_every_check_is_a_command(name):
    words = release.CHECKS[name].split()[1:]
    if name.startswith("--"):
        return
    arguments, rest = build_parser().parse_known_args(words)
    assert arguments.command == words[0]
    assert not rest or words[0] == "train"


def test_make_release_builds_and_then_tries(tmp_path):
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    steps = subprocess.run(
        ["make", "-n", "release"], cwd=release.ROOT, capture_output=True, text=True, env=environment, check=True
    ).stdout
    assert steps.index("hatchling build") < steps.index("-m tools.release")
