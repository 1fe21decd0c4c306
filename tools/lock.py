"""Writes release/*.txt: the version and SHA-256 of every package of an environment, as pip resolves it on this machine.

A lock file is of one platform, which its first line names. No address of an index is written: pip uses the one it is
configured with.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "release"
CONSTRAINTS = ROOT / "constraints.txt"
LOCAL = "is not on PyPI: pip also needs `--find-links` or `--extra-index-url` with the place that has this build"


@dataclass(frozen=True, slots=True)
class Locked:
    """A package of a lock file: its name, in the normalised spelling, its version and the SHA-256 of its files."""

    name: str
    version: Version
    sha256: tuple[str, ...]


def environments() -> dict[str, list[Requirement]]:
    """The lock files by name, each with the requirements of pyproject.toml that it is made from."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    run_time, extras = project["dependencies"], project["optional-dependencies"]
    return {
        "requirements.txt": _parsed(run_time, extras),
        "dev.txt": _parsed([*run_time, *extras["dev"]], extras),
        "build.txt": _parsed(settings["build-system"]["requires"], extras),
    }


def _parsed(lines: list[str], extras: dict[str, list[str]]) -> list[Requirement]:
    """Requirements, with `headway[extra]` replaced by the requirements of that extra."""
    found = []
    for requirement in map(Requirement, lines):
        if requirement.name == "headway":
            for extra in sorted(requirement.extras):
                found += _parsed(extras[extra], extras)
        else:
            found.append(requirement)
    return found


def resolve(requirements: list[Requirement]) -> list[Locked]:
    """What pip would install into an empty environment, within constraints.txt. Nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), "-c", str(CONSTRAINTS), *map(str, requirements)], check=True)
        return packages(json.loads(report.read_text(encoding="utf-8")))


def packages(report: dict[str, Any]) -> list[Locked]:
    """The packages of a report of `pip install --report`, sorted by name. Raises ValueError for one without a hash."""
    found = []
    for item in report["install"]:
        name, version = canonicalize_name(item["metadata"]["name"]), Version(item["metadata"]["version"])
        sha256 = item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if sha256 is None:
            raise ValueError(f"pip reports no SHA-256 of {name} {version}")
        found.append(Locked(name, version, (sha256,)))
    return sorted(found, key=lambda each: each.name)


def written(name: str, locked: list[Locked]) -> str:
    """The text of a lock file."""
    python = f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"
    lines = [
        f"# Written by `make lock` for {python} on {platform.system()} {platform.machine()}. Do not edit.",
        f"# Install: pip install --require-hashes --no-deps -r release/{name}",
    ]
    lines += [f"# {each.name} {each.version} {LOCAL}." for each in locked if each.version.local]
    for each in locked:
        lines.append(" \\\n    ".join([f"{each.name}=={each.version}", *(f"--hash=sha256:{h}" for h in each.sha256)]))
    return "\n".join(lines) + "\n"


def read(path: Path) -> dict[str, Locked]:
    """The packages of a lock file by name. Raises ValueError for a line of another form."""
    found = {}
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"([a-z0-9-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)", line)
        if match is None:
            raise ValueError(f"{path.name}: expected NAME==VERSION --hash=sha256:HASH, found {line!r}")
        name, version, hashes = match.groups()
        if name in found:
            raise ValueError(f"{path.name}: {name} is listed twice")
        found[name] = Locked(name, Version(version), tuple(re.findall(r"[0-9a-f]{64}", hashes)))
    return found


def main() -> int:
    """Write the lock files."""
    FOLDER.mkdir(exist_ok=True)
    for name, requirements in environments().items():
        locked = resolve(requirements)
        (FOLDER / name).write_text(written(name, locked), encoding="utf-8")
        print(f"release/{name}: {len(locked)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
