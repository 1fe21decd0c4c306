"""Whatever ends a command is one line and an exit code of docs/commands.md (D8)."""

from __future__ import annotations

import errno
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import headway.errors
from headway.cli import main
from headway.cli.failures import DEFECT, OUT_OF_MEMORY, exit_code_and_line
from headway.cli.stopping import Terminated
from headway.errors import DataError, HeadwayError

BUG = "(this is a bug; run again with --debug for the traceback)"


def out_of_memory() -> Exception:
    try:
        torch.empty(2**62, dtype=torch.uint8)
    except RuntimeError as error:
        return error
    raise AssertionError("so much memory there is not")


class PanicException(BaseException):  # the name that pyo3 gives it
    """As an extension in Rust raises it."""


CASES = [
    (DataError("x.txt: line 3"), 3, "headway: x.txt: line 3"),
    (TypeError("a tensor\nand more"), 1, f"headway: internal error: TypeError: a tensor {BUG}"),
    (RecursionError("too deep"), 1, f"headway: internal error: RecursionError: too deep {BUG}"),
    (OverflowError("34"), 1, f"headway: internal error: OverflowError: 34 {BUG}"),
    (PanicException("stack\x1b"), 1, rf"headway: internal error: PanicException: stack\x1b {BUG}"),
    (MemoryError(), 9, "headway: out of memory; a smaller batch, beam, length or model needs less"),
    (torch.cuda.OutOfMemoryError("CUDA out of memory."), 9, "headway: out of memory (CUDA out of memory.); "),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), 9, "headway: out of memory ("),
    (FileNotFoundError(2, "No such file or directory", "a\nb"), 3, "headway: a b: No such file or directory"),
    (PermissionError(13, "Permission denied", "x"), 3, "headway: x: Permission denied"),
    (OSError(errno.EIO, "Input/output error", "x"), 5, "headway: x: Input/output error"),
    (OSError(errno.ENOSPC, "No space left on device"), 5, "headway: [Errno 28] No space left on device"),
    (UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "bad"), 3, "headway: an input is not valid utf-8: byte 2 (bad)"),
    (UnicodeEncodeError("utf-8", "a\ud800", 1, 2, "bad"), 3, "headway: a text or file name has U+D800, which utf-8"),
    (KeyboardInterrupt(), 130, "headway: interrupted"),
]  # fmt: skip


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(arguments: object) -> None:
        print("before")
        raise error

    monkeypatch.setattr("headway.cli._import_torch", lambda: None)
    monkeypatch.setattr("headway.cli.command", lambda name: SimpleNamespace(execute=execute))


@pytest.mark.parametrize(("error", "code", "line"), CASES)
def test_an_exception_is_one_line_and_its_code(error, code, line, monkeypatch, capsys):
    failing(error, monkeypatch)
    assert main(["presets"]) == code
    shown = capsys.readouterr()
    assert shown.out == "before\n"
    assert shown.err.startswith(line)
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("error", [Terminated(15), BrokenPipeError()])
def test_a_command_that_is_ended_from_outside_prints_no_error(error, monkeypatch, capsys):
    failing(error, monkeypatch)
    assert main(["presets"]) == (143 if isinstance(error, Terminated) else 0)
    assert capsys.readouterr().err == ""


def test_torchs_own_error_on_the_cpu_is_out_of_memory():
    code, line = exit_code_and_line(out_of_memory())
    assert code == OUT_OF_MEMORY
    assert line is not None
    assert "out of memory (" in line


@pytest.mark.parametrize("words", [["--debug", "presets"], ["presets", "--debug"], ["presets", "gpt2", "--debug"]])
def test_debug_shows_the_traceback_above_the_line(words, monkeypatch, capsys):
    failing(TypeError("wrong \x1b"), monkeypatch)
    assert main(words) == DEFECT
    told = capsys.readouterr().err
    assert told.startswith("Traceback (most recent call last):")
    assert "\x1b" not in told
    assert told.endswith(BUG + "\n")


def test_debug_is_there_for_errors_of_headway(capsys):
    assert main(["presets", "nothing", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_closed_stdin_is_bad_data(monkeypatch, capsys, tmp_path):
    """D8: `headway translate RUN <&-`."""
    from headway.cli.lines import stdin_lines

    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="stdin: closed; give the input as arguments"):
        next(stdin_lines())


def test_the_documented_table_has_every_exit_code():
    page = (Path(__file__).parents[2] / "docs/commands.md").read_text()
    table = page[page.index("## Exit codes") : page.index("## Limits")]
    documented = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for code in row.split(",")}
    classes = [
        each for each in vars(headway.errors).values() if isinstance(each, type) and issubclass(each, HeadwayError)
    ]
    raised = (
        {each.exit_code for each in classes} | {code for _, code, _ in CASES} | {0, DEFECT, OUT_OF_MEMORY, 129, 143}
    )
    assert documented == raised
