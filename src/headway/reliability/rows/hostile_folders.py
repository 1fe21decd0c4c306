"""Model folders of attackers, imported: no code of theirs runs, and nothing outside of them is read."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from random import Random

from PIL import Image

from headway.errors import HeadwayError
from headway.reliability.answers import copy, digest, explained
from headway.reliability.audit import watched
from headway.reliability.hostile_changes import CHANGES, MARKER, Outside, make_bait
from headway.reliability.model_folders import write_gpt2, write_sentence_encoder, write_tokenizer, write_vit
from headway.reliability.process import Ended, run_command
from headway.reliability.row import CampaignRow, Outcome, Place, failed, noticed, ok

ENCODER, VIT, IMAGE = "encoder", "vit", "image.png"
CODES = (0, 7)  # imported, or refused as a bad model
RUN = "runs/run"
TEXTS = ("aaaa a", "a" * 40 + "!", "xxxxxxxxxxxxxxxxxxxxxxxxxxxx", "")  # of which a hostile tokenizer makes the most


class HostileFolders(CampaignRow):
    """A hostile folder is refused in one line, or becomes a run that can be used; neither does what it must not."""

    name = "hostile-folders"
    what = "hostile model folders are imported and used: no code in them runs, nothing outside them is read"
    requirement = "I1"
    counted = "folders"
    trials = 500
    least = 29
    weight = 1.0
    needs_runs = False

    def prepare(self, place: Place) -> None:
        self.place = place
        home = place.own(self.name)
        self.good = [write_gpt2(home / f"gpt2-{shards}", shards=shards) for shards in (1, 2)]
        self.good += [write_tokenizer(write_gpt2(home / f"gpt2-{kind}"), kind) for kind in ("byte-pairs", "pieces")]
        self.good += [write_sentence_encoder(home / ENCODER), write_vit(home / VIT)]
        Image.new("RGB", (9, 9), "red").save(home / IMAGE)
        # What an import of a sound folder does, such as reading the time zone, is not a violation.
        self.usual: set[str] = set()
        for folder in self.good:
            with place.scratch() as scratch:
                copy(folder, scratch / "model")
                copy(home / IMAGE, scratch / IMAGE)
                for words in (("import", "model", "--out", RUN), _use(folder, TEXTS[0])):
                    ended, found = self._run(words, scratch)
                    if ended.trouble:
                        raise RuntimeError(f"headway {' '.join(words)} fails on a sound folder: {ended.trouble}")
                    self.usual |= found

    def trial(self, number: int, chance: Random) -> Outcome:
        folder = chance.choice(self.good)
        changes = chance.sample(CHANGES, chance.choice((1, 1, 2)))
        if number < len(CHANGES):  # each of them at least once
            changes = [CHANGES[number]]
        told = f"{' and '.join(each.__name__ for each in changes)} in a {folder.name} folder"
        with self.place.scratch() as scratch:
            outside = Outside(canary=scratch / "canary", bait=scratch / "bait")
            copy(folder, scratch / "model")
            copy(self.place.own(self.name) / IMAGE, scratch / IMAGE)
            make_bait(scratch / "model", outside)
            changes[0](scratch / "model", outside, chance)
            for change in changes[1:]:
                with contextlib.suppress(OSError, ValueError, LookupError, TypeError, HeadwayError):
                    change(scratch / "model", outside, chance)  # what it would change may be gone by the first change
            (scratch / "runs").mkdir()
            before = digest(outside.bait)
            ended, violations = self._run(("import", "model", "--out", RUN), scratch)
            reason = self._judged(ended, violations, outside, scratch)
            if reason is None and ended.code not in CODES:
                reason = f"exit code {ended.code}, expected 0 or 7: {ended}"
            if reason is None and ended.code != 0 and any((scratch / "runs").iterdir()):
                reason = "refused, and left something of the run behind"
            if reason is None and digest(outside.bait) != before:
                reason = "something outside of the folder was changed"
            if reason is None and ended.code == 0:
                used, violations = self._run(_use(folder, chance.choice(TEXTS)), scratch)
                reason = self._judged(used, violations, outside, scratch)
                told = f"{told}, imported and used"
        if reason is not None:
            return failed(f"{told}: {reason}")
        return ok() if ended.code == 0 else noticed()

    def _run(self, words: tuple[str, ...], scratch: Path) -> tuple[Ended, set[str]]:
        """A command in the folder of a trial; how it ended, and what it did that it must not."""
        log = scratch / "events"
        log.unlink(missing_ok=True)
        allowed = [scratch / name for name in ("model", "runs", IMAGE)]
        ended = run_command(words, cwd=scratch, before=watched(log, scratch / "model", allowed))
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        # The folder of a trial has another name each time.
        return ended, {re.sub(r"trial-\w+", "trial", line) for line in lines}

    def _judged(self, ended: Ended, violations: set[str], outside: Outside, scratch: Path) -> str | None:
        """What went wrong; None if nothing."""
        if outside.canary.exists():
            return "code of the folder was run"
        if more := sorted(violations - self.usual):
            return f"it did {'; '.join(more[:3])}"
        if MARKER in ended.out or MARKER in ended.err or _holds(scratch / "runs", MARKER.encode()):
            return "what lies outside of the folder was read"
        if ended.problem:
            return ended.problem
        if ended.code != 0 and not explained(ended):
            return f"exit code {ended.code}, expected an error message on stderr, got {ended}"
        return None


def _use(folder: Path, text: str) -> tuple[str, ...]:
    """What is tried on a run of a folder."""
    if folder.name == ENCODER:
        return ("embed", RUN, text, "--device", "cpu")
    if folder.name == VIT:
        return ("classify", RUN, IMAGE, "--device", "cpu")
    return ("generate", RUN, "--prompt", text, "--max-tokens", "4", "--device", "cpu")


def _holds(folder: Path, marker: bytes) -> bool:
    """Whether a file of a folder has the marker in it."""
    return any(marker in path.read_bytes() for path in folder.rglob("*") if path.is_file())
