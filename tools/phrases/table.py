"""The generated splits as the compressed table that the package ships."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from tools.phrases.splits import split

PATH = Path(__file__).parents[2] / "src/headway/data/synthetic/phrases.tsv.gz"
HEADER = ("split", "english", "french", "position")


def table() -> str:
    """The rows of all splits as tab-separated lines under HEADER, `position` counting from 0 within a split.

    Sentences of one template stand together in alphabetical order, which compresses a fifth better than shuffled ones.
    """
    splits = split()
    parts = {"train": splits.train, "val": splits.val, "test": splits.test, "unseen": splits.unseen}
    rows = [(pair, name, position) for name, part in parts.items() for position, pair in enumerate(part)]
    rows.sort(key=lambda row: (row[0].template, row[0].english))
    lines = [HEADER, *((name, pair.english, pair.french, str(position)) for pair, name, position in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def compressed(text: str) -> bytes:
    """The text in gzip without a name and a time, so that one version of zlib always writes the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as stream:
        stream.write(text.encode())
    return buffer.getvalue()
