"""`headway chat`: one answer, conversations as JSON lines, and a session with its commands."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headway
from headway.cli import main
from headway.cli.chat_session import ChatHistory
from headway.data.chats import Message
from headway.reliability.runs import TINY, make
from headway.runs.train import train_run
from headway.tasks.chat.pipeline import ChatPipeline

GREEDY = ["--max-tokens", "6", "--temperature", "0", "--device", "cpu"]
ASKED = "What is 2 + 3?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    desk = tmp_path_factory.mktemp("chat")
    with TINY["chat"].short():
        changes = {"train.steps": 60, "train.learning_rate": 2e-2, "train.evaluate_every": 60, "train.save_every": 60}
        changes["data.tokenizer"] = "characters"  # with which a character can be unknown
        train_run(TINY["chat"].config(desk / "cache", changes), desk / "run")
        yield desk / "run"


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch):
    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return give


def said(*words: str | Path, capsys: pytest.CaptureFixture[str], code: int = 0) -> tuple[str, str]:
    assert main(list(map(str, words))) == code
    return capsys.readouterr()


def answer(folder: Path, *messages: Message, **more: object) -> str:
    settings = {"max_tokens": 6, "temperature": 0, **more}
    return "".join(headway.load(folder, device="cpu").chat(messages, **settings))


def test_one_question_has_one_answer(folder, capsys):
    expected = answer(folder, Message("user", ASKED))
    assert said("chat", folder, ASKED, *GREEDY, capsys=capsys)[0] == f"{expected}\n"
    out, _ = said("chat", folder, ASKED, "--json", *GREEDY, capsys=capsys)
    assert json.loads(out) == {"role": "assistant", "content": expected}
    kind = answer(folder, Message("system", "Answer briefly."), Message("user", ASKED))
    assert said("chat", folder, ASKED, "--system", "Answer briefly.", *GREEDY, capsys=capsys)[0] == f"{kind}\n"


def test_conversations_of_stdin_are_answered_line_by_line(folder, capsys, stdin):
    one = [Message("user", ASKED)]
    two = [Message("user", ASKED), Message("assistant", "5"), Message("user", "And 3 more?")]
    lines = [json.dumps({"messages": [m.to_json() for m in one]}), "", json.dumps([m.to_json() for m in two])]
    stdin("".join(f"{line}\n" for line in lines))
    out, _ = said("chat", folder, "--json", *GREEDY, capsys=capsys)
    assert [json.loads(line)["content"] for line in out.splitlines()] == [answer(folder, *one), answer(folder, *two)]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "stdin: line 2: "),
        ('{"text": "x"}', "stdin: line 2: no key 'messages', expected an object with it or a list of messages"),
        ('[{"role": "assistant", "content": "x"}]', "stdin: line 2: the last message is of the assistant, expected"),
        ('[{"role": "bot", "content": "x"}]', "stdin: line 2: message 1: role 'bot', allowed: system, user, assistant"),
        ("7", "stdin: line 2: messages is a int, expected a list of messages"),
    ],
)
def test_a_bad_line_ends_after_the_answers_before_it(folder, capsys, stdin, line, told):
    stdin(json.dumps([{"role": "user", "content": ASKED}]) + f"\n{line}\n")
    out, err = said("chat", folder, "--json", *GREEDY, capsys=capsys, code=3)
    assert len(out.splitlines()) == 1
    assert err.startswith(f"headway: {told}")
    assert err.count("\n") == 1


def test_an_empty_stdin_gets_a_note(folder, capsys, stdin):
    stdin("")
    assert "note: no conversation" in said("chat", folder, "--json", *GREEDY, capsys=capsys)[1]
    stdin("")
    note = "headway: note: nothing to answer: stdin has no lines, and no TEXT is given\n"
    assert said("chat", folder, *GREEDY, capsys=capsys) == ("", note)


def test_lines_of_a_pipe_are_the_turns_of_one_session(folder, capsys, stdin):
    first = answer(folder, Message("user", ASKED))
    turns = [Message("user", ASKED), Message("assistant", first), Message("user", "And 3 more?")]
    stdin(f"{ASKED}\nAnd 3 more?\n/undo\nAnd 3 more?\n/reset\n{ASKED}\n")
    out, err = said("chat", folder, *GREEDY, capsys=capsys)
    second = answer(folder, *turns)
    assert out == f"{first}\n{second}\n{second}\n{first}\n"
    told = ["the last question and its answer are forgotten", "the conversation is forgotten"]
    assert err.splitlines() == [f"headway: {each}" for each in told]


def test_the_commands_of_a_session(folder, capsys, stdin, tmp_path):
    file = tmp_path / "talk.jsonl"
    lines = [
        "/system Answer briefly.",
        ASKED,
        f"/save {file}",
        "/save",
        "/nothing",
        "/help",
        "/system",
        f"/save {file}",
    ]
    stdin("".join(f"{line}\n" for line in (*lines, ASKED, f"/save {tmp_path}/no/x")))
    code = main(["chat", str(folder), *GREEDY])
    out, err = capsys.readouterr()
    assert code == 5
    expected = answer(folder, Message("system", "Answer briefly."), Message("user", ASKED))
    assert out == f"{expected}\n{answer(folder, Message('user', ASKED))}\n"
    saved = json.loads(file.read_text())["messages"]
    assert [each["role"] for each in saved] == ["system", "user", "assistant"]
    assert saved[-1]["content"] == expected
    assert f"3 messages in {file}" in err
    assert "/save needs a FILE" in err
    assert "unknown command /nothing; there are /help, /reset, /system, /undo, /save; // at the beginning" in err
    assert "/undo    forget the last question and its answer" in err
    assert "there is nothing to save" in err  # the system message is gone, and no turn was left


def test_a_slash_can_be_sent(capsys, stdin, folder):
    stdin("//what\n")
    _, err = said("chat", folder, *GREEDY, capsys=capsys, code=3)  # the vocabulary of characters has no slash
    assert "character '/'" in err


def test_undo_forgets_a_question_and_what_followed():
    history = ChatHistory("be kind")
    assert not history.undo()
    history.turns = [Message("user", "a"), Message("assistant", "b"), Message("user", "c"), Message("assistant", "d")]
    assert history.undo()
    assert [each.content for each in history.messages] == ["be kind", "a", "b"]


def test_a_run_that_cannot_chat_says_so(tmp_path, capsys, stdin):
    with TINY["language"].short():
        other = make(TINY["language"], tmp_path / "run", tmp_path / "cache")
    err = said("chat", other, "x", capsys=capsys, code=2)[1]
    can = "generate, score, evaluate, look, verify, export"
    assert err == f"headway: {other} is a language model: it cannot chat; it can {can}\n"


def test_a_conversation_beyond_the_context_loses_its_oldest_turns_with_a_note(folder, capsys, stdin):
    turns = [{"role": role, "content": ASKED} for _ in range(6) for role in ("user", "assistant")]
    stdin(json.dumps([*turns, {"role": "user", "content": ASKED}]) + "\n")
    out, err = said("chat", folder, "--json", *GREEDY, capsys=capsys)
    assert json.loads(out)["role"] == "assistant"
    assert "oldest messages left out" in err
    stdin(json.dumps([{"role": "user", "content": ASKED * 20}]) + "\n")
    _, err = said("chat", folder, "--json", *GREEDY, capsys=capsys, code=3)
    assert "tokens with its template, and the model reads 128, of which" in err


# --- at a terminal --------------------------------------------------------------------------------------------------


class Terminal:
    """`headway chat` in a pseudo-terminal."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.master, slave = pty.openpty()
        command = [sys.executable, "-m", "headway", "chat", str(folder), "--device", "cpu", *words]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env={**os.environ, "TERM": "dumb"}
        )
        os.close(slave)
        self.shown = ""

    def until(self, text: str, seconds: float = 60) -> str:
        """What is shown from here up to a text."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < end, f"{text!r} did not come: {self.shown!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.master, 4096).decode()
                except OSError:  # the other end is closed
                    break
        before, found, self.shown = self.shown.partition(text)
        assert found, f"{text!r} did not come: {before!r}"
        return before

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> int:
        code = self.process.wait(timeout=30)
        os.close(self.master)
        return code


def test_a_session_at_a_terminal(folder, tmp_path):
    """Ctrl-C stops an answer and keeps the session, an error is told, Ctrl-D ends it."""
    terminal = Terminal(folder, "--max-tokens", "100", "--temperature", "0")
    terminal.until("/help lists the commands")
    terminal.until("> ")
    terminal.type("Ω\n")
    terminal.until("character 'Ω'")
    terminal.until("> ")
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("Ctrl-D ends the session")
    terminal.until("> ")
    terminal.type("/help\n")
    terminal.until("/undo")
    terminal.until("> ")
    file = tmp_path / "talk.jsonl"
    terminal.type(f"{ASKED}\n")
    terminal.until("\r\n> ")  # answered, at the context or by an end
    terminal.type(f"/save {file}\n")
    terminal.until("messages in")
    terminal.until("> ")
    terminal.type("\x04")
    assert terminal.close() == 0
    assert json.loads(file.read_text())["messages"][0] == {"role": "user", "content": ASKED}


def test_ctrl_c_stops_the_answer_and_keeps_what_was_said(folder, capsys, stdin, monkeypatch):
    """The interrupt arrives after the first piece; the next turn goes on from the half answer."""
    real, seen = ChatPipeline.chat, []

    def chat(self, messages, sampling, **settings):
        seen.append(list(messages))
        pieces = real(self, messages, sampling, **settings)
        yield next(pieces)
        if len(seen) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        yield from pieces

    monkeypatch.setattr(ChatPipeline, "chat", chat)
    stdin(f"{ASKED}\n{ASKED}\n")
    out, err = said("chat", folder, *GREEDY, capsys=capsys)
    assert "headway: stopped\n" in err
    half = out.split("\n")[0]
    assert len(half) == 1
    assert [each.content for each in seen[1]] == [ASKED, half, ASKED]
