"""`headway generate`: prompts as arguments and from stdin, with and without their echo."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import headway
from headway.cli import main
from headway.runs.import_folder import import_folder
from tests.cli.test_commands import cache, writer  # noqa: F401
from tests.interop.folders import write_gpt2

FEW = ["--max-tokens", "6", "--temperature", "0", "--device", "cpu"]


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch):
    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return give


def said(*words: str | Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(list(map(str, words))) == 0
    return capsys.readouterr().out


def test_a_prompt_is_an_argument_an_option_or_a_line_of_stdin(writer, capsys, stdin):  # noqa: F811
    """TRIALS B bug 8: `generate RUN TEXT` was an unknown argument, and stdin was ignored."""
    by_option = said("generate", writer, "--prompt", "to be", *FEW, capsys=capsys)
    assert said("generate", writer, "to be", *FEW, capsys=capsys) == by_option
    assert said("generate", writer, *FEW, "to be", capsys=capsys) == by_option
    stdin("to be\n")
    assert said("generate", writer, *FEW, capsys=capsys) == by_option
    stdin("to be\nor not\n")
    from_lines = said("generate", writer, *FEW, "--num", "2", capsys=capsys)
    assert said("generate", writer, "to be", "or not", "--num", "2", *FEW, capsys=capsys) == from_lines
    texts = from_lines.removesuffix("\n").split("\n---\n")
    assert [text[:5] for text in texts] == ["to be", "to be", "or no", "or no"]
    assert texts[0] + "\n" == by_option


def test_a_prompt_can_be_left_out_of_the_output(writer, capsys):  # noqa: F811
    """TRIALS B bug 8: the prompt was always echoed."""
    whole = said("generate", writer, "to be", *FEW, capsys=capsys)
    rest = said("generate", writer, "to be", "--no-echo", *FEW, capsys=capsys)
    assert whole == f"to be{rest}"
    pieces = headway.load(writer, device="cpu").generate("to be", max_tokens=6, temperature=0)
    assert "".join(pieces) + "\n" == rest


def test_without_a_prompt_a_terminal_gets_a_text_and_an_empty_stdin_a_note(writer, capsys, stdin, monkeypatch):  # noqa: F811
    stdin("")
    assert main(["generate", str(writer), *FEW]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "headway: note: no prompt: stdin has no lines, and no TEXT is given\n"
    monkeypatch.setattr("headway.cli.commands.generate.is_terminal", lambda stream: True)
    assert said("generate", writer, *FEW, capsys=capsys).startswith("\n")


def test_two_ways_to_give_a_prompt_at_once_are_refused(writer, capsys):  # noqa: F811
    assert main(["generate", str(writer), "to", "--prompt", "be"]) == 2
    assert "--prompt and TEXT 'to' are the same thing" in capsys.readouterr().err


def word_pieces(folder: Path) -> Path:
    """A GPT-2 whose vocabulary is of capital letters, read by a lower-casing WordPiece tokenizer, as in TRIALS B."""
    path = write_gpt2(folder)
    size = json.loads((path / "config.json").read_text())["vocab_size"]
    vocab = {"[UNK]": 0, **{f"{chr(65 + n // 26)}{chr(65 + n % 26)}": n + 1 for n in range(size - 1)}}
    special = {"id": 0, "content": "[UNK]", "single_word": False, "lstrip": False, "rstrip": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{**special, "normalized": False, "special": True}],
        "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab,
        },
    }  # fmt: skip
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return path


@pytest.mark.parametrize("prompt", ["AB AC", "AB nothing", "nothing known"])
def test_a_space_stands_between_a_prompt_and_its_continuation(tmp_path, capsys, prompt):
    """TRIALS B bug 7: the space was lost where the prompt's last words are unknown and so decode to nothing."""
    import_folder(word_pieces(tmp_path / "a"), tmp_path / "run")
    text = said("generate", tmp_path / "run", prompt, *FEW, capsys=capsys).removesuffix("\n")
    words = text.removeprefix(prompt).split(" ")
    assert words[0] == ""
    assert len(words) == 1 + 6
    assert all(len(word) == 2 for word in words[1:])
