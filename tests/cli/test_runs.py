"""`headway runs`, `runs compare` and `runs clean` as commands (TRIALS B, habits: `runs`, `clean`, `compare`)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from headway.cli import main
from headway.cli.commands import runs as command
from headway.runs.clean import KINDS
from headway.runs.listing import SORTS
from headway.runs.seal import seal_run
from headway.storage.locks import locked
from tests.runs.messy import write_messy


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("desk") / "runs"
    write_messy(folder / "one")
    shutil.copytree(folder / "one", folder / "two")
    config = folder / "two" / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 7"))
    seal_run(folder / "two")
    return folder


@pytest.fixture
def runs(made, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "runs", symlinks=True))


def snapshot(folder: Path) -> set[tuple[str, int]]:
    return {(str(path.relative_to(folder)), path.stat().st_mtime_ns) for path in folder.rglob("*")}


def test_the_names_that_the_help_has_are_those_of_the_package():
    assert tuple(SORTS) == command.SORTS
    shown = next(line for line in Path(command.__file__).read_text().splitlines() if "KIND,…" in line)
    assert ", ".join(KINDS) in shown


def test_the_list_for_people_and_machines(runs, capsys):
    before = snapshot(runs)
    assert main(["runs"]) == 0
    header, *lines, _, total = capsys.readouterr().out.splitlines()
    assert header.split() == ["run", "task", "model", "parameters", "step", "best", "size", "age", "state"]
    assert [line.split()[0] for line in lines] == ["runs/one", "runs/two"]
    assert all("language" in line and "5/1,000" in line and line.split()[-1] == "stopped" for line in lines)
    assert total.startswith("2 runs, ")
    assert main(["runs", str(runs), "--json", "--sort", "age", "--filter", "train.seed=7"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in found["runs"]] == [str(runs / "two")]
    assert found["bytes"] == found["runs"][0]["bytes"] > 0
    assert "settings" not in found["runs"][0]
    assert snapshot(runs) == before


def test_a_folder_that_is_named_like_an_action(runs, capsys):
    (runs.parent / "list").mkdir()
    assert main(["runs", "list"]) == 0
    assert "no run in list" in capsys.readouterr().err


def test_no_runs_is_one_line(runs, capsys, tmp_path, monkeypatch):
    assert main(["runs", "--filter", "state=finished"]) == 0
    assert "no run in runs that meets the filter" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert main(["runs"]) == 0
    assert "no run in runs; headway train makes one" in capsys.readouterr().err
    assert main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": [], "bytes": 0}
    assert main(["runs", "elsewhere"]) == 2


def test_a_damaged_run_is_listed_and_told(runs, capsys):
    (runs / "one" / "config.yaml").write_text("\x1b[31m: [")
    assert main(["runs"]) == 0
    said = capsys.readouterr()
    assert "damaged" in next(line for line in said.out.splitlines() if "runs/one" in line)
    assert "config.yaml" in said.err
    assert "\x1b" not in said.out + said.err


def test_compare(runs, capsys):
    before = snapshot(runs)
    assert main(["runs", "compare", "runs/one", "runs/two", "--out", "curves.png"]) == 0
    said = capsys.readouterr().out
    assert ["train.seed", "0", "7"] in [line.split() for line in said.splitlines()]
    assert ["best", "loss", "0.5", "0.5"] in [line.split() for line in said.splitlines()]
    assert Image.open("curves.png").size[0] > 800
    assert main(["runs", "compare", "runs/one", "runs/two", "runs/one", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["differences"] == {"train.seed": [0, 7, 0]}
    assert found["scores"]["val_loss"] == [0.75] * 3
    assert found["curves"][1] == [[3, 0.5], [5, 0.75]]
    assert found["notes"] == []
    assert snapshot(runs) == before


def test_compare_says_when_losses_are_not_comparable(runs, capsys):
    write_messy(runs / "three", spec="elsewhere")
    (runs / "three" / "data.json").write_text('{"val": "other"}')
    seal_run(runs / "three")
    assert main(["runs", "compare", "runs/one", "runs/three"]) == 0
    first = capsys.readouterr().out.strip().splitlines()[0].strip()
    assert first == "not comparable by their losses: the runs have different validation data"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["compare", "runs/one"], 2, "takes two runs or more, got 1"),
        (["compare", "runs/one", "runs/none"], 4, "runs/none: no such run"),
        (["compare", "runs/one", "runs/two", "--yes"], 2, "--yes is an option of runs clean, not of runs compare"),
        (["--out", "x.png"], 2, "--out is an option of runs compare, not of runs"),
        (["clean", "--sort", "size"], 2, "--sort is an option of runs, not of runs clean"),
        (["clean", "--only", "int8,weights"], 2, "'weights' is nothing that is freed"),
        (["compare", "runs/one", "runs/two", "--out", "x.gif"], 2, "allowed: a name that ends in .png"),
        (["--filter", "sate=x"], 2, "no field 'sate'"),
        (["compair", "runs/one", "runs/two"], 2, "'compair': did you mean compare? no such folder"),
        (["claen"], 2, "'claen': did you mean clean? no such folder"),
        (["list"], 2, "'list': use headway runs; no such folder"),
        (["rm", "runs/one"], 2, "'rm': use headway runs clean; no such folder"),
        (["elsewhere"], 2, "'elsewhere': no such folder; runs FOLDER lists runs, there are also runs compare and"),
        (["clean", "--only", "optimizer"], 2, "freed; did you mean optimiser? allowed: damaged"),
    ],
)
def test_mistakes(runs, capsys, words, code, message):
    assert main(["runs", *words]) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_clean_says_what_it_would_free_and_frees_it_on_yes(runs, capsys):
    before = snapshot(runs)
    assert main(["runs", "clean"]) == 0
    said = capsys.readouterr()
    assert all(said.out.count(what) == 2 for what in KINDS.values())
    assert "nothing was removed; --yes frees " in said.err
    assert snapshot(runs) == before
    assert main(["runs", "clean", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["freed"] is False
    assert {each["kind"] for each in planned["removals"]} == set(KINDS)
    assert main(["runs", "clean", "runs/one", "--yes", "--json"]) == 0
    freed = json.loads(capsys.readouterr().out)
    assert freed["freed"] is True
    assert 2 * freed["bytes"] == planned["bytes"]
    assert main(["runs", "clean", "runs/one"]) == 0
    assert capsys.readouterr().out == "nothing to free\n"
    assert (runs / "two" / "int8").exists()


def test_clean_leaves_a_run_that_is_being_trained(runs, capsys):
    with locked(runs / "one"):
        assert main(["runs", "clean", "--yes"]) == 0
        said = capsys.readouterr()
        assert f"runs/one is in use by process {os.getpid()} and is left as it is" in said.err
        assert main(["runs", "clean", "runs/one", "--yes"]) == 2
        assert "clean it when that has ended" in capsys.readouterr().err
    assert (runs / "one" / "int8").exists()
    assert not (runs / "two" / "int8").exists()
