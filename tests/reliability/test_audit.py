"""The audit of a child: it hears of what is forbidden, and says nothing of the rest."""

from __future__ import annotations

import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.reliability.audit import watched
from headway.reliability.process import start

WAYS: dict[str, tuple[Callable[[], object], str]] = {
    "reads outside": (lambda: Path("outside/secret.txt").read_text(), "open "),
    "follows a link out": (lambda: Path("model/link").read_text(), "open "),
    "lists outside": (lambda: os.listdir("outside"), "os.listdir "),
    "writes outside": (lambda: Path("outside/new").write_text("x"), "open "),
    "runs code": (lambda: runpy.run_path("model/code.py"), "code of "),
    "imports code": (lambda: (sys.path.insert(0, "model"), __import__("code_of_folder")), "code of "),
    "starts a program": (lambda: subprocess.run(["true"], check=False), "subprocess.Popen "),
    "calls a shell": (lambda: os.system("true"), "os.system "),
    "opens a connection": (lambda: socket.socket(socket.AF_UNIX).connect("nowhere"), "socket.connect "),
}


@pytest.fixture
def place(tmp_path):
    for name in ("model", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    (tmp_path / "model" / "link").symlink_to("../outside/secret.txt")
    (tmp_path / "model" / "fine.txt").write_text("fine")
    (tmp_path / "model" / "code.py").write_text("x = 1\n")
    (tmp_path / "model" / "code_of_folder.py").write_text("x = 1\n")
    return tmp_path


def heard(place, work: Callable[[], object]) -> list[str]:
    def child() -> None:
        watched(place / "log", place / "model", [place / "model"])()
        work()

    start(child, cwd=place).wait()
    return (place / "log").read_text().splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_what_is_forbidden_is_recorded(place, way):
    work, event = WAYS[way]
    assert any(line.startswith(event) for line in heard(place, work)), heard(place, work)


def test_what_is_allowed_is_not(place):
    def work() -> None:
        Path("model/fine.txt").read_text()
        import colorsys  # noqa: F401  # from the standard library

    assert heard(place, work) == []
