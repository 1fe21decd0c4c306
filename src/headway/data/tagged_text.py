"""Sentences whose words have a tag each: from CoNLL columns, from JSONL, or by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from headway.data.datasets import find_dataset
from headway.data.files import Errors, listed, listing, names, read_lines, without_gz
from headway.data.split_files import ALIASES
from headway.data.tables import read_objects
from headway.data.tagged_spans import SPAN_KEYS, words_and_tags
from headway.data.token_store import fingerprint
from headway.data.words import WordKind
from headway.errors import DataError, one_line, shown

Scheme = Literal["auto", "iob2", "iob1", "plain"]
COLUMNS = (".conll", ".conllu", ".conll03", ".iob", ".iob1", ".iob2", ".bio")  # endings that are only of such files
ENDINGS = (*COLUMNS, ".jsonl", ".txt", ".tsv")
UNIVERSAL = ".conllu"  # Universal Dependencies: numbered columns, comments, several words in one token
UNIVERSAL_COLUMNS = (2, 4)  # the word and its part of speech, from 1
DOCUMENT = "-DOCSTART-"  # begins a document in the files of CoNLL-2003
SPLIT_NAMES = {**ALIASES, "testa": "val", "testb": "test"}
WORD_KEYS, TAG_KEYS = ("tokens", "words"), ("tags", "ner_tags", "pos_tags", "labels")
WORDS, TAGS = "text", "label"  # `data.text` and `data.label` unless they are set
_PREFIX = re.compile(r"[BIES]-.+|O", re.DOTALL)


class TaggedSentence(NamedTuple):
    """The words of a sentence, a tag for each, and where it stands, for messages."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedText:
    """Sentences by split; `name` identifies the set in error messages."""

    name: str
    splits: Mapping[str, Sequence[TaggedSentence]]
    ceiling: Mapping[str, float] = field(
        default_factory=dict
    )  # of a generated set: the best possible accuracy, by split

    def fingerprint(self, split: str) -> str:
        """A digest of a split, independent of files and formats."""
        return fingerprint(f"{word}\t{tag}" for each in self.splits[split] for word, tag in (*_pairs(each), ("", "")))


def _pairs(sentence: TaggedSentence) -> Iterator[tuple[str, str]]:
    return zip(sentence.words, sentence.tags, strict=True)


def has_entities(tags: Sequence[str]) -> bool:
    """Whether tags mark entities: each is O or has a prefix B-, I-, E- or S-, and some have one."""
    return all(map(_PREFIX.fullmatch, tags)) and any(tag != "O" for tag in tags)


def load_tagged(
    spec: str,
    *,
    word: str,
    tag: str,
    errors: Errors = "strict",
    scheme: Scheme = "auto",
    words: WordKind = "punctuation",
    whole: bool = False,
) -> TaggedText:
    """Tagged sentences by name or path: a file, whose last tenth is val, or a folder with a file for each split.

    `whole` makes all sentences of a file the split `test` instead, `words` says how texts with spans are divided.
    `word` and `tag` choose columns (numbers from 1) or keys; "text" and "label" stand for the first and the last
    column, or the usual keys. Raises DataError for what cannot be read, and for tags that contradict each other.
    """
    dataset = find_dataset(spec, "sentences with tags")
    if dataset is not None:
        found: TaggedText = dataset.load()
        return found
    path = Path(spec).expanduser()
    files = tagged_files(path)
    read = {
        split: list(read_tagged(file, word=word, tag=tag, errors=errors, words=words)) for split, file in files.items()
    }
    for split, sentences in read.items():
        if not sentences:
            raise DataError(f"{files[split]}: no sentence, expected at least 1")
    if whole and read.keys() == {"train"}:
        read["test"] = read["train"]
    elif "val" not in read:
        read.update(_last_tenth(files["train"], read["train"]))
    splits = {split: read[split] for split in (*[s for s in ("train", "val") if s in read], *read)}
    every = sorted({tag for sentences in splits.values() for each in sentences for tag in each.tags})
    if scheme == "iob1":
        _expect_entities(path, every)
        splits = {split: [_to_iob2(each) for each in sentences] for split, sentences in splits.items()}
    elif scheme == "iob2" or (scheme == "auto" and has_entities(every)):
        _expect_entities(path, every)
        for sentences in splits.values():
            for each in sentences:
                _expect_consistent(each)
    return TaggedText(name=str(path), splits=splits)


