"""A package of its own adds a task, a model, a preset and a data set, and the commands work with them.

The package is tests/plugins/headway-echo. It is not installed: a folder with the metadata that an installer would write
for it, and its sources, are put on the path of another process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.cli import main
from headway.tasks.registry import TASKS
from tests.pages import payload_of

PACKAGE = Path(__file__).parent / "headway-echo"
HEADWAY = Path(__file__).parents[2] / "src"

# Runs the commands that it reads as JSON from stdin, one after the other: torch is imported once.
DRIVER = """
import contextlib, io, json, sys
from headway.cli import main
told = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
    told.append({"code": code, "out": out.getvalue(), "err": err.getvalue()})
json.dump(told, sys.stdout)
"""
RUN, CAN = "runs/echo-tiny is an echo detector", "it can classify, evaluate, look, verify"
COMMAND = "import sys; from headway.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Said:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def install(package: Path, site: Path) -> None:
    """Write the metadata of a package into a folder of the path, as an installer does."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{a} = {b}" for a, b in points.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def start(code: str, words: list[str], given: str, folder: Path, path: list[Path]) -> subprocess.CompletedProcess[str]:
    """Run Python code in another process, in a folder, with these on its path."""
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "HOME": str(folder), "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", code, *words], input=given, cwd=folder, env=environment, capture_output=True, text=True
    )


COMMANDS = {
    "presets": ["presets"],
    "presets --json": ["presets", "--json"],
    "preset": ["presets", "echo-tiny"],
    "help": ["train", "echo-tiny", "--help"],
    "train": ["train", "echo-tiny", "--train.device", "cpu", "--model.heads", "4"],
    "resume": ["train", "echo-tiny", "--train.device", "cpu", "--model.heads", "4", "--resume", "--train.steps", "122"],
    "evaluate": ["evaluate", "runs/echo-tiny", "--json"],
    "evaluate for people": ["evaluate", "runs/echo-tiny", "--split", "val"],
    "classify": ["classify", "runs/echo-tiny", "0101", "0111"],
    "classify --json": ["classify", "runs/echo-tiny", "1010", "--json"],
    "look": ["look", "runs/echo-tiny", "0101", "-o", "page.html"],
    "verify": ["verify", "runs/echo-tiny", "--json"],
    "export": ["export", "runs/echo-tiny", "--out", "folder"],
    "info": ["info", "runs/echo-tiny", "--json"],
    "option": ["evaluate", "runs/echo-tiny", "--beam", "2"],
    "lacking": ["translate", "runs/echo-tiny", "0101"],
    "unfit": ["train", "gpt-char", "--task", "echo", "--data", "echoes"],
    "data": ["train", "gpt-char", "--data", "echoes"],
}  # fmt: skip


@pytest.fixture(scope="session")
def desk(tmp_path_factory):
    """A folder to work in, where the plugin is installed: its path, and how each command ended there."""
    folder = tmp_path_factory.mktemp("plugin")
    install(PACKAGE, folder / "site")
    path = [folder / "site", PACKAGE / "src", HEADWAY]
    done = start(DRIVER, [], json.dumps(list(COMMANDS.values())), folder, path)
    assert done.returncode == 0, done.stderr
    told = [Said(**each) for each in json.loads(done.stdout)]
    return folder, dict(zip(COMMANDS, told, strict=True))


@pytest.fixture(scope="session")
def said(desk):
    return desk[1]


def test_the_preset_is_listed_after_those_of_headway(said):
    assert said["presets"].code == 0
    last = said["presets"].out.splitlines()[-1]
    assert last.split()[:3] == ["echo-tiny", "echo", "4,674"]
    listed = said["presets --json"].json
    assert listed[0]["name"] == "transformer-tiny"
    assert listed[-1] == {
        "name": "echo-tiny", "task": "echo", "parameters": 4674, "source": "an example of a plugin", "departures": []
    }  # fmt: skip
    assert said["preset"].code == 0
    assert "context: 4" in said["preset"].out


def test_the_help_has_the_meaning_of_its_config_keys(said):
    assert said["help"].code == 0
    assert "--task.length int (default: 4)\n      most characters of a string" in said["help"].out
    assert "--model.heads int (default: 2)" in said["help"].out


def test_it_is_trained_and_resumed(desk):
    folder, said = desk
    for name in ("train", "resume"):
        assert said[name].code == 0, said[name].err
        assert said[name].out == "runs/echo-tiny\n"
    config = yaml.safe_load((folder / "runs" / "echo-tiny" / "config.yaml").read_text())
    assert config["task"] == {"type": "echo", "length": 4}
    assert config["model"]["type"] == "echo-net"
    assert config["model"]["vocab"] == 6
    assert config["data"]["spec"] == "echoes"
    assert config["data"]["classes"] == ["echo", "noise"]
    assert (folder / "runs" / "echo-tiny" / "curves.png").exists()


