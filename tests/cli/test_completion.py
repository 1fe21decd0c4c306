"""`headway completion`: the scripts, run by the shells themselves (TRIALS B, habits: `completion`)."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from headway.cli import main
from headway.cli.commands import COMMANDS
from headway.cli.completion import grammar, script
from headway.presets import PRESETS

BASH = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_headway
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# zsh completes only at a prompt: one in a pseudo-terminal, whose answers are caught where they are added.
ZSH = """
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; autoload -Uz compinit; compinit -u -D; source {script}; cd {folder}'
zpty -w z 'compadd() {{ local -a found; builtin compadd -O found "$@"; print -rl -- "<"$^found">" }}'
zpty -w z "bindkey '^I' complete-word; zstyle ':completion:*' completer _complete; print -- rea''dy"
zpty -r -m z line '*ready*'
zpty -w -n z {typed}$'\\t'
zpty -w z $'\\x15 print -- fini''shed'
zpty -r -m z line '*finished*'
print -r -- $line
zpty -d z
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("scripts")
    found = grammar.read_grammar()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.cli.completion.read_grammar", lambda: found)
        for shell in ("bash", "zsh", "fish"):
            (folder / f"headway.{shell}").write_text(script(shell))
    return {shell: folder / f"headway.{shell}" for shell in ("bash", "zsh", "fish")}


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    """A folder with runs, one of a name that a careless script would run, and a file."""
    for name in ("en-de", "two words", "$(touch canary)"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").write_text("")
    (tmp_path / "runs" / "empty").mkdir()
    (tmp_path / "book.txt").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bash(script: Path, words: list[str]) -> list[str]:
    code = BASH.format(script=shlex.quote(str(script)), words=" ".join(map(shlex.quote, words)))
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, timeout=20)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def fish(script: Path, words: list[str]) -> list[str]:
    line = " ".join([*map(shlex.quote, words[:-1]), words[-1]])
    code = f"source {shlex.quote(str(script))}; complete -C {shlex.quote(line)}"
    home = {**os.environ, "HOME": str(Path.cwd()), "XDG_CONFIG_HOME": str(Path.cwd() / ".fish")}
    done = subprocess.run(["fish", "--no-config", "-c", code], capture_output=True, text=True, timeout=20, env=home)
    assert done.stderr == ""
    return [each.split("\t")[0] for each in done.stdout.splitlines()]


def zsh(script: Path, words: list[str]) -> list[str]:
    line = " ".join([*map(shlex.quote, words[:-1]), words[-1]])
    code = ZSH.format(script=shlex.quote(str(script)), folder=shlex.quote(str(Path.cwd())), typed=shlex.quote(line))
    done = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, timeout=20)
    return [word for word in done.stdout.replace("\r", "").replace(">", "<").split("<") if word.strip()]


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


@pytest.fixture(params=["bash", "fish", "zsh"])
def complete(request, scripts, desk):
    """A function of the words typed so far, the last to be completed, for each shell that is installed."""
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    yield lambda *words: SHELLS[request.param](scripts[request.param], ["headway", *words])
    assert not (desk / "canary").exists(), "the name of a folder was run as code"


def test_commands_options_and_their_values(complete):
    assert set(COMMANDS) <= set(complete(""))
    assert {"train", "trace", "translate"} <= set(complete("tra"))
    assert {"--data", "--resume", "--keep-optimiser"} <= set(complete("train", "gpt-char", "--"))
    assert {"strict", "replace"} <= set(complete("train", "gpt-char", "--errors", ""))
    assert "int8" in complete("translate", "runs/en-de", "--precision", "i")
    assert set(complete("completion", "")) >= {"bash", "zsh", "fish"}


def test_presets_labs_and_actions(complete):
    found = complete("train", "gpt-")
    assert "gpt-char" in found
    assert "bert-base" not in found
    assert "gpt2" in complete("presets", "gp")
    assert "positions" in complete("lab", "")
    assert {"compare", "clean"} <= set(complete("runs", "c"))


def test_config_keys_and_their_values(complete):
    found = complete("train", "gpt-char", "--data", "book.txt", "--train.keep")
    assert {"--train.keep", "--train.keep_optimiser"} <= set(found)
    assert "--model.position" in complete("train", "gpt-char", "--model.po")
    assert "--model.encoder_layers" in complete("train", "transformer-tiny", "--model.enc")
    assert "--model.encoder_layers" not in complete("train", "gpt-char", "--model.")
    assert "bf16" in complete("train", "gpt-char", "--train.precision", "b")
    assert "rotary" in complete("train", "gpt-char", "--model.position", "ro")


def test_runs_and_files(complete):
    found = [word.replace("\\", "").rstrip("/") for word in complete("info", "runs/")]
    assert "runs/en-de" in found or "en-de" in found
    assert any("book.txt" in word for word in complete("train", "gpt-char", "--data", "bo"))


def test_an_equals_sign_in_bash(scripts, desk):
    assert bash(scripts["bash"], ["headway", "train", "gpt-char", "--errors", "=", "str"]) == ["strict"]
    assert bash(scripts["bash"], ["headway", "train", "gpt-char", "--errors", "="]) == ["strict", "replace"]
    assert "--train.steps" in bash(scripts["bash"], ["headway", "train", "--data", "=", "x", "gpt-char", "--train.st"])


def test_a_run_of_any_name_is_completed_in_bash(scripts, desk):
    found = bash(scripts["bash"], ["headway", "info", ""])
    assert found == ["runs/$(touch canary)", "runs/en-de", "runs/two words"]
    assert not (desk / "canary").exists()


def test_no_python_is_started(scripts):
    assert all("python" not in path.read_text() for path in scripts.values())


def test_every_preset_that_can_be_trained_is_in_it(scripts):
    text = scripts["bash"].read_text()
    assert all(f" {name} " in text.replace("'", " ") for name in PRESETS if PRESETS[name].run is not None)


def test_names_that_are_not_plain_words_are_left_out():
    assert grammar._words(["gpt2", "a b", "$(x)", "`x`", "x'y", "-x"]) == "gpt2"


def test_the_command_prints_the_script(capsys, monkeypatch):
    monkeypatch.setattr("headway.cli.completion.read_grammar", lambda: grammar.Grammar(
        commands=(grammar.CommandWords(name="info", meaning="it's", options=(
            grammar.OptionWords(flags=("--limit",), takes="beam=", meaning=""),), first="@runs", rest="@anything"),),
        options=(), keys={}, values={}, meanings={},
    ))  # fmt: skip
    assert main(["completion", "bash"]) == 0
    assert "complete -F _headway headway" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])
