"""Every exercise: it fails unsolved, passes solved, and each planted bug is caught by the check that is named."""

from __future__ import annotations

import ast
import inspect
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from headway.cli import main
from headway.labs import exercise_check, party
from headway.labs.exercise import (
    Exercise,
    ExerciseTarget,
    PlantedBug,
    broken,
    bug_file,
    exercise_file,
    free_names,
    replaced,
    unsolved,
)
from headway.labs.exercise_check import check_exercise, read_exercise
from headway.labs.frame import run_lab
from headway.labs.registry import LABS
from tests.labs.solved import solved

NAMES = [*LABS.homes]
# Flags that shorten training; the checks that the bugs name do not depend on it.
SHORT: dict[str, Mapping[str, str]] = {
    "approximator": {"steps": "1"},
    "scores": {"steps": "2"},
    "linear": {"steps": "2"},
    "future": {"steps": "2"},
    "forcing": {"steps": "5"},
    "cache": {"tokens": "32"},
    "ladder": {"steps": "2"},
    "masked": {"steps": "2"},
    "patches": {"steps": "2"},
    "bias": {"steps": "2"},
    "window": {"steps": "1"},
    "positions": {"kinds": "sinusoidal"},
}
SLOW = {  # noticed behind seconds of training
    "anything", "bottleneck", "captions", "identity", "john", "pondering", "positions", "robots", "tuning", "world",
}  # fmt: skip


def bugs() -> list[object]:
    return [
        pytest.param(name, number, id=f"{name}-{number}", marks=[pytest.mark.slow] if name in SLOW else [])
        for name in NAMES
        for number in range(len(LABS[name].exercise.bugs))
    ]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_an_exercise_is_cut_from_a_function_of_the_lab_and_fails_unsolved(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["lab", name, "--exercise", "x.py"]) == 0
    text = Path("x.py").read_text()
    exercise = LABS[name].exercise
    assert text == exercise_file(LABS[name], exercise, "x.py")
    assert LABS[name].slides[0].deck in text
    assert "headway lab check x.py" in text
    assert max(map(len, text.splitlines())) <= 120
    capsys.readouterr()
    assert main(["lab", "check", "x.py"]) == 3
    said = capsys.readouterr()
    assert f"{ExerciseTarget.of(LABS[name], exercise).name} is not written yet (x.py, line" in said.err
    assert f"Hint 1 of {len(exercise.hints)}" in said.out
    assert not Path("runs").exists()


def test_an_exercise_explains_what_it_uses_of_headway():
    texts = {name: " ".join(exercise_file(LABS[name], LABS[name].exercise, "x.py").split()) for name in NAMES}
    assert "Given: END = '</w>' join(symbols, pair): A word with every occurrence of a pair joined" in texts["tokens"]
    assert "self, of the class Window: Sliding window" in texts["window"]
    assert "Fields: offset, left, right, dilation. " in texts["window"]
    assert "AttentionRecord:" not in texts["scores"]  # used behind the lines that are to be written
    assert [name for name, text in texts.items() if " at 0x" in text] == []
    flash = LABS["flash"]
    assert "write(x, span, value): Store tokens" in " ".join(bug_file(flash, flash.exercise, "x.py", 0).split())


@pytest.mark.parametrize("name", NAMES)
def test_a_solved_exercise_is_the_shipped_function(name, tmp_path):
    """The same syntax tree on the same objects: so it passes where `test_labs` says that the lab does."""
    file = read_exercise(written(tmp_path / "x.py", solved(name)))
    assert file.hole is None
    shipped = inspect.unwrap(file.target.function)
    with exercise_check._loaded(file) as function:
        mine = inspect.unwrap(function)
        (own,) = ast.parse(file.target.source).body
        assert ast.dump(file.function) == ast.dump(own)
        read = free_names(file.target.source) & {*shipped.__globals__}
        assert {each: mine.__globals__.get(each) for each in read} == {each: shipped.__globals__[each] for each in read}
        assert mine.__kwdefaults__ == shipped.__kwdefaults__
        assert mine.__defaults__ == shipped.__defaults__


