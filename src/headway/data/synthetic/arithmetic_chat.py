"""Generated conversations with exact answers: small sums, and letters of short words; the same on every machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from headway.data.chats import ASSISTANT, SYSTEM, USER, ChatDataset, Conversation, Message
from headway.data.synthetic.sequences import below

TRAIN, HELD_OUT = 8_000, 300  # conversations
LARGEST = 50  # of the numbers that are added
LETTERS = "abcdefgh"
LONGEST = 4  # letters of a word
MOST_TURNS = 3  # questions of a conversation
SYSTEMS = ("Answer briefly.", "You are a calculator.")
Turn = tuple[str, str, str]  # question, answer, and what makes it the same question as another


def _sum(random: Random) -> Turn:
    a, b = below(random, LARGEST + 1), below(random, LARGEST + 1)
    asked = (f"What is {a} + {b}?", f"{a} plus {b}?")[below(random, 2)]
    return asked, str(a + b), f"{min(a, b)}+{max(a, b)}"


def _reversed(random: Random) -> Turn:
    word = _word(random)
    return f"Spell {word} backwards.", word[::-1], f"backwards {word}"


def _last_letter(random: Random) -> Turn:
    word = _word(random)
    return f"What is the last letter of {word}?", word[-1], f"last {word}"


def _word(random: Random) -> str:
    return "".join(LETTERS[below(random, len(LETTERS))] for _ in range(2 + below(random, LONGEST - 1)))


def _again(random: Random, before: str) -> Turn:
    """A question that only the answer before it makes clear."""
    more = 1 + below(random, 9)
    return f"And {more} more?", str(int(before) + more), f"{before} and {more}"


KINDS: tuple[Callable[[Random], Turn], ...] = (_sum, _sum, _reversed, _last_letter)


@cache
def arithmetic_chat() -> ChatDataset:
    """Conversations of one to three questions; the last question of a held-out one is in no training conversation."""
    random = Random("arithmetic-chat")
    held: set[str] = set()
    splits = {}
    for name in ("val", "test"):
        drawn = [_conversation(random, held, new=False) for _ in range(HELD_OUT)]
        held.update(key for _, key in drawn)
        splits[name] = tuple(messages for messages, _ in drawn)
    train = tuple(_conversation(random, held, new=True)[0] for _ in range(TRAIN))
    return ChatDataset(name="arithmetic-chat", splits={"train": train, **splits})


def _conversation(random: Random, held: set[str], *, new: bool) -> tuple[Conversation, str]:
    """A conversation and the key of its last question; with `new`, none of its questions is held out."""
    messages = [Message(SYSTEM, SYSTEMS[below(random, len(SYSTEMS))])] if not below(random, 4) else []
    key, wanted = "", 1 + below(random, MOST_TURNS)
    while wanted:
        before = messages[-1].content if messages and messages[-1].role == ASSISTANT else ""
        follows = before.isdecimal() and not below(random, 3)
        asked, answer, drawn = _again(random, before) if follows else KINDS[below(random, len(KINDS))](random)
        if new and drawn in held:
            continue
        messages += [Message(USER, asked), Message(ASSISTANT, answer)]
        key, wanted = drawn, wanted - 1
    return tuple(messages), key
