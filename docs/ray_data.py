"""A file of lines translated by Ray Data: python docs/ray_data.py RUN INPUT OUT. Needs `pip install 'ray[data]'`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import ray

import headway


class Translator:
    """Loads the run once in each actor."""

    def __init__(self, run: str) -> None:
        self.run = headway.load(run)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """A block of lines with their translations."""
        return {**batch, "translation": np.array(self.run.translate(batch["text"].tolist()), dtype=object)}


def main(run: str, source: str, out: str, *, actors: int = 2) -> None:
    """Translate the lines of a file into a folder of JSONL files."""
    lines = ray.data.read_text(str(Path(source).resolve()), drop_empty_lines=False)
    translated = lines.map_batches(
        Translator,
        fn_constructor_args=(str(Path(run).resolve()),),
        batch_size=512,
        compute=ray.data.ActorPoolStrategy(size=actors),
    )
    translated.write_json(str(Path(out).resolve()))


if __name__ == "__main__":
    main(*sys.argv[1:])