def tagged_files(path: Path) -> dict[str, Path]:
    """The file of each split; a file alone is train. Raises DataError for a folder without a train file."""
    if not path.is_dir():
        return {"train": path}
    found: dict[str, Path] = {}
    for file in listing(path):
        split = _split_of(file)
        if split is None:
            continue
        if split in found:
            raise DataError(f"{path}: {found[split].name} and {file.name} are the same split, expected one of them")
        found[split] = file
    if "train" not in found:
        wanted = "train.conll, or train with another of the endings " + ", ".join(ENDINGS)
        raise DataError(f"{path}: no {wanted}; there are: {names(listing(path))}")
    return found


def _split_of(file: Path) -> str | None:
    """The split of a file by its name: `train.conll`, or `eng.train` as CoNLL-2003 has it; None for other files."""
    stem, _, ending = without_gz(file).rpartition(".")
    if f".{ending.lower()}" in ENDINGS and stem:
        return SPLIT_NAMES.get(stem.lower(), stem)
    split = SPLIT_NAMES.get(ending.lower(), ending.lower())
    return split if split in ("train", "val", "test") else None


def read_tagged(
    path: Path, *, word: str, tag: str, errors: Errors = "strict", words: WordKind = "punctuation"
) -> Iterator[TaggedSentence]:
    """The sentences of a file. Raises DataError naming the file and the line."""
    if without_gz(path).lower().endswith(".jsonl"):
        yield from _jsonl(path, word, tag, errors, words)
    else:
        yield from _columns(path, word, tag, errors)


