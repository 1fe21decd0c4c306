"""The run folder's files: its config, its tokenizers, the digests of its data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headway import config as configs
from headway.errors import NoRunError

if TYPE_CHECKING:
    from headway.data.tokenizers import SpecialTokens, Tokenizer
    from headway.runs.config import RunConfig

CONFIG = "config.yaml"
DATA = "data.json"  # digests of what the run is trained on


def read_config(folder: Path) -> RunConfig:
    """The config a run was trained with. Raises NoRunError if the folder is not a run."""
    import yaml

    from headway.runs.config import RunConfig

    path = folder / CONFIG
    try:
        return configs.parse(RunConfig, yaml.safe_load(path.read_text()))
    except FileNotFoundError as error:
        raise NoRunError(f"{folder}: no such run (it has no {CONFIG})") from error
    except NotADirectoryError as error:
        raise NoRunError(f"{folder}: a file, expected a run folder, as `headway train` writes it") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise NoRunError(f"{path}: cannot be read ({type(error).__name__})") from error


def read_tokenizers(folder: Path, special: SpecialTokens | None) -> dict[str, Tokenizer]:
    """The tokenizers of a run by file name; `special` are the special tokens of an imported one."""
    from headway.data.tokenizers import Tokenizer

    return {
        path.name: Tokenizer.from_json(path.read_text(), special) for path in sorted(folder.glob("tokenizer*.json"))
    }


def read_digests(folder: Path, note: Callable[[str], None]) -> dict[str, str] | None:
    """The digests of the data a run was begun with; None, and a note, where it keeps none."""
    try:
        return {split: str(digest) for split, digest in json.loads((folder / DATA).read_text()).items()}
    except (OSError, ValueError, AttributeError) as error:
        reason = "missing" if isinstance(error, FileNotFoundError) else f"unreadable ({type(error).__name__})"
        note(f"{folder / DATA} is {reason}: whether the data is still the same is not known")
        return None
