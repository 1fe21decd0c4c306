"""`translate --trace` and `headway trace`: the same translations, one line of trace for each, and a strict reader."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import headway
from headway.cli import main
from headway.decoding.trace import replay
from headway.decoding.trace.format import read_traces, to_json
from tests.cli.test_commands import parallel, train_words

LINES = ["the cat number 3 sleeps", "", "cat the the", "the cat number 5 sleeps"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("trace")
    words = train_words(parallel(home / "data"), home / "run", ["--data.cache", str(home / "cache")])
    assert main(words) == 0
    return home / "run"


@pytest.fixture
def file(translator, tmp_path, capsys) -> Path:
    assert main(["translate", str(translator), *LINES, "--beam", "3", "--trace", str(tmp_path / "beam.jsonl")]) == 0
    capsys.readouterr()
    return tmp_path / "beam.jsonl"


@pytest.mark.parametrize("more", [[], ["--beam", "1"], ["--beam", "4", "--n-best", "3"], ["--length-penalty", "0"]])
def test_a_trace_changes_no_translation(translator, tmp_path, capsys, monkeypatch, more):
    assert main(["translate", str(translator), *LINES, *more]) == 0
    plain = capsys.readouterr().out
    path = tmp_path / "beam.jsonl"
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(LINES) + "\n"))
    assert main(["translate", str(translator), *more, "--trace", str(path)]) == 0
    assert capsys.readouterr().out == plain
    traces = list(read_traces(path))
    assert [trace.source for trace in traces] == LINES
    assert [path.name for path in path.parent.iterdir()] == ["beam.jsonl"]


def test_traces_in_python_are_those_of_the_command(translator, file):
    run = headway.load(translator)
    traces = run.trace(LINES, beam=3)
    assert [to_json(trace) for trace in traces] == file.read_text().splitlines()
    said = [replay(trace)[0].tokens if trace.steps else [] for trace in traces]
    assert [run.tokenizer.decode(tokens) for tokens in said] == run.translate(LINES, beam=3)
    assert traces[0].model_steps == tuple(run.steps)
    assert traces[0].source_pieces[-1] == "</s>"


def test_translate_in_python_gives_the_scores_and_the_trace_of_the_command(translator, file, tmp_path, capsys):
    run = headway.load(translator)
    assert run.translate(LINES, beam=3, trace=tmp_path / "own.jsonl") == run.translate(LINES, beam=3)
    assert (tmp_path / "own.jsonl").read_text() == file.read_text()
    assert main(["translate", str(translator), *LINES, "--beam", "3", "--n-best", "2"]) == 0
    printed = [line.split("\t")[1:] for line in capsys.readouterr().out.splitlines() if line]
    scored = run.translate(LINES, beam=3, n_best=2, scores=True)
    assert [[f"{each.score:.4f}", each.text] for best in scored for each in best] == printed
    assert [best[0] for best in scored if best] == [
        each for each in run.translate(LINES, beam=3, scores=True) if each.text
    ]


def test_people_see_winner_lines_and_steps(file, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["trace", str(file), "--line", "4"]) == 0
    said = capsys.readouterr().out
    best = list(read_traces(file))[3]
    assert LINES[3] in said
    assert f"{replay(best)[0].score:.4f}" in said
    assert "finished hypotheses" in said
    search = f"beam 3, {best.penalty} length penalty {best.alpha:g}, model of step"
    assert all(name in said for name in ("kept", "ended", "pruned", search))
    assert main(["trace", str(file), "--line", "4", "--length-penalty", "2.5"]) == 0
    again = capsys.readouterr().out
    assert "length penalty 2.5" in again
    assert "was" in again


def test_no_escape_sequence_reaches_the_terminal(translator, tmp_path, capsys):
    path = tmp_path / "beam.jsonl"
    assert main(["translate", str(translator), "the \x1b[31m cat [bold]", "--trace", str(path)]) == 0
    capsys.readouterr()
    assert main(["trace", str(path)]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "the ·[31m cat [bold]" in said


def test_machines_get_one_object(file, capsys):
    assert main(["trace", str(file), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["source"] == LINES[0]
    assert values["lines"][0]["score"] == replay(next(read_traces(file)))[0].score
    won = [n for n, node in enumerate(values["nodes"]) if node["status"] == "won"]
    assert won == values["lines"][0]["nodes"]
    assert [len(row) for row in values["attention"]] == [len(values["source_pieces"])] * len(won)


def test_an_empty_line_has_nothing_to_show(file, tmp_path, capsys):
    assert main(["trace", str(file), "--line", "2"]) == 0
    assert "the line is empty" in capsys.readouterr().out
    assert main(["trace", str(file), "--line", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == []
    assert main(["trace", str(file), "--line", "2", "--plot", str(tmp_path / "x.png")]) == 3


@pytest.mark.parametrize(("name", "begins"), [("beam.png", b"\x89PNG"), ("beam.SVG", b"<?xml")])
def test_a_picture_is_written(file, tmp_path, capsys, name, begins):
    assert main(["trace", str(file), "--plot", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert "a picture in" in capsys.readouterr().err


def test_what_is_refused(file, tmp_path, capsys):
    def says(code: int, message: str, *words: str) -> None:
        assert main(["trace", *words]) == code
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1

    says(2, "allowed: a name that ends in .png or .svg", str(file), "--plot", "beam.pdf")
    says(2, "allowed: a number above 0", str(file), "--length-penalty", "1e9")
    says(3, "no line 5, there are 4", str(file), "--line", "5")
    says(3, "none.jsonl: cannot be read", str(tmp_path / "none.jsonl"))
    text = file.read_text()
    file.write_text(text.replace('"beam":3', '"beam":4', 1))
    says(3, "beam.jsonl: line 1: crc32: ", str(file))
    file.write_text(text.replace('"headway_trace":1', '"headway_trace":9', 1))
    says(3, "line 1: headway_trace: version 9, this headway reads version 1", str(file))
    file.write_text("a text\n")
    says(3, "line 1: not JSON", str(file))


def test_a_trace_that_cannot_be_written_stops_before_anything_is_said(translator, tmp_path, capsys):
    (tmp_path / "wall").write_text("")
    assert main(["translate", str(translator), "the cat", "--trace", str(tmp_path / "wall" / "x.jsonl")]) == 5
    said = capsys.readouterr()
    assert said.out == ""
    assert "could not be written" in said.err


def test_a_job_that_fails_leaves_the_old_trace_and_no_litter(translator, file, capsys, monkeypatch):
    before = file.read_text()

    def broken():
        yield "the cat"
        raise KeyboardInterrupt

    monkeypatch.setattr("headway.cli.commands.translate.stdin_lines", broken)
    assert main(["translate", str(translator), "--trace", str(file)]) == 130
    assert file.read_text() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]
