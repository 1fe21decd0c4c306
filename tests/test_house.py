"""The rules of the layout, held by reading the source: who may ask what kind of thing something is."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.config import plain
from headway.models.registry import MODELS
from headway.presets import PRESETS
from headway.tasks.registry import TASKS

SOURCE = Path(__file__).parents[1] / "src/headway"
FILES = sorted(SOURCE.rglob("*.py"))
TASK_CLASSES = {home.partition(":")[2] for home in TASKS.homes.values()}
# Switches on a model class that stay outside of models/ and interop/families/, each with its reason; at most ten.
ALLOWED: dict[tuple[str, str], str] = {}


def area(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def model_classes() -> set[str]:
    """Every model and model config: the classes of the registered modules that are one or the other."""
    found = set()
    for path in (SOURCE / "models").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                if "Model" in bases or any(f":{node.name}" in home for home in MODELS.homes.values()):
                    found.add(node.name)
    grown = True
    while grown:  # a subclass of a model is one
        grown = False
        for path in (SOURCE / "models").glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                bases = {base.id for base in getattr(node, "bases", ()) if isinstance(base, ast.Name)}
                if isinstance(node, ast.ClassDef) and node.name not in found and bases & found:
                    found.add(node.name)
                    grown = True
    return found - {"Model"}


def checked_types(path: Path) -> Iterator[tuple[int, str]]:
    """Line and class name of every `isinstance`, `issubclass`, `type(x) is` and `match` on a class."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[ast.expr] = []
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            names = [node.args[1]]
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call):
            called = node.left.func
            names = node.comparators if isinstance(called, ast.Name) and called.id == "type" else []
        elif isinstance(node, ast.MatchClass):
            names = [node.cls]
        for expression in names:
            for part in ast.walk(expression):
                if isinstance(part, ast.Name):
                    yield node.lineno if hasattr(node, "lineno") else 0, part.id


def test_only_a_tasks_own_folder_asks_for_its_class():
    homes = {home.partition(":")[2]: home.partition(":")[0].split(".")[2] for home in TASKS.homes.values()}
    wrong = [
        f"{area(path)}:{line}: {name}"
        for path in FILES
        for line, name in checked_types(path)
        if name in TASK_CLASSES and not area(path).startswith(f"tasks/{homes[name]}/")
    ]
    assert wrong == []


def test_only_models_and_families_ask_for_a_model_class():
    models = model_classes()
    assert {"Gpt", "GptConfig", "Vit", "Universal", "World"} <= models
    found = {
        (area(path), name): line
        for path in FILES
        for line, name in checked_types(path)
        if name in models and not area(path).startswith(("models/", "interop/families/"))
    }
    assert [f"{path}:{line}: {name}" for (path, name), line in found.items() if (path, name) not in ALLOWED] == []
    assert set(ALLOWED) <= set(found), "an exception that no code needs any more"
    assert len(ALLOWED) <= 10


def test_no_class_name_is_defined_twice():
    names = Counter(
        node.name for path in FILES for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_table_is_keyed_by_tasks():
    """A dict literal with two or more task classes or task names as keys; the registry is the one list there is."""
    wrong = []
    for path in FILES:
        if area(path) in (
            "tasks/registry.py",
            "models/registry.py",
            "labs/registry.py",
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                named = [key.id for key in node.keys if isinstance(key, ast.Name) and key.id in TASK_CLASSES]
                spelled = [key.value for key in node.keys if isinstance(key, ast.Constant) and key.value in TASKS.homes]
                if len(named) > 1 or len(spelled) > 1:
                    wrong.append(f"{area(path)}:{node.lineno}")
    assert wrong == []


@pytest.mark.parametrize("folder", ["src", "tests", "docs"])
def test_every_citation_can_be_followed(folder):
    """FACTS is not part of the repository: a paper is cited by its authors and year."""
    root = SOURCE.parents[1]
    texts = [path for path in (root / folder).rglob("*") if path.suffix in (".py", ".md") and path != Path(__file__)]
    assert [str(path.relative_to(root)) for path in texts if re.search(r"\bFACTS\s*§", path.read_text())] == []


def test_every_preset_names_its_task_as_a_runs_config_does():
    for preset in PRESETS.values():
        if preset.run is not None:
            assert plain(preset.recipe().task)["type"] == preset.task, preset.name


def test_imports_of_the_old_layout_are_gone():
    assert not (SOURCE / "evaluation").exists()
    assert not (SOURCE / "data/phrases").exists()
