"""The manifest of a run: the checksums of its config, its tokenizers and the digests of its data.

A run's MANIFEST.json also holds the run's id, which every checkpoint's manifest repeats. The id is a digest of what
determines the weights, so equal runs have equal ids. Checkpoints that were written without an id, by an older version
or by `headway import`, are listed by the checksum of their own manifest.

This module must not import torch: `headway info` and the check of the int8 copy do without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headway.documents import read_within
from headway.errors import NoRunError
from headway.storage.commit import commit_file, discard, drop_files
from headway.storage.manifest import MANIFEST, DamagedError, Fingerprint, Manifest, data_fingerprint, read_manifest

SEAL = "if you changed it on purpose, `headway seal {run}` accepts it as it is; otherwise restore it from a copy"


@dataclass(frozen=True, slots=True)
class RunManifest:
    """What the manifest of a run says."""

    run: str  # the id
    files: Mapping[str, Fingerprint]
    replacing: Mapping[str, Fingerprint] = field(default_factory=dict)  # older content, until all files are written
    adopted: Mapping[str, str] = field(default_factory=dict)  # checkpoints without an id: checksums of their manifests

    def text(self) -> str:
        """The manifest as the text of its file."""
        facts = {"run": self.run, "replacing": self.replacing, "adopted": self.adopted}
        return Manifest(self.files, {name: value for name, value in facts.items() if value}).text()


class RunFiles:
    """The files of a run, each checked against the run's manifest when it is read.

    Raises NoRunError naming the file and what to do. `manifest` is None for a run of an older version, whose files
    cannot be checked.
    """

    def __init__(self, folder: Path, *, checked: bool = True) -> None:
        self.folder = folder
        self.manifest = read_run_manifest(folder) if checked else None

    def read(self, name: str, most: str) -> bytes:
        """The content of a file of at most `most` bytes (the name of a limit). Raises NoRunError.

        Its cause is a FileNotFoundError if the run has no such file.
        """
        path, remedy = self.folder / name, SEAL.format(run=self.folder)
        if self.manifest is None:
            return _read(path, most)
        wanted = [files[name] for files in (self.manifest.files, self.manifest.replacing) if name in files]
        if not wanted and os.path.lexists(path):
            raise NoRunError(f"{path}: not a file of this run, by its {MANIFEST}; {remedy}")
        try:
            data = _read(path, most)
        except NoRunError as error:
            if wanted and isinstance(error.__cause__, FileNotFoundError):
                raise NoRunError(f"{path}: missing; {remedy}") from None
            raise
        if data_fingerprint(data) not in wanted:
            raise NoRunError(f"{path}: damaged or changed, its checksum is not that of {MANIFEST}; {remedy}")
        return data

    def names(self, pattern: str) -> list[str]:
        """The files that match a pattern, there or listed in the manifest, in order."""
        listed = () if self.manifest is None else (*self.manifest.files, *self.manifest.replacing)
        return sorted(
            {path.name for path in self.folder.glob(pattern)} | {name for name in listed if Path(name).match(pattern)}
        )


def _read(path: Path, most: str) -> bytes:
    with contextlib.suppress(OSError):  # a name too long, for instance: reading it says so
        if path.is_symlink():
            raise NoRunError(f"{path}: a link, expected a regular file")
    return read_within(path, most, NoRunError)


def is_model_folder(folder: Path) -> bool:
    """Whether this is a Hugging Face model folder, such as `headway export` writes, and not a run."""
    return (folder / "config.json").is_file() and not (folder / "config.yaml").exists()


def model_folder_advice(folder: Path) -> str:
    """What a Hugging Face model folder is, and how a run is made of it."""
    return (
        f"{folder}: a Hugging Face model folder, as `headway export` writes it, not a run; "
        f"`headway import {shlex.quote(str(folder))}` makes a run of it"
    )


def read_run_manifest(folder: Path) -> RunManifest | None:
    """The manifest of a run; None for a run without one. Raises NoRunError for a damaged one."""
    if not os.path.lexists(folder / MANIFEST):
        return None
    try:
        found = read_manifest(folder)
        facts = dict(found.facts)
        made = RunManifest(facts.pop("run"), found.files, facts.pop("replacing", {}), facts.pop("adopted", {}))
        if facts or not isinstance(made.run, str):
            raise DamagedError(f"{MANIFEST} is not the manifest of a run")
    except (DamagedError, KeyError) as error:
        if is_model_folder(folder):
            raise NoRunError(model_folder_advice(folder)) from error
        reason = error if isinstance(error, DamagedError) else f"{MANIFEST} is not the manifest of a run"
        remedy = f"restore it from a copy, or `headway seal {folder}` writes a new one for the files as they are"
        raise NoRunError(f"{folder}: {reason}; {remedy}") from error
    return made


def run_id(files: Mapping[str, bytes], origin: Any = None) -> str:
    """The id of a run with these files; `origin` is anything else that determines its weights."""
    content = {name: data_fingerprint(data) for name, data in files.items()}
    return hashlib.sha256(json.dumps([content, origin], sort_keys=True).encode()).hexdigest()[:32]


def commit_run_files(
    folder: Path, files: Mapping[str, bytes], *, run: str, adopted: Mapping[str, str] | None = None
) -> None:
    """Write files of a run and its manifest, in an order that leaves the run usable wherever it is interrupted.

    While files are being replaced, the manifest accepts what is there and what is to come. Raises StorageError.
    """
    new = {name: data_fingerprint(data) for name, data in files.items()}
    there = {name: data_fingerprint(data) for name in files if (data := _existing(folder / name)) is not None}
    final = RunManifest(run, new, adopted=adopted or {})
    if there != new:
        if os.path.lexists(folder / MANIFEST):
            commit_file(folder / MANIFEST, replace(final, replacing=there).text())
        for name, data in files.items():
            if there.get(name) != new[name]:
                commit_file(folder / name, data)
    if _existing(folder / MANIFEST) != final.text().encode():
        commit_file(folder / MANIFEST, final.text())


def drop_run_file(folder: Path, name: str) -> None:
    """Remove a file of a run that the run can do without, and its entry in the manifest. Raises StorageError."""
    found = read_manifest(folder) if read_run_manifest(folder) is not None else None
    if found is None or name not in found.files:
        discard(folder / name)
        return
    files = {each: expected for each, expected in found.files.items() if each != name}
    drop_files(folder, [name], Manifest(files, found.facts), drafts=folder)


def _existing(path: Path) -> bytes | None:
    try:
        return _read(path, "document-bytes")
    except NoRunError:  # not there, or something that `commit_file` refuses to replace
        return None