def _columns(path: Path, word: str, tag: str, errors: Errors) -> Iterator[TaggedSentence]:
    universal = without_gz(path).lower().endswith(UNIVERSAL)
    usual = UNIVERSAL_COLUMNS if universal else (1, None)
    chosen = [_column(word, WORDS, usual[0], "data.text"), _column(tag, TAGS, usual[1], "data.label")]
    words: list[str] = []
    tags: list[str] = []
    width, first = 0, 1
    for number, line in enumerate(read_lines(path, errors=errors), start=1):
        if not line.strip():
            if words:
                yield TaggedSentence(tuple(words), tuple(tags), f"{path}: line {first}")
                words, tags = [], []
            continue
        cells = _cells(line)
        if cells[0] == DOCUMENT or (universal and (line.startswith("#") or not cells[0].isdecimal())):
            continue  # of Universal Dependencies also tokens such as 1-2 and 1.1, whose words follow or are not there
        width = width or len(cells)
        if len(cells) != width or width < 2:
            wanted = "at least 2, a word and its tag" if width < 2 else f"{width} as in the lines before"
            raise DataError(f"{path}: line {number} has {_counted(len(cells), 'column')}, expected {wanted}")
        places = [width if column is None else column for column in chosen]
        for name, place in zip(("data.text", "data.label"), places, strict=True):
            if place > width:
                raise DataError(f"{path}: line {number} has {_counted(width, 'column')}; --{name} {place} is not there")
        if places[0] == places[1]:
            raise DataError(
                f"{path}: words and tags are both column {places[0]}, expected two (--data.text, --data.label)"
            )
        if not words:
            first = number
        words.append(cells[places[0] - 1])
        tags.append(cells[places[1] - 1])
    if words:
        yield TaggedSentence(tuple(words), tuple(tags), f"{path}: line {first}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _cells(line: str) -> list[str]:
    """The columns of a line: between tabs if it has any, else between runs of spaces."""
    cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
    return [cell or "_" for cell in cells]


def _column(given: str, unset: str, usual: int | None, key: str) -> int | None:
    """The number of a column, from 1; None for the last."""
    if given == unset:
        return usual
    if not given.isdecimal() or int(given[:9]) < 1:
        raise DataError(f"--{key} {one_line(given)}: columns of a CoNLL file go by number, from 1")
    return int(given[:9])


def has_spans(row: Mapping[str, Any], word: str = WORDS, tag: str = TAGS) -> bool:
    """Whether an object has a text and spans of it, not words and tags."""
    lists = WORD_KEYS if word == WORDS else (word,)
    spans = _under(row, SPAN_KEYS if tag == TAGS else (tag,))
    return isinstance(row.get(word), str) and isinstance(spans, list) and not isinstance(_under(row, lists), list)


def _jsonl(path: Path, word: str, tag: str, errors: Errors, how: WordKind) -> Iterator[TaggedSentence]:
    for where, row in read_objects(path, errors=errors):
        if has_spans(row, word, tag):
            spans = _under(row, SPAN_KEYS if tag == TAGS else (tag,))
            found = TaggedSentence(*words_and_tags(where, row[word], spans, how), where)
            if found.words:
                yield found
            continue
        words = _strings(where, row, WORD_KEYS if word == WORDS else (word,), "data.text")
        tags = _strings(where, row, TAG_KEYS if tag == TAGS else (tag,), "data.label")
        if len(words) != len(tags):
            raise DataError(
                f"{where}: {_counted(len(words), 'word')} and {_counted(len(tags), 'tag')}, expected one a word"
            )
        if words:
            yield TaggedSentence(words, tags, where)


def _under(row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """What stands under the first of these keys that is there, else None."""
    return next((row[key] for key in keys if key in row), None)


def _strings(where: str, row: Mapping[str, Any], keys: Sequence[str], setting: str) -> tuple[str, ...]:
    """The list of strings under the first of these keys that is there; whole numbers, as tags may be, become text."""
    key = next((each for each in keys if each in row), None)
    if key is None:
        there = listed([shown(name) for name in row]) or "none"
        raise DataError(f"{where}: no key {' or '.join(map(repr, keys))} (--{setting}); there are: {there}")
    value = row[key]
    if not isinstance(value, list):
        raise DataError(f"{where}: {one_line(key)} is a {type(value).__name__}, expected a list of strings")
    for each in value:
        if not isinstance(each, str | int) or isinstance(each, bool) or not str(each).strip():
            raise DataError(f"{where}: {shown(each)} in {one_line(key)}, expected strings that are not empty")
    return tuple(map(str, value))


def _last_tenth(path: Path, sentences: list[TaggedSentence]) -> dict[str, list[TaggedSentence]]:
    if len(sentences) < 2:
        raise DataError(f"{path}: 1 sentence, expected at least 2: the last tenth is val")
    cut = len(sentences) - max(1, len(sentences) // 10)
    return {"train": sentences[:cut], "val": sentences[cut:]}


def _expect_entities(path: Path, tags: Sequence[str]) -> None:
    if not has_entities(tags):
        wrong = next((tag for tag in tags if not _PREFIX.fullmatch(tag)), "O alone")
        raise DataError(f"{path}: {shown(wrong)} is not a tag of entities (O, B-…, I-…); pass --task.scheme plain")


def _expect_consistent(sentence: TaggedSentence) -> None:
    """Raise DataError for an I- or E- that does not continue an entity of its type."""
    before = "O"
    for place, tag in enumerate(sentence.tags, start=1):
        if tag[0] in "IE" and not (before[0] in "BI" and before[2:] == tag[2:]):
            word = shown(sentence.words[place - 1], 40)
            raise DataError(
                f"{sentence.where}: word {place} ({word}) has the tag {shown(tag, 40)} after {shown(before, 40)}, "
                f"expected B-{one_line(tag[2:])} first; --task.scheme iob1 reads entities that begin with I-"
            )
        before = tag


def _to_iob2(sentence: TaggedSentence) -> TaggedSentence:
    """IOB1, where B- stands only between two entities of a type, as IOB2 (Tjong Kim Sang and Veenstra 1999)."""
    tags, before = [], "O"
    for tag in sentence.tags:
        begins = tag[0] == "I" and before[2:] != tag[2:]
        tags.append(f"B-{tag[2:]}" if begins else tag)
        before = tag
    return sentence._replace(tags=tuple(tags))


def looks_tagged(path: Path, *, most: int = 400) -> bool:
    """Whether the beginning of a file looks like columns of words and tags of entities."""
    widths: set[int] = set()
    tags: set[str] = set()
    blank = count = 0
    try:
        for line in read_lines(path):
            if not line.strip():
                blank += 1
                continue
            cells = _cells(line)
            if cells[0] != DOCUMENT:
                widths.add(len(cells))
                tags.add(cells[-1])
                count += 1
            if count >= most:
                break
    except DataError:
        return False
    return len(widths) == 1 and min(widths) > 1 and blank > 0 and has_entities(sorted(tags))


SCHEMES = get_args(Scheme)
