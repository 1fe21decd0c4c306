"""A table of texts as the input of a command: its rows become the lines that the command reads."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.terminal import tell
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.data.config import DataConfig


def table_among(arguments: Namespace) -> Path | None:
    """The table that is the only input, None if the inputs are texts. Raises ConfigError for `--text` without one."""
    from headway.data.tables import suffix

    paths = [Path(each) for each in arguments.input]
    if len(paths) == 1 and suffix(paths[0]) and paths[0].is_file():
        return paths[0]
    if arguments.text is not None:
        raise ConfigError(f"--text {arguments.text} names a column of a table: pass one file (.csv, .tsv, .jsonl, …)")
    return None


def lines_of_table(path: Path, data: DataConfig, column: str | None) -> Iterator[str]:
    """The texts of a table's rows; of a run of pairs both texts, with a tab between.

    The columns are the one that is named, else those that the run was trained on, else the only one with texts. Rows
    without a text are left out and told. Raises DataError naming the columns if that is not clear, and for a row that
    cannot be read.
    """
    from headway.data.files import listed
    from headway.data.table_columns import text_column
    from headway.data.table_survey import survey_table
    from headway.data.tables import read_rows
    from headway.errors import DataError

    table = survey_table(path)
    assert table is not None  # it has the ending of a table
    columns: tuple[str, ...] = (column,) if column else (data.text, data.text2) if data.text2 else (data.text,)
    if not column and not set(columns) <= set(table.columns):
        found = None if data.text2 else text_column(table)
        if found is None:
            wanted = " and ".join(columns)
            how = "" if data.text2 else "; name the one to classify with --text"
            raise DataError(f"{path}: no column {wanted}; there are: {listed(table.columns)}{how}")
        tell(f"note: {path} has no column {data.text}, as the run's training data had; its column {found} is read")
        columns = (found,)
    empty: list[str] = []
    for number, cells in enumerate(read_rows(path, *columns, errors=data.errors, numbers=True), start=1):
        if not all(map(str.strip, cells)):
            empty.append(str(number))
            continue
        yield "\t".join(cell.replace("\t", " ") for cell in cells) if len(cells) > 1 else cells[0]
    if empty:
        rows = f"row {empty[0]} has" if len(empty) == 1 else f"{len(empty):,} rows ({listed(empty, most=5)}) have"
        tell(f"note: {path}: {rows} no text and no answer")
