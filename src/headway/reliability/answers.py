"""Runs of each task with what their commands answer, to compare with what they answer after damage."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

import yaml

from headway.config import plain
from headway.documents import parse_json
from headway.errors import HeadwayError
from headway.reliability.process import Ended, run_command, start
from headway.reliability.row import Outcome, Place, Verdict, failed, noticed, without_effect
from headway.reliability.runs import PRECISION, MadeRun, TinyRun, write_encoder
from headway.runs.config import RunConfig
from headway.runs.train import train_run
from headway.storage.manifest import INT8
from headway.training.checkpoints import Checkpoints

# Names in the folder of a subject and of a trial.
RUN, TWIN, OUT, TRACE, SETTINGS = "run", "twin", "out", "beam.jsonl", "settings.yaml"
CHECKPOINTS, EVERY = 3, 2  # checkpoints of a run, and the steps between them
STEPS = CHECKPOINTS * EVERY
SLOW = {"verify": 0.04, "export": 0.02, "play": 0.3}  # how often, next to the other commands
AVERAGED = ("evaluate", "export")
DERIVED = (INT8, "baseline")  # folders of a run that a command may make, or make again when they are damaged
MEASURED = (  # on the disk as it is, by `info`
    "bytes", "checkpoint_bytes", "optimiser_bytes", "copy_bytes", "reference_bytes", "page_bytes", "damaged_bytes",
    "other_bytes", "checkpoints", "copies",
)  # fmt: skip
SHOWN = 60  # characters of an answer in a message


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, what it wrote, and the notes on stderr."""

    stdout: bytes
    written: str  # a digest of the file or folder that it wrote
    notes: frozenset[str]


