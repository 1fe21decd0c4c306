"""A folder of spoken digits as WAV files with a table of their texts."""

from __future__ import annotations

from pathlib import Path

from headway.data.synthetic.spoken_digits import spoken_digits
from tests.sounds import write_wav


def write_speech(folder: Path, count: int, *, table: str = "metadata.csv", rate: int = 8000, seed: int = 5) -> Path:
    """WAV files 0.wav and on, and a table of their texts: .csv, .tsv or .jsonl by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = spoken_digits(count, seed=seed, rate=rate)
    for n, wave in enumerate(drawn.waves):
        write_wav(folder / f"{n}.wav", wave, rate)
    write_table(folder / table, [(f"{n}.wav", text) for n, text in enumerate(drawn.texts)])
    return folder


def write_table(path: Path, rows: list[tuple[str, str]]) -> None:
    """A table with the columns file and text."""
    if path.suffix == ".jsonl":
        path.write_text("".join(f'{{"file": "{file}", "text": "{text}"}}\n' for file, text in rows))
        return
    mark = "," if path.suffix == ".csv" else "\t"
    path.write_text(f"file{mark}text\n" + "".join(f"{file}{mark}{text}\n" for file, text in rows))
