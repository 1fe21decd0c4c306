"""Conversations as one sequence of tokens: a template in plain form, without code, and its encoder.

A template says what text stands before and after the content of each role. Its special tokens become single ids; the
content of a message never does, whatever it spells.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headway.data.chats import ASSISTANT, SYSTEM, USER, Message
from headway.data.tokenizers import Tokenizer
from headway.data.unknown_tokens import uncounted
from headway.errors import ConfigError, DataError, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """The text around the messages of each role. What follows an answer begins with the token that ends a turn."""

    name: ClassVar[str] = "custom"  # its `type` in config.yaml

    begin: str = ""  # before the first message
    system_before: str  # before a system message
    system_after: str  # after a system message
    user_before: str  # before a message of the user
    user_after: str  # after a message of the user
    assistant_before: str  # before an answer: what the model goes on from
    assistant_after: str  # after an answer; it begins with the special token that ends a turn
    special: tuple[str, ...]  # the special tokens in these texts, each a single id
    system: str = ""  # the system message of a conversation without one of its own; empty: no system message
    trim: bool = False  # remove white space around the content of each message

    def __post_init__(self) -> None:
        for token in self.special:
            if len(token) < 2 or token != token.strip():
                raise ConfigError(
                    f"task.template.special: {shown(token)}, expected a token of two characters or more, without space"
                )
        if self.end is None:
            given = f"task.template.assistant_after={shown(self.assistant_after)}"
            raise ConfigError(
                f"{given}, expected to begin with one of task.template.special: {', '.join(self.special)}"
            )
        if self.assistant_before.endswith(" "):
            given = f"task.template.assistant_before={shown(self.assistant_before)}"
            raise ConfigError(f"{given}: it ends with a space, which would be part of the answer's first token")

    @property
    def end(self) -> str | None:
        """The token that ends a turn; None if what follows an answer begins with no special token."""
        found = [token for token in self.special if self.assistant_after.startswith(token)]
        return max(found, key=len, default=None)

    def before(self, role: str) -> str:
        """The text before a message."""
        return {SYSTEM: self.system_before, USER: self.user_before, ASSISTANT: self.assistant_before}[role]

    def after(self, role: str) -> str:
        """The text after a message."""
        return {SYSTEM: self.system_after, USER: self.user_after, ASSISTANT: self.assistant_after}[role]

    @property
    def fields(self) -> tuple[object, ...]:
        """All settings: equal for templates that write the same, whatever their type."""
        texts = tuple(part(role) for role in (SYSTEM, USER, ASSISTANT) for part in (self.before, self.after))
        return (self.begin, *texts, frozenset(self.special), self.system, self.trim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chatml(ChatTemplate):
    """ChatML: `<|im_start|>user`, a line break, the content, `<|im_end|>`, a line break."""

    name: ClassVar[str] = "chatml"

    system_before: str = "<|im_start|>system\n"
    system_after: str = "<|im_end|>\n"
    user_before: str = "<|im_start|>user\n"
    user_after: str = "<|im_end|>\n"
    assistant_before: str = "<|im_start|>assistant\n"
    assistant_after: str = "<|im_end|>\n"
    special: tuple[str, ...] = ("<|im_start|>", "<|im_end|>")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaChat(ChatTemplate):
    """Llama 3's: the role between header tokens, an empty line, the content, `<|eot_id|>`."""

    name: ClassVar[str] = "llama"

    begin: str = "<|begin_of_text|>"
    system_before: str = "<|start_header_id|>system<|end_header_id|>\n\n"
    system_after: str = "<|eot_id|>"
    user_before: str = "<|start_header_id|>user<|end_header_id|>\n\n"
    user_after: str = "<|eot_id|>"
    assistant_before: str = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    assistant_after: str = "<|eot_id|>"
    special: tuple[str, ...] = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    trim: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleNames(ChatTemplate):
    """The names of the roles as text, for a vocabulary with a single special token; a message can imitate a role."""

    name: ClassVar[str] = "roles"

    system_before: str = "System:\n"
    system_after: str = "\n\n"
    user_before: str = "User:\n"
    user_after: str = "\n\n"
    assistant_before: str = "Assistant:\n"
    assistant_after: str = "</s>\n\n"
    special: tuple[str, ...] = ("</s>",)


