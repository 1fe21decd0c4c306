"""`headway cache`: every entry is known by its name, and nothing else is ever removed (TRIALS B, habits: 402 MB)."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from pathlib import Path

import pytest

from headway.cli import main
from headway.data.cache import KINDS, UNFINISHED, UNKNOWN, cache_entries, clean_cache
from headway.data.token_store import store_tokens

SOURCE = Path(__file__).parents[2] / "src/headway"


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".cache" / "headway"
    store_tokens(folder / "text-0123", [[1, 2, 3]])
    store_tokens(folder / "shape-captions-1-64-train", [[1] * 100])
    (folder / "text-mine").mkdir()  # no manifest: not written by headway
    (folder / "text-mine" / "novel.txt").write_text("chapter one")
    (folder / "lines-notes").write_text("mine")
    (folder / ".draft-01234567-text-0123").mkdir()
    return folder


def test_every_name_that_is_written_is_known():
    """Each `cache / f"NAME-…"` in the source; a new one gets a line in KINDS."""
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    written = set(re.findall(r'(?:cache|kept = folder) / f"([a-z]+(?:-[a-z]+)*)-\{', text))
    assert written == set(KINDS)


def test_entries_say_what_they_are(cache):
    found = {entry.name: entry for entry in cache_entries(cache)}
    assert found["text-0123"].what == KINDS["text"]
    assert found["shape-captions-1-64-train"].what == KINDS["shape-captions"]
    assert found[".draft-01234567-text-0123"].what == UNFINISHED
    assert {found[name].what for name in ("text-mine", "lines-notes")} == {UNKNOWN}
    sizes = [entry.bytes for entry in cache_entries(cache)]
    assert sizes == sorted(sizes, reverse=True)
    assert cache_entries(cache / "none") == []


def test_clean_removes_what_headway_wrote_and_no_more(cache):
    removed = {entry.name for entry in clean_cache(cache)}
    assert removed == {"text-0123", "shape-captions-1-64-train", ".draft-01234567-text-0123"}
    assert {path.name for path in cache.iterdir()} == {"text-mine", "lines-notes"}
    assert (cache / "text-mine" / "novel.txt").exists()


def test_a_store_that_is_mapped_stays_readable_and_is_made_again(cache):
    held = store_tokens(cache / "text-0123", [])
    clean_cache(cache)
    assert held[0].tolist() == [1, 2, 3]
    assert store_tokens(cache / "text-0123", [[4]])[0].tolist() == [4]


def test_a_write_in_progress_is_left(cache):
    handle = os.open(cache / ".draft-01234567-text-0123", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        clean_cache(cache)
        assert (cache / ".draft-01234567-text-0123").exists()
    finally:
        os.close(handle)


def test_a_link_in_the_cache_is_not_followed(cache, tmp_path):
    (tmp_path / "text-9").mkdir()
    (cache / "text-9").symlink_to(tmp_path / "text-9")
    store_tokens(tmp_path / "text-8", [[1]])
    (cache / "text-8").symlink_to(tmp_path / "text-8")
    clean_cache(cache)
    for name in ("text-8", "text-9"):
        assert (cache / name).is_symlink()
        assert (tmp_path / name).exists()


def test_the_command_shows_and_removes(cache, capsys):
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    assert main(["cache"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{cache}: 5 entries, ")
    assert any("text-0123" in line and KINDS["text"] in line for line in lines)
    assert main(["cache", "clean"]) == 0
    assert "nothing was removed; --yes frees " in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before
    assert main(["cache", "clean", "--yes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["path"], found["freed"]) == (str(cache), True)
    assert {entry["name"] for entry in found["entries"]} >= {"text-0123", "shape-captions-1-64-train"}
    assert main(["cache", "--json"]) == 0
    assert [entry["what"] for entry in json.loads(capsys.readouterr().out)["entries"]] == [UNKNOWN] * 2
    assert main(["cache", "--yes"]) == 2
    assert main(["cache", "--dir", str(cache.parent / "none"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == 0


def test_ages_are_those_of_the_writing(cache):
    os.utime(cache / "text-0123", (time.time() - 7200,) * 2)
    assert next(each.age for each in cache_entries(cache) if each.name == "text-0123") == pytest.approx(7200, abs=60)
