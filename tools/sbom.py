"""Writes a software bill of materials: headway and every package it needs at run time, as CycloneDX 1.6 JSON.

Versions, licences and the dependency graph come from the installed packages, the SHA-256 of each package's file from
release/requirements.txt. The same environment and SOURCE_DATE_EPOCH give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import uuid
from datetime import UTC, datetime
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import headway
from tools import lock

Extras = frozenset[str]


def closure(requirements: list[Requirement]) -> dict[str, set[str]]:
    """The installed packages that the requirements need, each with those it needs itself."""
    graph: dict[str, set[str]] = {}
    seen: set[tuple[str, Extras]] = set()
    waiting = [(canonicalize_name(each.name), frozenset(each.extras)) for each in requirements if _applies(each)]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        needed = [each for each in map(Requirement, distribution(name).requires or ()) if _applies(each, extras)]
        graph.setdefault(name, set()).update(canonicalize_name(each.name) for each in needed)
        waiting += [(canonicalize_name(each.name), frozenset(each.extras)) for each in needed]
    return graph


def _applies(requirement: Requirement, extras: Extras = frozenset()) -> bool:
    """Whether a requirement holds on this platform, for a package installed with these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *sorted(extras)))


def purl(name: str, version: str) -> str:
    """The package URL of a Python package."""
    return f"pkg:pypi/{name}@{quote(version, safe='')}"


def licences(package: Distribution) -> list[dict[str, Any]]:
    """What a package says its licence is: an SPDX expression, else its classifiers, else a one-line licence field."""
    metadata = package.metadata
    if expressions := metadata.get_all("License-Expression"):
        return [{"expression": expressions[0]}]
    classifiers = [line.split(" :: ") for line in metadata.get_all("Classifier", [])]
    names = [parts[-1] for parts in classifiers if parts[0] == "License" and parts[-1] != "OSI Approved"]
    fields = [field.strip() for field in metadata.get_all("License", [])]
    names = names or [field for field in fields if field and "\n" not in field]
    return [{"license": {"name": name}} for name in names]


def component(name: str, locked: dict[str, lock.Locked]) -> dict[str, Any]:
    """The entry of an installed package; its hash only if the lock file has the same version."""
    package = distribution(name)
    reference = purl(name, package.version)
    entry: dict[str, Any] = {"type": "library", "bom-ref": reference, "name": name, "version": package.version}
    if found := licences(package):
        entry["licenses"] = found
    if name in locked and locked[name].version == Version(package.version):
        entry["hashes"] = [_sha256(each) for each in locked[name].sha256]
    return {**entry, "purl": reference}


def document(wheel: Path | None = None) -> dict[str, Any]:
    """The bill of materials of this environment; with `wheel`, headway's own entry has the hash of that file."""
    requirements = lock.environments()["requirements.txt"]
    locked = lock.read(lock.FOLDER / "requirements.txt")
    graph = closure(requirements)
    parts = {name: component(name, locked) for name in sorted(graph)}
    for name, part in parts.items():
        if "hashes" not in part:
            print(f"sbom: no hash of {name} {part['version']}: not in release/requirements.txt", file=sys.stderr)
    own = _own(wheel)
    direct: set[str] = {canonicalize_name(each.name) for each in requirements if _applies(each)}
    needs = {"headway": direct, **graph}
    references = {name: entry["bom-ref"] for name, entry in {"headway": own, **parts}.items()}
    content = {
        "metadata": {**_timestamp(), "lifecycles": [{"phase": "build"}], "component": own},
        "components": list(parts.values()),
        "dependencies": [
            {"ref": reference, "dependsOn": sorted(references[each] for each in needs[name])}
            for name, reference in references.items()
        ],
    }
    # A serial number is a UUID; that of a reproducible document is derived from what it says.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return {**head, **content}


def _own(wheel: Path | None) -> dict[str, Any]:
    """The entry of headway itself."""
    reference = purl("headway", headway.__version__)
    entry = {"type": "application", "bom-ref": reference, "name": "headway", "version": headway.__version__}
    hashes = {} if wheel is None else {"hashes": [_sha256(hashlib.sha256(wheel.read_bytes()).hexdigest())]}
    return {**entry, "licenses": [{"expression": "Apache-2.0"}], **hashes, "purl": reference}


def _sha256(content: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": content}


def _timestamp() -> dict[str, str]:
    """The time of SOURCE_DATE_EPOCH; without it none is written, for the clock's would differ each time."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is None:
        return {}
    return {"timestamp": datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def main(arguments: list[str] | None = None) -> int:
    """Write the bill of materials."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=lock.ROOT / "dist" / f"headway-{headway.__version__}.cdx.json")
    parser.add_argument("--wheel", type=Path, help="the wheel whose SHA-256 is written")
    options = parser.parse_args(arguments)
    text = json.dumps(document(options.wheel), indent=2, ensure_ascii=False) + "\n"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
