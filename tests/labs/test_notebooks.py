"""Labs as notebooks: every file is valid by nbformat's schema, and five of them are run cell by cell."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from headway.cli import main
from headway.labs.frame import LabFigure, LabTable
from headway.labs.notebook import notebook
from headway.labs.registry import LABS


def run_cells(path: Path) -> tuple[list[Any], list[str]]:
    """Run the code cells in a fresh namespace, in their order -> what they display, and how that looks as HTML.

    A kernel does the same with messages in between; IPython, its kernel and their sockets would be many more packages.
    """
    shown: list[Any] = []
    namespace: dict[str, Any] = {"display": shown.append, "__name__": "__main__"}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            tree = ast.parse(cell.source)
            exec(compile(tree, str(path), "exec"), namespace)
    return shown, [each._repr_html_() for each in shown if isinstance(each, LabTable)]


@pytest.mark.parametrize("name", [*LABS.homes])
def test_every_notebook_is_valid_and_says_what_the_lab_claims(name):
    lab = LABS[name]
    document = json.loads(notebook(lab, lab.parameters(), seed=0, quick=False))
    nbformat.validate(document)
    texts = "".join("".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "markdown")
    assert lab.claim in texts
    assert all(str(slide) in texts for slide in lab.slides)
    assert all(f"`{key.path}`" in texts for key in lab.flags())
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            ast.parse("".join(cell["source"]))


@pytest.mark.parametrize("name", ["party", "lookup", "dials", "gallery", "search"])
def test_a_notebook_runs_and_shows_tables_figures_and_checks(name, tmp_path, capsys):
    path = tmp_path / f"{name}.ipynb"
    assert main(["lab", name, "--notebook", str(path), "--quick", "--seed", "1"]) == 0
    assert "seed=1, quick=True" in path.read_text()
    shown, pages = run_cells(path)
    figures = [each for each in shown if isinstance(each, LabFigure)]
    assert figures
    assert all(figure._repr_png_().startswith(b"\x89PNG") for figure in figures)
    assert f"checks of {name}" in pages[-1]
    assert pages[-1].count(">yes</td>") >= 5
    assert len(pages) >= 2
    assert "s of CPU" in capsys.readouterr().out


def test_a_notebook_has_the_flags_it_was_written_with(tmp_path):
    path = tmp_path / "party.ipynb"
    assert main(["lab", "party", "--notebook", str(path), "--gamma", "0.5", "--guests", "12"]) == 0
    assert "gamma=0.5,\\n" in path.read_text()
    assert "guests=12,\\n" in path.read_text()
    assert main(["lab", "party", "--notebook", str(path), "--gamma", "2"]) == 2
