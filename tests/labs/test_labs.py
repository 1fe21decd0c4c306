"""Every registered lab: its contract, its quick version, and that a broken mechanism is noticed."""

from __future__ import annotations

import ast
import inspect
import math
import struct
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from headway.labs import frame
from headway.labs.frame import CHAPTERS, LabResult, run_lab
from headway.labs.registry import LABS
from tests.labs.broken import Mutation

NAMES = [*LABS.homes]
MODULES = {name: home.partition(":")[0] for name, home in LABS.homes.items()}
WIDE = 1200  # pixels of a figure: 8 inches


@cache
def quick(name: str) -> LabResult:
    return run_lab(LABS[name], quick=True)


def mutations() -> list[tuple[str, Mutation]]:
    found = []
    for name, module in MODULES.items():
        table = import_module(f"tests.labs.broken.{module.rpartition('.')[2]}").BROKEN
        found += [(name, mutation) for mutation in table]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_lab_is_one_file_with_a_claim_slides_and_flags_that_are_explained(name):
    lab, module = LABS[name], import_module(MODULES[name])
    assert lab.name == name == module.__name__.rpartition(".")[2].replace("_", "-")
    assert lab.module == module.__name__
    assert lab.claim[0].isupper()
    assert lab.claim.endswith(".")
    assert 40 <= len(lab.claim) <= 320
    assert lab.slides
    assert module.__doc__
    assert [each.name for each in fields(lab.parameters)] == [*inspect.signature(lab.parameters).parameters]
    for key in lab.flags():
        assert key.meaning, f"--{key.path} has no comment, which is its help"
        assert key.value, f"--{key.path} has no default"
    for function in lab.mechanism:
        assert callable(getattr(module, function)), function


@pytest.mark.parametrize("name", NAMES)
def test_a_lab_imports_no_other_lab(name):
    path = Path(import_module(MODULES[name]).__file__)
    imported = {
        each
        for node in ast.walk(ast.parse(path.read_text()))
        for each in ([node.module] if isinstance(node, ast.ImportFrom) else [])
    }
    assert not imported & ({*MODULES.values()} - {MODULES[name]})


def test_the_registry_has_every_file_that_defines_a_lab():
    folder = Path(frame.__file__).parent
    defining = {path.stem for path in folder.glob("*.py") if "\nLAB = Lab(" in path.read_text()}
    assert defining == {module.rpartition(".")[2] for module in MODULES.values()}
    order = [LABS[name].chapter for name in NAMES]
    assert order == sorted(order)
    assert {*order} <= {*CHAPTERS}


@pytest.mark.parametrize("name", NAMES)
def test_the_quick_version_of_a_lab_passes_its_checks(name):
    result = quick(name)
    assert [f"{check.name}: {check.measured}, {check.bound}" for check in result.failed] == []
    assert result.outcome.tables
    assert result.figures
    for figure in result.figures.values():
        width, _ = struct.unpack(">II", figure.png[16:24])
        assert width == WIDE
        assert len(figure.alt) > 60
        drawn = [axes for axes in figure.figure.axes if axes.axison and (axes.get_xlabel() or axes.get_ylabel())]
        assert drawn, "no axis has a label"
        for axes in figure.figure.axes:
            for text in (axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label):
                box = text.get_window_extent()
                cut = bool(text.get_text()) and (box.x0 < -1 or box.x1 > WIDE + 1)
                assert not cut, f"{text.get_text()!r} is cut off"
        assert b"<svg" in figure.svg[:1000]  # at last: it is laid out at another resolution


@pytest.mark.parametrize("name", NAMES)
def test_a_lab_leaves_torch_as_it_was_and_its_values_are_json(name):
    import json

    values = json.loads(json.dumps(quick(name).to_json(), allow_nan=False))
    assert values["lab"] == name
    assert values["passed"] is True


@pytest.mark.parametrize("name", NAMES)
def test_every_lab_is_broken_on_purpose(name):
    broken = [mutation for lab, mutation in mutations() if lab == name]
    assert broken
    assert {mutation.function for mutation in broken} <= {*LABS[name].mechanism}


@pytest.mark.parametrize(("name", "mutation"), mutations(), ids=lambda each: getattr(each, "function", each))
def test_a_broken_mechanism_fails_a_check(name, mutation, monkeypatch):
    lab = LABS[name]
    assert [check for check in quick(name).outcome.checks if check.name.startswith(mutation.fails)], "no such check"
    monkeypatch.setattr(import_module(MODULES[name]), mutation.function, mutation.broken)
    result = run_lab(lab, lab.with_flags(mutation.flags), quick=True)
    failed = [check.name for check in result.failed]
    assert any(check.startswith(mutation.fails) for check in failed), f"{mutation.fails!r} passed; failed: {failed}"


def test_the_same_seed_gives_the_same_numbers():
    first, again = (run_lab(LABS["party"], seed=3, quick=True) for _ in range(2))
    assert first.outcome.checks == again.outcome.checks
    assert [figure.png for figure in first.figures.values()] == [figure.png for figure in again.figures.values()]
    assert [figure.svg for figure in first.figures.values()] == [figure.svg for figure in again.figures.values()]
    assert math.isfinite(first.cpu_seconds)
