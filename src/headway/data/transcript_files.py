"""Finding sounds with texts: a table beside WAV files, or the transcripts of LibriSpeech."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.data.files import Errors, inside, listed, listing, names, read_lines, without_gz
from headway.data.image_files import subfolders
from headway.data.spectrograms import ENDINGS
from headway.data.split_files import ALIASES, SPLITS
from headway.data.table_survey import survey_table
from headway.data.tables import read_rows, read_separated, suffix
from headway.errors import DataError, shown

TABLES = ("metadata", "transcripts", *SPLITS, *ALIASES)  # names of tables, without their ending
TRANSCRIPT = ".trans.txt"
FILE_COLUMNS = ("file_name", "file", "path", "audio", "wav", "sound")
TEXT_COLUMNS = ("text", "transcription", "transcript", "sentence", "words")
EXPECTED = "metadata.csv, .tsv or .jsonl with columns file and text, one such table a split, or *.trans.txt"
DEPTH = 3  # folders of LibriSpeech below the data's: split, speaker, chapter


@dataclass(frozen=True, slots=True)
class TranscribedFile:
    """A sound file with its text; `where` names its row or line in messages."""

    where: str
    file: Path
    text: str


def find_transcripts(path: Path, *, column: str = "", errors: Errors = "strict") -> dict[str, list[TranscribedFile]]:
    """The sounds of each split with their texts, in file order. Raises DataError naming the file and the row.

    `path` is a folder or a table; `column` names the column of the text. A table, or a folder with one, whose name has
    train, val or test in it holds that split, any other the training set.
    """
    found: dict[str, list[TranscribedFile]] = {}
    tables = [path] if path.is_file() else transcript_tables(path)
    if not tables and not path.is_file():
        for file in libri_files(path):
            found.setdefault(split_of_names(file.relative_to(path).parts), []).extend(_libri(path, file))
        if not found:
            raise DataError(f"{path}: no texts of sounds ({EXPECTED}); there are: {_there(path)}")
    for table in tables:
        parts = (table.name,) if path.is_file() else table.relative_to(path).parts
        split = split_of_names(parts)
        if split in found:
            raise DataError(f"{path}: more than one table of split {split}: {names(tables)}")
        found[split] = list(_table(path if path.is_dir() else path.parent, table, column, errors))
    for split, those in found.items():
        if not those:
            raise DataError(f"{path}: split {split} has no sounds, expected at least 1")
    return found


def transcript_tables(folder: Path) -> list[Path]:
    """The tables of texts in a folder with sounds, and in its folders that are splits."""
    places = [folder, *(each for each in subfolders(folder) if split_of_names([each.name], "") in SPLITS)]
    return [file for place in places for file in listing(place) if _is_table(file)]


def libri_files(folder: Path) -> list[Path]:
    """The files `*.trans.txt` below a folder, sorted."""
    levels, places = [folder], [folder]
    for _ in range(DEPTH):
        levels = [below for place in levels for below in subfolders(place)]
        places += levels
    return sorted(file for place in places for file in listing(place) if file.name.endswith(TRANSCRIPT))


def split_of_names(parts: Sequence[str], otherwise: str = "train") -> str:
    """The split that the names of a path say: train, val or test, as a word in one of them."""
    spelled = "".join(letter if letter.isalpha() else " " for letter in " ".join(parts).lower()).split()
    named = (ALIASES.get(word, word) for word in spelled)
    return next((word for word in named if word in SPLITS), otherwise)


def transcript_columns(file: Path, text: str = "") -> tuple[str, str] | None:
    """The columns of the sound files and the texts in a table, by their names; None if it has no such columns."""
    there = {name.casefold(): name for name in reversed(_columns(file))}
    wanted = [text.casefold(), *TEXT_COLUMNS] if text else TEXT_COLUMNS
    files, texts = ([there[name] for name in some if name in there] for some in (FILE_COLUMNS, wanted))
    return (files[0], texts[0]) if files and texts else None


def names_sounds(file: Path, text: str = "") -> bool:
    """Whether a table has columns of sound files and texts, and its first row names a WAV file."""
    columns = transcript_columns(file, text)
    if columns is None:
        return False
    first = next(read_rows(file, *columns, errors="replace"), ("", ""))
    return first[0].strip().lower().endswith(ENDINGS)


def _columns(file: Path) -> tuple[str, ...]:
    """The first row of TSV or CSV, which must be a header here; the keys or columns of other tables."""
    if suffix(file) in (".tsv", ".csv"):
        _, cells = next(read_separated(file, errors="replace"), (0, []))
        return tuple(cell.strip() for cell in cells)
    survey = survey_table(file)
    return () if survey is None else survey.columns


def _is_table(file: Path) -> bool:
    kind = suffix(file)
    return kind != "" and without_gz(file).lower().removesuffix(kind).replace("_", "-").split("-")[0] in TABLES


def _table(root: Path, file: Path, column: str, errors: Errors) -> Iterator[TranscribedFile]:
    if not suffix(file):
        raise DataError(f"{file}: not a table of sounds and texts, expected {EXPECTED}")
    columns = transcript_columns(file, column)
    if columns is None:
        raise DataError(
            f"{file}: no columns of sound files ({', '.join(FILE_COLUMNS)}) and texts ({', '.join(TEXT_COLUMNS)}, or "
            f"--data.text NAME); there are: {listed(_columns(file)) or 'none'}"
        )
    for number, (name, text) in enumerate(read_rows(file, *columns, errors=errors), 1):
        yield _checked(root, file.parent, f"{file}: row {number}", name.strip(), text)


def _libri(root: Path, file: Path) -> Iterator[TranscribedFile]:
    """`84-121123-0000 GO DO YOU HEAR`: the name of a sound file without its ending, then its text."""
    for number, line in enumerate(read_lines(file), 1):
        name, _, text = line.strip().partition(" ")
        if name:
            yield _checked(root, file.parent, f"{file}: line {number}", f"{name}{ENDINGS[0]}", text)


def _checked(root: Path, below: Path, where: str, name: str, text: str) -> TranscribedFile:
    text = " ".join(text.split())
    if not name or not text:
        raise DataError(f"{where}: {'no sound file named' if not name else 'an empty text'}, expected both")
    file = inside(root, name, where, below=below)
    if file.suffix.lower() not in ENDINGS:
        raise DataError(f"{where}: {shown(name)}, expected a WAV file ({', '.join(ENDINGS)}); convert other formats")
    return TranscribedFile(where, file, text)


def _there(folder: Path) -> str:
    return listed([each.name for each in (*subfolders(folder), *listing(folder))]) or "nothing"
