"""The wheel and the source archive are the same bytes wherever and whenever they are built."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EPOCH = 1_763_300_000


def source_files() -> list[str]:
    """The files of the working tree that git does not ignore."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files are source is unknown")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def build(folder: Path, names: list[str], *, private: bool, **environment: str) -> dict[str, Path]:
    """Copy the files in the order given and build both archives; `private` copies have no rights for others."""
    for name in names:
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
        executable = os.access(ROOT / name, os.X_OK)
        copy.chmod((0o700 if executable else 0o600) if private else (0o775 if executable else 0o664))
        os.utime(copy, (1e9, 1e9) if private else None)
    out = folder.parent / f"{folder.name}-dist"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out)],
        cwd=folder, check=True, capture_output=True, umask=0o077 if private else 0o002,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), **environment},
    )  # fmt: skip
    return {path.name: path for path in out.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The archives of two copies that differ in path, file order, times, modes, umask, locale, zone and hash seed."""
    pytest.importorskip("hatchling")
    folder, names = tmp_path_factory.mktemp("builds"), source_files()
    here = build(folder / "one", names, private=False, LC_ALL="C", TZ="Asia/Tokyo", PYTHONHASHSEED="1")
    there = build(
        folder / "another/much deeper/copy", names[::-1], private=True,
        LC_ALL="C.UTF-8", TZ="America/Lima", PYTHONHASHSEED="2",
    )  # fmt: skip
    return here, there


def test_two_builds_give_the_same_bytes(built):
    here, there = built
    assert sorted(Path(name).suffix for name in here) == [".gz", ".whl"]
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in here.items()} == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()
    }


def test_the_archives_hold_what_they_should(built):
    wheel, archive = (next(path for name, path in built[0].items() if name.endswith(end)) for end in (".whl", ".gz"))
    with zipfile.ZipFile(wheel) as opened:
        packed = opened.namelist()
    assert "headway/cli/__init__.py" in packed
    assert {name.split("/")[0].split("-")[0] for name in packed} == {"headway"}
    assert not [name for name in packed if name.endswith((".pyc", ".pyo")) or "__pycache__" in name]
    with tarfile.open(archive) as opened:
        members = opened.getmembers()
    assert {member.mtime for member in members} == {EPOCH}
    assert not any(member.uname or member.uid for member in members)
    assert {name.split("/")[1] for name in (member.name for member in members)} >= {
        "src",
        "tests",
        "release",
        "LICENSE",
    }


def test_make_wheel_builds_the_last_commit_with_its_time():
    if not shutil.which("make") or not shutil.which("git"):
        pytest.skip("make or git is not installed")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    steps = subprocess.run(["make", "-n", "wheel"], cwd=ROOT, capture_output=True, text=True, env=environment).stdout
    committed = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True).stdout
    assert "git archive HEAD" in steps
    assert f"SOURCE_DATE_EPOCH={committed.strip()} " in steps


def test_the_source_archive_builds_the_same_wheel(built, tmp_path):
    wheel, archive = (next(path for name, path in built[0].items() if name.endswith(end)) for end in (".whl", ".gz"))
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out")],
        cwd=tmp_path / archive.name.removesuffix(".tar.gz"), check=True, capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
    )  # fmt: skip
    assert (tmp_path / "out" / wheel.name).read_bytes() == wheel.read_bytes()
