"""node and the packages of web/package.json, for tests that need them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

WEB = Path(__file__).parents[1] / "web"


def needs_node() -> str:
    """The path of node; a test is skipped, and says why, where node or the packages are not installed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the sources of the page are not built, and not tested by themselves")
    if not (WEB / "node_modules/esbuild").is_dir():
        pytest.skip("run `npm ci --ignore-scripts` in web/: the sources of the page are not built or tested")
    return node
