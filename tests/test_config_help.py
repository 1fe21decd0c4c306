"""What is said of config keys, and that it is said of every one."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from headway import config_help
from headway.config import override, plain
from headway.config_help import keys_of, keys_of_class, meaning, reachable, shown, type_name
from headway.presets import PRESETS
from headway.runs.config import RunConfig

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    size: int = 3  # how many; at least 1
    # the first line of two,
    # and the second
    name: str = ""
    plain: float = 0.5

    limit: int = 1  # noqa: RUF100
    kinds: tuple[str, ...] = ()  # in the order of their numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Larger(Small):
    size: int = 4
    mode: Literal["a", "b"] | None = "a"  # with a # inside
    part: Small = dataclasses.field(default_factory=Small)  # of another


def test_a_meaning_is_the_comment_behind_a_field_or_above_it():
    assert meaning(Small, "size") == "how many; at least 1"
    assert meaning(Small, "name") == "the first line of two, and the second"
    assert meaning(Small, "kinds") == "in the order of their numbers"
    assert meaning(Small, "plain") == ""
    assert meaning(Small, "limit") == ""


def test_an_inherited_field_has_the_meaning_of_the_class_that_declares_it():
    assert meaning(Larger, "name") == meaning(Small, "name")
    assert meaning(Larger, "size") == "how many; at least 1"
    assert meaning(Larger, "part") == "of another"


def test_types_and_values_are_as_one_writes_them():
    assert type_name(int | None) == "int | none"
    assert type_name(bool) == "true | false"
    assert type_name(Literal["a", "b"]) == "a | b"
    assert type_name(tuple[int, ...]) == "int,…"
    assert type_name(tuple[int, int]) == "int,int"
    assert type_name(Small | None) == "small | none"
    assert [shown(value) for value in (None, True, "", (), (1, 2), 1e-9, Small())] == [
        "none", "true", '""', '""', "1,2", "1e-09", "small",
    ]  # fmt: skip


def test_the_keys_of_a_config_have_dotted_paths_and_its_values():
    keys = {key.path: key for key in keys_of(Larger(part=Small(size=9)))}
    assert list(keys) == [
        "size", "name", "plain", "limit", "kinds", "mode", "part",
        "part.size", "part.name", "part.plain", "part.limit", "part.kinds",
    ]  # fmt: skip
    assert (keys["part.size"].value, keys["size"].value) == ("9", "4")
    assert [key.value for key in keys_of_class(Larger)][:2] == ["4", '""']


def classes() -> list[type]:
    return reachable(RunConfig)


def test_every_config_class_is_reached():
    names = {each.__name__ for each in classes()}
    assert {"RunConfig", "DataConfig", "TrainConfig", "GptConfig", "Rotary", "AdamW", "Windows", "Bpe"} <= names


@pytest.mark.parametrize("config", classes(), ids=lambda config: config.__name__)
def test_every_config_key_has_a_meaning(config):
    missing = [key.path for key in keys_of_class(config) if not key.meaning]
    assert not missing, f"{config.__module__}.{config.__name__}: add a comment behind {', '.join(missing)}"


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.run is not None])
def test_every_listed_key_of_a_preset_can_be_set_to_its_value(name):
    config = PRESETS[name].recipe()
    tree = plain(config)
    for key in keys_of(config):
        branch = tree
        for part in key.path.split("."):
            branch = branch[part]
        assert key.type
        if not isinstance(branch, dict):
            assert override(config, {key.path: branch}) == config


def test_the_page_of_config_keys_is_current():
    command = [sys.executable, "-m", "tools.config_docs", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_it_does_not_import_torch():
    code = f"import sys; import {config_help.__name__}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
