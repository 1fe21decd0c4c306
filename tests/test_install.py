"""What an installation brings, and what a message says to install when something is missing: a command that works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headway import extras
from headway.data.environments import Environment, Plain
from headway.data.parquet_files import open_parquet
from headway.errors import ConfigError, DataError
from headway.interop.hf_reference import require_transformers

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"test", "lint", "docs", "peers", "browser", "dev"}


def record(folder: Path, monkeypatch, content: object) -> None:
    """Put a headway first on the path whose installer left this record; None for an index, which leaves none."""
    info = folder / "headway-9.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: headway\nVersion: 9.9.9\n")
    if content is not None:
        (info / "direct_url.json").write_text(content if isinstance(content, str) else json.dumps(content))
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A clone with a space in its path, and an activated environment: its `pip` is the first on PATH."""
    (tmp_path / "my clone").mkdir()
    (tmp_path / "my clone" / "pyproject.toml").write_text("")
    scripts = tmp_path / "bin"
    scripts.mkdir()
    for name in ("python", "pip"):
        (scripts / name).write_text("#!/bin/sh\n")
        (scripts / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    return tmp_path


FORMS = {
    "an editable clone": ({"url": "file://CLONE", "dir_info": {"editable": True}}, "-e 'CLONE[world]'"),
    "a folder": ({"url": "file://CLONE", "dir_info": {}}, "'CLONE[world]'"),
    "a wheel": ({"url": "file:///tmp/headway-9.9.9-py3-none-any.whl", "archive_info": {}}, "PACKAGES"),
    "an index": (None, "PACKAGES"),
    "a repository": ({"url": "https://host/a.git", "vcs_info": {"vcs": "git", "commit_id": "0"}}, "PACKAGES"),
    "a clone that is gone": ({"url": "file:///no/such/clone", "dir_info": {"editable": True}}, "PACKAGES"),
    "a record of another kind": ([1], "PACKAGES"),
    "a record that is not JSON": ("{", "PACKAGES"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_command_fits_how_headway_was_installed(form, environment, monkeypatch):
    """TRIALS B section 6: `pip install 'headway[tensorboard]'` finds no distribution where no index has headway."""
    given, expected = FORMS[form]
    clone = str(environment / "my clone")
    written = json.dumps(given).replace("CLONE", clone.replace(" ", "%20")) if isinstance(given, dict) else given
    record(environment, monkeypatch, written)
    command = extras.install_command(["gymnasium", "minigrid"], "world")
    assert command == f"pip install {expected.replace('CLONE', clone).replace('PACKAGES', 'gymnasium minigrid')}"
    assert shlex.split(command)[:2] == ["pip", "install"]
    assert extras.install_command(["timm"]) == "pip install timm"  # belongs to no extra


def test_pip_is_named_as_it_is_called_for_this_environment(environment, monkeypatch):
    """`.venv/bin/headway` without an activation: the first pip on PATH would install into another environment."""
    record(environment, monkeypatch, None)
    monkeypatch.setattr(sys, "executable", "/else where/bin/python")
    assert extras.install_command(["wandb"]) == "'/else where/bin/python' -m pip install wandb"
    monkeypatch.setattr("headway.extras.PathFinder.find_spec", lambda name: None)
    assert extras.install_command(["wandb"]) == "uv pip install --python '/else where/bin/python' wandb"


def without(monkeypatch, *modules: str) -> None:
    """Make modules as if they were not installed: not importable, and without a distribution."""
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(extras, "_installed", lambda package: package not in modules)


def tensorboard(folder: Path) -> None:
    from headway.cli.trackers.tensorboard import Tensorboard

    Tensorboard(folder / "tensorboard")


def parquet(folder: Path) -> None:
    with open_parquet(folder / "a.parquet"):
        pass


def onnx(folder: Path) -> None:
    from headway.interop.onnx_export import expect_onnx
    from headway.models import BertConfig

    expect_onnx(BertConfig(vocab=8), 0)


NEEDS = {
    "tensorboard": (tensorboard, ("torch.utils.tensorboard", "tensorboard"), "--tensorboard needs tensorboard: "),
    "parquet": (parquet, ("pyarrow", "pyarrow.parquet"), "parquet needs pyarrow: "),
    "onnx": (onnx, ("onnx", "onnxscript", "onnxruntime"), "--onnx needs onnx, onnxscript, onnxruntime: "),
    "world": (lambda folder: Environment("CartPole-v1", Plain()), ("gymnasium", "minigrid"), "gymnasium, minigrid: "),
    "hf": (lambda folder: require_transformers(), ("transformers",), "needs transformers: "),
}


@pytest.mark.parametrize("form", ["an editable clone", "an index"])
@pytest.mark.parametrize("extra", NEEDS)
def test_every_missing_extra_names_a_command_that_works(extra, form, environment, monkeypatch):
    """TRIALS B friction "no `pip install` line": the extra of a clone, or else the packages, which every index has."""
    need, modules, said = NEEDS[extra]
    without(monkeypatch, *modules)
    monkeypatch.setattr("headway.interop.hf_reference.with_transformers", lambda: False)
    clone = environment / "my clone"
    address = {"url": clone.as_uri(), "dir_info": {"editable": True}} if form == "an editable clone" else None
    record(environment, monkeypatch, address)
    with pytest.raises((ConfigError, DataError)) as raised:
        need(environment)
    expected = f"-e '{clone}[{extra}]'" if address else shlex.join(extras.EXTRAS[extra])
    assert str(raised.value).endswith(f"{said}pip install {expected}")
    assert "\n" not in str(raised.value)


def test_only_what_is_missing_is_named(environment, monkeypatch):
    record(environment, monkeypatch, None)
    without(monkeypatch, "minigrid")
    assert extras.missing("world", "a world model") == "a world model needs minigrid: pip install minigrid"
    pytest.importorskip("gymnasium")
    with pytest.raises(ConfigError, match=r"^MiniGrid-None-v0 needs minigrid: pip install minigrid$"):
        Environment("MiniGrid-None-v0", Plain())


def test_a_package_that_is_there_and_fails_to_import_says_why(environment, monkeypatch):
    record(environment, monkeypatch, None)
    monkeypatch.setattr(extras, "_installed", lambda package: True)
    said = extras.missing("wandb", "--wandb", ImportError("libfoo.so.1:\nno such file"))
    assert said == "--wandb needs wandb, whose import fails here (libfoo.so.1: no such file): pip install wandb"


# --- pyproject.toml ------------------------------------------------------------------------------------------------


def names(requirements: list[str]) -> tuple[str, ...]:
    return tuple(re.split(r"[<>=!~ ;\[]", each, maxsplit=1)[0] for each in requirements)


def test_the_table_of_extras_is_that_of_the_project():
    users = {extra: names(needed) for extra, needed in OPTIONAL.items() if extra not in FOR_DEVELOPERS | {"all"}}
    assert users == extras.EXTRAS
    assert re.fullmatch(r"headway\[(.*)\]", OPTIONAL["all"][0])[1].split(",") == list(users)


def test_the_base_installation_has_no_tool_of_a_developer():
    base = set(names(PROJECT["dependencies"]))
    assert not base & {package for extra in OPTIONAL for package in names(OPTIONAL[extra])}
    assert {"torch", "rich", "tokenizers"} <= base


def test_no_message_names_an_installation_by_itself():
    """One place knows how headway was installed; elsewhere a `pip install` would be right for one form only."""
    found = [path.name for path in (ROOT / "src").rglob("*.py") if "pip install" in path.read_text()]
    assert found == ["extras.py"]


# --- make ----------------------------------------------------------------------------------------------------------


def steps(target: str, folder: Path) -> str:
    """What `make TARGET` would do in a clean clone."""
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copyfile(ROOT / name, folder / name)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(["make", "-n", target], cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_installs_what_it_needs_and_no_more(tmp_path):
    """Issue 20: `make demo` installed every tool of a developer and every peer, two minutes of waiting."""
    demo = steps("demo", tmp_path)
    assert re.search(r"pip install .*-c constraints.txt -e \.$", demo, re.MULTILINE)
    assert "[dev]" not in demo
    assert ".venv/bin/headway demo" in demo
    test = steps("test", tmp_path)
    assert "-e '.[dev]'" in test


def test_the_environment_of_a_demo_is_upgraded_for_the_tests_and_not_the_other_way_round(tmp_path):
    """Two stamps: the light installation does not stand for the full one, the full one does for the light one."""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    steps("demo", tmp_path)  # copies the files the stamps are compared with
    (tmp_path / ".venv/.base").touch()
    assert "pip install" not in steps_again("demo", tmp_path)
    assert "-e '.[dev]'" in steps_again("test", tmp_path)
    (tmp_path / ".venv/.installed").touch()
    assert "pip install" not in steps_again("test", tmp_path)
    assert ".venv/.base" in steps("venv", tmp_path)  # newer files again: both stamps are set


def steps_again(target: str, folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(["make", "-n", target], cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