@pytest.mark.parametrize(("name", "number"), bugs())
def test_a_planted_bug_is_caught_by_its_check(name, number, tmp_path, monkeypatch):
    lab = LABS[name]
    monkeypatch.setattr(exercise_check, "_compared", lambda *_: "")  # which runs the lab a second time
    bug = lab.exercise.bugs[number]
    file = read_exercise(written(tmp_path / "x.py", bug_file(lab, lab.exercise, "x.py", number)))
    assert file.bug == bug
    found = check_exercise(file, parameters=lab.with_flags(SHORT.get(name, {})))
    assert found.result is not None, found.problem
    failed = [check.name for check in found.result.failed]
    assert any(check.startswith(bug.fails) for check in failed), failed
    assert len(file.hints) == 3
    assert file.hints[1] == bug.hint
    assert broken(file.target, bug) in file.path.read_text()


@pytest.mark.parametrize("name", ["party", "flash", "norms"])  # a function of the lab, of a kernel, a method
def test_a_solved_exercise_passes_and_everything_is_restored(name, tmp_path, capsys):
    path = written(tmp_path / "x.py", solved(name))
    shipped = ExerciseTarget.of(LABS[name], LABS[name].exercise).function
    assert main(["lab", "check", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "Every check holds" in " ".join(capsys.readouterr().out.split())
    assert ExerciseTarget.of(LABS[name], LABS[name].exercise).function is shipped
    assert exercise_check.NAME not in sys.modules
    assert [*tmp_path.iterdir()] == [path]  # no cache, no record
    assert main(["lab", "check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True


WRONG = {  # the body of `forget`, and what is said of it
    "return inputs_TD.sum(0)": "checks failed: party: weights .6561",
    "return inputs_TD": "returned a float64 tensor of shape (5, 5); expected a float64 tensor of shape (5,)",
    "return inputs_TD.sum(0).float()": "call 1 of forget returned a float32 tensor",
    "pass": "call 1 of forget returned None; expected",
    "return gama * inputs_TD.sum(0)": "NameError: name 'gama' is not defined (x.py, line",
    "return inputs_TD @ torch.ones(7)": "RuntimeError",
    "raise SystemExit(4)": "the lab stopped with SystemExit: 4 (x.py, line",
}


@pytest.mark.parametrize(("body", "told"), WRONG.items())
def test_a_wrong_function_is_told_in_one_line(body, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = exercise_file(LABS["party"], LABS["party"].exercise, "x.py")
    written(Path("x.py"), text.replace("raise NotImplementedError", body))
    assert main(["lab", "check", "x.py"]) == 3
    said = capsys.readouterr()
    assert told in " ".join((said.out + said.err).split())
    assert said.err.count("\n") == 1
    assert run_lab(LABS["party"], quick=True).passed


FILES = {  # what stands in a file, and what is said of it
    "def f(:": "x.py, line 1: SyntaxError",
    "\0": "x.py: SyntaxError: source code string cannot contain null bytes",
    "": 'x.py has no line LAB = "…"; `headway lab NAME --exercise` writes',
    'LAB = "party"': "x.py does not define forget; expected def forget(inputs_TD, gamma)",
    'LAB = "party"\ndef forget(x): pass': "x.py, line 2: forget(x), expected forget(inputs_TD, gamma)",
    'LAB = "party"\nimport nothing_here\ndef forget(inputs_TD, gamma): pass': (
        "x.py cannot be run: ModuleNotFoundError: No module named 'nothing_here' (x.py, line 2)"
    ),
    'LAB = "party"\ndef forget(inputs_TD, gamma): pass\ndel forget': (
        "x.py: forget is not a function any more at the end of the file"
    ),
    'LAB = "party"\nBUG = 9\n': "x.py: BUG = 9, allowed: 0 to",
    'LAB = "party"\nexit(0)\ndef forget(inputs_TD, gamma): pass': "x.py cannot be run: SystemExit: 0 (x.py, line 2)",
}


@pytest.mark.parametrize(("text", "told"), FILES.items())
def test_a_file_that_is_no_exercise_is_told_in_one_line(text, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(Path("x.py"), text)
    assert main(["lab", "check", "x.py"]) == 3
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_what_the_command_line_refuses(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(Path("x.py"), 'LAB = "part"\n')
    refused = {
        ("check",): "lab check: name the file to check",
        ("check", "x.py"): "no lab 'part': did you mean party",
        ("party", "x.py"): "x.py: only after `headway lab check`",
        ("party", "--hint", "2"): "--hint 2: only after `headway lab check`",
        ("party", "--exercise", "--bug"): "--exercise and --bug: give one of them",
        ("--exercise",): "--exercise: name a lab",
        ("all", "--bug"): "--bug: name a lab",
        ("party", "--exercise", "x.txt"): "--exercise x.txt, allowed: a name that ends in .py",
        ("party", "--exercise", "x.py"): "x.py exists; name another file, or remove it",
        ("party", "--gamma", "0.5", "--exercise"): "--gamma: an exercise uses lab party as it is",
        ("party", "--notebook", "x.py"): "--notebook x.py, allowed: a name that ends in .ipynb",
    }
    for words, told in refused.items():
        assert main(["lab", *words]) == 2, words
        assert told in capsys.readouterr().err
    assert main(["lab", "check", "nothing.py"]) == 3
    assert "nothing.py: No such file" in capsys.readouterr().err


def test_each_new_try_that_fails_gets_one_more_hint(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = exercise_file(LABS["blow-up"], LABS["blow-up"].exercise, "x.py")

    def hints(body: str, *more: str) -> int:
        written(Path("x.py"), text.replace("raise NotImplementedError", body))
        assert main(["lab", "check", "x.py", "--json", *more]) == 3
        return len(json.loads(capsys.readouterr().out)["hints"])

    assert hints("return x") == 1
    assert hints("return x") == 1  # unchanged: not a new try
    assert hints("return x * 1") == 2
    assert hints("return x") == 3
    assert hints("return x + 0") == 3  # there are no more
    (Path("runs/labs") / exercise_check.TRIES).write_text("{")
    assert hints("return x") == 1
    assert hints("return x", "--hint", "2") == 2


def test_ctrl_c_says_where_and_restores(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = exercise_file(LABS["party"], LABS["party"].exercise, "x.py")
    body = "while True:\n        import signal\n        signal.raise_signal(signal.SIGINT)"
    written(Path("x.py"), text.replace("raise NotImplementedError", body))
    shipped, before = party.forget, signal.getsignal(signal.SIGINT)
    assert main(["lab", "check", "x.py"]) == 130
    assert "stopped in forget (x.py, line" in capsys.readouterr().err
    assert party.forget is shipped
    assert signal.getsignal(signal.SIGINT) is before


def test_a_bug_is_chosen_by_the_seed_and_found_by_its_hints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    count = len(LABS["party"].exercise.bugs)
    for seed in range(count + 1):
        assert main(["lab", "party", "--bug", f"bug{seed}.py", "--seed", str(seed)]) == 0
    texts = [Path(f"bug{seed}.py").read_text().partition("LAB =")[2] for seed in range(count + 1)]
    assert len({*texts}) == count
    assert texts[0] == texts[-1]
    assert main(["lab", "check", "bug0.py", "--hint", "3", "--plot", "found.png"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "Hint 3 of 3: As it was handed out, this line is wrong: memory = memory + gamma * guest" in said
    assert Path("found.png").read_bytes().startswith(b"\x89PNG")
    assert main(["lab", "party", "--bug"]) == 0
    assert Path("party_bug.py").exists()
    assert main(["lab", "party", "--exercise", "-"]) == 0
    assert "def forget(" in capsys.readouterr().out


def test_what_a_file_prints_does_not_mix_with_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(Path("x.py"), f"{solved('blow-up')}\nprint('hello')\n")
    assert main(["lab", "check", "x.py", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["passed"]
    assert "hello" in said.err


def test_a_function_is_replaced_wherever_it_was_imported():
    from headway.labs import dials
    from headway.ops import positions

    shipped = positions.rotate

    def stops() -> None:
        with replaced(positions, "rotate", torch.abs):
            assert dials.rotate is positions.rotate is torch.abs
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        stops()
    assert dials.rotate is positions.rotate is shipped


def test_an_exercise_that_does_not_fit_its_function_is_noticed():
    bug = PlantedBug(right="nothing like it", wrong="", fails="", hint="")
    with pytest.raises(ValueError, match="expected at least two hints and one bug"):
        Exercise(function="forget", task="", hints=("one",), bugs=(bug,))
    target = ExerciseTarget.of(LABS["party"], LABS["party"].exercise)
    with pytest.raises(ValueError, match="occurs 0 times, expected once"):
        broken(target, bug)
    exercise = Exercise(function="forget", task="", hints=("one", "two"), bugs=(bug,), cut=("for", "nothing"))
    with pytest.raises(ValueError, match="1 first and 0 last lines"):
        unsolved(target, exercise)
