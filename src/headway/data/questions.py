"""Questions whose answers are spans of a context: SQuAD's JSON, JSONL, or by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from headway.data.datasets import find_dataset
from headway.data.files import Errors, read_bytes, without_gz
from headway.data.split_files import files_by_split
from headway.data.tables import read_objects
from headway.data.token_store import fingerprint
from headway.documents import parse_json
from headway.errors import DataError, shown

ENDINGS = (".json", ".jsonl")
AROUND = 40  # characters of a text in a message


class Question(NamedTuple):
    """A question about a context, and its reference answers with their first characters; none: it has no answer."""

    id: str
    question: str
    context: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """Questions by split; `name` identifies the set in error messages."""

    name: str
    splits: Mapping[str, Sequence[Question]]

    def fingerprint(self, split: str) -> str:
        """A digest of a split, independent of files and formats."""
        return fingerprint(
            part
            for each in self.splits[split]
            for part in (each.id, each.question, each.context, *each.answers, *map(str, each.starts), "")
        )


def load_questions(spec: str, *, errors: Errors = "strict", whole: bool = False) -> QuestionSet:
    """Questions with answers by name or path: a file, whose last tenth of contexts is val, or a folder with a file for
    each split, whose names begin with it (`train-v2.0.json`, `dev-v2.0.json`); `whole` makes all of a file `test`.

    Raises DataError for what cannot be read, and for an answer that is not in its context, with the question's id.
    """
    dataset = find_dataset(spec, "questions with answers")
    if dataset is not None:
        found: QuestionSet = dataset.load()
        return found
    path = Path(spec).expanduser()
    files = question_files(path)
    splits = {split: list(read_questions(file, errors=errors)) for split, file in files.items()}
    for split, questions in splits.items():
        if not questions:
            raise DataError(f"{files[split]}: no question, expected at least 1")
    if whole and splits.keys() == {"train"}:
        splits["test"] = splits["train"]
    elif "val" not in splits:
        splits.update(_last_contexts(files["train"], splits["train"]))
    ordered: dict[str, list[Question]] = {split: splits[split] for split in ("train", "val") if split in splits}
    return QuestionSet(name=str(path), splits={**ordered, **splits})


def question_files(path: Path) -> dict[str, Path]:
    """The file of each split; a file alone is train. Raises DataError for a folder without a train file."""
    return files_by_split(path, ENDINGS, "train.json or train.jsonl")


def read_questions(path: Path, *, errors: Errors = "strict") -> Iterator[Question]:
    """The questions of a file. Raises DataError naming the file and the question."""
    if without_gz(path).lower().endswith(".jsonl"):
        for where, row in read_objects(path, errors=errors):
            yield _question(where, row, _text(where, row, "context"), str(row.get("id", where.rpartition(" ")[2])))
        return
    document = parse_json(read_bytes(path, most="document-bytes"), str(path))
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise DataError(f"{path}: not SQuAD's JSON: expected an object with a list `data`")
    for number, article in enumerate(document["data"], start=1):
        for paragraph in _objects(f"{path}: article {number}", article, "paragraphs"):
            where = f"{path}: article {number}"
            context = _text(where, paragraph, "context")
            for asked in _objects(where, paragraph, "qas"):
                name = asked.get("id")
                if not isinstance(name, str | int) or isinstance(name, bool):
                    raise DataError(f"{where}: a question with the id {shown(name)}, expected a string")
                yield _question(f"{path}: question {shown(str(name), AROUND)}", asked, context, str(name))


def _question(where: str, row: Mapping[str, Any], context: str, name: str) -> Question:
    question = _text(where, row, "question")
    if not question.strip() or not context.strip():
        raise DataError(f"{where}: an empty {'question' if context.strip() else 'context'}")
    if row.get("is_impossible"):
        return Question(name, question, context)
    pairs = [_answer(where, each, context) for each in _answers(where, row)]
    if not pairs and "is_impossible" not in row and "answers" not in row:
        raise DataError(f"{where}: no key 'answers'; a question without an answer has an empty list")
    return Question(name, question, context, tuple(text for text, _ in pairs), tuple(start for _, start in pairs))


def _answers(where: str, row: Mapping[str, Any]) -> list[Any]:
    """Reference answers as SQuAD lists them, or as two lists of texts and starts."""
    answers = row.get("answers", [])
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise DataError(f"{where}: answers are not two lists text and answer_start of the same length")
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(answers, list):
        raise DataError(f"{where}: answers is a {type(answers).__name__}, expected a list")
    return answers


def _answer(where: str, answer: Any, context: str) -> tuple[str, int]:
    """The text and the first character of an answer. Raises DataError if it does not stand there."""
    if not isinstance(answer, dict):
        raise DataError(f"{where}: the answer {shown(answer, AROUND)} is not an object with text and answer_start")
    text, start = _text(where, answer, "text"), answer.get("answer_start")
    if type(start) is not int or not text.strip():
        given = f"{shown(text, AROUND)} at {shown(start, AROUND)}"
        raise DataError(f"{where}: the answer {given}, expected a text and the number of its first character, from 0")
    if start < 0 or context[start : start + len(text)] != text:
        there = shown(context[max(start, 0) : max(start, 0) + len(text)], AROUND)
        elsewhere = context.find(text)
        hint = "it is not in its context" if elsewhere < 0 else f"it begins at character {elsewhere}"
        raise DataError(
            f"{where}: the answer {shown(text, AROUND)} does not stand at character {start}, where {there} is; {hint}"
        )
    return text, start


def _text(where: str, row: Any, key: str) -> str:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, str) or "\0" in value:
        got = "no" if value is None else f"{shown(value, AROUND)} as"
        raise DataError(f"{where}: {got} {key}, expected a string")
    return value


def _objects(where: str, row: Any, key: str) -> list[dict[str, Any]]:
    found = row.get(key) if isinstance(row, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise DataError(f"{where}: {shown(found, AROUND)} as {key}, expected a list of objects")
    return found


def _last_contexts(path: Path, questions: list[Question]) -> dict[str, list[Question]]:
    """Train and val: the questions of the last tenth of contexts, so that no context is in both."""
    contexts = list(dict.fromkeys(each.context for each in questions))
    if len(contexts) < 2:
        raise DataError(f"{path}: 1 context, expected at least 2: the last tenth is val")
    held = set(contexts[len(contexts) - max(1, len(contexts) // 10) :])
    return {
        "train": [each for each in questions if each.context not in held],
        "val": [each for each in questions if each.context in held],
    }