def test_evaluate_and_its_verb_say_what_the_plugin_found(said):
    values = said["evaluate"].json
    assert set(values) == {"split", "steps", "accuracy", "loss", "strings"}
    assert values["split"] == "test"
    assert values["strings"] == 40
    assert values["accuracy"] > 0.9  # it has learned what an echo is
    assert "(echo detector)" in said["evaluate for people"].out
    assert "nats a string" in said["evaluate for people"].out
    lines = [line.split("\t") for line in said["classify"].out.splitlines()]
    assert [(line[0], line[1].split()[0]) for line in lines] == [("0101", "echo"), ("0111", "noise")]
    (found,) = said["classify --json"].json["predictions"]
    assert found["text"] == "1010"
    assert found["class"] == "echo"


def test_the_page_has_its_attention(desk):
    folder, said = desk
    assert said["look"].code == 0, said["look"].err
    found = payload_of(folder / "page.html")
    assert (found["kind"], found["given"], found["said"]) == ("echo", "0101", "echo")
    assert found["model"] == "EchoNet"
    assert len(found["attentions"]) == 2
    assert found["sequences"]["string"]["tokens"] == list("0101")


def test_verify_compares_its_code_paths(said):
    assert said["verify"].code == 0, said["verify"].err
    values = said["verify"].json
    assert values["verdict"] == values["batch_right_padding"] == "rounding"


def test_info_has_the_task_and_what_it_can(said):
    facts = said["info"].json
    assert facts["task"] == "echo"
    assert facts["task_title"] == "echo detector"
    assert facts["model"] == "echo-net"
    assert facts["parameters"] == 4674
    assert facts["step"] == 122
    assert facts["can"] == ["classify", "evaluate", "look", "verify"]


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        (
            "lacking",
            2,
            f"{RUN}: it cannot translate; {CAN}",
        ),
        ("export", 2, f"{RUN}: it cannot export; {CAN}"),
        ("option", 2, "--beam is not supported by an echo detector (translation model, captioner, transcriber only)"),
        ("unfit", 2, "model=gpt, allowed for an echo detector: echo-net"),
        (
            "data",
            3,
            "echoes is texts with classes, expected plain text: pydocs, docstrings, deck-sentences or a path; "
            "echoes looks like texts with classes, by the built-in set echoes; headway train --data echoes trains "
            "what suits that",
        ),
    ],
)
def test_what_does_not_fit_gets_one_line(said, name, code, line):
    assert said[name].err.strip() == f"headway: {line}"
    assert (said[name].code, said[name].out) == (code, "")


def test_without_the_package_its_run_names_the_tasks_there_are(desk, capsys):
    run = str(desk[0] / "runs" / "echo-tiny")
    for words in (["evaluate", run], ["classify", run, "0101"]):
        assert main(words) == 2
        said = capsys.readouterr()
        assert said.err == f"headway: task 'echo': allowed: {', '.join(TASKS.homes)}\n"
        assert said.out == ""
    assert main(["train", "echo-tiny"]) == 2
    assert capsys.readouterr().err.startswith("headway: no preset 'echo-tiny': ")


def test_a_broken_package_is_named_and_breaks_nothing_else(tmp_path):
    package = tmp_path / "package"
    shutil.copytree(PACKAGE, package)
    (package / "src" / "headway_echo" / "preset.py").write_text("import a_module_that_is_missing\n")
    install(package, tmp_path / "site")
    path = [tmp_path / "site", package / "src", HEADWAY]
    commands = [["presets", "--json"], ["train", "echo-tiny"], ["presets", "gpt2", "--json"]]
    listed, trained, other = json.loads(start(DRIVER, [], json.dumps(commands), tmp_path, path).stdout)
    reason = "ModuleNotFoundError: No module named 'a_module_that_is_missing'"
    line = f"plugin 'echo-tiny' (headway_echo.preset:echo_tiny) of group headway.presets cannot be loaded: {reason}"
    assert (listed["code"], listed["err"]) == (0, f"headway: note: {line}\n")
    assert len(json.loads(listed["out"])) > 20
    assert (trained["code"], trained["err"]) == (2, f"headway: {line}\n")
    assert (other["code"], other["err"]) == (0, "")


def test_the_console_script_finds_it_too(desk):
    path = [desk[0] / "site", PACKAGE / "src", HEADWAY]
    done = start(COMMAND, ["classify", "runs/echo-tiny", "1000"], "", desk[0], path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1000\tnoise ")
