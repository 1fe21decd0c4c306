"""Wrong turns on the command line: each gets the command, option or key that does what was meant."""

from __future__ import annotations

import pytest

from headway.cli import main, options
from headway.cli.commands import COMMANDS
from headway.cli.intents import INTENTS, meant
from headway.cli.lines import note_files
from headway.cli.parser import build_parser, parse
from headway.presets import PRESETS, preset
from headway.runs import with_settings
from tests.interop.folders import write_gpt2


def refused(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr that a refused command line gets."""
    try:
        code = main(list(words))
    except SystemExit as ended:
        code = ended.code
    told = capsys.readouterr()
    assert code == 2
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err.strip().removeprefix("headway: ")


def printed(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("resume", "headway train --out RUN --resume"),
        ("finetune", "headway train PRESET --init RUN --data SPEC"),
        ("predict", "headway classify RUN INPUT, or headway translate RUN TEXT, or headway generate RUN TEXT"),
        ("sample", "headway generate RUN TEXT"),
        ("ask", "headway chat RUN TEXT, or headway generate RUN TEXT"),
        ("models", "headway presets"),
        ("Eval", "headway evaluate RUN"),
        ("visualize", "headway look RUN INPUT"),
    ],
)
def test_a_word_of_other_programs_gets_the_command_that_does_it(word, command, capsys):
    """TRIALS B friction 6: no hints for mistyped commands."""
    assert refused(word, capsys=capsys) == f"no command {word!r}: use {command} (headway --help)"


@pytest.mark.parametrize("word", ["list", "ls", "compare"])
def test_a_word_that_several_commands_answer_names_each_that_there_is(word, capsys):
    told = refused(word, capsys=capsys)
    named = [line.split()[0] for line in INTENTS[word] if line.split()[0] in COMMANDS]
    assert all(f"headway {name}" in told for name in named)
    assert "there are demo" not in told


def test_a_folder_in_the_place_of_a_command_is_asked_for_its_info(tmp_path, capsys):
    assert refused(str(tmp_path), capsys=capsys).endswith(f"use headway info {tmp_path} (headway --help)")


def test_a_word_that_nothing_does_is_told_the_commands(capsys):
    told = refused("frobnicate", capsys=capsys)
    assert "did you mean" not in told
    assert all(name in told for name in COMMANDS)


def test_every_intent_is_a_command_line_that_is_accepted():
    """Suggestions are followed literally; commands of other versions are left out by `meant`."""
    assert not set(INTENTS) & set(COMMANDS)
    for word, lines in INTENTS.items():
        for line in (each for each in lines if each.split()[0] in COMMANDS and "--help" not in each):
            parsed, rest = build_parser([line.split()[0]]).parse_known_args(line.split())
            assert (parsed.command, rest) == (line.split()[0], []), word
    assert meant("clean", ("train",)) == ""
    assert meant("clean", ("train", "runs")) == "use headway runs clean"


@pytest.mark.parametrize("name", [None, "score", "lab"])
def test_help_is_a_word_too(name, capsys):
    """TRIALS B, habits: `headway help train` was an invalid choice."""
    words = [] if name is None else [name]
    assert printed("help", *words, capsys=capsys) == printed(*words, "--help", capsys=capsys)


def test_help_of_a_preset_lists_its_keys(capsys):
    assert main(["help", "train", "gpt-char"]) == 0
    assert "--train.learning_rate" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["gpt-char", "--data", "x"], ["--data", "x", "gpt-char"], ["--data=x", "gpt-char"]])
@pytest.mark.parametrize("key", [["--train.steps", "9"], ["--train.steps=9"]])
def test_a_preset_and_a_config_key_stand_anywhere(words, key):
    for line in ([*words, *key], [*key, *words], [*words[:-1], *key, words[-1]]):
        found = parse(["train", *line])
        assert (found.preset, found.data) == ("gpt-char", "x")
        assert options.overrides_of(found.overrides) == {"train.steps": "9"}
    assert parse(["train", *key, "--out", "r", "--resume"]).preset is None


def test_help_of_no_command_is_a_wrong_turn_as_well(capsys):
    assert "did you mean train?" in refused("help", "trian", capsys=capsys)


def test_the_version_has_a_short_option(capsys):
    assert printed("-V", capsys=capsys) == printed("--version", capsys=capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "r", "--bem", "3"], "unknown arguments: --bem 3; did you mean --beam?"),
        (["translate", "r", "--num-beams", "3"], "unknown arguments: --num-beams 3; did you mean --beam?"),
        (["generate", "r", "--max-new-tokens", "3"], "did you mean --max-tokens?"),
        (["generate", "r", "--frobnicate"], "unknown arguments: --frobnicate (headway generate --help)"),
        (["train", "gpt-char", "--resme"], "unknown option --resme: did you mean --resume? (headway train --help)"),
        (["train", "gpt-char", "--dataset", "x"], "unknown option --dataset: did you mean --data?"),
        (["train", "gpt-char", "--data", "x", "--lr", "3e-4"], "no config key 'lr': did you mean train.learning_rate?"),
        (["train", "gpt-char", "--data", "x", "--frobnicate"], "no option --frobnicate: config keys are written --KEY"),
        (["train", "gpt-char", "--data", "x", "--train.steps"], "--train.steps needs a value"),
        (["translate", "r", "--device", "gpu"], "argument --device: 'gpu': did you mean cuda? choose from auto, cpu,"),
        (["translate", "r", "--device", "tpu"], "argument --device: 'tpu': did you mean cpu? choose from auto, cpu,"),
    ],
)
def test_a_mistyped_option_gets_the_one_that_was_meant(words, message, capsys):
    """TRIALS B, habits: `--dry-run needs a value`, and no hint for `--epochs`."""
    assert message in refused(*words, capsys=capsys)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("--batch-size", "32"), "train.batch_tokens"),
        (("--lr", "1e-3"), "train.learning_rate"),
        (("--label", "sentiment"), "data.label"),
        (("--seed=3",), "train.seed"),
    ],
)
@pytest.mark.parametrize("preset_first", [True, False])
def test_an_option_of_other_programs_gets_the_config_key(words, key, preset_first, tmp_path, capsys):
    """Without a preset, 32 of `--batch-size 32` was taken for one."""
    book = tmp_path / "book.txt"
    book.write_text("to be or not to be, that is the question.\n" * 9)
    given = ["gpt-char"] if preset_first else []
    assert main(["train", *given, "--data", str(book), *words, "--dry-run"]) == 2
    assert f"did you mean {key}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("train", "--data", "reverse", "--epoch", "3"), "--epochs"), (("translate", "RUN", "x", "--bea", "3"), "--beam")],
)
def test_the_beginning_of_an_option_is_not_taken_for_it(words, meant, capsys):
    assert f"did you mean {meant}?" in refused(*words, capsys=capsys)


def test_a_text_that_is_the_name_of_a_file_is_told(tmp_path, capsys):
    file = tmp_path / "train.en"
    file.write_text("a cat\n")
    note_files(["a cat", str(file), "x" * 5000], "translate")
    assert capsys.readouterr().err == (
        f"headway: note: {file} is a file, and its name is taken for the text; pass < {file} to translate its lines\n"
    )


def test_a_picture_is_not_advised_as_lines_and_a_file_that_is_missing_is_told(tmp_path, capsys):
    picture = tmp_path / "cat.jpg"
    picture.write_bytes(b"\xff\xd8\xff\xe0\0\x10JFIF\0")
    note_files([str(picture), "new.de", "a man sleeps .", "e.g.", "3.14"], "classify")
    assert capsys.readouterr().err == (
        f"headway: note: {picture} is not a file of text, and its name is taken for the text\n"
        "headway: note: there is no file new.de; it is taken for the text\n"
    )


def test_a_name_of_the_hub_gets_the_commands_that_fetch_and_read_it(tmp_path, monkeypatch, capsys):
    """TRIALS B friction 10: a hub name was refused without advice."""
    monkeypatch.chdir(tmp_path)
    assert main(["import", "HuggingFaceTB/SmolLM2-135M"]) == 7
    assert capsys.readouterr().err == (
        "headway: HuggingFaceTB/SmolLM2-135M: no such folder, and headway downloads nothing; "
        "`hf download HuggingFaceTB/SmolLM2-135M --local-dir SmolLM2-135M` fetches a model of the Hugging Face hub, "
        "then `headway import SmolLM2-135M` reads it\n"
    )
    write_gpt2(tmp_path / "SmolLM2-135M")  # in place of the download
    assert main(["import", "SmolLM2-135M"]) == 0
    assert capsys.readouterr().out == "runs/SmolLM2-135M\n"
    assert main(["info", "runs/SmolLM2-135M"]) == 0


def test_a_mistyped_path_is_not_taken_for_a_name_of_the_hub(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "bert-base").mkdir(parents=True)
    for path, hint in (("models/bert-bas", "; did you mean bert-base?"), ("models/xlnet", ""), ("a/b/c", "")):
        assert main(["import", path]) == 7
        assert capsys.readouterr().err == f"headway: {path}: no such folder{hint}\n"
    (tmp_path / "weights").write_text("")
    assert main(["import", "weights"]) == 7
    assert "no such folder" not in capsys.readouterr().err


def test_presets_are_a_line_each_in_a_pipe(capsys):
    """TRIALS B friction 7: `headway presets` printed 190 lines for 43 presets."""
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[name, PRESETS[name].task] for name in PRESETS]
    assert all(line.endswith(PRESETS[name].source) for name, line in zip(PRESETS, lines, strict=True))


def test_presets_are_by_task_and_fit_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("headway.cli.commands.presets.is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "72")
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) == 72
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == [f"{task}:" for task in dict.fromkeys(entry.task for entry in PRESETS.values())]
    assert sorted(line.split()[0] for line in lines if line.startswith("  ")) == sorted(PRESETS)


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["train", "--data", "bok.txt"], 3, "did you mean book.txt?"),
        (
            ["evaluate", "runs/en-ed"],
            4,
            "no such run (it has no config.yaml); did you mean runs/en-de? `headway runs` lists",
        ),
        (
            ["train", "--data", "odd.csv", "--data.text", "kommentar"],
            3,
            "there are: id, Kommentar; did you mean Kommentar?",
        ),
        (["train", "--data", "book.txt", "--budget", "ten"], 2, "'ten' is not a time"),
    ],
)
def test_a_name_that_is_nearly_right_is_answered_in_one_line(words, code, hint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("to be or not to be\n" * 20)
    (tmp_path / "odd.csv").write_text("id;Kommentar\n" + "1;ein Satz\n" * 20)
    (tmp_path / "runs" / "en-de").mkdir(parents=True)
    assert main(words) == code
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 1
    assert [*(tmp_path / "runs").iterdir()] == [tmp_path / "runs" / "en-de"]


def test_a_shorter_context_of_the_model_shortens_the_blocks():
    notes: list[str] = []
    config = with_settings(preset("gpt-char").recipe(), {"model.context": "32"}, note=notes.append)
    assert config.task.context == config.model.context == 32
    assert notes == ["task.context is 32 too, as model.context is"]
    longer = with_settings(preset("gpt-char").recipe(), {"model.context": "128"})
    assert (longer.task.context, longer.model.context) == (preset("gpt-char").recipe().task.context, 128)
