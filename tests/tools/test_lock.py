"""The lock files hold every dependency of pyproject.toml, complete, hashed and as constraints.txt pins it."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import lock

FILES = sorted(lock.environments())


@pytest.fixture(params=FILES)
def name(request):
    return request.param


def test_every_requirement_is_locked_at_a_version_that_it_allows(name):
    locked = lock.read(lock.FOLDER / name)
    for requirement in lock.environments()[name]:
        entry = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(entry.version.public), f"{name}: {requirement}; run `make lock`"


def test_the_run_time_lock_is_of_the_dependencies_and_the_dev_lock_of_all_extras():
    run_time, dev = (lock.environments()[name] for name in ("requirements.txt", "dev.txt"))
    assert {"torch", "safetensors"} <= {each.name for each in run_time}
    assert {"pytest", "mypy", "transformers", "pyarrow"} <= {each.name for each in dev}
    assert not {"headway", "pytest"} & {each.name for each in run_time}
    assert set(lock.read(lock.FOLDER / "requirements.txt")) <= set(lock.read(lock.FOLDER / "dev.txt"))


def test_versions_agree_with_the_constraints_and_between_the_files(name):
    lines = [line for line in lock.CONSTRAINTS.read_text().splitlines() if line and not line.startswith("#")]
    pinned = {canonicalize_name(line.split("==")[0]): Version(line.split("==")[1]) for line in lines}
    locked, everything = lock.read(lock.FOLDER / name), lock.read(lock.FOLDER / "dev.txt")
    for package, entry in locked.items():
        assert entry.version.public == str(pinned.get(package, entry.version.public)), f"{name}: {package}"
        assert entry == everything[package], f"{name} and dev.txt differ: run `make lock`"


def test_a_lock_is_complete():
    """What a locked package requires is locked as well: judged by the installed packages of the same version."""
    locked, judged = lock.read(lock.FOLDER / "requirements.txt"), 0
    for package, entry in locked.items():
        try:
            found = distribution(package)
        except PackageNotFoundError:
            continue
        if Version(found.version) == entry.version:
            judged += 1
            requires = map(Requirement, found.requires or ())
            needed = [each for each in requires if not each.marker or each.marker.evaluate()]
            missing = {canonicalize_name(each.name) for each in needed} - set(locked)
            assert not missing, f"{package} requires {missing}"
    assert judged > 10


def test_no_address_is_written(name):
    text = (lock.FOLDER / name).read_text()
    assert not re.search(r"://|^\s*--(index|extra-index|find-links|trusted)", text, re.MULTILINE)


REPORT = {
    "install": [
        {
            "metadata": {"name": name, "version": version},
            "download_info": {"url": "https://elsewhere", "archive_info": {"hashes": {"sha256": digit * 64}}},
        }
        for name, version, digit in (("Zope.Thing", "1.0", "a"), ("torch", "2.13.0+cpu", "b"))
    ]
}


def test_a_report_becomes_a_lock_that_is_read_back(tmp_path):
    locked = lock.packages(REPORT)
    assert [each.name for each in locked] == ["torch", "zope-thing"]
    text = lock.written("requirements.txt", locked)
    assert "# torch 2.13.0+cpu is not on PyPI" in text
    assert "zope-thing 1.0 is not on PyPI" not in text
    (tmp_path / "lock.txt").write_text(text)
    assert list(lock.read(tmp_path / "lock.txt").values()) == locked


def test_a_package_without_a_hash_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no SHA-256 of thing 1\.0"):
        lock.packages({"install": [{"metadata": {"name": "thing", "version": "1.0"}, "download_info": {"url": "x"}}]})
    for line in ("thing==1.0", "thing>=1.0 --hash=sha256:" + "a" * 64, "thing==1.0 --hash=md5:" + "a" * 64):
        (tmp_path / "lock.txt").write_text(line + "\n")
        with pytest.raises(ValueError, match="expected NAME==VERSION"):
            lock.read(tmp_path / "lock.txt")
    (tmp_path / "lock.txt").write_text(f"a==1 --hash=sha256:{'a' * 64}\n" * 2)
    with pytest.raises(ValueError, match="listed twice"):
        lock.read(tmp_path / "lock.txt")
