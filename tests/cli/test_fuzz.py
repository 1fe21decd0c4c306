"""Random command lines: whatever is typed ends with a documented exit code and one line, never with a traceback.

`headway reliability` does this at length, in processes of their own.
"""

from __future__ import annotations

import io
import random
import sys
from argparse import Action

import pytest

from headway.cli import main
from headway.cli.parser import build_parser
from headway.reliability.runs import TINY, make

NUMBERS = [
    "0", "1", "2", "3", "-1", "7", "1000", "5000", "10000000", "99999999999999999999", "9" * 5000, "1.5", "nan", "inf",
    "-inf", "1e308", "-1e308", "1e400", "", "x", str(2**63 - 1), str(2**63),
]  # fmt: skip
TEXTS = [
    "", " ", "3 1 2", "I like", "3 1 2\t2 1 3", "\t", "\n", "a\nb", "\x1b]0;x\x07", "\u202eabc", "\udcff", "\ud800",
    "x" * 2000, "3 " * 500, "--", "-x", "--zzz", "[/x]", "%s {0}", "\u2028", "<unk>", "nowhere",
]  # fmt: skip
STDIN = [b"", b"3 1 2\n", b"I li\n\nI", b"ok\n\xff", b"\x00\n", b"\xef\xbb\xbfI li\r\n", b"\xed\xa0\x80\n", None]
COMMANDS = {
    "translate": "translation",
    "generate": "language",
    "score": "language",
    "info": "language",
}
FILES = ("out", "plot", "trace")  # options that write
CODES = {0, 2, 3, 4, 5, 6, 7}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    made = {}
    for name in set(COMMANDS.values()):
        with TINY[name].short():
            made[name] = str(make(TINY[name], folder / name, folder / "cache"))
    return made


def value(action: Action, chance: random.Random) -> str:
    numbers = getattr(action.type, "__name__", "") in ("positive", "count", "integer", "finite")
    if action.choices is not None:
        return chance.choice([*action.choices, "zzz"])
    if action.dest == "limit":
        return chance.choice(["beam=5000", "line=3", "output-tokens=5", "zzz=1", "beam", "beam=-1"])
    return chance.choice(["1", "2", chance.choice(NUMBERS)] if numbers else TEXTS)


def words_of(command: str, run: str, chance: random.Random) -> list[str]:
    words = [command, run if chance.random() < 0.9 else chance.choice(TEXTS)]
    parser = next(action for action in build_parser([command])._actions if isinstance(action.choices, dict))
    for action in parser.choices[command]._actions:
        if action.dest in ("help", "run", "debug", *FILES) or chance.random() < 0.75:
            continue
        if not action.option_strings:
            words += [chance.choice(TEXTS)]
        elif action.nargs == 0:
            words.append(action.option_strings[0])
        else:
            words.append(f"{action.option_strings[0]}={value(action, chance)}")
    return words


def test_random_command_lines_end_in_one_line(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    chance, ends = random.Random(19), {}
    for _ in range(100):
        command, task = chance.choice(list(COMMANDS.items()))
        words, given = words_of(command, runs[task], chance), chance.choice(STDIN)
        monkeypatch.setattr(sys, "stdin", None if given is None else io.TextIOWrapper(io.BytesIO(given), "utf-8"))
        with TINY[task].short():
            try:
                code = main(words)
            except SystemExit as ended:
                code = ended.code
        told = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("headway: note:")]
        assert code in CODES, (words, given, told)
        assert len(told) == bool(code), (words, given, told)
        ends[code] = ends.get(code, 0) + 1
    assert {0, 2, 3} <= ends.keys()
