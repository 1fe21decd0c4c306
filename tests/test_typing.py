"""The types of the package, as a program outside of it sees them."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

from headway.runs.run import Run, TranslateOptions
from tests import typed_use

ROOT = Path(__file__).parents[1]


@pytest.mark.slow  # mypy reads torch as well: a minute
def test_an_outside_file_is_checked_strictly(tmp_path):
    """mypy uses the annotations of an installed package only if it has `py.typed`; a planted error is found."""
    pytest.importorskip("mypy")
    site = tmp_path / "site"
    shutil.copytree(ROOT / "src" / "headway", site / "headway", ignore=shutil.ignore_patterns("__pycache__"))
    source = (ROOT / "tests" / "typed_use.py").read_text()
    (tmp_path / "right.py").write_text(source)
    (tmp_path / "wrong.py").write_text(source.replace("weights: Tensor = seen", "weights: str = seen"))
    packages = sysconfig.get_paths()["purelib"]
    environment = {**os.environ, "MYPYPATH": "", "PYTHONPATH": f"{site}{os.pathsep}{packages}"}
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "right.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert errors, done.stdout + done.stderr
    assert all(line.startswith("wrong.py") for line in errors), done.stdout


def test_the_example_runs():
    assert typed_use.mixed(torch.randn(1, 2, 6, 8)).shape == (1, 2, 6, 8)
    assert typed_use.stacked(torch.randn(1, 6, 16)).shape == (1, 6, 16)


def test_the_overloads_of_translate_take_every_option():
    """An option that TranslateOptions lacks would work and yet be an error for a type checker."""
    parameters = set(inspect.signature(Run.translate).parameters)
    assert set(TranslateOptions.__annotations__) == parameters - {"self", "lines", "n_best", "scores"}
