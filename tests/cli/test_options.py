"""Numbers on the command line: whole or finite, bounded, and refused before anything is loaded (D6, D8, D9)."""

from __future__ import annotations

import pytest

from headway import limits
from headway.cli import main
from headway.cli.commands import COMMANDS
from headway.cli.parser import build_parser, parse

HUGE = "99999999999999999999"
LONG = "9" * 5000  # more digits than Python makes a number of


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert len(told) < 1000
    return told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "r", "--length-penalty", "nan"], "nan: must be finite"),
        (["translate", "r", "--length-penalty=-inf"], "-inf: must be finite"),
        (["translate", "r", "--length-penalty", "1e400"], "1e400: must be finite"),
        (["translate", "r", "--diversity", "nan"], "nan: must be finite"),
        (["translate", "r", "--diversity", "much"], "'much': not a number"),
        (["translate", "r", "--beam", "0"], "0: must be at least 1"),
        (["translate", "r", "--beam", "two"], "'two': not a whole number"),
        (["translate", "r", "--beam", LONG], "not a whole number"),
        (["translate", "r", "--beam", "5000"], "--beam: 5,000 hypotheses, allowed: up to 1,024 (--limit beam=N"),
        (["translate", "r", "--n-best", "10000000"], "--n-best: 10,000,000 hypotheses"),
        (["translate", "r", "--groups", "2000"], "--groups: 2,000 hypotheses"),
        (["translate", "r", "--max-extra", "1000000000"], "--max-extra: 1,000,000,000 tokens"),
        (["translate", "r", "--no-repeat", "-1"], "-1: must be at least 0"),
        (["caption", "r", "x.png", "--beam", "10000000"], "--beam: 10,000,000 hypotheses"),
        (["transcribe", "r", "x.wav", "--beam", "10000000"], "--beam: 10,000,000 hypotheses"),
        (["evaluate", "r", "--beam", "5000"], "--beam: 5,000 hypotheses"),
        (["evaluate", "r", "--average", "-1"], "-1: must be at least 0"),
        (["evaluate", "r", "--average", HUGE], "must be at most 9,223,372,036,854,775,807"),
        (["evaluate", "r", "--stride", HUGE], "must be at most"),
        (["evaluate", "r", "--lengths", f"8,{LONG}"], "--lengths: a number of 5,000 digits, allowed: up to 18"),
        (["play", "r", "--episodes", "2147483648"], "--episodes: 2,147,483,648 episodes"),
        (["generate", "r", "--max-tokens", HUGE], "must be at most"),
        (["generate", "r", "--max-tokens", "100001"], "--max-tokens: 100,001 tokens"),
        (["generate", "r", "--temperature", "nan"], "nan: must be finite"),
        (["generate", "r", "--top-p", "inf"], "inf: must be finite"),
        (["generate", "r", "--top-k", HUGE], "must be at most"),
        (["generate", "r", "--top-k", "0"], "argument --top-k: 0: must be at least 1 (headway generate --help)"),
        (["generate", "r", "--temperature", "-1"], "argument --temperature: -1: must be at least 0 (headway generate"),
        (["generate", "r", "--top-p", "0"], "argument --top-p: 0: must be above 0 (headway generate --help)"),
        (["generate", "r", "--top-p", "2"], "argument --top-p: 2: must be at most 1 (headway generate --help)"),
        (["generate", "r", "--min-p", "-0.1"], "argument --min-p: -0.1: must be at least 0 (headway generate --help)"),
        (["generate", "r", "--repetition-penalty", "0"], "argument --repetition-penalty: 0: must be above 0"),
        (["generate", "r", "--num", "0"], "0: must be at least 1"),
        (["generate", "r", "--seed", "-1"], "-1: must be at least 0"),
        (["generate", "r", "--seed", str(2**70)], "must be at most"),
        (["play", "r", "--seed", "-1"], "-1: must be at least 0"),
        (["lab", "sentences", "--seed", "-1"], "-1: must be at least 0"),
        (["lab", "positions", "--seeds", "1000000000"], "--seeds: 1,000,000,000 runs"),
        (["demo", "--steps", HUGE], "must be at most"),
        (["trace", "f", "--length-penalty", "nan"], "nan: must be finite"),
        (["info", "r", "--limit", "beams=3"], "'beams=3': expected NAME=N with one of the names config-bytes, "),
        (["info", "r", "--limit", "beam"], "expected NAME=N"),
        (["info", "r", "--limit", "beam=0"], "0: must be at least 1"),
    ],
)  # fmt: skip
def test_a_number_that_makes_no_sense_is_one_line(words, message, capsys):
    assert message in refused(words, capsys)


def test_a_limit_is_raised_for_one_command(capsys):
    before = limits.limit("beam")
    assert main(["translate", "nowhere", "x", "--beam", "5000", "--limit", "beam=5000", "--limit", "depth=9"]) == 4
    assert limits.limit("beam") == before
    capsys.readouterr()
    assert "allowed: up to 3 (--limit beam=N" in refused(["translate", "r", "--beam", "5", "--limit", "beam=3"], capsys)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_the_common_options(name):
    words = {"train": ["gpt-char"], "import": ["d", "--out", "o"], "export": ["r", "--out", "o"], "look": ["r", "x"]}
    words |= {"completion": ["bash"], "search": ["r", "corpus"]}
    given = words.get(
        name, ["r", "x"] if name in ("caption", "transcribe", "pose", "detect") else [] if name in NO_RUN else ["r"]
    )
    parsed = build_parser([name]).parse_args([name, *given, "--limit", "beam=7", "--debug"])
    assert (parsed.limit, parsed.debug) == ([("beam", 7)], True)
    assert build_parser([name]).parse_args(["--debug", name, *given]).debug


NO_RUN = ("demo", "lab", "deck", "presets", "cache", "bench")


@pytest.mark.parametrize(
    "words", [["RUN", "--tokens", "a", "b"], ["RUN", "a", "b", "--tokens"], ["--tokens", "RUN", "a", "b"]]
)
def test_texts_stand_before_or_behind_options(words):
    found = parse(["score", *words])
    assert (found.run, found.text, found.tokens, found.overrides) == ("RUN", ["a", "b"], True, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "headway: no command 'trian': did you mean train? there are demo, train, "),
        (["translate", "r", "--bem", "3"], "unknown arguments: --bem 3; did you mean --beam? (headway translate"),
        (["translate", "r", "--beam"], "argument --beam: expected one argument (headway translate --help)"),
        (["score"], "the following arguments are required: RUN, TEXT (headway score --help)"),
    ],
)  # fmt: skip
def test_a_mistyped_word_is_one_line_with_a_hint(words, message, capsys):
    assert message in refused(words, capsys)
