"""The run folder's files: its config, its tokenizers, the digests of its data, and the manifest over them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headway import config as configs
from headway.documents import parse_json, parse_yaml
from headway.errors import DataError, NoRunError
from headway.storage.manifest import MANIFEST
from headway.storage.run_manifest import RunFiles, commit_run_files, is_model_folder, model_folder_advice, run_id
from headway.suggestions import did_you_mean_path

if TYPE_CHECKING:
    from headway.data.tokenizers import SpecialTokens, Tokenizer
    from headway.runs.config import RunConfig

CONFIG = "config.yaml"
DATA = "data.json"  # digests of what the run is trained on
TOKENIZERS = "tokenizer*.json"


def no_such_run(folder: Path) -> str:
    """The message for a folder that is not a run, with the run that may be meant."""
    if is_model_folder(folder):
        return model_folder_advice(folder)
    if folder.is_dir():
        hint = f"`headway runs {shlex.quote(str(folder))}` lists those below it"
    else:
        hint = f"{did_you_mean_path(folder)}`headway runs` lists them"
    return f"{folder}: no such run (it has no {CONFIG}); {hint}"


def read_config(folder: Path, files: RunFiles | None = None) -> RunConfig:
    """The config a run was trained with. Raises NoRunError if the folder is not a run, or the file damaged."""
    from headway.runs.config import RunConfig

    try:
        data = (files or RunFiles(folder)).read(CONFIG, "config-bytes")
    except NoRunError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise NoRunError(no_such_run(folder)) from error
        if isinstance(error.__cause__, NotADirectoryError):
            raise NoRunError(f"{folder}: a file, expected a run folder, as `headway train` writes it") from error
        raise
    return configs.parse(RunConfig, parse_yaml(data, str(folder / CONFIG), error=NoRunError))


def read_tokenizers(folder: Path, special: SpecialTokens | None, files: RunFiles | None = None) -> dict[str, Tokenizer]:
    """The tokenizers of a run by file name; `special` are the special tokens of an imported one."""
    from headway.data.tokenizers import Tokenizer

    files = files or RunFiles(folder)
    return {
        name: Tokenizer.from_json(
            _text(files.read(name, "tokenizer-bytes"), folder / name), special, where=str(folder / name)
        )
        for name in files.names(TOKENIZERS)
    }


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: invalid UTF-8 at byte {error.start + 1}") from None


def read_digests(folder: Path, note: Callable[[str], None]) -> dict[str, str] | None:
    """The digests of the data a run was begun with; None, and a note, where a run of an older version keeps none.

    Raises NoRunError where they are damaged.
    """
    files = RunFiles(folder)
    if files.manifest is None or DATA in files.manifest.files:
        try:
            found = parse_json(files.read(DATA, "config-bytes"), str(folder / DATA), error=NoRunError)
            return {split: str(digest) for split, digest in found.items()}
        except (NoRunError, AttributeError) as error:
            if files.manifest is not None:
                raise
            reason = "missing" if isinstance(error.__cause__, FileNotFoundError) else "unreadable"
            note(f"{folder / DATA} is {reason}: whether the data is still the same is not known")
    return None


def run_files(config: RunConfig, tokenizers: Mapping[str, str], digests: Mapping[str, str] | None) -> dict[str, bytes]:
    """The content of a run's files: its config, its tokenizers as JSON by file name, the digests of its data."""
    import yaml

    files = {} if digests is None else {DATA: json.dumps(digests, indent=2) + "\n"}
    files |= tokenizers
    files[CONFIG] = yaml.safe_dump(configs.plain(config), sort_keys=False, allow_unicode=True)
    return {name: text.encode() for name, text in files.items()}


def write_run_files(folder: Path, config: RunConfig, tokenizers: Mapping[str, str]) -> None:
    """Write the files and the manifest of a run that has no data of its own."""
    files = run_files(config, tokenizers, None)
    commit_run_files(folder, files, run=run_id(files))


def tell_unchecked(folder: Path, note: Callable[[str], None]) -> None:
    """Note that a run of an older version has no manifest, so that its files cannot be checked."""
    if RunFiles(folder).manifest is None and (folder / CONFIG).exists():
        note(
            f"{folder} has no {MANIFEST}, like runs of older versions: its config and tokenizers are not checked for "
            f"damage; `headway seal {folder}` adds one"
        )
