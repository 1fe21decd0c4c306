"""Compares the locked packages with a downloaded database of advisories, without a network.

The database is a zip file or a folder of records in the OSV format (JSON or YAML), for instance OSV's `PyPI/all.zip` or
a copy of the Python Packaging Advisory Database. Exit code 0: no known vulnerability, 1: some, 2: no usable database.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tools import lock

Record = dict[str, Any]


def records(database: Path) -> Iterator[Record]:
    """Every record of a zip file or folder. Raises OSError or ValueError for a database that cannot be read."""
    if database.is_dir():
        for path in sorted(database.rglob("*")):
            if path.suffix in (".json", ".yaml") and path.is_file():
                yield from _record(path.name, path.read_bytes())
        return
    with zipfile.ZipFile(database) as opened:
        for name in sorted(opened.namelist()):
            if name.endswith((".json", ".yaml")):
                yield from _record(name, opened.read(name))


def _record(name: str, content: bytes) -> Iterator[Record]:
    """The record of a file; none where a file of another kind lies beside the records."""
    found = json.loads(content) if name.endswith(".json") else yaml.safe_load(content)
    if isinstance(found, dict) and "id" in found and "affected" in found:
        yield found


def affects(record: Record, package: lock.Locked) -> bool:
    """Whether a record is about this version, by its list of versions or its ranges, as the OSV schema defines it."""
    if record.get("withdrawn"):
        return False
    for affected in record["affected"]:
        about = affected.get("package", {})
        if about.get("ecosystem") != "PyPI" or canonicalize_name(about.get("name", "")) != package.name:
            continue
        version = Version(package.version.public)  # advisories do not know local versions such as +cpu
        if any(_version(each) == version for each in affected.get("versions", [])):
            return True
        if any(_within(version, each["events"]) for each in affected.get("ranges", []) if each["type"] == "ECOSYSTEM"):
            return True
    return False


def _within(version: Version, events: list[dict[str, str]]) -> bool:
    """Whether a version is affected after all events up to it; a range may be introduced and fixed several times."""
    pairs = [(_version(text), kind) for event in events for kind, text in event.items()]
    inside = False
    for at, kind in sorted((at, kind) for at, kind in pairs if at is not None):
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    return inside


def _version(text: str) -> Version | None:
    """A version, or None for a text that PEP 440 does not allow, which no package of today has."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each known vulnerability of a locked package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("database", type=Path, metavar="DATABASE", help="zip file or folder of OSV records")
    database: Path = parser.parse_args(arguments).database
    packages = {each for path in sorted(lock.FOLDER.glob("*.txt")) for each in lock.read(path).values()}
    count, newest, found = 0, "", []
    try:
        for record in records(database):
            count += 1
            newest = max(newest, str(record.get("modified", "")))
            names = ", ".join([record["id"], *record.get("aliases", [])])
            found += [
                f"{package.name} {package.version}: {names}: {record.get('summary') or record.get('details', '')[:100]}"
                for package in packages
                if affects(record, package)
            ]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError, zipfile.BadZipFile) as error:
        print(f"audit: {database}: not a database of OSV records: {error}", file=sys.stderr)
        return 2
    if not count:  # an empty database must not read as a clean one
        print(f"audit: {database}: holds no OSV record", file=sys.stderr)
        return 2
    for line in sorted(found):
        print(line)
    print(f"{len(packages)} packages, {count:,} records up to {newest[:10]}: {len(found)} known vulnerabilities")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
