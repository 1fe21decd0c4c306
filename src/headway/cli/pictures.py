"""What the commands share that draw a picture of images."""

from __future__ import annotations

import sys
from pathlib import Path

from headway.errors import ConfigError
from headway.storage.commit import commit_file


def expect_png(flag: str, path: str | None) -> None:
    """Raise ConfigError for a picture under another kind of name: asked before anything is computed."""
    if path is not None and Path(path).suffix.lower() != ".png":
        raise ConfigError(f"--{flag} {path}, allowed: a name that ends in .png")


def write_picture(path: str, picture: bytes, *, count: int, most: int) -> None:
    """Keep a picture and say so, and how many of `count` images it has where those are not all."""
    commit_file(Path(path), picture)
    left = f"; the first {most} of {count} images" if count > most else ""
    print(f"headway: a picture in {path}{left}", file=sys.stderr)
