"""Checkpoints of a run: committed atomically, and verified against their manifests whenever they are read.

Reading changes nothing: a damaged checkpoint is reported and another one used. Only the holder of the run's lock, for
instance training, removes checkpoints, sets damaged ones aside, or drops the training state of older ones.

The training state (`trainer.safetensors`: optimiser, EMA, random generators) is twice as large as the weights and is
only needed to resume. Training keeps it in the newest checkpoint and in the one before, from which it is resumed if the
newest is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.checked_json import JsonFields
from headway.documents import read_json
from headway.errors import DataError, NonFiniteError, NoRunError, advise
from headway.nn.lora import merge
from headway.storage.commit import StagedFolder, commit_file, commit_folder, discard, drop_files, quarantine
from headway.storage.finite import first_non_finite
from headway.storage.manifest import MANIFEST, DamagedError, Manifest, check_file, read_manifest
from headway.storage.run_manifest import RunManifest, read_run_manifest
from headway.storage.targets import expect_no_links, expect_regular
from headway.storage.tensors import file_size, read_tensors
from headway.training.best import BestCheckpoint, best_in

MODEL, TRAINER, FACTS = "model.safetensors", "trainer.safetensors", "trainer.json"
TUNED = "tuned"  # in trainer.json: settings that validation chose for these weights, by name
LATEST, BEST = "latest.json", "best.json"  # for people; headway itself asks the checkpoints
RESUMABLE = 2  # checkpoints that keep the training state: the newest, and one to fall back on
SMALL_FILES = 1024  # bytes: estimate for trainer.json and the manifest
ATTEMPTS = 50  # to read a checkpoint of a run that is being trained and pruned meanwhile
Note = Callable[[str], None]


class Checkpoints:
    """The checkpoints folder of one run."""

    def __init__(self, run: Path, note: Note = advise) -> None:
        self.run, self.folder, self.note = run, run / "checkpoints", note
        self._told: set[str] = set()

    def path(self, step: int) -> Path:
        """The folder of a step's checkpoint."""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order; not verified."""
        names = (re.fullmatch(r"step-([0-9]{8,18})", path.name) for path in self.folder.glob("step-*"))
        return sorted(step for name in names if name and self.path(step := int(name[1])).name == name[0])

    @property
    def _run_manifest(self) -> RunManifest | None:
        return read_run_manifest(self.run)

    # --- writing, by the process that trains -------------------------------------------------------------------------

    def expect_writable(self) -> None:
        """Raise StorageError for a link, or anything but a file, where checkpoints and the files about them go."""
        expect_no_links(self.folder, inside=self.run)
        for name in (LATEST, BEST):
            expect_regular(self.run / name)

    def save(
        self, step: int, model: Mapping[str, Tensor], trainer: Mapping[str, Tensor], facts: Mapping[str, Any]
    ) -> None:
        """Commit a checkpoint, unless the step already has one. Raises StorageError."""
        path = self.path(step)
        if path.is_symlink() or not path.exists():  # a link is refused by `draft`
            with self.draft(step, file_size(model) + file_size(trainer)) as draft:
                draft.tensors(MODEL, model)
                draft.tensors(TRAINER, trainer)
                draft.json(FACTS, facts)
        self.mark_latest(step)

    @contextlib.contextmanager
    def draft(self, step: int, needs: int) -> Iterator[StagedFolder]:
        """A step's checkpoint of `needs` bytes to write into, committed when the block ends. Raises StorageError."""
        expect_no_links(self.path(step), inside=self.run)
        run = self._run_manifest
        own = {"step": step} if run is None else {"run": run.run, "step": step}
        with commit_folder(self.path(step), needs=needs + SMALL_FILES, facts=own) as draft:
            yield draft

    def mark_latest(self, step: int) -> None:
        """Write latest.json."""
        self._point(LATEST, {"step": step})

    def mark_best(self, best: BestCheckpoint) -> None:
        """Write best.json: the step, its loss, and the figure it was chosen by where that is another one."""
        chosen = {} if best.value is None else {best.criterion.figure: best.value}
        self._point(BEST, {"step": best.step, "loss": best.loss, **chosen})

    def _point(self, name: str, value: dict[str, Any]) -> None:
        text = json.dumps(value) + "\n"
        if _text(self.run / name) != text:
            commit_file(self.run / name, text)

    def prune(self, keep: int) -> None:
        """Remove all but the newest `keep` checkpoints and the best one."""
        best = self.best_step()
        for old in self.steps()[:-keep]:
            if old != best:
                discard(self.path(old))

    def drop_training_state(self, steps: Iterable[int]) -> None:
        """Remove what only a resumed training needs from these checkpoints. Raises StorageError.

        A damaged checkpoint is left as it is.
        """
        for old in steps:
            with contextlib.suppress(DamagedError):
                found, own = self.manifest(old), self._run_manifest
                if TRAINER not in found.files:
                    continue
                expect_no_links(self.path(old) / TRAINER, inside=self.run)
                files = {name: expected for name, expected in found.files.items() if name != TRAINER}
                facts = found.facts if own is None else {"run": own.run, "step": old}  # no longer the adopted manifest
                drop_files(self.path(old), [TRAINER], Manifest(files, facts), drafts=self.folder)

    def set_aside_after(self, step: int) -> None:
        """Rename the checkpoints after a step, which are damaged, to damaged-…: training will write them again."""
        for later in self.steps():
            if later > step:
                aside = self.path(later).with_name(f"damaged-{self.path(later).name}")
                quarantine(self.path(later), aside)
                self.note(f"{self.path(later)} renamed to {aside.name}")

    # --- reading, with or without the lock ---------------------------------------------------------------------------

    def best(self) -> BestCheckpoint | None:
        """The best checkpoint, as the newest intact one has it; None before the first evaluation."""
        for step in reversed(self.steps()):
            with self._telling(step):
                return best_in(self._facts(step))
        return None

    def stale(self) -> int:
        """The evaluations since the best one, as the newest intact checkpoint has them; 0 where it does not say."""
        for step in reversed(self.steps()):
            with self._telling(step):
                found = self._facts(step).get("stale")
                return found if type(found) is int else 0
        return 0

    def version(self, default: int) -> int:
        """The version of training that began the run, as the newest intact checkpoint has it."""
        for step in reversed(self.steps()):
            with self._telling(step):
                return JsonFields(self._facts(step), where=str(self.path(step) / FACTS)).integer("version", 1)
        return default

    def tuned(self, steps: Sequence[int]) -> dict[str, float]:
        """The settings that validation chose for the weights of these steps, by name: those of the last step.

        Empty where none were chosen, as by older versions, and, with a note, where they cannot be read.
        """
        if not steps:
            return {}
        step = max(steps)
        try:
            return tuned_settings(self._facts(step))
        except (DamagedError, DataError) as error:
            self._tell(f"{self.path(step) / FACTS}: {error}; what was tuned on validation data is not known")
            return {}

    def best_step(self) -> int | None:
        """The best step."""
        best = self.best()
        return None if best is None else best.step

    def listed(self) -> list[int]:
        """The steps whose checkpoints are listed by sound manifests of this run, in order; others are reported."""
        found = []
        self._compare_latest_file()
        for step in self.steps():
            with self._telling(step):
                self.manifest(step)
                found.append(step)
        return found

    def newest_intact(self, *, resumable: bool = False) -> int | None:
        """The newest checkpoint whose files are all as they were written; damaged ones are reported.

        With `resumable`, the newest of those that have the training state.
        """
        for step in reversed(self.steps()):
            with self._telling(step):
                manifest = self.manifest(step)
                if resumable and TRAINER not in manifest.files:
                    continue
                for name, expected in manifest.files.items():
                    check_file(self.path(step) / name, expected)
                return step
        return None

    def without_run(self) -> dict[str, str]:
        """The checkpoints whose manifests name no run, as older versions wrote them, with the manifests' checksums."""
        found = {}
        for step in self.steps():
            with contextlib.suppress(DamagedError):
                manifest = read_manifest(self.path(step))
                if "run" not in manifest.facts:
                    found[self.path(step).name] = manifest.digest
        return found

    def runs(self) -> set[str]:
        """The ids of the runs that the checkpoints belong to."""
        found = set()
        for step in self.steps():
            with contextlib.suppress(DamagedError):
                found.add(read_manifest(self.path(step)).facts.get("run"))
        return {run for run in found if isinstance(run, str)}

    def read(
        self, step: int, read: Callable[[Path], dict[str, Tensor]] = read_tensors
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
        """The model, the trainer's tensors ({} where they were dropped) and trainer.json of an intact checkpoint.

        `read` makes tensors of a safetensors file, or of the part of it that a rank needs.
        """
        kept = TRAINER in self.manifest(step).files
        trainer = read(self.path(step) / TRAINER) if kept else {}
        return self._finite(step, read(self.path(step) / MODEL)), self._finite(step, trainer), self._facts(step)

    def weights(self, *, average: int = 0, merged: bool = True) -> tuple[dict[str, Tensor], list[int]]:
        """The mean of the last `average` intact checkpoints, else the best, else the newest intact one.

        Adapters (`headway.nn.lora`) are added to the weights they adapt, unless `merged` is False. Raises NoRunError if
        no checkpoint is intact, NonFiniteError if one holds NaN or infinite values.
        """
        models: dict[int, dict[str, Tensor]] = {}
        self._compare_latest_file()
        for step in self._candidates(average):
            with self._telling(step):
                path, manifest = self.path(step) / MODEL, self.manifest(step)
                found = self._finite(step, read_tensors(path, manifest.files[MODEL]))
                models[step] = merge(found) if merged else found
            if len(models) == max(average, 1):
                break
        if not models:
            raise NoRunError(f"{self.folder}: no checkpoint is intact")
        if not average:
            self._compare_best_file()
        return average_weights([models[step] for step in sorted(models)]), sorted(models)

    def key(self, *, average: int = 0) -> tuple[list[int], str]:
        """The steps that `weights` would use if all are intact, and a digest of their weights."""
        steps = self.steps()
        chosen = steps[-average:] if average else self._single(steps)[:1]
        return chosen, self.key_of(chosen)

    def key_of(self, steps: list[int]) -> str:
        """A digest of the weights of these steps, by their manifests; empty if one cannot be read."""
        try:
            weights = [[step, read_manifest(self.path(step)).files[MODEL]] for step in steps]
        except (DamagedError, KeyError):
            return ""
        return hashlib.sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest() if steps else ""

    def _candidates(self, average: int) -> Iterator[int]:
        """The steps to try in turn, by what is there each time: training may add and remove some meanwhile."""
        tried: set[int] = set()
        for _ in range(ATTEMPTS):
            steps = self.steps()
            order = list(reversed(steps)) if average else self._single(steps)
            following = next((step for step in order if step not in tried), None)
            if following is None:
                return
            tried.add(following)
            yield following

    def _single(self, steps: list[int]) -> list[int]:
        """The best, then the others from the newest on."""
        best = self.best_step()
        return [*([best] if best in steps and best is not None else []), *(s for s in reversed(steps) if s != best)]

    def manifest(self, step: int) -> Manifest:
        """The manifest of a checkpoint, if it is one of this run and step. Raises DamagedError."""
        folder, own = self.path(step), self._run_manifest
        found = read_manifest(folder)
        missing = {MODEL, FACTS} - found.files.keys()
        if missing:
            raise DamagedError(f"{MANIFEST} lists no {min(missing)}")
        try:
            unknown = {path.name for path in folder.iterdir()} - {*found.files, MANIFEST}
        except OSError as error:
            raise DamagedError(f"it cannot be read ({error.strerror})") from error
        if unknown:
            raise DamagedError(f"{min(unknown)} is not listed in {MANIFEST}")
        if found.facts.get("step", step) != step:
            raise DamagedError(f"it is the checkpoint of step {found.facts['step']}")
        run = found.facts.get("run")
        if own is None and run is not None:
            seal = f"restore it from a copy, or `headway seal {self.run}` writes a new one for the files as they are"
            raise NoRunError(f"{self.run / MANIFEST}: missing; {seal}")
        if own is not None and run != own.run and own.adopted.get(folder.name) != found.digest:
            raise DamagedError("it belongs to another run")
        return found

    def _facts(self, step: int) -> dict[str, Any]:
        path = self.path(step) / FACTS
        check_file(path, self.manifest(step).files[FACTS])
        try:
            facts = read_json(path, nonfinite=True)  # the best score is infinite before the first evaluation
        except DataError as error:
            raise DamagedError(f"{FACTS} cannot be read ({error})") from error
        if not isinstance(facts, dict):
            raise DamagedError(f"{FACTS} is not an object")
        return facts

    def _finite(self, step: int, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        bad = first_non_finite(tensors)
        if bad is not None:
            raise NonFiniteError(
                f"{self.path(step)}: {bad} holds NaN or infinite values: training diverged before this checkpoint; "
                "remove it to use an older one, and train with a lower learning rate"
            )
        return tensors

    @contextlib.contextmanager
    def _telling(self, step: int) -> Iterator[None]:
        """Note that a checkpoint is damaged, once; one that is not there any more was removed by training."""
        try:
            yield
        except DamagedError as error:
            text = f"{self.path(step)} is damaged ({error}); another checkpoint is used"
            if self.path(step).exists():
                self._tell(text)

    def _tell(self, text: str) -> None:
        """Give a note, once."""
        if text not in self._told:
            self._told.add(text)
            self.note(text)

    def _compare_latest_file(self) -> None:
        """Note a newest checkpoint that is missing: latest.json, which is written after it, names it."""
        with contextlib.suppress(DataError, TypeError, KeyError):
            latest = read_json(self.run / LATEST)["step"]  # before the folder is listed: training may add to it
            if latest > max(self.steps(), default=-1):
                self._tell(f"{self.run / LATEST} names step {latest}, whose checkpoint is missing")

    def _compare_best_file(self) -> None:
        """Tell of a best.json that names another step, for instance because it was edited: it is not used."""
        for wait in (0.0, 0.1):  # training writes it a moment after the checkpoint
            time.sleep(wait)
            best = self.best_step()
            if best is None or not (self.run / BEST).exists():
                return
            with contextlib.suppress(DataError, TypeError, KeyError):
                if read_json(self.run / BEST, nonfinite=True)["step"] == best:
                    return
        self.note(f"{self.run / BEST} does not name step {best}, which the checkpoints say is the best; it is not used")


def tuned_settings(facts: Mapping[str, Any], where: str = "") -> dict[str, float]:
    """What a checkpoint's trainer.json has as tuned on validation data. Raises DataError for other than numbers."""
    found = facts.get(TUNED, {})
    fields = JsonFields(found, where=where)
    return {name: fields.number(name) for name in found}


def _text(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return path.read_text()
    return ""


def average_weights(models: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights, tensor by tensor, in float64, so that the mean of equal models is exact."""
    if len(models) == 1:
        return models[0]
    return {
        name: torch.stack([model[name].double() for model in models]).mean(0).to(tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in models[0].items()
    }
