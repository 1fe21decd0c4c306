"""Freeing disk space of runs: finding the files that a run can do without, and removing them.

What stays is what the run is used from (the best checkpoint, or those that are averaged, and the newest) and what
training is resumed from; each is verified before anything is removed. Every removal is one rename, or leaves the run as
usable as it was: a kill at any moment leaves a run that loads, and cleaning it again finishes the work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.errors import ConfigError, NoRunError, shown
from headway.interop.hf_reference import REFERENCE
from headway.runs.folder import read_config
from headway.runs.sizes import ASIDE, LOG_ASIDE, kind_of, size_of
from headway.storage.commit import discard, remove_stale_drafts
from headway.storage.locks import locked
from headway.storage.manifest import INT8, DamagedError, check_file
from headway.storage.run_manifest import drop_run_file
from headway.storage.targets import DRAFT, expect_no_links
from headway.suggestions import did_you_mean
from headway.tasks.base import ignore
from headway.training.checkpoints import FACTS, MODEL, TRAINER, Checkpoints

KINDS = {  # in the order in which they are removed
    "damaged": "checkpoints and logs that were set aside as damaged, and unfinished writes",
    "checkpoints": "checkpoints that are neither the newest, nor the best, nor averaged",
    "optimiser": "optimiser state that is not needed to resume",
    "int8": "the int8 copy, which is made again when it is used",
    "reference": "the logits of transformers that `headway verify` compares with",
    "pages": "pages and traces (.html, .jsonl) in the run folder",
}


@dataclass(frozen=True, slots=True)
class Removal:
    """A file or folder that can be freed."""

    kind: str  # of KINDS
    path: Path
    bytes: int


def removals(folder: Path, kinds: Collection[str] = tuple(KINDS), *, optimiser: bool = False) -> list[Removal]:
    """What of a run can be freed. Reads only.

    With `optimiser`, also the optimiser state of the newest checkpoint: the run can then be used, but not resumed.
    Raises NoRunError for a folder that is not a run, or one that has checkpoints of which none is intact.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        hint = did_you_mean(unknown[0], KINDS)
        hint = f"; {hint}" if hint else ", "
        raise ConfigError(f"{shown(unknown[0])} is nothing that is freed{hint}allowed: {', '.join(KINDS)}")
    return [each for each in _removals(folder, kinds, optimiser=optimiser) if each.kind in kinds]


def clean_run(folder: Path, kinds: Collection[str] = tuple(KINDS), *, optimiser: bool = False) -> list[Removal]:
    """Free it -> what was freed. Raises ConfigError while another process trains or cleans the run, StorageError."""
    removals(folder, kinds, optimiser=optimiser)  # a folder that is not a run gets no lock file
    with locked(folder):
        found = removals(folder, kinds, optimiser=optimiser)
        checkpoints = Checkpoints(folder, ignore)
        if "damaged" in kinds:
            remove_stale_drafts(folder)
            remove_stale_drafts(checkpoints.folder)
        for each in found:
            expect_no_links(each.path, inside=folder)
            if each.kind == "reference":
                drop_run_file(folder, REFERENCE)
            elif each.kind != "optimiser":
                discard(each.path)
        if "optimiser" in kinds:
            resumed = None if optimiser else checkpoints.newest_intact(resumable=True)
            checkpoints.drop_training_state(step for step in checkpoints.steps() if step != resumed)
    return found


def _removals(folder: Path, kinds: Collection[str], *, optimiser: bool) -> Iterator[Removal]:
    checkpoints = Checkpoints(folder, ignore)
    average = read_config(folder).train.average
    for path in _listed(folder, checkpoints.folder):
        aside = path.parent == checkpoints.folder and path.name.startswith(ASIDE)
        if aside or path.name.startswith(DRAFT) or path == folder / LOG_ASIDE:
            yield Removal("damaged", path, size_of(path))
    used = _used(checkpoints, average)
    resumed = checkpoints.newest_intact(resumable=True)
    for step in checkpoints.steps():
        path = checkpoints.path(step)
        # A damaged one that is newer than all that are intact is left to training, which sets it aside.
        older = step < max(used) and step not in used and step != resumed
        if older and "checkpoints" in kinds:
            yield Removal("checkpoints", path, size_of(path))
        elif (path / TRAINER).is_file() and (optimiser or step != resumed):
            yield Removal("optimiser", path / TRAINER, size_of(path / TRAINER))
    for kind, path in (("int8", folder / INT8), ("reference", folder / REFERENCE)):
        if path.exists():
            yield Removal(kind, path, size_of(path))
    for path in _listed(folder):
        if path.is_file() and kind_of(path.relative_to(folder)) == "pages":
            yield Removal("pages", path, size_of(path))


def _used(checkpoints: Checkpoints, average: int) -> set[int]:
    """The steps whose weights the run is used from: the newest intact ones, as many as are averaged, and the best."""
    intact: list[int] = []
    for step in reversed(checkpoints.steps()):
        if len(intact) < max(average, 1) and _intact(checkpoints, step):
            intact.append(step)
    if not intact and checkpoints.steps():
        raise NoRunError(f"{checkpoints.folder}: no checkpoint is intact; nothing is freed")
    best = checkpoints.best_step()
    return {*intact, *([] if best is None else [best])}


def _intact(checkpoints: Checkpoints, step: int) -> bool:
    """Whether the weights and facts of a checkpoint are as they were written."""
    try:
        files = checkpoints.manifest(step).files
        for name in (MODEL, FACTS):
            check_file(checkpoints.path(step) / name, files[name])
    except DamagedError:
        return False
    return True


def _listed(*folders: Path) -> Iterable[Path]:
    """What is in these folders, those that are there."""
    return (path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()))
