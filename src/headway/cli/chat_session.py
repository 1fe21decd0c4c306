"""A session of `headway chat`: turns from a terminal or a pipe, commands that begin with a slash, a history."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.cli.lines import stdin_lines
from headway.cli.stopping import SIGNALS
from headway.cli.terminal import ask_for, is_terminal, tell
from headway.data.chats import ASSISTANT, MESSAGES, SYSTEM, USER, Message, parse_prompt
from headway.decoding.sampling import Sampling
from headway.errors import HeadwayError
from headway.storage.commit import commit_output
from headway.tasks.capabilities import Chats

PROMPT = "> "
GREETING = "Ctrl-C stops an answer, Ctrl-D ends the session, /help lists the commands"
COMMANDS = {
    "/help": "list the commands",
    "/reset": "forget the conversation; the system message stays",
    "/system": "/system TEXT sets the system message, or removes it without TEXT, and forgets the conversation",
    "/undo": "forget the last question and its answer",
    "/save": "/save FILE writes the conversation as a line of JSON",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The options of the command: the same as those of `Run.chat`."""

    system: str | None
    sampling: Sampling
    max_tokens: int
    seed: int

    @classmethod
    def of(cls, arguments: Namespace) -> ChatOptions:
        """Those of a command line."""
        names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        sampling = Sampling(**{name: getattr(arguments, name) for name in names})
        return cls(system=arguments.system, sampling=sampling, max_tokens=arguments.max_tokens, seed=arguments.seed)

    def answer(self, pipeline: Chats, messages: Sequence[Message], *, system: bool = True) -> Iterator[str]:
        """The pieces of an answer; a note names what is left out. Without `system` the messages have their own."""
        before = [Message(SYSTEM, self.system)] if system and self.system is not None else []
        found = parse_prompt([*before, *messages], "chat")
        return pipeline.chat(
            found, self.sampling, max_tokens=self.max_tokens, seed=self.seed, note=lambda text: tell(f"note: {text}")
        )


class ChatHistory:
    """The messages of a session."""

    def __init__(self, system: str | None = None) -> None:
        self.system, self.turns = system or None, list[Message]()

    @property
    def messages(self) -> list[Message]:
        """All messages, the system message first."""
        return [*([] if self.system is None else [Message(SYSTEM, self.system)]), *self.turns]

    def undo(self) -> bool:
        """Forget the last question and what followed it; whether there was one."""
        asked = [n for n, message in enumerate(self.turns) if message.role == USER]
        if asked:
            del self.turns[asked[-1] :]
        return bool(asked)

    def command(self, line: str) -> str:
        """Do what a line with a slash says; what to tell about it. Raises StorageError if a file cannot be written."""
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word == "/help":
            return "\n".join(f"{name:9}{meaning}" for name, meaning in COMMANDS.items())
        if word == "/reset":
            self.turns = []
            return "the conversation is forgotten"
        if word == "/system":
            self.system, self.turns = rest or None, []
            return f"system message: {rest}" if rest else "no system message"
        if word == "/undo":
            return "the last question and its answer are forgotten" if self.undo() else "there is nothing to undo"
        if word == "/save":
            return self._save(rest)
        return f"unknown command {word}; there are {', '.join(COMMANDS)}; // at the beginning sends a slash"

    def _save(self, name: str) -> str:
        if not name:
            return "/save needs a FILE"
        if not self.messages:
            return "there is nothing to save"
        line = json.dumps({MESSAGES: [message.to_json() for message in self.messages]}, ensure_ascii=False)
        commit_output(Path(name).expanduser(), f"{line}\n")
        return f"{len(self.messages)} messages in {name}"


def talk(pipeline: Chats, chosen: ChatOptions) -> None:
    """Answer one line after the other until there are no more.

    At a terminal an error is printed and the session goes on; with lines from a pipe it ends the session. Only answers
    go to stdout.
    """
    history, watched = ChatHistory(chosen.system), is_terminal(sys.stdin)
    if watched:
        tell(GREETING)
    empty = True
    for line in _turns(watched):
        empty = False
        try:
            if line.startswith("/") and not line.startswith("//"):
                for told in history.command(line).split("\n"):
                    tell(told)
            elif line.strip():
                _answer(pipeline, history, line[1:] if line.startswith("//") else line, chosen)
        except HeadwayError as error:
            if not watched:
                raise
            tell(str(error))
    if watched:
        ask_for("\n")
    elif empty:
        tell("note: nothing to answer: stdin has no lines, and no TEXT is given")


def _turns(watched: bool) -> Iterator[str]:
    """Lines of stdin; at a terminal each after a prompt, where an interrupt only drops the line."""
    lines = stdin_lines()
    while True:
        try:
            if watched:
                ask_for(PROMPT)
            line = next(lines, None)
        except KeyboardInterrupt:
            if not watched:
                raise
            SIGNALS.raised = None
            ask_for("\n")
            tell("Ctrl-D ends the session")
            lines = stdin_lines()
            continue
        if line is None:
            return
        yield line


def _answer(pipeline: Chats, history: ChatHistory, text: str, chosen: ChatOptions) -> None:
    """Ask, print the answer as it comes, keep both; an interrupt keeps what was said until then."""
    history.turns.append(Message(USER, text))
    said: list[str] = []
    try:
        for piece in chosen.answer(pipeline, history.messages, system=False):
            said.append(piece)
            sys.stdout.write(piece)
            sys.stdout.flush()
    except KeyboardInterrupt:
        SIGNALS.raised = None
        tell("stopped")
    except BaseException:
        history.undo()
        raise
    finally:
        if said or sys.exception() is None:
            sys.stdout.write("\n")
            sys.stdout.flush()
    if "".join(said).strip():
        history.turns.append(Message(ASSISTANT, "".join(said)))
    else:  # a template has no empty messages
        history.undo()
        tell("note: no answer; the question is forgotten")
