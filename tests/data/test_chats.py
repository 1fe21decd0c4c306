from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from headway.data.chats import Message, load_chat_files, parse_messages, parse_prompt
from headway.data.datasets import load_chats
from headway.data.synthetic import arithmetic_chat as generated
from headway.errors import DataError

ASKED = {"role": "user", "content": "Hi"}
SAID = {"role": "assistant", "content": "Hello"}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def talk(number: int) -> dict[str, object]:
    return {"id": number, "messages": [{"role": "user", "content": f"say {number}"}, {**SAID, "weight": 1}]}


def test_a_file_is_divided_and_the_last_tenth_is_val(tmp_path):
    chats = load_chat_files(write(tmp_path / "chats.jsonl", *map(talk, range(30))))
    assert [len(list(chats.conversations(split))) for split in ("train", "val")] == [27, 3]
    assert next(chats.conversations("val")) == (Message("user", "say 27"), Message("assistant", "Hello"))
    assert len(list(chats.with_whole().conversations("test"))) == 30


def test_a_folder_has_a_file_for_each_split(tmp_path):
    for split, count in (("train", 3), ("val", 2), ("test", 1)):
        write(tmp_path / f"{split}.jsonl", *map(talk, range(count)))
    chats = load_chats(tmp_path)
    assert {split: len(list(chats.conversations(split))) for split in chats.splits} == {"train": 3, "val": 2, "test": 1}
    assert chats.with_whole() is chats


def test_a_digest_is_of_what_is_read(tmp_path):
    one = load_chat_files(write(tmp_path / "a.jsonl", *map(talk, range(12))))
    other = load_chat_files(write(tmp_path / "b.jsonl", *({"messages": talk(n)["messages"]} for n in range(12))))
    assert one.fingerprint("train") == other.fingerprint("train") != one.fingerprint("val")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"messages": [ASKED]}, "no message of the assistant, which is what the model learns to write"),
        ({"messages": [{"role": "bot", "content": "x"}, SAID]}, "message 1: role 'bot', allowed: system, user, assist"),
        ({"messages": [ASKED, {"role": ["user"], "content": "x"}]}, "message 2: role ['user'], allowed: system, user"),
        (
            {"messages": [ASKED, {"role": "assistant", "content": " \n"}]},
            "message 2: the content is empty, expected text",
        ),
        ({"messages": [ASKED, {"role": "assistant", "content": None}]}, "content is a NoneType, expected a string"),
        ({"messages": [ASKED, {"role": "assistant"}]}, "message 2: no key 'content'; there are: 'role'"),
        ({"messages": [ASKED, "Hello"]}, "message 2 is a str, expected an object with role and content"),
        ({"messages": "Hello"}, "messages is a str, expected a list of messages"),
        ({"messages": []}, "no message, expected at least one"),
        ({"text": "Hello"}, "no key 'messages'; there are: 'text'"),
        (["Hello"], "a JSON list, expected an object with 'messages'"),
        ({"messages": [ASKED, {"role": "assistant", "content": "\ud800"}]}, "content holds NUL or a lone surrogate"),
    ],
)
def test_a_bad_conversation_is_one_line_with_file_and_line(tmp_path, row, told):
    path = write(tmp_path / "chats.jsonl", talk(0), row, talk(2))
    with pytest.raises(DataError) as caught:
        load_chat_files(path)
    assert str(caught.value).startswith(f"{path}: line 2: ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_conversations_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"expected conversations: a file that ends with .jsonl"):
        load_chat_files(tmp_path / "chats.txt")
    with pytest.raises(DataError, match=r"no train.jsonl; there are"):
        load_chat_files(tmp_path)
    with pytest.raises(DataError, match="1 conversation, expected at least 2"):
        load_chat_files(write(tmp_path / "one.jsonl", talk(0)))
    with pytest.raises(DataError, match="no conversations, expected at least 1"):
        load_chat_files(write(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match="phrases is parallel text, expected conversations: arithmetic-chat or a path"):
        load_chats("phrases")
    with pytest.raises(DataError, match="no split 'dev'"):
        load_chats("arithmetic-chat").conversations("dev")


def test_a_prompt_ends_with_the_user():
    assert parse_prompt([ASKED], "x") == (Message("user", "Hi"),)
    assert parse_messages([Message("user", "Hi")], "x") == (Message("user", "Hi"),)
    with pytest.raises(DataError, match="x: the last message is of the assistant, expected the user's"):
        parse_prompt([ASKED, SAID], "x")


# --- arithmetic-chat ------------------------------------------------------------------------------------------------


def questions(split: str) -> list[str]:
    """What is asked, however it is worded: of a question that follows an answer, both."""
    found = []
    for messages in generated.arithmetic_chat().conversations(split):
        before = ""
        for message in messages:
            if message.role == "user":
                words = message.content.replace("What is ", "").replace(" plus ", " + ").rstrip("?.")
                if " + " in words:
                    words = " + ".join(sorted(words.split(" + "), key=int))
                last = f"{before}: {words}" if words.startswith("And ") else words
            before = message.content
        found.append(last)
    return found


def test_every_answer_is_exact():
    for messages in generated.arithmetic_chat().conversations("train"):
        for n, (asked, said) in enumerate(pairwise(messages)):
            words = asked.content.rstrip("?.").replace("What is ", "").replace("+", "plus").split()
            if asked.role != "user":
                continue
            if "plus" in words:
                expected = str(int(words[0]) + int(words[2]))
            elif words[0] == "Spell":
                expected = words[1][::-1]
            elif words[0] == "Last":
                expected = words[-1][-1]
            else:
                expected = str(int(messages[n - 1].content) + int(words[1]))
            assert said.content == expected


def test_the_last_question_of_a_held_out_conversation_is_never_trained_on():
    seen = set()
    for messages in generated.arithmetic_chat().conversations("train"):
        before = ""
        for message in messages:
            words = message.content.replace("What is ", "").replace(" plus ", " + ").rstrip("?.")
            if message.role == "user":
                if " + " in words:
                    words = " + ".join(sorted(words.split(" + "), key=int))
                seen.add(f"{before}: {words}" if words.startswith("And ") else words)
            before = message.content
    for split in ("val", "test"):
        assert not seen & set(questions(split))


def test_it_is_the_same_everywhere():
    chats = generated.arithmetic_chat()
    assert chats.fingerprint("val")[:12] == "a110a60ed958"
