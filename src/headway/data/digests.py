"""Digests of training data by content: files may be copied, moved or compressed, but not changed."""

from __future__ import annotations

from collections.abc import Mapping

from headway.data.text_files import ParallelText, PlainText
from headway.errors import ConfigError

TRAINED_ON = ("train", "val")  # the splits that determine a run's weights
SHOWN = 12  # characters of a digest in a message


def split_digests(text: ParallelText | PlainText, expected: Mapping[str, str] | None = None) -> dict[str, str]:
    """The digest of each split. Raises ConfigError for a split that differs from `expected`."""
    found = {split: text.fingerprint(split)[0] for split in text.splits}
    check_digests(found, expected)
    return found


def check_digests(found: Mapping[str, str], expected: Mapping[str, str] | None) -> None:
    """Raise ConfigError for a split that differs from the one a run was trained on; None allows everything."""
    if expected is not None:
        for split in TRAINED_ON:
            before, now = expected.get(split, "missing"), found.get(split, "missing")
            if before != now:
                got = f"--resume with data whose {split} split is {now[:SHOWN]}"
                raise ConfigError(f"{got}, the run was trained on {before[:SHOWN]}")
