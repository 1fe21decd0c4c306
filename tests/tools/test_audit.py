"""The offline audit finds a locked version in the advisories of a zip file or folder."""

from __future__ import annotations

import json
import zipfile

import pytest
from packaging.version import Version

from tools import audit, lock

HASH = ("a" * 64,)


def record(name: str = "thing", *, versions: tuple[str, ...] = (), events: tuple[dict[str, str], ...] = (), **more):
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    affected = {"package": {"ecosystem": "PyPI", "name": name}, "versions": list(versions), "ranges": ranges}
    return {"id": "PYSEC-1", "modified": "2026-11-01T00:00:00Z", "summary": "bad", "affected": [affected], **more}


RANGE = ({"introduced": "1.0"}, {"fixed": "1.5"}, {"introduced": "2.0"}, {"last_affected": "2.2"})


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("0.9", False),
        ("1.0", True),
        ("1.4.9", True),
        ("1.5", False),
        ("2.1+cpu", True),
        ("2.2", True),
        ("2.2.1", False),
    ],
)
def test_a_range_holds_the_versions_between_its_events(version, affected):
    package = lock.Locked("thing", Version(version), HASH)
    assert audit.affects(record(events=RANGE), package) is affected
    assert audit.affects(record(events=RANGE[::-1]), package) is affected


def test_versions_are_compared_as_versions_and_names_as_names():
    package = lock.Locked("the-thing", Version("1.0"), HASH)
    assert audit.affects(record("The_Thing", versions=("1.0.0",)), package)
    assert audit.affects(record("the-thing", events=({"introduced": "0"},)), package)
    assert not audit.affects(record("the-thing", versions=("1.1", "not a version")), package)
    assert not audit.affects(record("thing", versions=("1.0",)), package)
    assert not audit.affects(record("the-thing", versions=("1.0",), withdrawn="2026-01-01"), package)
    elsewhere = record("the-thing", versions=("1.0",))
    elsewhere["affected"][0]["package"]["ecosystem"] = "npm"
    assert not audit.affects(elsewhere, package)


@pytest.fixture
def locked(tmp_path, monkeypatch):
    (tmp_path / "release").mkdir()
    text = lock.written("requirements.txt", [lock.Locked("thing", Version("1.2+cpu"), HASH)])
    (tmp_path / "release/requirements.txt").write_text(text)
    monkeypatch.setattr(lock, "FOLDER", tmp_path / "release")
    return tmp_path


@pytest.mark.parametrize("kind", ["zip", "json", "yaml"])
def test_a_database_is_a_zip_file_or_a_folder(locked, kind, capsys):
    hit, miss = record(versions=("1.2",), aliases=["CVE-1"]), record("other", versions=("1.2",))
    if kind == "zip":
        database = locked / "all.zip"
        with zipfile.ZipFile(database, "w") as opened:
            opened.writestr("PYSEC-1.json", json.dumps(hit))
            opened.writestr("deep/PYSEC-2.json", json.dumps(miss))
    else:
        database = locked / "vulns"
        (database / "thing").mkdir(parents=True)
        (database / "thing" / f"PYSEC-1.{kind}").write_text(json.dumps(hit))  # JSON is YAML
        (database / f"PYSEC-2.{kind}").write_text(json.dumps(miss))
        (database / "package.json").write_text("{}")
    assert audit.main([str(database)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "thing 1.2+cpu: PYSEC-1, CVE-1: bad",
        "1 packages, 2 records up to 2026-11-01: 1 known vulnerabilities",
    ]


def test_without_a_match_the_code_is_0_and_without_records_2(locked, capsys):
    database = locked / "vulns"
    database.mkdir()
    assert audit.main([str(database)]) == 2
    assert "holds no OSV record" in capsys.readouterr().err
    (database / "a.json").write_text(json.dumps(record("other", versions=("1.2",))))
    assert audit.main([str(database)]) == 0
    (database / "b.json").write_text("{")
    assert audit.main([str(database)]) == 2
    assert audit.main([str(locked / "nothing.zip")]) == 2
    assert audit.main([str(locked / "release/requirements.txt")]) == 2
    assert "not a database of OSV records" in capsys.readouterr().err
