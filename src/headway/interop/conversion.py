"""Commands that turn a model folder which cannot be imported into one that can, with the transformers library.

They are part of error messages, to be copied into a shell as they are.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")  # what from_pretrained looks for


def pickle_advice(folder: Path, config: Mapping[str, Any], tokenizer: tuple[str, ...]) -> str:
    """How to get safetensors of a folder of pickles: with its heads, and its tokenizer's files copied."""
    if not any(os.path.lexists(folder / name) for name in PICKLED):
        return (
            "where you trust it, load it with torch.load(FILE, weights_only=True) into a model of transformers, "
            "and save that with save_pretrained, which writes safetensors"
        )
    loader = _class_of(config)
    if loader is None:
        return (
            "config.json names neither architectures nor model_type, so that transformers cannot load it: add "
            'for example "architectures": ["BertForMaskedLM"], and import again for a command that converts it'
        )
    return f"where you trust it, run: {_convert(folder, loader, 'safetensors', tokenizer)}"


def without_head_advice(folder: Path, tokenizer: tuple[str, ...]) -> str:
    """How to get the model without a head that cannot be imported."""
    return f"without its head: {_convert(folder, 'AutoModel', 'headless', tokenizer)}"


def _class_of(config: Mapping[str, Any]) -> str | None:
    """The class of transformers that keeps the heads: the one that saved it, or the pretraining class of its type."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if isinstance(name, str) and name.isidentifier() and name.isascii():
        return name
    return "AutoModelForPreTraining" if isinstance(config.get("model_type"), str) else None


def _convert(folder: Path, loader: str, what: str, tokenizer: tuple[str, ...]) -> str:
    """Load with a class of transformers, save, copy the tokenizer's files."""
    new = Path(f"{str(folder).rstrip('/')}-{what}")
    code = f"import sys, transformers; transformers.{loader}.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])"
    command = shlex.join(["python", "-c", code, str(folder), str(new)])
    if tokenizer:
        command += f" && {shlex.join(['cp', *(str(folder / name) for name in tokenizer), str(new)])}"
    imported = shlex.join(["headway", "import", str(new), "--out", f"runs/{folder.resolve().name}"])
    return f"{command} && {imported}"
