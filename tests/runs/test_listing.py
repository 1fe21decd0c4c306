"""The list of runs: what a row says, states, sizes, sorting and filters, and that it only reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headway.errors import ConfigError
from headway.models import GptConfig
from headway.runs.listing import SORTS, find_runs, matches, run_row, sorted_rows
from headway.runs.seal import seal_run
from headway.runs.sizes import run_sizes
from headway.storage.locks import lock_holder, locked
from headway.training.checkpoints import Checkpoints
from tests.interop.runs import write_run
from tests.runs.messy import GPT, write_messy


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder with an unfinished run, an imported one two levels deep, and things that are no runs."""
    folder = tmp_path_factory.mktemp("runs")
    write_messy(folder / "messy")
    write_run(folder / "lab" / "alibi-0", GptConfig(vocab=30, context=24, width=16, layers=2, heads=2), spec="")
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("")
    (folder / ".hidden").mkdir()
    shutil.copytree(folder / "messy", folder / ".hidden" / "run")
    (folder / "link").symlink_to(folder / "messy")
    return folder


def test_runs_are_found_at_any_depth_and_links_are_not_followed(runs):
    assert find_runs([runs]) == [runs / "lab" / "alibi-0", runs / "messy"]
    assert find_runs([runs / "messy", runs]) == [runs / "messy", runs / "lab" / "alibi-0"]
    assert find_runs([runs / "notes"]) == []
    with pytest.raises(ConfigError, match="nowhere: no such folder"):
        find_runs([runs / "nowhere"])


def test_a_row(runs):
    row = run_row(runs / "messy", now=10 + (runs / "messy" / "log.jsonl").stat().st_mtime)
    assert (row.task, row.model, row.data) == ("language", "gpt", "nowhere")
    assert (row.step, row.steps, row.best, row.best_step) == (5, 1000, 0.5, 3)
    assert (row.state, row.process, row.problem) == ("stopped", None, None)
    assert row.age == pytest.approx(10, abs=0.1)
    assert row.bytes == sum(path.stat().st_size for path in (runs / "messy").rglob("*") if path.is_file())
    assert row.settings["model.width"] == 16
    imported = run_row(runs / "lab" / "alibi-0")
    assert (imported.state, imported.steps, imported.best) == ("imported", None, None)


def test_sizes_by_kind_add_up(runs):
    sizes = run_sizes(runs / "messy")
    assert all(getattr(sizes, name) > 0 for name in type(sizes).__dataclass_fields__)
    assert sizes.reference == len("logits")
    assert sizes.pages == len("<html>") + len("{}\n")


def test_states(tmp_path, runs):
    run = Path(shutil.copytree(runs / "messy", tmp_path / "run"))
    checkpoints = Checkpoints(run)
    weights, _ = checkpoints.weights()
    checkpoints.save(1000, weights, {}, {"best_step": 3, "best": 0.5, "stale": 1})
    assert run_row(run).state == "finished"
    with locked(run):
        row = run_row(run)
        assert (row.state, row.process) == ("training", os.getpid())
    assert run_row(run).state == "finished"  # the lock file is still there
    (checkpoints.path(1000) / "MANIFEST.json").write_text("{")
    row = run_row(run)
    assert row.state == "damaged"
    assert "step-00001000 is damaged" in row.problem
    (run / "config.yaml").write_text("model: [")
    row = run_row(run)
    assert (row.state, row.task, row.parameters) == ("damaged", None, None)
    assert "config.yaml" in row.problem


def test_a_run_that_ran_out_of_patience_is_finished(tmp_path):
    run = write_run(tmp_path / "run", GPT)
    (run / "MANIFEST.json").unlink()
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("patience: 0", "patience: 2"))
    assert run_row(run).state == "damaged"  # the checkpoint is one of a run that has a manifest
    seal_run(run)
    checkpoints = Checkpoints(run)
    weights, _ = checkpoints.weights()
    checkpoints.save(7, weights, {}, {"best_step": 3, "best": 0.5, "stale": 1})
    assert run_row(run).state == "stopped"
    checkpoints.save(8, weights, {}, {"best_step": 3, "best": 0.5, "stale": 2})
    assert run_row(run).state == "finished"


def test_the_holder_of_a_lock_is_told_without_taking_it(tmp_path):
    assert lock_holder(tmp_path) is None
    child = subprocess.Popen(
        [sys.executable, "-c", LOCKING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "locked\n"
    assert lock_holder(tmp_path) == child.pid
    child.communicate("end\n")
    assert (tmp_path / ".lock").read_text() == str(child.pid)
    assert lock_holder(tmp_path) is None
    (tmp_path / ".lock").write_text(str(os.getpid()))  # a process of that number, which has not locked it
    assert lock_holder(tmp_path) is None
    for text in ("", "-1", "x", "9" * 30):
        (tmp_path / ".lock").write_text(text)
        assert lock_holder(tmp_path) is None


LOCKING = """
import sys
from pathlib import Path
from headway.storage.locks import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.readline()
"""


def test_the_list_reads_only(runs):
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    for folder in find_runs([runs]):
        run_row(folder)
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


@pytest.mark.parametrize("key", SORTS)
def test_every_order(runs, key):
    rows = [run_row(folder) for folder in find_runs([runs])]
    name, largest_first = SORTS[key]
    found = [getattr(row, name) for row in sorted_rows(rows, key)]
    known = [value for value in found if value is not None]
    assert found[: len(known)] == sorted(known, reverse=largest_first)
    assert len(found) == len(rows)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("state=stopped", ["messy"]),
        ("state=imported", ["alibi-0"]),
        ("model.layers=2", ["alibi-0", "messy"]),
        ("model.nonsense=3", []),
        ("best_step=3", ["messy"]),
        ("train.keep_optimiser=false", ["alibi-0", "messy"]),
        ("MESS", ["messy"]),
        ("language", ["alibi-0", "messy"]),
        ("nowhere", ["messy"]),
        ("data=none", ["alibi-0"]),
    ],
)
def test_filters(runs, wanted, names):
    rows = [run_row(folder) for folder in find_runs([runs])]
    assert [Path(row.run).name for row in rows if matches(row, wanted)] == names


def test_a_filter_with_an_unknown_field_names_the_known(runs):
    with pytest.raises(ConfigError, match="no field 'stat', allowed: run, task, model"):
        matches(run_row(runs / "messy"), "stat=stopped")
