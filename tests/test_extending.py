"""docs/extending.md: its package is written, installed beside headway and used as the page says, block by block.

A Python or TOML block whose first line is a comment with a file name is written to that file. The other Python blocks
are run in their order in one process, and the commands of a block without a language between them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.test_plugin import install

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "extending.md"
FILE = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")

# Runs the blocks that it reads as JSON from stdin: Python code, or the words of a command.
DRIVER = """
import json, sys, traceback
from headway.cli import main
namespace = {"__name__": "page"}
for number, (line, block) in enumerate(json.load(sys.stdin)):
    if isinstance(block, list):
        code = main(block)
        assert code == 0, f"line {line}: headway {' '.join(block)}: exit code {code}"
    else:
        exec(compile("\\n" * line + block, "docs/extending.md", "exec"), namespace)
print("done")
"""


def blocks() -> list[tuple[int, str, str]]:
    """The fenced blocks: the line of their fence, language and body."""
    text = PAGE.read_text()
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text[: each.start()].count("\n") + 1, each[1], each[2]) for each in found]


def files() -> dict[str, str]:
    return {found[1]: body for _, language, body in blocks() if language and (found := FILE.match(body))}


def steps() -> list[tuple[int, str | list[str]]]:
    """What is run, in order: Python blocks as text, commands as words."""
    found: list[tuple[int, str | list[str]]] = []
    for line, language, body in blocks():
        if language == "python" and not FILE.match(body):
            found.append((line, body))
        elif not language:
            found += [(line, command.split()[1:]) for command in body.splitlines()]
    return found


def test_every_block_is_a_file_or_is_run():
    assert {language for _, language, _ in blocks()} == {"python", "toml", ""}
    assert "pyproject.toml" in files()
    assert len(files()) == 7
    assert len(steps()) > 7
    assert all(body.startswith("headway ") for _, language, body in blocks() if not language)


def test_the_page_runs(tmp_path):
    pytest.importorskip("transformers")
    for name, body in files().items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)
    (tmp_path / "package" / "headway_letters" / "__init__.py").touch()
    install(tmp_path / "package", tmp_path / "site")
    path = [tmp_path / "site", tmp_path / "package", ROOT / "src"]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(steps()),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.endswith("done\n")
    assert '"loss"' in done.stdout  # evaluate --json
    assert "runs/letters-tiny is a letter encoder: it cannot translate; it can embed, evaluate\n" in done.stdout


def test_the_code_of_the_page_is_formatted_as_headways_own(tmp_path):
    ruff = Path(sys.executable).parent / "ruff"
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    for number, (_, language, body) in enumerate(blocks()):
        if language == "python":
            (tmp_path / f"block_{number}.py").write_text(body)
    rules = ["--config", str(ROOT / "pyproject.toml")]
    ignored = ["--ignore", "E402,F811,D100,F821,I001"]  # blocks share imports and names
    for words in (["check", *rules, *ignored], ["format", "--check", *rules]):
        done = subprocess.run([ruff, *words, "--no-cache", tmp_path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_the_page_names_exists():
    inside = re.findall(r"`((?:models|data|tasks|presets|ops|interop|nn)/[\w/]*\.py)`", PAGE.read_text())
    outside = re.findall(r"`(tests/[\w/.-]+)`", PAGE.read_text())
    assert len(inside) > 10
    assert len(outside) > 5
    assert [path for path in inside if not (ROOT / "src" / "headway" / path).exists()] == []
    assert [path for path in outside if not (ROOT / path).exists()] == []
