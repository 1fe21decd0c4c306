"""The files that commands write: what is refused before anything is computed, and `-` for standard output."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.cli import main
from headway.cli.stopping import SIGNALS, Terminated
from headway.decoding.trace.format import read_traces
from headway.reliability.runs import TINY, make, write_encoder
from headway.storage.commit import commit_stream

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> str:
    return str(write_encoder(tmp_path_factory.mktemp("outputs") / "encoder"))


@pytest.fixture(scope="module")
def translator(tmp_path_factory) -> str:
    home = tmp_path_factory.mktemp("outputs")
    with TINY["translation"].short():
        return str(make(TINY["translation"], home / "translator", home / "cache"))


@pytest.fixture(scope="module")
def trace(translator, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("outputs") / "beam.jsonl"
    headway.load(translator).translate(["3 1 2"], trace=path)
    return str(path)


def refused(capsys, words: list[str], code: int, message: str) -> None:
    assert main(words) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.startswith("headway: ")
    assert said.err.count("\n") == 1


def test_look_leaves_a_pipe_a_link_and_a_private_mode_as_they_are(encoder, tmp_path, capsys):
    """D3: `look -o` replaced a FIFO and a link by a page, gave a mode of 0600 up, and made folders unasked."""
    pipe, link, page = tmp_path / "p", tmp_path / "l", tmp_path / "page.html"
    os.mkfifo(pipe)
    (tmp_path / "victim").write_text("untouched")
    link.symlink_to("victim")
    look = ["look", encoder, "two dogs", "-o"]
    refused(capsys, [*look, str(pipe)], 5, "it is a FIFO, not a regular file")
    refused(capsys, [*look, str(link)], 5, "it is a symbolic link, not a regular file")
    refused(capsys, [*look, str(tmp_path / "no" / "page.html")], 5, "/no does not exist; make it or name another file")
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert (tmp_path / "victim").read_text() == "untouched"
    page.write_text("old")
    page.chmod(0o600)
    assert main([*look, str(page)]) == 0
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text().startswith("<!doctype html>")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["l", "p", "page.html", "victim"]


def test_a_page_goes_to_stdout(encoder, tmp_path, capfdbinary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["look", encoder, "two dogs", "-o", "page.html"]) == 0
    capfdbinary.readouterr()
    assert main(["look", encoder, "two dogs", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == Path("page.html").read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_vectors_go_to_stdout(encoder, capfdbinary):
    assert main(["embed", encoder, "two dogs", "--out", "-"]) == 0
    assert np.load(io.BytesIO(capfdbinary.readouterr().out)).shape == (1, 16)


def test_an_evaluation_goes_to_stderr_where_its_lines_go_to_stdout(translator, capfdbinary):
    with TINY["translation"].short():
        assert main(["evaluate", translator, "--out", "-"]) == 0
        lines = capfdbinary.readouterr()
        assert main(["evaluate", translator, "--plot", "-"]) == 0
        plot = capfdbinary.readouterr()
    assert lines.out.count(b"\n") == 6
    assert b"bleu" in lines.err.lower()
    assert plot.out.startswith(PNG)
    assert b"bleu" in plot.err.lower()


def test_the_picture_of_a_trace_goes_to_stdout(trace, capfdbinary):
    assert main(["trace", trace, "--plot", "-"]) == 0
    drawn = capfdbinary.readouterr()
    assert drawn.out.startswith(PNG)
    assert b"3 1 2" in drawn.err


def test_stdout_has_one_thing_at_a_time(encoder, translator, trace, capsys, monkeypatch):
    refused(capsys, ["evaluate", translator, "--out", "-", "--json"], 2, "--out - and --json cannot both have")
    refused(capsys, ["evaluate", translator, "--out", "-", "--plot", "-"], 2, "--out - and --plot - cannot both")
    refused(capsys, ["trace", trace, "--plot", "-", "--json"], 2, "--plot - and --json cannot both have")
    refused(capsys, ["embed", encoder, "two dogs", "--out", "-", "--json"], 2, "--out - and --json cannot both")
    for command, flag, has in (
        (["translate", translator, "3 1 2"], "--trace", "the translations"),
        (["classify", "none", "x.png"], "--out", "the classes"),
        (["classify", "none", "x.png"], "--patches", "the classes"),
        (["caption", "none", "x.png"], "--attention", "the captions"),
        (["pose", "none", "x.png"], "--out", "the keypoints"),
        (["detect", "none", "x.png"], "--out", "the objects"),
    ):
        refused(capsys, [*command, flag, "-"], 2, f"{flag} -: standard output has {has}; name a file")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    refused(capsys, ["evaluate", translator, "--plot", "-"], 2, "--plot -: stdout is a terminal, which .png is not for")


@pytest.mark.parametrize(
    "words",
    [
        ["train", "gpt-char", "--data", "deck-sentences"],
        ["demo"],
        ["lab", "positions"],
        ["import", "none"],
        ["export", "none"],
    ],
    ids=lambda words: words[0],
)
def test_a_folder_does_not_go_to_stdout(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(capsys, [*words, "--out", "-"], 2, "--out -: a folder cannot be written to standard output; name a folder")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "flag", "name"),
    [
        (["evaluate", "RUN"], "--out", "said.txt"),
        (["evaluate", "RUN"], "--plot", "gap.png"),
        (["translate", "RUN", "3 1 2"], "--trace", "beam.jsonl"),
        (["look", "RUN", "3 1 2"], "--out", "page.html"),
        (["embed", "RUN", "two dogs"], "--out", "v.npy"),
        (["classify", "RUN", "x.png"], "--out", "said.png"),
        (["classify", "RUN", "x.png"], "--patches", "said.png"),
        (["caption", "RUN", "x.png"], "--out", "said.png"),
        (["caption", "RUN", "x.png"], "--attention", "said.png"),
        (["pose", "RUN", "x.png"], "--out", "said.png"),
        (["detect", "RUN", "x.png"], "--out", "said.json"),
        (["play", "RUN"], "--render", "both.gif"),
        (["play", "RUN"], "--plot", "asked.svg"),
        (["trace", "beam.jsonl"], "--plot", "beam.svg"),
        (["lab", "pondering"], "--plot", "map.png"),
        (["reliability", "kills"], "--out", "report.html"),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else each,
)
def test_every_output_is_checked_before_anything_is_computed(words, flag, name, tmp_path, capsys):
    """The run does not even exist: what is told first is that its output could not be written."""
    (tmp_path / name).symlink_to("victim")
    refused(capsys, [*words, flag, str(tmp_path / name)], 5, f"/{name}: could not be written (it is a symbolic link")
    refused(capsys, [*words, flag, str(tmp_path / "no" / name)], 5, "/no does not exist")
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_train_takes_no_lock_through_a_link(tmp_path, capsys):
    """D5: ln -s victim half/.lock; the victim was overwritten with the number of the process."""
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / ".lock").symlink_to("../victim")
    words = ["train", "gpt-char", "--data", "deck-sentences", "--out", str(tmp_path / "half"), "--resume"]
    refused(capsys, words, 5, "/half/.lock: could not be written (it is a symbolic link")
    assert (tmp_path / "victim").read_text() == "untouched"


def test_a_trace_in_python_is_a_file_whatever_its_name(translator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    headway.load(translator).translate(["3 1 2"], trace="-")
    assert len(list(read_traces(Path("-")))) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_file_is_written_leaves_what_was_there(number, tmp_path):
    path = tmp_path / "beam.jsonl"
    path.write_text("old")

    def write() -> None:
        with SIGNALS.raising(), commit_stream(path) as file:
            file.line("new")
            os.kill(os.getpid(), number)
            time.sleep(10)

    with pytest.raises((KeyboardInterrupt, Terminated)):
        write()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("beam.jsonl", "old")]


def test_reports_of_json_commands_are_still_json(translator, tmp_path, capsys):
    with TINY["translation"].short():
        assert main(["evaluate", translator, "--json", "--out", str(tmp_path / "said.txt")]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["sentences"] == 6
    assert said.err == f"headway: 6 lines in {tmp_path / 'said.txt'}\n"
