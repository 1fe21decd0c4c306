"""A terminal wide enough for the long paths of temporary folders, which would wrap in the middle of a word."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
