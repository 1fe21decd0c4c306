"""Text that was tokenised before, in any form that is read: found by its path, or several by a mix of paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from headway.data.binary_tokens import binary_paths, open_binary
from headway.data.mixes import Mix, MixedText, weights_of
from headway.data.prepared_store import PartStream, is_store, open_store
from headway.data.token_stream import PreparedText
from headway.data.tokenizers import Tokenizer
from headway.errors import DataError


def is_prepared(spec: str | Path) -> bool:
    """Whether there is prepared text at a path, or a spec is a mix. Raises ConfigError for a mix that cannot be."""
    if weights_of(str(spec)):
        return True
    path = Path(spec).expanduser()
    return is_store(path) or bool(binary_paths(path))


def find_prepared(spec: str, tokenizer: Tokenizer | None = None) -> PreparedText | None:
    """The prepared text at a path or in a mix, of which no token is read yet; None for anything else.

    `tokenizer` is that of a run, for files that do not name theirs. Raises DataError, ConfigError.
    """
    if weights := weights_of(spec):
        return _open_mix(spec, weights, tokenizer)
    try:
        path = Path(spec).expanduser()
    except RuntimeError:  # the home of an unknown user
        return None
    if is_store(path):
        return open_store(path)
    return open_binary(path, tokenizer) if binary_paths(path) else None


def _open_mix(spec: str, weights: Mapping[str, float], tokenizer: Tokenizer | None) -> PreparedText:
    found = {path: find_prepared(path, tokenizer) for path in weights}
    for path, text in found.items():
        if text is None:
            what = "not a prepared text" if Path(path).expanduser().exists() else "no such file or folder"
            raise DataError(f"{path}: {what}; a mix is made of stores: headway prepare TEXT --out STORE")
    texts = cast(dict[str, PreparedText], found)
    known = [(path, text.tokenizer) for path, text in texts.items() if text.tokenizer is not None]
    for path, other in known[1:]:
        if other.content_hash != known[0][1].content_hash:
            raise DataError(
                f"{path} and {known[0][0]} were prepared with different tokenizers; prepare one again with --tokenizer "
                f"{known[0][0]}"
            )
    mix = Mix([
        MixedText(name, weights[path], cast(dict[str, PartStream], text.splits), text.digests)
        for name, (path, text) in zip(_names(texts), texts.items(), strict=True)
    ])  # fmt: skip
    return PreparedText(
        name=spec, splits=mix.splits, digests=mix.digests, tokenizer=known[0][1] if known else None, mix=mix
    )


def _names(paths: Mapping[str, object]) -> list[str]:
    """A short name of each path: its last part, with a number where several have the same."""
    names: list[str] = []
    for path in paths:
        name = short = re.sub(r"[^\w.-]+", "-", Path(path).expanduser().resolve().name) or "text"
        number = 1
        while name in names:
            number += 1
            name = f"{short}-{number}"
        names.append(name)
    return names
