"""Control characters of data, model output and paths never reach a terminal (D9), and pipes get them unchanged."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli import main
from headway.cli.terminal import CONTROL, GuardedStream, escaped, guarded_streams, one_line, tell
from headway.errors import StorageError

TITLE = "\x1b]0;owned\x07"  # sets the title of a terminal
UNSAFE = re.compile(f"[{CONTROL}]")
STYLE = re.compile("\x1b\\[[0-9;]*m")  # what rich colours with


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A character model of a text with escape sequences in it: its samples and scores have them, too."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "book.txt").write_text(f"{TITLE}to be \x9b31m or not \u202e to be\n" * 60)
    sizes = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2", "--model.context", "64"]
    steps = [word for key in ("steps", "evaluate_every", "save_every") for word in (f"--train.{key}", "2")]
    more = ["--task.context", "64", "--train.batch_tokens", "128", "--train.device", "cpu"]
    more += ["--data.cache", str(folder / "cache")]
    terminal, run = FakeTerminal(), folder / f"run{TITLE}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        patch.setenv("TERM", "xterm")
        data = ["--data", str(folder / "book.txt"), "--out", str(run)]
        assert main(["train", "gpt-char", *data, *sizes, *steps, *more]) == 0
    shown = terminal.getvalue()
    assert "validation loss" in shown
    assert "\x1b]0" not in shown
    assert "\x07" not in shown
    return run


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "--prompt", f"{TITLE}to", "--max-tokens", "40", "--temperature", "2"],
        ["score", f"{TITLE}to be \x9b31m or"],
        ["score", "--tokens", f"{TITLE}to be"],
        ["evaluate", "--split", "val"],
        ["info"],
    ],
)
def test_a_terminal_gets_no_control_character(writer, words, monkeypatch, capsys):
    terminal = FakeTerminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main([words[0], str(writer), *words[1:]]) == 0
    monkeypatch.undo()
    shown = STYLE.sub("", terminal.getvalue())
    assert UNSAFE.findall(shown) == []
    assert "\\x1b]0;owned" in shown
    assert capsys.readouterr().out == ""


def test_a_pipe_gets_the_text_unchanged(writer, capsys):
    text = f"{TITLE}to be \x9b31m or not \u202e"
    assert main(["score", str(writer), text]) == 0
    assert capsys.readouterr().out.endswith(f"{text}\n")
    assert main(["generate", str(writer), "--prompt", text, "--max-tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith(text)


@pytest.mark.parametrize(
    "words",
    [
        ["info", f"nowhere{TITLE}"],
        ["translate", "a\nb", "x"],
        ["train", "gpt-char", "--data", f"nowhere{TITLE}\r\n"],
        ["presets", f"gpt2{TITLE}"],
        ["trace", f"\x9b31m{TITLE}"],
    ],
)
def test_an_error_is_one_line_without_control_characters_wherever_it_goes(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) in (2, 3, 4)
    told = capsys.readouterr().err
    assert UNSAFE.findall(told) == []
    assert told.count("\n") == 1


def test_words_that_argparse_refuses_are_escaped(capsys):
    with pytest.raises(SystemExit):
        main(["score", "run", f"--{TITLE}"])
    assert UNSAFE.findall(capsys.readouterr().err) == []


def test_which_characters_are_escaped():
    assert escaped("a\tb\nc é 𝔘 \u200d עברית\u200f") == "a\tb\nc é 𝔘 \u200d עברית\u200f"
    assert escaped("\x00\x07\r\x1b\x7f\x9b\u202e\u2066\udcff") == r"\x00\x07\x0d\x1b\x7f\x9b\u202e\u2066\udcff"
    assert one_line("one\ntwo\u2028three\x1b\n") == r"one two\u2028three\x1b"


def test_a_file_name_that_is_not_utf8_comes_out_as_it_is(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8", errors="strict"))
    with guarded_streams():
        print("\udcff.png", flush=True)
    assert raw.getvalue() == b"\xff.png\n"
    assert sys.stdout.errors == "strict"


def test_a_character_that_the_encoding_lacks_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    with guarded_streams(), pytest.raises(StorageError, match=r"standard output: U\+20AC cannot be written in latin-1"):
        print("5 €")


class Broken(io.StringIO):
    """A stream whose other end is gone, as a closed terminal is."""

    error = OSError(5, "Input/output error")

    def write(self, text: str) -> int:
        raise self.error


def test_a_stderr_that_fails_does_not_end_the_work(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", Broken())
    assert main(["presets", "nothing"]) == 2
    assert main(["presets", "gpt2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "gpt2"


def test_a_stdout_that_fails_is_a_storage_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Broken())
    assert main(["presets", "gpt2"]) == 5
    assert capsys.readouterr().err == "headway: standard output: could not be written (Input/output error)\n"


def test_a_stream_that_is_closed_is_one_line(monkeypatch, capsys):
    """D8: `>&-` and `2>&-`, for which Python has None."""
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["presets", "gpt2"]) == 5
    assert main(["presets", "gpt2", "--json"]) == 5
    told = "headway: standard output: could not be written (it is closed)\n"
    assert capsys.readouterr().err == told * 2
    monkeypatch.undo()
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["presets", "nothing"]) == 2
    tell("to nobody")


def test_the_numbers_of_closed_streams_are_not_given_to_files():
    """A checkpoint opened as fd 2 would hold what a C library prints to stderr."""
    code = """
import os
from headway.cli.terminal import guarded_streams
with guarded_streams():
    print(os.open(os.devnull, os.O_RDONLY))
"""
    command = ["sh", "-c", 'exec "$0" -c "$1" <&- 2>&-', sys.executable, code]
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout == "3\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")
@pytest.mark.parametrize("words", ["--help", "--version"])
def test_help_that_cannot_be_written_is_exit_code_five(words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "headway", words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (5, "headway: standard output: could not be written (no space left)\n")


def test_a_reader_that_has_seen_enough_is_no_error():
    process = subprocess.Popen([sys.executable, "-m", "headway"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert (process.wait(), process.stderr.read()) == (0, b"")
    process.stderr.close()


@pytest.mark.parametrize("words", [["presets"], ["presets", "gpt2"], ["presets", "--json"]])
def test_a_reader_that_has_seen_enough_of_a_table_is_no_error(words, monkeypatch, capsys):
    """rich ends the process with exit code 1 by itself."""
    stream = Broken()
    stream.error = BrokenPipeError(32, "Broken pipe")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(words) == 0
    assert capsys.readouterr().err == ""


def test_everything_but_writing_is_the_streams_own():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    guarded = GuardedStream(stream, "standard output", needed=True, escapes=True)
    assert (guarded.encoding, guarded.isatty(), guarded.writable()) == ("utf-8", False, True)


@pytest.mark.parametrize(
    ("pattern", "where"),
    [
        (r"(?<!\w)Console\((?!\))", set()),  # SafeConsole is the console
        (r"file=sys\.stderr", {"terminal.py", "failures.py"}),  # `tell` prints there
        (r"type=(int|float)\b", set()),  # options.py has the types, which are bounded
    ],
)
def test_commands_print_and_read_numbers_in_one_way(pattern, where):
    files = list(Path(main.__code__.co_filename).parent.rglob("*.py"))
    assert len(files) > 30
    assert {path.name for path in files if re.search(pattern, path.read_text())} == where
