"""The bill of materials: a valid CycloneDX document, complete, and the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.metadata import version

import pytest

import headway
from tools import lock, sbom


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a document at a given time and returns its bytes."""

    def write(epoch: str = "1763300000", *more: str) -> bytes:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        assert sbom.main(["--out", str(tmp_path / "new" / "sbom.json"), *more]) == 0
        return (tmp_path / "new" / "sbom.json").read_bytes()

    return write


def test_the_document_is_cyclonedx_1_6(written):
    found = json.loads(written())
    assert list(found) == [
        "bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies",
    ]  # fmt: skip
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", found["serialNumber"]
    )
    assert found["metadata"]["timestamp"] == "2025-11-16T13:33:20Z"
    own = found["metadata"]["component"]
    assert (own["name"], own["version"], own["type"]) == ("headway", headway.__version__, "application")
    allowed = {"type", "bom-ref", "name", "version", "licenses", "hashes", "purl"}
    for part in [own, *found["components"]]:
        assert {"type", "bom-ref", "name", "version", "purl"} <= set(part) <= allowed
        assert part["purl"] == part["bom-ref"] == sbom.purl(part["name"], part["version"])
        for each in part.get("hashes", []):
            assert each["alg"] == "SHA-256"
            assert re.fullmatch("[0-9a-f]{64}", each["content"])
        stated = part.get("licenses", [])
        assert all(set(each) == {"license"} and each["license"]["name"] for each in stated) or (
            len(stated) == 1 and set(stated[0]) == {"expression"}
        )


def test_every_package_of_the_lock_is_listed_with_a_licence(written):
    parts = {part["name"]: part for part in json.loads(written())["components"]}
    assert list(parts) == sorted(parts)
    locked = lock.read(lock.FOLDER / "requirements.txt")
    assert {"torch", "numpy", "safetensors", "jinja2"} <= set(parts)
    if str(locked["torch"].version) == version("torch"):  # another build of torch brings packages of its own
        assert set(parts) == set(locked)
    assert [name for name, part in parts.items() if not part.get("licenses")] == []
    assert parts["torch"]["version"] == version("torch")
    hashed = {name: part["hashes"][0]["content"] for name, part in parts.items() if "hashes" in part}
    assert hashed == {name: locked[name].sha256[0] for name in hashed}


def test_the_graph_reaches_every_package(written):
    found = json.loads(written())
    graph = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    listed = {part["bom-ref"] for part in found["components"]}
    root = found["metadata"]["component"]["bom-ref"]
    assert set(graph) == listed | {root}
    reached, waiting = set(), [root]
    while waiting:
        here = waiting.pop()
        if here not in reached:
            reached.add(here)
            waiting += graph[here]
    assert reached == set(graph)
    assert sbom.purl("torch", version("torch")) in graph[root]


def test_the_same_bytes_each_time_and_other_bytes_for_another_state(written, tmp_path):
    assert written() == written()
    assert written() != written("1763300001")
    wheel = tmp_path / "headway.whl"
    wheel.write_bytes(b"a wheel")
    own = json.loads(written("1763300000", "--wheel", str(wheel)))["metadata"]["component"]
    assert own["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a wheel").hexdigest()}]


def test_a_local_version_is_escaped_in_the_package_url():
    assert sbom.purl("torch", "2.13.0+cpu") == "pkg:pypi/torch@2.13.0%2Bcpu"