AnyTemplate = Chatml | LlamaChat | RoleNames | ChatTemplate
CHATML = Chatml()


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """The tokens of a conversation, and which of them the model learns: those of answers and the end of each."""

    ids: list[int]
    learnt: list[bool]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text up to the next special token; of an answer also the part before it."""

    text: str
    prompt: str | None = None  # the beginning of `text` that is not the answer's; None: no token of `text` is a target
    special: int | None = None  # the token behind it


class ChatEncoder:
    """A template with the vocabulary of a tokenizer. Raises ConfigError if that lacks a special token.

    The text between two special tokens is encoded as a whole, role and content together, as transformers encodes a
    rendered template; so the ids are the same.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self.template, self.tokenizer = template, tokenizer
        self.ids = {token: self._id(token) for token in template.special}
        self._divide = re.compile("|".join(map(re.escape, sorted(template.special, key=len, reverse=True))))
        assert template.end is not None
        self.end = self.ids[template.end]

    def _id(self, token: str) -> int:
        try:
            found = self.tokenizer.id(token)
        except DataError:
            known = [self.tokenizer.token(index) for index in self.tokenizer.specials]
            has = f"it has {', '.join(known)}" if known else "it has no special tokens"
            raise ConfigError(
                f"the vocabulary has no special token {token!r} of the chat template; {has}: set task.template.special "
                "and the texts of task.template to tokens that are there"
            ) from None
        for text in (token, f"a {token}", f"a{token}"):
            with uncounted(), contextlib.suppress(DataError):  # a vocabulary of characters may lack some of them
                if found in self.tokenizer.encode(text) and found != self.tokenizer.unknown:
                    raise ConfigError(
                        f"the text {token!r} in a message would become a special token of this vocabulary"
                    )
        return found

    def encode(self, messages: Sequence[Message], *, answer: bool = False) -> EncodedChat:
        """The tokens of a conversation, followed by the beginning of an answer if `answer`."""
        pieces = list(self._pieces(messages, answer=answer))
        found = EncodedChat([], [])
        for piece, ids in zip(pieces, self._encoded([piece.text for piece in pieces]), strict=True):
            first = len(ids) if piece.prompt is None else self._shared(piece.prompt, ids)
            found.ids.extend(ids)
            found.learnt.extend(n >= first for n in range(len(ids)))
            if piece.special is not None:
                found.ids.append(piece.special)
                found.learnt.append(piece.prompt is not None)
        return found

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The tokens that an answer to the last message goes on from."""
        return self.encode(messages, answer=True).ids

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; none of an empty one, which some tokenizers would put a space into."""
        known = iter(self.tokenizer.encode_batch([text for text in texts if text]))
        return [next(known) if text else [] for text in texts]

    def _shared(self, prompt: str, ids: Sequence[int]) -> int:
        """How many tokens a text has in common with its beginning; a token across that border is of the answer."""
        with uncounted():
            (known,) = self._encoded([prompt])
        return next((n for n, (a, b) in enumerate(zip(known, ids, strict=False)) if a != b), min(len(known), len(ids)))

    def _pieces(self, messages: Sequence[Message], *, answer: bool) -> Iterator[_Piece]:
        template, held = self.template, ""

        def literal(text: str) -> Iterator[_Piece]:
            nonlocal held
            at = 0
            for found in self._divide.finditer(text):
                yield _Piece(held + text[at : found.start()], special=self.ids[found[0]])
                held, at = "", found.end()
            held += text[at:]

        yield from literal(template.begin)
        if template.system and not (messages and messages[0].role == SYSTEM):
            messages = [Message(SYSTEM, template.system), *messages]
        for message in messages:
            content = message.content.strip() if template.trim else message.content
            yield from literal(template.before(message.role))
            if message.role == ASSISTANT:
                assert template.end is not None
                yield _Piece(held + content, prompt=held, special=self.end)
                held = ""
                yield from literal(template.assistant_after[len(template.end) :])
            else:
                held += content
                yield from literal(template.after(message.role))
        if answer:
            yield from literal(template.assistant_before)
        if held:
            yield _Piece(held)
