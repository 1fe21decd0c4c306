"""`headway evaluate` end to end: one flat object for machines, a report for people, and what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.cli import main
from headway.cli.commands.evaluate import _strict
from headway.runs import Run
from headway.runs import run as run_module
from headway.tasks.report import MARK, running_samples, sentence_samples
from headway.tasks.translation.search import TranslationSearch
from tests.cli.test_commands import QUICK, parallel, train_words

POSITIONS = {"forced_accuracy", "free_accuracy", "mean_divergence"}
SMALL = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("evaluate")


@pytest.fixture(scope="module")
def cache(home) -> list[str]:
    return ["--data.cache", str(home / "cache")]


@pytest.fixture(scope="module")
def translator(home, cache) -> Path:
    assert main(train_words(parallel(home / "data"), home / "run", cache)) == 0
    return home / "run"


@pytest.fixture(scope="module")
def rival(home, cache, translator) -> Path:
    """The same data, other tokens."""
    arguments = [word if word != "word" else "characters" for word in train_words(home / "data", home / "rival", cache)]
    assert main(arguments) == 0
    return home / "rival"


@pytest.fixture(scope="module")
def writer(home, cache) -> Path:
    (home / "book.txt").write_text("to be or not to be, [that] is the [/question].\n" * 40)
    out = home / "writer"
    assert main(["train", "gpt-char", "--data", str(home / "book.txt"), "--out", str(out), *SMALL, *QUICK, *cache]) == 0
    return out


@pytest.fixture(scope="module")
def guesser(home, cache, writer) -> Path:
    sizes = [word for key in ("width 16", "inner 32", "heads 2", "layers 1") for word in f"--model.bert.{key}".split()]
    data = ["--data", str(home / "book.txt"), "--data.tokenizer", "word", "--task.length", "16"]
    quick = [*QUICK, "--train.accumulate", "1"]
    assert main(["train", "bert-base", *data, "--out", str(home / "guesser"), *sizes, *quick, *cache]) == 0
    return home / "guesser"


def flat(arguments: list[object], capsys) -> dict[str, Any]:
    """What is printed for machines: one line, one strict object, no nesting."""
    capsys.readouterr()
    assert main(["evaluate", *map(str, arguments), "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    values: dict[str, Any] = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert not any(isinstance(value, dict | list) for key, value in values.items() if key != "samples")
    return values


def shown(arguments: list[object], capsys, code: int = 0) -> str:
    """What is printed for people, or, after an error, its one line."""
    capsys.readouterr()
    assert main(["evaluate", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    if code:
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        return captured.err
    assert max(map(len, captured.out.splitlines())) <= 80
    return captured.out


def unwrapped(arguments: list[object], capsys) -> str:
    """The same as one line, wherever it was broken."""
    return " ".join(shown(arguments, capsys).split())


def test_translations_for_machines(translator, capsys):
    values = flat([translator], capsys)
    assert set(values) == {
        "split", "steps", "loss", "perplexity", "tokens", "bleu", "bleu_signature", "bleu_low", "bleu_high",
        "bleu_tokenized_lower", "chrf", "exact_match", "length_ratio", "sentences", *POSITIONS,
    }  # fmt: skip
    assert values["perplexity"] == pytest.approx(math.exp(values["loss"]))
    assert values["tokens"] == 40 * 6
    assert 0 <= values["free_accuracy"] <= 1


def test_with_a_beam_of_one_nothing_is_decoded_twice(translator, capsys, monkeypatch):
    decode, beams = TranslationSearch.hypotheses, []

    def watched(self, *arguments, **settings):
        beams.append(arguments[3].beam)
        return decode(self, *arguments, **settings)

    monkeypatch.setattr(TranslationSearch, "hypotheses", watched)
    one = flat([translator, "--beam", 1], capsys)
    assert beams == [1]
    two = flat([translator, "--beam", 2], capsys)
    assert beams == [1, 2, 1]
    assert {key: one[key] for key in POSITIONS} == {key: two[key] for key in POSITIONS}


def test_translations_for_people(translator, capsys, monkeypatch):
    out = shown([translator], capsys)
    for part in (
        "run ",
        "split       test",
        "checkpoint  step 6",
        "95 % interval",
        "nrefs:1|",
        "BP ",
        "chrf",
        "words ",
    ):
        assert part in out
    assert "position  forced" in out
    assert out.count("source  ") == out.count("reference  ") == 3
    assert MARK in out
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, shown([translator], capsys).splitlines())) <= 60


def test_the_references_are_the_text_and_not_what_the_vocabulary_knows_of_it(translator, tmp_path, capsys):
    data = parallel(tmp_path / "odd", lines=3)
    (data / "test.en").write_text("the cat\nthe [bold]cat[/] sleeps\n\n")
    (data / "test.fr").write_text("le zèbre\nle [bold]zèbre[/] dort [/b]\nchat\n")
    found = headway.load(translator, device="cpu")
    assert found.pipeline.pairs("test", str(data))[1] == ["le zèbre", "le [bold]zèbre[/] dort [/b]", "chat"]
    out = shown([translator, "--data", data], capsys)
    assert "the [bold]cat[/] sleeps" in out
    assert "zèbre[/] dort [/b]" in out


def test_an_empty_hypothesis_and_references_of_one_token(translator, tmp_path, capsys):
    data = parallel(tmp_path / "short", lines=3)
    (data / "test.en").write_text("\n\n\n")
    (data / "test.fr").write_text("le\nchat\ndort\n")
    values = flat([translator, "--data", data, "--out", tmp_path / "said.txt"], capsys)
    assert (values["bleu"], values["exact_match"], values["free_accuracy"], values["tokens"]) == (0, 0, 0, 6)
    assert (tmp_path / "said.txt").read_text() == "\n\n\n"
    out = shown([translator, "--data", data], capsys)
    assert "–" in out  # too short for BLEU
    (data / "test.en").write_text("the\n")
    (data / "test.fr").write_text("\n")
    assert flat([translator, "--data", data], capsys)["sentences"] == 1
    shown([translator, "--data", data], capsys)


def test_tokenised_references_are_pointed_out(translator, tmp_path, capsys):
    data = parallel(tmp_path / "tokenised")
    assert "warning" not in shown([translator], capsys)
    (data / "test.fr").write_text("le chat dort .\n" * 40)
    out = " ".join(shown([translator, "--data", data], capsys).split())
    assert "references look tokenised: bleu is not comparable to sacreBLEU of plain text" in out


def test_translations_go_to_a_file_a_line_each(translator, home, tmp_path, capsys):
    said = tmp_path / "said.txt"
    assert flat([translator, "--out", said], capsys)["sentences"] == 40
    sources = (home / "data" / "test.en").read_text().splitlines()
    assert said.read_text().splitlines() == headway.load(translator, device="cpu").translate(sources)


@pytest.mark.parametrize("name", ["translator", "writer"])
def test_positions_go_to_a_picture(name, request, tmp_path, capsys):
    picture = tmp_path / "gap.png"
    flat([request.getfixturevalue(name), "--plot", picture], capsys)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_two_runs_are_compared_on_the_same_sentences(translator, rival, capsys, monkeypatch):
    first, second = flat([translator], capsys), flat([rival], capsys)
    values = flat([translator, "--compare", rival], capsys)
    assert set(values) - set(first) == {"bleu_compared", "bleu_delta", "bleu_p"}
    assert values["bleu_compared"] == second["bleu"]
    assert values["bleu_delta"] == pytest.approx(second["bleu"] - first["bleu"])
    assert 0 < values["bleu_p"] <= 1
    itself = flat([translator, "--compare", translator], capsys)
    assert (itself["bleu_delta"], itself["bleu_p"]) == (0, 1)
    monkeypatch.setenv("COLUMNS", "200")  # a long path of a temporary folder would break the line
    assert main(["evaluate", str(translator), "--compare", str(rival)]) == 0
    out = capsys.readouterr().out
    assert f"{values['bleu_delta']:+.2f}, p = {values['bleu_p']:.3f}" in out


def test_the_run_to_compare_with_is_the_mean_of_as_many_checkpoints(translator, monkeypatch):
    run, loaded = headway.load(translator, device="cpu", average=2), []
    start = Run.__init__
    monkeypatch.setattr(
        Run, "__init__", lambda self, folder, **given: loaded.append(given) or start(self, folder, **given)
    )
    run.evaluate(split="val", beam=1, compare=translator)
    assert loaded == [{"device": "cpu", "average": 2, "precision": "fp32"}]


def test_the_run_to_compare_with_has_the_same_precision(translator, monkeypatch):
    loaded, load_model = [], run_module.load_model

    def recorded(*given, **named):
        loaded.append(named["precision"])
        return load_model(*given, **named)

    monkeypatch.setattr(run_module, "load_model", recorded)
    run = headway.load(translator, device="cpu", precision="bf16")
    run.evaluate(split="val", beam=1, compare=translator)
    assert loaded == ["bf16", "bf16"]


def test_only_runs_that_translate_can_be_compared(translator, writer, tmp_path, capsys):
    error = shown([translator, "--compare", writer], capsys, 2)
    assert "a language model, expected another translation model" in error
    assert "no such run" in shown([translator, "--compare", tmp_path / "nowhere"], capsys, 4)


def test_runs_with_other_references_are_not_compared(translator, home, cache, tmp_path, capsys):
    other, second = parallel(tmp_path / "other"), tmp_path / "second"
    (other / "test.fr").write_text("le chien\n" * 40)
    for side in ("en", "fr"):
        (other / f"extra.{side}").write_text("le chat\n")
    assert main(train_words(other, second, cache)) == 0
    error = shown([translator, "--compare", second], capsys, 2)
    assert f"other references on split 'test', {home / 'data'} (fr) and {other} (fr)" in error
    assert "no split 'extra'" in shown([second, "--compare", translator, "--split", "extra"], capsys, 2)
    assert flat([translator, "--compare", second, "--split", "val"], capsys)["sentences"] == 40
    assert flat([translator, "--compare", second, "--data", other], capsys)["bleu_compared"] >= 0
    for split in ("train", "val"):
        (other / f"{split}.de").write_text("die Katze\n" * 40)
    german = [word if word != "fr" else "de" for word in train_words(other, tmp_path / "german", cache)]
    assert main(german) == 0
    assert "(de)" in shown([translator, "--compare", tmp_path / "german", "--split", "val"], capsys, 2)


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("translator", ["--stride", "2"], "--stride is not supported by a translation model (language model"),
        ("writer", ["--compare", "x"], "--compare is not supported by a language model (translation model only)"),
        ("writer", ["--out", "x"], "--out is not supported by a language model (chat model, translation model, "),
        ("writer", ["--stride", "65"], "context=64, stride=65"),
        (
            "guesser",
            ["--plot", "x.png"],
            "--plot is not supported by a masked model (language model, translation model",
        ),
        ("translator", ["--plot", "x.pdf"], "allowed: a name that ends in .png"),
    ],
)
def test_options_that_say_nothing_about_a_run_are_refused(name, option, words, request, capsys):
    assert words in shown([request.getfixturevalue(name), *option], capsys, 2)


def test_language_models_for_machines(writer, capsys):
    values = flat([writer], capsys)
    sliding = {f"sliding_{name}" for name in ("loss", "perplexity", "bits_per_byte", "stride")}
    plain = {"split", "steps", "loss", "perplexity", "bits_per_byte", "tokens"}
    assert set(values) == plain | sliding | POSITIONS
    assert values["sliding_stride"] == 32
    same = flat([writer, "--stride", 64], capsys)
    assert same["sliding_loss"] == same["loss"] == values["loss"]
    assert flat([writer, "--stride", 1], capsys)["sliding_stride"] == 1


def test_language_models_for_people(writer, capsys):
    out = shown([writer, "--stride", 16], capsys)
    for part in ("blocks of 64", "sliding by 16", "bits_per_byte", "position  forced", "prompt", "[that]", "⏎"):
        assert part in out
    assert out.count("output  ") == 2  # of a split of two blocks


def test_masked_models(guesser, capsys):
    values = flat([guesser], capsys)
    assert all(isinstance(line, str) for line in values["samples"])
    out = unwrapped([guesser], capsys)
    assert out.count("guesses") == len(values["samples"]) > 0
    for part in ("(masked model)", "next_sentence_accuracy", "unigram_entropy", "[that]"):
        assert part in out


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    out = capsys.readouterr().out
    assert "examples:\n  headway evaluate runs/en-de " in out
    assert all(option in out for option in ("--stride N", "--compare RUN2", "--out FILE", "--plot FILE.png"))


def test_what_is_no_number_is_null():
    assert _strict({"a": math.nan, "b": math.inf, "c": 1, "d": None, "e": "nan"}) == {
        "a": None, "b": None, "c": 1, "d": None, "e": "nan"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reference", "output", "right", "own"),
    [
        ("le chat dort", "le chat dort", "le chat dort", "le chat dort"),
        ("le chat dort", "le chien", "le ‖ chat dort", "le ‖ chien"),
        ("le chat", "le", "le ‖ chat", "le ‖"),
        ("le", "", "‖le", "‖"),
        ("le chat", "", "‖ le chat", "‖"),
        ("我喜欢狗", "我喜欢猫", "我喜欢‖狗", "我喜欢‖猫"),
    ],
)
def test_the_first_difference_is_marked(reference, output, right, own):
    lines = {each.name: str(each) for each in sentence_samples("x", reference, output)}
    assert (lines["reference"].rstrip(), lines["output"].rstrip()) == (right, own)


def test_running_text_is_shown_around_the_place_where_it_parts():
    samples = running_samples("p" * 99, ("a" * 99, "\nb" * 99), ("a" * 99, ""))
    lines = {each.name: str(each) for each in samples}
    assert lines["prompt"] == "…" + "p" * 60
    assert lines["text"] == "…" + "a" * 60 + "‖" + "⏎b" * 30 + "…"
    assert lines["output"] == "…" + "a" * 60 + "‖"
    assert [str(each) for each in running_samples("p", ("same", ""), ("same", ""))][-1] == "same"
