"""Recognising images with captions: a file of captions beside the images."""

from __future__ import annotations

from pathlib import Path

from headway.data.caption_files import caption_files
from headway.data.datasets import kinds_of
from headway.data.files import names
from headway.tasks.proposal import Confidence, Proposal

PRESET = "captioner-vit"


def recognise(spec: str) -> Proposal | None:
    """What to train on images with captions."""
    kinds = kinds_of(spec)
    path = Path(spec).expanduser()
    files = caption_files(path) if not kinds and path.is_dir() else []
    if kinds[:1] != ("images with captions",) and not files:
        return None
    sign = f"the file of captions {names(files)}" if files else f"the built-in set {spec}"
    return Proposal(preset=PRESET, found="images with captions", sign=sign, confidence=Confidence.FORMAT)
