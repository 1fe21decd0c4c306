"""`headway chat`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import stdin_lines, write_lines
from headway.cli.terminal import is_terminal, tell
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.data.chats import Message

HELP = "talk with a chat model"
EXAMPLES = (
    "headway chat runs/gpt-chat                                  a session; /help lists its commands",
    "headway chat runs/gpt-chat 'What is 2 + 3?'                 one answer",
    "headway chat runs/gpt-chat --json < chats.jsonl             an answer to each line of messages",
)


def add_arguments(parser: ArgumentParser) -> None:
    """The question, how to sample, and what to print."""
    options.add_run(parser)
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help="one question; without it, a session: the lines of stdin are its turns"
    )
    parser.add_argument("--system", metavar="TEXT", help="a system message before the conversation")
    options.add_sampling(parser)
    options.add_adapter(parser)
    options.add_precision(parser)
    options.add_json(parser, 'an object a line: {"role": "assistant", "content": …}; stdin has {"messages": …} a line')


def execute(arguments: Namespace) -> None:
    """One answer, an answer to each conversation of stdin, or a session."""
    from headway.cli.chat_session import ChatOptions, talk
    from headway.cli.loading import load_run
    from headway.tasks.capabilities import Chats

    found = load_run(arguments)
    pipeline = found.require(Chats)  # before anything is read
    chosen = ChatOptions.of(arguments)
    if arguments.text is not None:
        from headway.data.chats import USER, Message

        _print(chosen.answer(pipeline, [Message(USER, arguments.text)]), as_json=arguments.json)
    elif arguments.json:
        if is_terminal(sys.stdin):
            raise ConfigError('--json reads {"messages": …} lines from stdin, or TEXT: pass one of them')
        count = 0
        for messages in _conversations():
            _print(chosen.answer(pipeline, messages), as_json=True)
            count += 1
        if not count:
            tell("note: no conversation: stdin has no lines, and no TEXT is given")
    else:
        talk(pipeline, chosen)


def _print(pieces: Iterator[str], *, as_json: bool) -> None:
    """An answer as it comes, or as a line of JSON when it is whole."""
    if as_json:
        write_lines([json.dumps({"role": "assistant", "content": "".join(pieces)}, ensure_ascii=False)])
        return
    blank = True
    try:
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
            blank = blank and not piece.strip()
    finally:  # also when interrupted: what was written stays, and ends its line
        sys.stdout.write("\n")
    if blank:
        tell("note: the answer is empty")


def _conversations() -> Iterator[list[Message]]:
    """The conversations of stdin: lines with a list of messages, or an object that has it. Raises DataError."""
    from headway.data.chats import MESSAGES, parse_prompt
    from headway.documents import parse_json
    from headway.errors import DataError

    for number, line in enumerate(stdin_lines(), start=1):
        if not line.strip():
            continue
        where = f"stdin: line {number}"
        row = parse_json(line, where)
        if isinstance(row, dict):
            if MESSAGES not in row:
                raise DataError(f"{where}: no key {MESSAGES!r}, expected an object with it or a list of messages")
            row = row[MESSAGES]
        yield list(parse_prompt(row, where))
