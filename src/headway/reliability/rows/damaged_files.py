"""Damage that knows the formats of configs, logs, tokenizers and data files, then a command that reads them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from random import Random

import yaml

from headway.config import plain
from headway.reliability.answers import copy, explained
from headway.reliability.binary_files import damage_npz, damage_png, damage_wav
from headway.reliability.damage import Damage, damaged
from headway.reliability.data_samples import SAMPLES, DataSample
from headway.reliability.document_damage import damage_json, damage_json_lines, damage_lines, damage_yaml, or_bytes
from headway.reliability.process import run_command
from headway.reliability.row import CampaignRow, Outcome, Place, failed, noticed, ok
from headway.reliability.runs import MadeRun
from headway.storage.manifest import MANIFEST

# Keys that say how much is to be done: after damage to a config they are set again, as a large value is an order.
WORK_KEYS = ("train.steps", "train.accumulate", "train.evaluate_every", "train.save_every", "train.batch_tokens")
RUN_FILES: dict[str, Damage] = {
    "config.yaml": or_bytes(damage_yaml, share=0.15),
    "log.jsonl": or_bytes(damage_json_lines),
    "tokenizer.json": or_bytes(damage_json),
    "best.json": or_bytes(damage_json),
    "latest.json": or_bytes(damage_json),
    "data.json": or_bytes(damage_json),
    MANIFEST: or_bytes(damage_json),
    "trainer.json": or_bytes(damage_json),
    "facts.json": or_bytes(damage_json),
}
READS_INPUT = (  # commands that are given a file or a text of the user's
    "classify", "tag", "answer", "caption", "transcribe", "pose", "detect", "look", "translate", "score", "embed",
)  # fmt: skip
INPUT_FILES: dict[str, Damage] = {  # what commands are given, by its ending
    ".png": or_bytes(damage_png),
    ".wav": or_bytes(damage_wav),
    ".npz": or_bytes(damage_npz),
}
Trial = tuple[str, list[str], bytes]  # what was damaged, the words of the command, and its stdin


class DamagedFiles(CampaignRow):
    """No file gives a traceback, an exit code that is not documented, a hang or more memory than 2 GB."""

    name = "damaged-files"
    what = "damaged configs, logs, tokenizers and data files: one line of error or none, no traceback, hang or memory"
    requirement = "I3"
    counted = "files"
    trials = 2_200
    least = 16
    weight = 2.0

    def prepare(self, place: Place) -> None:
        self.place = place
        self.trained = [made for made in place.runs.values() if made.tiny.trained]
        self.samples = [each for each in SAMPLES if each.available and each.task in place.runs]
        home = place.own(self.name)
        for sample in self.samples:
            (home / sample.name).mkdir()
            sample.write(home / sample.name)
        self.trace = home / "beam.jsonl"
        for made in self.trained:
            if "translate" in made.can:
                run_command([*made.command("translate", self.trace), "--trace", str(self.trace)])
        missing = [each.name for each in SAMPLES if not each.available]
        if missing:
            place.note(f"not tried, as what reads them is not installed: {', '.join(missing)}")

    def trial(self, number: int, chance: Random) -> Outcome:
        kinds: tuple[Callable[[Path, Random], Trial], ...] = (self._data, self._run_file, self._settings, self._input)
        kind = chance.choices(kinds, (0.5, 0.3, 0.1, 0.1))[0]
        with self.place.scratch() as folder:
            done, words, stdin = kind(folder, chance)
            ended = run_command(words, cwd=folder, stdin=stdin)
        told = f"{done}, headway {shlex.join(words[:7])}"
        if ended.problem:
            return failed(f"{told}: {ended.problem}")
        if ended.code != 0 and not explained(ended):
            return failed(f"{told}: exit code {ended.code}, expected an error message on stderr, got {ended}")
        return ok() if ended.code == 0 else noticed()

    def _data(self, folder: Path, chance: Random) -> Trial:
        """A file of a data set, then training on it."""
        sample: DataSample = chance.choice(self.samples)
        copy(self.place.own(self.name) / sample.name, folder / "data")
        files = sorted(path for path in (folder / "data").rglob("*") if path.is_file())
        by_ending: dict[str, list[Path]] = {}
        for path in files:
            by_ending.setdefault(path.suffix, []).append(path)
        file = chance.choice(by_ending[chance.choice(sorted(by_ending))])
        how = sample.damage_of(file)
        file.write_bytes(how(file.read_bytes(), chance))
        words = sample.words(Path("data"), Path("cache"), Path("new"))
        return f"{file.name} of data set {sample.name}", words, b""

    def _run_file(self, folder: Path, chance: Random) -> Trial:
        """A file of a run that says how it is to be read, then a command that reads it, or training that goes on."""
        made: MadeRun = chance.choice(list(self.place.runs.values()))
        copy(made.folder, folder / "run")
        files = [path for path in sorted((folder / "run").rglob("*")) if _damage_of(path)]
        file = chance.choice(files)
        how = _damage_of(file)
        assert how is not None
        file.write_bytes(how(file.read_bytes(), chance))
        if chance.random() < 0.5:  # without checksums, so that what reads the file meets the damage
            for path in (folder / "run" / MANIFEST, file.parent / MANIFEST):
                if path != file:
                    path.unlink(missing_ok=True)
        told = f"{file.relative_to(folder)} of a run of task {made.tiny.task}"
        if made.tiny.trained and chance.random() < 0.4:
            settings = {**made.tiny.changes, "data.cache": self.place.cache, "train.device": "cpu"}
            steps = {"train.steps": made.tiny.steps + 1, "train.evaluate_every": 1, "train.save_every": 1}
            words = ["train", made.tiny.preset or "", "--out", "run", "--resume", f"--data={made.tiny.data}"]
            return told, [*words, *(f"--{key}={value}" for key, value in {**settings, **steps}.items())], b""
        cheap = [verb for verb in made.can if verb not in ("verify", "export")]
        return told, made.command(chance.choice(cheap), Path("out"), Path("run")), b""

    def _settings(self, folder: Path, chance: Random) -> Trial:
        """A file of settings, then training by it."""
        made = chance.choice(self.trained)
        config = made.tiny.config(self.place.cache)
        good = yaml.safe_dump(plain(config), sort_keys=False).encode()
        (folder / "settings.yaml").write_bytes(RUN_FILES["config.yaml"](good, chance))
        again = dict.fromkeys(WORK_KEYS, 1) | {"train.batch_tokens": config.train.batch_tokens}
        words = ["train", made.tiny.preset or "", "--config", "settings.yaml", "--out", "new"]
        words += ["--print_config"] if chance.random() < 0.5 else []
        return "settings.yaml", [*words, *(f"--{key}={value}" for key, value in again.items())], b""

    def _input(self, folder: Path, chance: Random) -> Trial:
        """What a command is given to work on: a file, a trace, or lines."""
        kind = chance.random()
        if kind < 0.2 and self.trace.exists():
            (folder / "beam.jsonl").write_bytes(or_bytes(damage_json_lines)(self.trace.read_bytes(), chance))
            more = [["--json"], ["--plot", "made.png"], []]
            return "beam.jsonl", ["trace", "beam.jsonl", *chance.choice(more)], b""
        made = chance.choice(list(self.place.runs.values()))
        verbs = [verb for verb in made.can if verb in READS_INPUT]
        verb = chance.choice(verbs or ["info"])
        words = made.command(verb, Path("out"))
        if made.file is not None:
            file = Path(made.file)
            (folder / file.name).write_bytes(INPUT_FILES[file.suffix](file.read_bytes(), chance))
            return file.name, [file.name if word == made.file else word for word in words], b""
        given = made.tiny.inputs.get(verb, "0")
        if verb in ("translate", "score", "embed", "classify", "tag", "answer"):
            lines = damage_lines(f"{given}\n".encode() * 5, chance)
            return "lines on stdin", [word for word in words if word != given], lines
        text = damaged(given.encode(), chance)[1].replace(b"\0", b"").decode(errors="surrogateescape")
        return f"input {text!r}", [text if word == given else word for word in words], b""


def _damage_of(path: Path) -> Damage | None:
    """How a file of a run is damaged; None if it is not of a kind that a person or a program edits."""
    if not path.is_file():
        return None
    return RUN_FILES["tokenizer.json"] if path.name.startswith("tokenizer") else RUN_FILES.get(path.name)
