"""All labs one after another into a folder, with a page of what they found.

Each lab that was run has a record there, `NAME.json`, and its figures beside it. A lab whose record was made by the
same code, with the same seed, is not run again; a lab that raises an error is named on the page and stops no other.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import headway
from headway.documents import read_json
from headway.errors import DataError, advise, one_line
from headway.labs.frame import Lab, LabResult, run_lab
from headway.labs.registry import LABS
from headway.storage.commit import commit_file

PAGE = "index.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRecord:
    """What is known of a lab: its values as in `lab --json`, or the error it ended with."""

    lab: Lab[Any]
    values: Mapping[str, Any]
    error: str = ""
    kept: bool = False  # from an earlier run

    @property
    def passed(self) -> bool:
        """Whether it ran and every check holds."""
        return not self.error and bool(self.values["passed"])


def run_course(
    folder: Path,
    *,
    seed: int = 0,
    quick: bool = False,
    labs: Iterable[str] | None = None,
    told: Callable[[Lab[Any], LabRecord | None], None] = lambda lab, record: None,
) -> list[LabRecord]:
    """Run every lab that has no record of this code and seed, and write the page after each of them.

    `told` is called before (None) and after each lab. Raises StorageError.
    """
    from headway.labs.page import course_page  # of no use to a single lab

    chosen = LABS.loadable(advise) if labs is None else [LABS[name] for name in labs]
    records: list[LabRecord] = []
    for found in chosen:
        told(found, None)
        records.append(_kept(folder, found, seed, quick) or _run(folder, found, seed, quick))
        commit_file(folder / PAGE, course_page(records, folder, seed=seed, quick=quick, total=len(chosen)))
        told(found, records[-1])
    return records


def save(result: LabResult, folder: Path) -> list[Path]:
    """Write the figures of a lab as PNG and SVG, and its record -> the PNG files. Raises StorageError."""
    for name, figure in result.figures.items():
        commit_file(folder / f"{name}.png", figure.png)
        commit_file(folder / f"{name}.svg", figure.svg)
    values = {**result.to_json(), "key": record_key(result.lab, result.seed, result.quick, result.parameters)}
    commit_file(folder / f"{result.lab.name}.json", json.dumps(values, ensure_ascii=False, indent=1) + "\n")
    return [folder / f"{name}.png" for name in result.figures]


def record_key(lab: Lab[Any], seed: int, quick: bool, parameters: object) -> str:
    """What a record depends on: the code, the parameters, the seed. The code of other labs does not count."""
    digest = hashlib.sha256(f"{headway.__version__} {lab.name} {parameters!r} {seed} {quick} {_library()}".encode())
    digest.update(_source(lab))
    return digest.hexdigest()


@cache
def _library() -> str:
    """The digest of the package's source but for the labs and the command line."""
    root = Path(headway.__file__).parent
    others = {home.partition(":")[0].rpartition(".")[2] for home in LABS.homes.values()}
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        own = place.parts[0] == "labs" and path.stem in others
        if not own and place.parts[0] != "cli":
            digest.update(place.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _source(lab: Lab[Any]) -> bytes:
    file = import_module(lab.module).__file__
    return Path(file).read_bytes() if file is not None else b""


def _kept(folder: Path, lab: Lab[Any], seed: int, quick: bool) -> LabRecord | None:
    """The record of an earlier run, if this code, run with this seed, made it and its figures are there."""
    place = folder / f"{lab.name}.json"
    if not place.exists():
        return None
    try:
        values = read_json(place)
    except DataError:
        return None
    if not isinstance(values, dict) or values.get("key") != record_key(lab, seed, quick, lab.parameters()):
        return None
    there = all((folder / f"{name}{ending}").exists() for name in values["figures"] for ending in (".png", ".svg"))
    return LabRecord(lab=lab, values=values, kept=True) if there else None


def _run(folder: Path, lab: Lab[Any], seed: int, quick: bool) -> LabRecord:
    try:
        result = run_lab(lab, seed=seed, quick=quick)
    except Exception as error:  # a lab may raise anything; the others still run, and the page says which did not
        told = one_line(f"{type(error).__name__}: {error}")
        where = traceback.extract_tb(error.__traceback__)[-1]
        return LabRecord(lab=lab, values={}, error=f"{told} ({Path(where.filename).name}, line {where.lineno})")
    save(result, folder)
    return LabRecord(lab=lab, values=result.to_json())


def failures(records: Iterable[LabRecord]) -> Iterator[str]:
    """One line for each check that does not hold and each lab that ended with an error."""
    for record in records:
        if record.error:
            yield f"{record.lab.name}: {record.error}"
            continue
        for check in record.values["checks"]:
            if not check["passed"]:
                yield f"{record.lab.name}: {check['name']}: {check['measured']}, expected {check['bound']}"
