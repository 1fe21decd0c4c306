"""Finding the files of parallel text: aligned by line, named by split and language (train.en and train.de)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from headway.data.files import contents, listed, listing, names, read_lines, without_gz
from headway.data.split_files import SPLITS, files_by_stem
from headway.data.tables import SUFFIXES
from headway.errors import DataError

FORMATS = (*SUFFIXES, ".txt", ".json", ".md", ".bin", ".zip", ".yaml", ".yml", ".log", ".idx", ".npy", ".pt", ".html")
TEXT = ".txt"  # may follow the language: train.en.txt
MOST_COUNTED = 64 << 20  # bytes of two files whose lines are counted
LEAST_ALIGNED = 20  # lines
NEARLY = 0.01  # of the lines: by so much two files may differ that are meant to be aligned
ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is "
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms "
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk "
    "sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi "
    "yo za zh zu"
)
CODES = frozenset(ISO_639_1.split())
# One of these, with a country or script (pt_BR, zh-Hans), or as NLLB writes languages (deu_Latn).
_CODE = re.compile(r"([A-Za-z]{2})([-_]([A-Za-z]{2}|[A-Z][a-z]{3}))?")
_LONG_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")


def languages(folder: Path) -> dict[str, Path]:
    """The training files of a folder by language.

    They are named `train.`, then an ending that is not another format's; or alike but for the codes of their languages,
    as in captions.en and captions.de, where no other files are. Raises DataError for several such sets of files.
    """
    by_ending = [(*without_gz(file).partition("."), file) for file in listing(folder)]
    found = {ending: file for stem, _, ending, file in by_ending if stem == "train" and _is_language(ending)}
    if found:
        return {ending.removesuffix(TEXT): file for ending, file in found.items()}
    sets = {stem: files for stem, files in _by_code(folder).items() if len(files) > 1 and stem not in SPLITS}
    if len(sets) > 1:
        pair = list(next(iter(sets.values())))[:2]
        named = " and ".join(f"train.{language}" for language in pair)
        raise DataError(
            f"{folder}: {len(sets)} texts ({listed(tuple(sets))}) in {listed(pair)}: name the files of the one "
            f"to train on {named}"
        )
    return next(iter(sets.values()), {})


def aligned_files(folder: Path, source: str, target: str) -> dict[str, tuple[Path, Path]]:
    """The files of both sides by split; a single pair is train, whatever it is called.

    Raises DataError if a side of train or val is missing.
    """
    files = listing(folder)
    sources, targets = (
        files_by_stem(folder, files, f".{side}") or files_by_stem(folder, files, f".{side}{TEXT}")
        for side in (source, target)
    )
    for split in ("train", "val"):
        for here, there, missing in ((sources, targets, target), (targets, sources, source)):
            if split in here and split not in there:
                beside = f"{folder}: no {split}.{missing} or {split}.{missing}.gz beside {here[split].name}"
                raise DataError(f"{beside}; there are: {names(files)}")
    found = {split: (sources[split], targets[split]) for split in sources if split in targets}
    alone = [split for split in found if split not in SPLITS]
    if "train" not in found and len(alone) == 1:
        return {"train": found.pop(alone[0]), **found}
    return found


def expect_train(folder: Path, splits: Sequence[str], source: str, target: str) -> None:
    """Raises DataError if there are no pairs of texts in these languages to train on, with what to do."""
    if "train" in splits:
        return
    there = f"there are: {contents(folder)}"
    if splits:
        step = f"name the files to train on train.{source} and train.{target}"
        raise DataError(f"{folder}: no train split; splits: {listed(splits)}; {step}; {there}")
    known = languages(folder)
    step = f"; languages here: {listed(tuple(known))} (--source and --target)" if known else alignment_note(folder)
    raise DataError(f"{folder}: no train.{source} and train.{target}, or train{{{','.join(SUFFIXES)}}}; {there}{step}")


def alignment_note(folder: Path) -> str:
    """`; `, and how to name the only two text files of a folder if they may be aligned; empty otherwise."""
    files = [file for file in listing(folder) if without_gz(file).endswith(TEXT)]
    return f"; {note}" if (note := note_of_aligned(files)) else ""


def note_of_aligned(files: Sequence[Path]) -> str:
    """A note if two files of text have equally many lines, or nearly: they may be translations of each other."""
    if len(files) != 2 or sum(file.stat().st_size for file in files) > MOST_COUNTED:
        return ""
    first, second = (sum(1 for _ in read_lines(file, errors="replace")) for file in files)
    if min(first, second) < LEAST_ALIGNED or abs(first - second) > NEARLY * first:
        return ""
    sides = (without_gz(file).removesuffix(TEXT).removeprefix("train.") for file in files)
    renamed = " and ".join(f"train.{side}" for side in sides)
    lines = f"{first:,} lines each" if first == second else f"{first:,} and {second:,} lines"
    return (
        f"{listed([file.name for file in files])} have {lines}: if they are translations of each other, name them "
        f"{renamed}, and a translation model is trained"
    )


def note_of_other_languages(file: Path) -> str:
    """A note if a file of text is one side of parallel text."""
    try:
        found = languages(file.absolute().parent)
    except DataError:
        return ""
    others = [each.name for each in found.values() if each.name != file.name]
    if not others or len(others) == len(found):
        return ""
    folder = file.parent
    return f"{listed(others)} beside it: to train a translation model, pass the folder: --data {folder}"


def is_code(ending: str) -> bool:
    """Whether the ending of a file name is the code of a language."""
    code = _CODE.fullmatch(ending)
    return (code is not None and code[1].lower() in CODES) or _LONG_CODE.fullmatch(ending) is not None


def _by_code(folder: Path) -> Mapping[str, dict[str, Path]]:
    """The files that end with the code of a language, by the rest of their name."""
    found: dict[str, dict[str, Path]] = {}
    for file in listing(folder):
        stem, _, code = without_gz(file).removesuffix(TEXT).rpartition(".")
        if stem and is_code(code):
            found.setdefault(stem, {})[code] = file
    return found


def _is_language(ending: str) -> bool:
    if ending.endswith(TEXT):
        return is_code(ending.removesuffix(TEXT))
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,19}", ending) is not None and f".{ending}".lower() not in FORMATS
