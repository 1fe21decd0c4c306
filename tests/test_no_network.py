"""No use of a network: nothing imports a module for it, and a training and a generation open no socket."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/headway"
NETWORK = {
    "aiohttp", "asyncio", "ftplib", "http", "httpx", "huggingface_hub", "imaplib", "poplib", "requests", "smtplib",
    "socket", "socketserver", "ssl", "telnetlib", "torch.hub", "urllib.request", "urllib3", "webbrowser", "xmlrpc",
}  # fmt: skip


def imported(tree: ast.AST) -> set[str]:
    """Every module that is imported or named after an import, with its parents: `a.b.c` is `a`, `a.b` and `a.b.c`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {str(each.value) for each in node.args if isinstance(each, ast.Constant)}
    return {".".join(name.split(".")[: k + 1]) for name in names for k in range(name.count(".") + 1)}


# What `headway serve` listens with; it has no client. `look --live` opens its own page in a browser.
LISTENING = {"asyncio", "socket", "webbrowser"}
# Clients of servers that they started on this machine themselves.
ASKING = {"bench/serve.py": {"http", "socket"}, "bench/serve_load.py": {"asyncio"}}


def test_nothing_imports_a_module_for_networks_but_the_server_to_listen():
    found = {
        path.relative_to(SOURCE).as_posix(): imported(ast.parse(path.read_text())) for path in SOURCE.rglob("*.py")
    }
    used = {path: names & NETWORK for path, names in found.items() if names & NETWORK}
    assert {path: names for path, names in used.items() if not path.startswith("serving/")} == ASKING
    assert set().union(*(names for path, names in used.items() if path.startswith("serving/"))) == LISTENING


@pytest.mark.parametrize(
    "code",
    ["import socket", "from urllib.request import urlopen", "torch.hub.load('a')", "import http.client"],
)
def test_such_an_import_would_be_seen(code):
    assert imported(ast.parse(code)) & NETWORK


WATCHED = """
import sys
used = []
def watch(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
        used.append(f"{event}{arguments[1:]}")
sys.addaudithook(watch)
from headway.cli import main
tiny = "--model.width 16 --model.layers 1 --model.heads 2 --train.steps 2 --train.device cpu --out run".split()
assert main(["train", "gpt-char", "--data", "book.txt", *tiny]) == 0
assert main(["generate", "run", "--prompt", "It ", "--max-tokens", "3"]) == 0
assert not used, used
import socket
socket.socket().close()
assert used, "the hook sees nothing"
"""


def test_a_training_and_a_generation_open_no_socket(tmp_path):
    (tmp_path / "book.txt").write_text("It was late, to be or not to be.\n" * 100)
    environment = {**os.environ, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE.parent)}
    ended = subprocess.run(
        [sys.executable, "-c", WATCHED], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
