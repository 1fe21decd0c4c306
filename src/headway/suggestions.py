"""What a mistyped name may have meant: the nearest known names.

Commands, options, presets, config keys, data sets and environments all ask here, so that "did you mean" follows one
rule everywhere. This module imports nothing of headway.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice

SHORTEST = 3  # characters of a word that may be the beginning of a name, or have a typing mistake
MAX_MISTAKES = 3
MAX_SIBLINGS = 1000  # names of a folder that are looked at
MAX_COMPARED = 100  # characters; a longer word is not taken for a mistyped name
# Names that other programs have for the same setting; the one that is known at that place is suggested.
SYNONYMS = {
    "lr": ("learning_rate",),
    "batch": ("batch_tokens",),
    "batchsize": ("batch_tokens",),
    "maxsteps": ("steps",),
    "numsteps": ("steps",),
    "iterations": ("steps",),
    "iters": ("steps",),
    "epoch": ("--epochs", "steps"),
    "epochs": ("--epochs", "steps"),
    "optim": ("optimiser",),
    "optimizer": ("optimiser",),
    "scheduler": ("schedule",),
    "lrscheduler": ("schedule",),
    "warmupsteps": ("warmup",),
    "earlystopping": ("patience",),
    "gradclip": ("clip",),
    "maxgradnorm": ("clip",),
    "gradientaccumulation": ("accumulate",),
    "gradientaccumulationsteps": ("accumulate",),
    "amp": ("--precision", "precision"),
    "fp16": ("--precision", "precision"),
    "bf16": ("--precision", "precision"),
    "int8": ("--precision", "precision"),
    "dtype": ("--precision", "precision"),
    "cuda": ("--device", "device"),
    "gpu": ("cuda", "--device", "device"),
    "cpu": ("--device", "device"),
    "hiddensize": ("width",),
    "dmodel": ("width",),
    "dim": ("width",),
    "embeddim": ("width",),
    "intermediatesize": ("inner",),
    "dff": ("inner",),
    "numlayers": ("layers",),
    "nlayer": ("layers",),
    "depth": ("layers",),
    "numheads": ("heads",),
    "nhead": ("heads",),
    "vocabsize": ("vocab",),
    "blocksize": ("context",),
    "seqlen": ("context", "length"),
    "maxseqlength": ("context", "length"),
    "evalsteps": ("evaluate_every",),
    "savesteps": ("save_every",),
    "savetotallimit": ("keep",),
    "dataset": ("--data",),
    "input": ("--data",),
    "output": ("--out",),
    "outputdir": ("--out",),
    "outdir": ("--out",),
    "o": ("--out",),
    "src": ("--source",),
    "tgt": ("--target",),
    "checkpoint": ("--resume",),
    "resumefromcheckpoint": ("--resume",),
    "continue": ("--resume",),
    "pretrained": ("--init",),
    "finetune": ("--init",),
    "numbeams": ("--beam",),
    "beamsize": ("--beam",),
    "nbest": ("--n-best",),
    "maxlength": ("--max-tokens", "max_length"),
    "maxnewtokens": ("--max-tokens",),
    "temp": ("--temperature",),
    "numreturnsequences": ("--num",),
    "numsamples": ("--num",),
    "verbose": ("--debug",),
}


def nearest(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that a word may stand for, the likeliest first; none where nothing is near.

    The same name but for case, dashes and underscores comes first, then a synonym, then the names with the fewest
    typing mistakes (a character too much, too few or wrong, or two exchanged), at most one for each three characters of
    the word, then the names that begin with it.
    """
    names, wanted = list(dict.fromkeys(known)), _bare(word)
    if not wanted or len(wanted) > MAX_COMPARED:
        return []
    bare = {name: _bare(name) for name in names}
    if same := [name for name in names if bare[name] == wanted]:
        return same[:most]
    if meant := [name for name in SYNONYMS.get(wanted, ()) if name in bare]:
        return meant[:1]
    if len(wanted) < SHORTEST:
        return []
    allowed = min(len(wanted) // 3, MAX_MISTAKES)
    mistakes = {name: _mistakes(wanted, bare[name], allowed) for name in names}
    fewest = min(mistakes.values(), default=allowed + 1)
    if fewest <= allowed:
        return [name for name in names if mistakes[name] == fewest][:most]
    return [name for name in names if bare[name].startswith(wanted)][:most]


def did_you_mean(word: str, known: Iterable[str], most: int = 3) -> str:
    """`did you mean A or B? `, with a space behind it for what follows, or nothing."""
    near = nearest(word, known, most)
    return f"did you mean {' or '.join(near)}? " if near else ""


def did_you_mean_path(path: str | os.PathLike[str]) -> str:
    """The same for a file or folder that does not exist: what is beside it under a name that is near."""
    folder, name = os.path.split(os.path.normpath(path))
    try:
        with os.scandir(folder or os.curdir) as entries:
            there = [entry.name for entry in islice(entries, MAX_SIBLINGS) if not entry.name.startswith(".")]
    except (OSError, ValueError):  # no such folder either; a NUL
        return ""
    near = [os.path.join(folder, each) for each in nearest(name, sorted(there))] if name not in there else []
    return f"did you mean {' or '.join(near)}? " if near else ""


def _bare(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _mistakes(word: str, name: str, most: int) -> int:
    """Typing mistakes between two words (optimal string alignment distance); above `most`, some number above it."""
    if abs(len(word) - len(name)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(name) + 1))
    for n, letter in enumerate(word, 1):
        last, before, row = before, row, [n]
        for m, other in enumerate(name, 1):
            row.append(min(before[m] + 1, row[m - 1] + 1, before[m - 1] + (letter != other)))
            if n > 1 and m > 1 and letter == name[m - 2] and word[n - 2] == other:
                row[m] = min(row[m], last[m - 2] + 1)
        if min(row) > most:
            return most + 1
    return row[-1]