class Subject:
    """A run with several checkpoints and an int8 copy, a twin of it from another seed, and commands that read it."""

    def __init__(self, made: MadeRun, folder: Path) -> None:
        self.made, self.folder = made, folder
        self._answers = dict[tuple[tuple[str, ...], tuple[str, ...]], Answer]()  # by the command and what is left out
        self.questions = list(self._questions())
        every = (path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
        names = (str(path.relative_to(folder)) for path in every)
        self.files = sorted(name for name in names if not name.startswith((TWIN, SETTINGS)))  # that are not empty

    @property
    def name(self) -> str:
        """The task, for messages."""
        return self.made.tiny.task

    def _questions(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """The commands, in their variants, each with how often it is asked."""
        for verb in self.made.can:
            words = tuple(self.made.command(verb, Path(OUT), Path(RUN)))
            often = SLOW.get(verb, 1.0)
            yield words, often
            if verb in AVERAGED:
                yield (*words, "--average", "2"), often / 2
            if verb in PRECISION:
                yield (*words, "--precision", "int8"), often
        if (self.folder / TRACE).exists():
            yield ("trace", TRACE, "--json"), 0.5
        if self.made.tiny.trained:
            yield ("train", str(self.made.tiny.preset), "--config", SETTINGS, "--out", RUN, "--resume"), 0.5

    def question(self, chance: Random) -> tuple[str, ...]:
        """One of the commands."""
        often = [often for _, often in self.questions]
        return chance.choices(self.questions, often)[0][0]

    def answer(self, words: tuple[str, ...], place: Place, without: tuple[str, ...] = ()) -> Answer:
        """What a command answers on the run, `without` these derived copies; asked once in each process."""
        if (words, without) not in self._answers:
            with place.scratch() as folder:
                self.copy_to(folder)
                for name in without:
                    shutil.rmtree(folder / RUN / name)
                ended = run_command(words, cwd=folder)
                if ended.problem or ended.code != 0:
                    raise RuntimeError(f"{' '.join(words)} fails on an undamaged run of task {self.name}: {ended}")
                answer = Answer(said(words, ended.stdout), written(words, folder), notes_of(ended))
                self._answers[words, without] = answer
        return self._answers[words, without]

    def missing_copies(self, folder: Path) -> tuple[str, ...]:
        """The derived copies that a trial's folder no longer has: a run without them is sound, and `info` says less."""
        return tuple(
            name for name in DERIVED if (self.folder / RUN / name).exists() and not (folder / RUN / name).exists()
        )

    def copy_to(self, folder: Path) -> None:
        """Copy what the commands read."""
        copy(self.folder / RUN, folder / RUN)
        for name in (TRACE, SETTINGS):
            if (self.folder / name).exists():
                copy(self.folder / name, folder / name)

    def trial(self, place: Place, chance: Random, damage: Callable[[Path, Random], str]) -> Outcome:
        """Ask a question of a copy with this damage, a function of the copy's folder that says what it did."""
        words = self.question(chance)
        with place.scratch() as folder:
            self.copy_to(folder)
            done = damage(folder, chance)
            clean = self.answer(words, place, self.missing_copies(folder))
            before = listing(folder)
            ended = run_command(words, cwd=folder)
            ended = replace(ended, stdout=said(words, ended.stdout))
            outcome = judge(ended, written(words, folder), clean)
            reads = words[0] != "train"
            if reads and outcome.verdict is not Verdict.FAILED and (changed := before ^ listing(folder)):
                outcome = failed(f"a command that only reads made, removed or renamed {_some(changed)}")
        if outcome.verdict is not Verdict.FAILED:
            return outcome
        return failed(f"task {self.name}, {done}, headway {shlex.join(words)}: {outcome.reason}")


def judge(ended: Ended, written: str, clean: Answer) -> Outcome:
    """Whether a command on a damaged run noticed, or gave the clean answer; anything else is a failure."""
    if ended.problem:
        return failed(ended.problem)
    if ended.code != 0:
        return noticed() if explained(ended) else failed(f"exit code {ended.code} without an error message")
    if notes_of(ended) - clean.notes:
        return noticed()
    if ended.stdout == clean.stdout and written == clean.written:
        return without_effect()
    what = difference(clean.stdout, ended.stdout) if ended.stdout != clean.stdout else "it wrote another file"
    return failed(f"exit code 0, no note, and another answer: {what}")


def _some(names: Collection[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more


def listing(folder: Path) -> frozenset[str]:
    """The names of all that a command which only reads must leave as it is: not its output, and not derived copies."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    derived = tuple(f"{RUN}/{name}" for name in DERIVED)
    return frozenset(name for name in names if not name.startswith((OUT, *derived)))


def written(words: tuple[str, ...], folder: Path) -> str:
    """A digest of what a command wrote: of training, the weights and the optimiser state of its last checkpoint."""
    if words[0] != "train":
        return digest(folder / OUT)
    last = Checkpoints(folder / RUN).path(STEPS + EVERY)
    return "".join(digest(last / name) for name in ("model.safetensors", "trainer.safetensors"))


def said(words: tuple[str, ...], stdout: bytes) -> bytes:
    """What a command said; of `info` without what it measures, as a damaged file may have another size."""
    if words[0] == "train":
        return b""
    if words[0] != "info":
        return stdout
    try:
        facts = parse_json(stdout, "")
        return json.dumps({key: value for key, value in facts.items() if key not in MEASURED}).encode()
    except (HeadwayError, AttributeError):  # not JSON, or no object
        return stdout


def explained(ended: Ended) -> bool:
    """Whether an error was reported in one line of headway."""
    lines = [line for line in ended.err.split("\n") if line.strip()]
    return bool(lines) and lines[-1].startswith("headway")


def notes_of(ended: Ended) -> frozenset[str]:
    """The notes on stderr."""
    return frozenset(line for line in ended.err.splitlines() if line.startswith("headway: note: "))


def difference(clean: bytes, found: bytes) -> str:
    """Where two outputs begin to differ."""
    at = next(
        (n for n, (one, other) in enumerate(zip(clean, found, strict=False)) if one != other),
        min(len(clean), len(found)),
    )
    start_at = max(at - SHOWN // 3, 0)
    before, after = (ascii(text[start_at : start_at + SHOWN].decode(errors="replace")) for text in (clean, found))
    return f"{before} became {after}"


def digest(path: Path) -> str:
    """A digest of the content of a file, or of a folder with all in it; "" of neither."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    if not path.is_dir():
        return ""
    parts = {str(each.relative_to(path)): digest(each) for each in sorted(path.rglob("*")) if each.is_file()}
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def copy(source: Path, target: Path) -> None:
    """Copy a file, or a folder with its links as links."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copyfile(source, target)


def make_subjects(place: Place) -> list[Subject]:
    """A subject of each task that has a run; made once for all rows."""
    home = place.own("subjects")
    found = []
    for task, made in place.runs.items():
        folder = home / task
        if not folder.exists():
            folder.mkdir()
            _make(made, folder, place)
        found.append(Subject(made, folder))
    return found


def _make(made: MadeRun, folder: Path, place: Place) -> None:
    """Train a run and its twin, then let it keep what commands keep: an int8 copy, and the trace of a search."""
    for seed, name in enumerate((RUN, TWIN)):
        ended = start(partial(_train, made.tiny, folder / name, place.cache, seed), cpu_seconds=60).wait(120)
        if ended.code != 0:
            raise RuntimeError(f"the run of task {made.tiny.task} could not be trained: {ended.err}")
    if made.tiny.trained:
        longer = _config(made.tiny, place.cache, 0, STEPS + EVERY)
        (folder / SETTINGS).write_text(yaml.safe_dump(plain(longer), sort_keys=False))
    for verb in made.can:
        more: list[tuple[str, ...]] = [("--precision", "int8")] if verb in PRECISION else []
        more += [("--trace", TRACE)] if verb == "translate" else [()] if verb == "play" else []
        for words in more:
            run_command([*made.command(verb, Path(OUT), Path(RUN)), *words], cwd=folder)


def _train(tiny: TinyRun, folder: Path, cache: Path, seed: int) -> None:
    if tiny.trained:
        train_run(_config(tiny, cache, seed, STEPS), folder)
    else:
        write_encoder(folder)


def _config(tiny: TinyRun, cache: Path, seed: int, steps: int) -> RunConfig:
    """A training with so high a learning rate that, for most tasks, its best checkpoint is not its newest."""
    changes: Mapping[str, object] = {
        "train.steps": steps, "train.save_every": EVERY, "train.evaluate_every": EVERY, "train.keep": CHECKPOINTS,
        "train.average": 0, "train.learning_rate": 0.3, "train.schedule": "constant", "train.seed": seed,
    }  # fmt: skip
    return tiny.config(cache, changes)
