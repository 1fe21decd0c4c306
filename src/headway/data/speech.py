"""Sounds with texts by split: generated, or read from files and made into frames once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.data.annotated_files import check_annotated
from headway.data.files import Errors, read_bytes
from headway.data.images import NAMED, Progress
from headway.data.log_mel import Frames, LogMel
from headway.data.synthetic import spoken_digits
from headway.data.token_store import fingerprint
from headway.data.transcript_files import TranscribedFile, find_transcripts
from headway.data.wav import decode_wav
from headway.documents import read_json
from headway.errors import DataError
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems

COUNTS = {"train": 6_000, "val": 500, "test": 1_000}  # of `spoken-digits`
CHUNK = 250  # sounds generated at a time
VERSION = "1"  # of the generator; part of the cache key
FRAMES, STARTS, ROWS, FACTS = "frames.f32", "starts.i64", "rows.i64", "facts.json"
Made = Iterable[tuple[int, Frames | DataError]]  # the row of each sound, and its frames or what is wrong with it


@dataclass(frozen=True, slots=True)
class TranscribedSounds:
    """Sounds as frames, one after the other, and the text of each: `frames[starts[n]:starts[n + 1]]` is sound n."""

    frames: Frames  # (all frames, bands)
    starts: NDArray[np.int64]  # (N + 1,)
    texts: tuple[str, ...]
    places: tuple[str, ...]  # where each comes from, for messages

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, n: int) -> Frames:
        return self.frames[self.starts[n] : self.starts[n + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Frames of each sound (N,)."""
        return np.diff(self.starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechDataset:
    """Sounds with texts by split; `contents` has a digest of each split."""

    name: str
    splits: dict[str, TranscribedSounds]
    contents: dict[str, str]
    left_out: int = 0  # missing or bad sounds


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechReading:
    """How sounds with texts are read: as which frames, up to which length, and what becomes of bad files."""

    sound: LogMel
    seconds: float  # the longest sound that is allowed
    text: str = ""  # the column of the text
    val: str = ""
    skip_bad: bool = False
    to_train: bool = True  # False: for evaluation, nothing is held out
    errors: Errors = "strict"
    cache: Path

    def frames(self, data: bytes, where: str) -> Frames:
        """The bytes of a WAV file as frames (T, bands). Raises DataError for one too short, too long, or bad."""
        wave = decode_wav(data, where, self.sound.rate)
        if len(wave) > self.seconds * self.sound.rate:
            got = f"{len(wave) / self.sound.rate:.1f} s"
            raise DataError(
                f"{where}: {got}, allowed: up to {self.seconds:g} s; training with --task.seconds N allows longer ones"
            )
        return self.sound.frames(wave, where)


def padded_frames(sounds: Sequence[Frames]) -> tuple[Frames, NDArray[np.int64]]:
    """Frames (T, bands) of several sounds -> (B, S, bands), padded with zeros, and their lengths (B,)."""
    lengths = np.asarray([len(each) for each in sounds], np.int64)
    batch = np.zeros((len(sounds), int(lengths.max()), sounds[0].shape[1]), np.float32)
    for row, each in enumerate(sounds):
        batch[row, : len(each)] = each
    return batch, lengths


def load_spoken_digits(reading: SpeechReading, progress: Progress) -> SpeechDataset:
    """The built-in `spoken-digits` by split, generated once and cached."""
    splits: dict[str, TranscribedSounds] = {}
    contents: dict[str, str] = {}
    for number, (name, count) in enumerate(COUNTS.items()):
        key = fingerprint([VERSION, reading.sound.rule, str(count)])
        folder = reading.cache / f"spoken-digits-{name}-{key}"
        texts: list[str] = []

        def made(
            number: int = number, name: str = name, count: int = count, texts: list[str] = texts
        ) -> Iterator[tuple[int, Frames]]:
            for at in range(0, count, CHUNK):
                seed = 100_000 * number + at
                drawn = spoken_digits.spoken_digits(min(CHUNK, count - at), seed=seed, rate=reading.sound.rate)
                texts.extend(drawn.texts)
                yield from (
                    (at + row, reading.sound.frames(wave, f"{name} {at + row}")) for row, wave in enumerate(drawn.waves)
                )
                progress(f"making spoken digits, {name}", at + len(drawn.waves), count)

        _store(folder, made(), texts)
        frames, starts, _ = _open(folder, reading.sound.bands)
        said = tuple(read_json(folder / FACTS, most="document-bytes")["texts"])
        splits[name] = TranscribedSounds(frames, starts, said, tuple(f"{name} {n + 1}" for n in range(count)))
        contents[name] = hashlib.sha256(frames.tobytes() + "\0".join(said).encode()).hexdigest()
    return SpeechDataset(name="spoken-digits", splits=splits, contents=contents)


def load_speech(path: Path, reading: SpeechReading, progress: Progress) -> SpeechDataset:
    """The sounds and texts at a path, checked and made into frames. Raises DataError naming the first problem."""
    found = find_transcripts(path, column=reading.text, errors=reading.errors)
    sounds = check_annotated(path, found, "sound", reading)
    splits: dict[str, TranscribedSounds] = {}
    contents: dict[str, str] = {}
    wrong: list[str] = []
    for name, those in sounds.splits.items():
        whole = hashlib.sha256()
        for digest, each in zip(sounds.digests[name], those, strict=True):
            whole.update(digest + each.text.encode() + b"\0")
        contents[name] = whole.hexdigest()
        folder = reading.cache / f"speech-{fingerprint([contents[name], reading.sound.rule, str(reading.seconds)])}"
        _store(folder, _made(those, reading, f"reading {name}", progress), [])
        frames, starts, rows = _open(folder, reading.sound.bands)
        wrong += read_json(folder / FACTS, most="document-bytes")["bad"]
        kept = [those[row] for row in rows]
        splits[name] = TranscribedSounds(
            frames, starts, tuple(each.text for each in kept), tuple(each.where for each in kept)
        )
    left_out = sounds.count_left_out(splits, wrong)
    return SpeechDataset(name=str(path), splits=splits, contents=contents, left_out=left_out)


def _made(
    those: Sequence[TranscribedFile], reading: SpeechReading, what: str, progress: Progress
) -> Iterator[tuple[int, Frames | DataError]]:
    for row, each in enumerate(those):
        try:
            yield row, reading.frames(read_bytes(each.file), str(each.file))
        except DataError as error:
            yield row, error
        progress(what, row + 1, len(those))


def _store(folder: Path, made: Made, texts: list[str]) -> None:
    """Write the frames of sounds into a folder of the cache, unless they are there."""
    if folder.exists() and not problems(folder):
        return
    discard(folder)
    starts, rows, bad = [0], list[int](), list[str]()

    def each() -> Iterator[bytes]:
        for row, frames in made:
            if isinstance(frames, DataError):
                bad.append(str(frames))
                continue
            rows.append(row)
            starts.append(starts[-1] + len(frames))
            yield frames.tobytes()

    with commit_folder(folder, shared=True) as draft:
        draft.pieces(FRAMES, each())
        draft.array(STARTS, np.asarray(starts, np.int64))
        draft.array(ROWS, np.asarray(rows, np.int64))
        draft.json(FACTS, {"bad": [*bad[:NAMED], *["another"] * (len(bad) - NAMED)], "texts": texts})


def _open(folder: Path, bands: int) -> tuple[Frames, NDArray[np.int64], NDArray[np.int64]]:
    """Frames (all, bands), where each sound begins (N + 1,), and the row of each (N,)."""
    starts, rows = (np.fromfile(folder / name, np.int64) for name in (STARTS, ROWS))
    if not len(rows):
        return np.zeros((0, bands), np.float32), starts, rows
    return np.memmap(folder / FRAMES, np.float32, "r", shape=(int(starts[-1]), bands)), starts, rows
