"""The token ids that steer generation, from config.json and generation_config.json; errors name the right one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.errors import BadModelError, shown
from headway.interop.model_folder import CONFIG, ModelFolder

GENERATION = "generation_config.json"
IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
# What generation_config.json may say in place of config.json.
KEYS = (*IDS, "decoder_start_token_id", "bad_words_ids")


def with_generation_settings(folder: ModelFolder) -> tuple[dict[str, Any], list[str]]:
    """config.json with what generation_config.json says in its place, and notes on ids that are ignored.

    An id outside the vocabulary can be neither read nor generated; transformers warns of it and loads the model. Raises
    BadModelError naming the file for what is not an id.
    """
    config, given = dict(folder.config), folder.settings(GENERATION) or {}
    sizes = [config.get(name) for name in ("decoder_vocab_size", "vocab_size")]
    vocab = next((size for size in sizes if type(size) is int), None)
    found: dict[str, str] = {key: CONFIG for key in KEYS if config.get(key) is not None}
    for key in KEYS:
        if given.get(key) is not None:
            config[key], found[key] = given[key], GENERATION
    notes = []
    for key, file in found.items():
        if key not in IDS:
            if file == GENERATION:
                _expect(folder, file, key, config[key], vocab)
            continue
        ids = config[key] if isinstance(config[key], list) else [config[key]]
        if any(type(each) is not int for each in ids):
            raise BadModelError(f"{folder.named(file)}: {key}={shown(config[key])}, expected an id or a list of ids")
        kept = [each for each in ids if vocab is None or 0 <= each < vocab]
        if len(kept) < len(ids):
            lost = ", ".join(str(each) for each in ids if each not in kept)
            where = Path(folder.named(file)).name
            notes.append(f"{where}: {key}={lost[:60]} is outside the vocabulary of {vocab:,} tokens and is ignored")
            config[key] = kept if kept and isinstance(config[key], list) else next(iter(kept), None)
    return config, notes


def _expect(folder: ModelFolder, file: str, key: str, value: Any, vocab: int | None) -> None:
    """Raise BadModelError unless a start token, or every word that is banned, is an id of the vocabulary."""
    ids = [value] if key == "decoder_start_token_id" else value
    words = [each if isinstance(each, list) else [each] for each in ids] if isinstance(ids, list) else [[value]]
    for index in (index for word in words for index in word):
        if type(index) is not int or index < 0 or (vocab is not None and index >= vocab):
            allowed = "an id" if vocab is None else f"an id from 0 to {vocab - 1}"
            raise BadModelError(f"{folder.named(file)}: {key}={shown(value)}, expected {allowed}")
