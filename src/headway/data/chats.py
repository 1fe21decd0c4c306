"""Conversations: messages with a role and a content, from JSONL files or a built-in set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from headway.data.files import Errors, listed, listing, names
from headway.data.tables import checked_text, read_objects, suffix
from headway.data.text_files import table_splits
from headway.errors import DataError, shown

MESSAGES = "messages"  # the key of a line that has the conversation
SYSTEM, USER, ASSISTANT = ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: str  # system, user or assistant
    content: str

    def to_json(self) -> dict[str, str]:
        """As a line of a file has it."""
        return {"role": self.role, "content": self.content}


Conversation = tuple[Message, ...]


def parse_messages(value: Any, where: str, *, errors: Errors = "strict") -> Conversation:
    """A list of `{"role": …, "content": …}` as messages; other keys of a message are ignored.

    Raises DataError, with `where` and the number of the message, for an unknown role, a content that is not a text, or
    an empty one.
    """
    if not isinstance(value, list | tuple):
        raise DataError(f"{where}: {MESSAGES} is a {type(value).__name__}, expected a list of messages")
    if not value:
        raise DataError(f"{where}: no message, expected at least one")
    found = []
    for number, message in enumerate(value, start=1):
        place = f"{where}: message {number}"
        if isinstance(message, Message):
            message = message.to_json()
        if not isinstance(message, Mapping):
            raise DataError(f"{place} is a {type(message).__name__}, expected an object with role and content")
        for key in ("role", "content"):
            if key not in message:
                raise DataError(f"{place}: no key {key!r}; there are: {listed([shown(name) for name in message])}")
        if message["role"] not in ROLES:
            raise DataError(f"{place}: role {shown(message['role'])}, allowed: {', '.join(ROLES)}")
        content = checked_text(place, "content", message["content"], errors)
        if not content.strip():
            raise DataError(f"{place}: the content is empty, expected text")
        found.append(Message(message["role"], content))
    return tuple(found)


def parse_prompt(value: Any, where: str) -> Conversation:
    """Messages that are to be answered: the last one is not the assistant's, and the user has said something."""
    found = parse_messages(value, where)
    if found[-1].role != USER:
        raise DataError(f"{where}: the last message is of the {found[-1].role}, expected the user's, to be answered")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLines:
    """The conversations of a JSONL file from row `start` to `stop`. Raises DataError naming file and line."""

    path: Path
    start: int = 0
    stop: int | None = None
    errors: Errors = "strict"

    def __iter__(self) -> Iterator[Conversation]:
        empty = True
        for where, row in islice(read_objects(self.path, (MESSAGES,), errors=self.errors), self.start, self.stop):
            if MESSAGES not in row:
                there = listed([shown(name) for name in row]) or "none"
                raise DataError(f"{where}: no key {MESSAGES!r}; there are: {there}")
            messages = parse_messages(row[MESSAGES], where, errors=self.errors)
            if all(message.role != ASSISTANT for message in messages):
                raise DataError(f"{where}: no message of the assistant, which is what the model learns to write")
            yield messages
            empty = False
        if empty:
            raise DataError(f"{self.path}: no conversations, expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDataset:
    """Conversations by split; `name` identifies the set in error messages."""

    name: str
    splits: Mapping[str, Iterable[Conversation]]

    def conversations(self, split: str) -> Iterator[Conversation]:
        """The conversations of a split, in order. Raises DataError for an unknown split."""
        if split not in self.splits:
            raise DataError(f"{self.name}: no split {shown(split)}; there are: {listed(tuple(self.splits))}")
        return iter(self.splits[split])

    def fingerprint(self, split: str) -> str:
        """A digest of the content of a split, independent of files and of keys that are not read."""
        digest = hashlib.sha256()
        for messages in self.conversations(split):
            digest.update(json.dumps([[message.role, message.content] for message in messages]).encode())
        return digest.hexdigest()

    def with_whole(self) -> ChatDataset:
        """The set with a split `test` that has all of it, if it is one file, which has no splits of its own."""
        train, val = self.splits.get("train"), self.splits.get("val")
        if not (isinstance(train, ChatLines) and isinstance(val, ChatLines) and val.start and len(self.splits) == 2):
            return self
        return replace(self, splits={**self.splits, "test": replace(train, stop=None)})


def load_chat_files(path: Path, *, errors: Errors = "strict") -> ChatDataset:
    """Conversations from a JSONL file, or a folder with `train.jsonl`, `val.jsonl` …

    Without a val split, the last tenth of the training conversations is used.
    """
    if path.is_dir():
        files = {split: file for split, file in table_splits(path).items() if suffix(file) == ".jsonl"}
        if "train" not in files:
            raise DataError(f"{path}: no train.jsonl; there are: {names(listing(path))}")
        found = {split: ChatLines(path=file, errors=errors) for split, file in files.items()}
        return ChatDataset(name=str(path), splits=found if "val" in found else {**found, **_divided(found["train"])})
    if suffix(path) != ".jsonl":
        raise DataError(f"{path}: expected conversations: a file that ends with .jsonl, or a folder with train.jsonl")
    return ChatDataset(name=str(path), splits=_divided(ChatLines(path=path, errors=errors)))


def _divided(lines: ChatLines) -> dict[str, ChatLines]:
    """Split conversations into train and val, the last tenth."""
    count = sum(1 for _ in lines)
    if count < 2:
        raise DataError(f"{lines.path}: {count} conversation, expected at least 2: the last tenth is val")
    cut = count - max(1, count // 10)
    return {"train": replace(lines, stop=cut), "val": replace(lines, start=cut)}


def question(messages: Sequence[Message]) -> str:
    """What the user says last, on one line, for samples."""
    return " ".join(next((each.content for each in reversed(messages) if each.role == USER), "").split())
