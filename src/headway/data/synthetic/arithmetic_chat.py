"""Generated conversations with exact answers: small sums, and letters of short words; the same on every machine."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from random import Random

from headway.data.chats import ASSISTANT, SYSTEM, USER, ChatDataset, Conversation, Message
from headway.data.synthetic.sequences import below

TRAIN, HELD_OUT = 6_000, 300  # conversations
LARGEST = 30  # of the numbers that are added
LETTERS = "abcdef"
LONGEST = 3  # letters of a word
MOST_TURNS = 4  # questions of a conversation
ONE_IN = 8  # questions are held out
SYSTEMS = ("Answer briefly.", "You are a calculator.")
Turn = tuple[str, str, str]  # question, answer, and what is asked, however it is worded


def _sum(random: Random) -> Turn:
    a, b = below(random, LARGEST + 1), below(random, LARGEST + 1)
    asked = (f"What is {a} + {b}?", f"{a} plus {b}?")[below(random, 2)]
    return asked, str(a + b), f"{min(a, b)} + {max(a, b)}"


def _reversed(random: Random) -> Turn:
    word = _word(random)
    return f"Spell {word} backwards.", word[::-1], f"backwards {word}"


def _last_letter(random: Random) -> Turn:
    word = _word(random)
    return f"Last letter of {word}?", word[-1], f"last {word}"


def _word(random: Random) -> str:
    return "".join(LETTERS[below(random, len(LETTERS))] for _ in range(2 + below(random, LONGEST - 1)))


def _again(random: Random, before: str) -> Turn:
    """A question that only the answer before it makes clear."""
    more = 1 + below(random, 9)
    return f"And {more} more?", str(int(before) + more), f"{before} and {more}"


KINDS: tuple[Callable[[Random], Turn], ...] = (_sum, _sum, _reversed, _last_letter)


@cache
def arithmetic_chat() -> ChatDataset:
    """Conversations of one to four questions; the last question of a held-out one occurs in no training conversation.

    One question in eight is held out, by a checksum of what is asked.
    """
    random = Random("arithmetic-chat")
    counts = {"train": TRAIN, "val": HELD_OUT, "test": HELD_OUT}
    splits = {
        name: tuple(_conversation(random, held_out=name != "train") for _ in range(count))
        for name, count in counts.items()
    }
    return ChatDataset(name="arithmetic-chat", splits=splits)


def _conversation(random: Random, *, held_out: bool) -> Conversation:
    messages = [Message(SYSTEM, SYSTEMS[below(random, len(SYSTEMS))])] if not below(random, 4) else []
    left = 1 + below(random, MOST_TURNS)
    while left:
        before = messages[-1].content if messages and messages[-1].role == ASSISTANT else ""
        follows = before.isdecimal() and not below(random, 3)
        asked, answer, key = _again(random, before) if follows else KINDS[below(random, len(KINDS))](random)
        if (zlib.crc32(key.encode()) % ONE_IN == 0) == (held_out and left == 1):
            messages += [Message(USER, asked), Message(ASSISTANT, answer)]
            left -= 1
    return tuple(messages)
