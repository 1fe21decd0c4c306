"""Recognising a text to model: a file of text, a folder of .txt files, or a table with one column of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from headway.counts import counted
from headway.data.datasets import kinds_of, load_text
from headway.data.files import CHUNK, entries, listed, listing, read_chunks, read_lines, without_gz
from headway.data.other_files import is_other
from headway.data.parallel_files import note_of_aligned, note_of_other_languages
from headway.data.prepared_text import is_prepared
from headway.data.table_columns import text_column
from headway.data.table_survey import GZIP_RATIO, survey_table
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal, Reading

PRESET = "gpt-char"
SMALL = 2 << 20  # bytes up to which a text is modelled by its characters
ENDINGS = (".txt", ".text", ".md")  # of files that are text and nothing else
LINES, LEAST_LINES = 200, 5  # of a text that is looked at for the tabs of a table
ALPHABET = 500  # characters up to which they are a vocabulary


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on plain text: characters of a small text, byte pairs of a larger one.

    Raises DataError for a file with the ending of a text that is empty or not UTF-8.
    """
    kinds = kinds_of(spec)
    if kinds:
        sign = f"the built-in set {spec}"
        return _proposal(sign, Confidence.FORMAT, {}) if "plain text" in kinds else None
    path = Path(spec).expanduser()
    if is_prepared(spec):
        return _proposal(f"the prepared text {path.name}", Confidence.FORMAT, {})
    if table := survey_table(path):
        if "data.label" in given:  # a text with a class, whatever is wrong with the name
            return None
        column = given.get("data.text") or text_column(table)
        if column is None:
            raise _unclear(spec, table.columns)
        sign = f"the column {column} of {table.path.name}"
        return _proposal(sign, Confidence.POSSIBLE, _settings(spec, [table.path], column))
    files = [file for file in listing(path) if without_gz(file).endswith(".txt")] if path.is_dir() else [path]
    if not files or is_other(files[0]) or not _is_text(files[0], given.get("data.errors") == "replace"):
        return None
    sign = f"{len(files):,} files of text" if len(files) > 1 else f"the file of text {files[0].name}"
    return replace(_proposal(sign, Confidence.POSSIBLE, _settings(spec, files, "text")), note=_note(path, files))


def reading(spec: str, given: Mapping[str, str]) -> Reading:
    """Of a table, the column with the text. Raises DataError where that is not clear."""
    table = None if "data.text" in given or kinds_of(spec) else survey_table(Path(spec).expanduser())
    if table is None:
        return Reading()
    column = text_column(table)
    if column is None:
        raise _unclear(str(table.path), table.columns)
    return Reading(
        settings={"data.text": column}, note=f"a table: its text is column {column} (--data.text chooses another)"
    )


def _is_text(path: Path, replace: bool) -> bool:
    """Whether a file can be read as text. Raises DataError if only its ending says so."""
    try:
        if next(read_chunks(path, errors="replace" if replace else "strict"), "").strip():
            return True
        raise DataError(f"{path}: no text, expected at least 1 character: it is empty")
    except DataError:
        if without_gz(path).lower().endswith(ENDINGS):
            raise
        return False


def _note(path: Path, files: list[Path]) -> str:
    """What else the files may be: translations of each other, one side of parallel text, a part of what is there."""
    if path.is_file():
        return note_of_other_languages(path) or _note_of_tabs(path)
    unread = [name for name in entries(path) if name not in {file.name for file in files}]
    only = f"only the .txt files of {path} are read, not {listed(unread, most=5)}" if unread else ""
    return "; ".join(note for note in (note_of_aligned(files), only) if note)


def _note_of_tabs(path: Path) -> str:
    """A note if the lines of a text all have the same number of tabs, as those of a table have."""
    lines = list(islice(read_lines(path, errors="replace"), LINES))
    tabs = {line.count("\t") for line in lines}
    if len(lines) < LEAST_LINES or len(tabs) > 1 or not max(tabs):
        return ""
    table = path.with_name(f"{without_gz(path).removesuffix('.txt')}.tsv")
    return f"every line has {counted(max(tabs), 'tab')}: a table? It is read as one under the name {table}"


def _settings(spec: str, files: list[Path], column: str) -> dict[str, object]:
    """Byte pairs for a text that is large, has many characters, or ends with ones that its beginning lacks."""
    size = sum(file.stat().st_size * (GZIP_RATIO if file.suffix == ".gz" else 1) for file in files)
    if size <= SMALL:
        text = load_text(spec, errors="replace", column=column)
        train, rest = (
            set(chain.from_iterable(islice(text.chunks(split), SMALL // CHUNK))) for split in ("train", "val")
        )
        if rest <= train and len(train) <= ALPHABET:
            return {}
    vocab = 4000 if size > SMALL else 1000
    return {"data.tokenizer": "byte-bpe", "data.tokenizer.vocab": vocab, "data.tokenizer.fit": True}


def _proposal(sign: str, confidence: Confidence, settings: dict[str, object]) -> Proposal:
    return Proposal(preset=PRESET, found="plain text", sign=sign, confidence=confidence, settings=settings)


def _unclear(spec: str, columns: tuple[str, ...]) -> DataError:
    if not columns:
        return DataError(f"{spec}: a table without a column of single texts, expected at least one")
    pairs = ", or those of a translation by --source and --target" if len(columns) > 1 else ""
    return DataError(
        f"{spec}: a table with the columns {listed(columns)}: name the one with the text by --data.text{pairs}"
    )
