"""What every task must do, whichever it is: train, resume, and each command that its pipeline says it can.

A task of headway.tasks.registry that has no tiny run in headway.reliability.runs fails here.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import headway
from headway.cli import main
from headway.errors import ConfigError, NonFiniteError
from headway.nn.taps import ObservableAttention
from headway.presets import PRESETS
from headway.reliability.runs import TINY, TinyRun, make
from headway.runs import Run
from headway.runs import run as runs
from headway.runs.folder import read_config
from headway.runs.info import can_of, run_info
from headway.runs.seal import seal_run
from headway.serving.requests import Call
from headway.serving.schema import conforms
from headway.serving.verbs import computed
from headway.tasks.base import DataRequest, Pipeline, Task, article
from headway.tasks.capabilities import CAPABILITIES, Answers
from headway.tasks.json_calls import calls_of
from headway.tasks.registry import TASKS
from headway.tasks.training_task import LOWEST_LOSS
from headway.training.best import criterion_of
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG, read_log
from tests.interop.runs import write_run
from tests.models import tiny as tiny_models
from tests.pages import payload_of
from tests.tasks.tiny_runs import make_in_two_sittings

ROOT = Path(__file__).parents[2]
BUILT_IN = tuple(TASKS.homes)
IMPORTED = tuple(name for name in BUILT_IN if name in TINY and TINY[name].preset is None)
TRAINED = tuple(name for name in BUILT_IN if name not in IMPORTED)
OTHERS = ("evaluate", "look", "verify", "export")  # commands that are methods of a pipeline, not capabilities
VERBS = (*(each.verb for each in CAPABILITIES), *OTHERS)

LOSS = ("loss", "perplexity", "tokens")
POSITIONS = ("forced_accuracy", "free_accuracy", "mean_divergence")
ACCURACY = (
    "accuracy", "accuracy_low", "accuracy_high", "loss", "classes", "accuracy_by_class", "last_accuracy", "last_step",
)  # fmt: skip
NUMBERS = ("rmse", "mae", "r2")
HORIZON = tuple(f"{name}_{k}" for name in ("error", "repeat_error") for k in range(1, 11))

# The keys of `evaluate --json` beside `split` and `steps`, in any order.
KEYS: dict[str, tuple[str, ...]] = {
    "language": (
        *LOSS, "bits_per_byte", "sliding_loss", "sliding_perplexity", "sliding_bits_per_byte", "sliding_stride",
        *POSITIONS,
    ),
    "chat": (*LOSS, "exact_match", "answers", "conversations", "cut", "left_out"),
    "masked": (*LOSS, "next_sentence_accuracy", "unigram_entropy", "samples"),
    "translation": (
        *LOSS, "bleu", "bleu_signature", "bleu_low", "bleu_high", "bleu_tokenized_lower", "chrf", "exact_match",
        "length_ratio", "sentences", *POSITIONS,
    ),
    "classification": (*ACCURACY, "images"),
    "text-classification": (*ACCURACY, "texts", "macro_f1", "micro_f1", "matthews", "ece"),
    "tagging": (
        "accuracy", "accuracy_low", "accuracy_high", "sentence_accuracy", "loss", "words", "sentences",
        "accuracy_by_tag", "precision", "recall", "f1", "entities", "f1_by_type", "best_accuracy",
    ),
    "question-answering": (
        "exact_match", "f1", "loss", "questions", "windows", "answerable", "answerable_exact_match", "answerable_f1",
        "unanswerable", "unanswerable_exact_match", "unanswerable_f1", "threshold",
    ),
    "multiple-choice": ("accuracy", "accuracy_low", "accuracy_high", "loss", "questions", "chance"),
    "vectors": (*ACCURACY, "sets", *NUMBERS, "elements"),
    "captioning": (*LOSS, "bleu4", "cider", "exact_match", "sentences"),
    "transcription": (
        *LOSS, "wer", "cer", "exact_match", "hits", "substitutions", "deletions", "insertions", "sounds",
    ),
    "embedding": (
        "loss", "recall_at_1", "recall_at_5", "mrr", "alignment", "uniformity", "pairs", "candidates",
        "pearson", "spearman",
    ),
    "pose": (
        "oks_ap", "oks_ap50", "oks_ap75", "oks_ap_medium", "oks_ap_large", "oks_ar", "mean_oks", "people", "loss",
    ),
    "detection": (
        "ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large", "ar1", "ar10", "ar100", "ar_small", "ar_medium",
        "ar_large", "images", "objects", "ap_by_class", "loss",
    ),
    "world": (
        "loss", "mean_return", "return_error", "episodes", "imagined_return", "environment_steps",
        "end_calibration_error", "reward_calibration_error", "table_distance", "table_pairs", *HORIZON,
        "imagined_less_real", "imagined_less_real_within", "imagined_data_error", "familiar_steps", "limited_by",
        "regret", "regret_of_time",
        "regret_of_exploration", "regret_of_model", "regret_of_policy", "regret_in_model", "exact_return",
        "exact_optimum", "pairs", "pairs_visited", "fewest_visits",
    ),
    "deciding": (
        "loss", "perplexity", "environment_steps", "mean_return", "return_error", "episodes", "logged_return",
        "rank_correlation", "asked", "got", "got_low", "got_high",
    ),
}  # fmt: skip
# Keys that only some runs of a task have: the tiny one may lack them, the documentation has them.
SOMETIMES = {
    "translation": {"rouge1", "rouge2", "rougeL", "rougeLsum"},
    "world": {*HORIZON, "table_distance_worst"},
    "text-classification": {  # of several labels, of numbers
        "exact_match", "threshold", "f1_by_class", "last_micro_f1", "pearson", "spearman", "rmse", "mae", "last_rmse",
        "naive_bayes_accuracy", "commonest_class_accuracy",  # of one class, on the run's own data
    },
    "tagging": {"best_accuracy"},
    "question-answering": {
        *(f"{some}answerable{key}" for some in ("", "un") for key in ("", "_exact_match", "_f1")), "threshold",
    },
    "vectors": {*NUMBERS, "elements"},
    "embedding": {"pearson", "spearman"},  # of pairs with scores
}  # fmt: skip
# The sections of docs/commands.md, "What `evaluate` reports", that are about a task.
SECTIONS = {
    "language": ("language", "translation and language"),
    "chat": ("chat",),
    "masked": ("masked",),
    "translation": ("translation", "translation and language"),
    "classification": ("images",),
    "text-classification": ("texts with classes",),
    "tagging": ("tags",),
    "question-answering": ("questions",),
    "multiple-choice": ("multiple choice",),
    "vectors": ("vectors",),
    "captioning": ("captions",),
    "transcription": ("transcripts",),
    "embedding": ("pairs of texts",),
    "pose": ("pose",),
    "detection": ("objects",),
    "world": ("world",),
    "deciding": ("deciding",),
}


@dataclass(frozen=True)
class Made:
    """The tiny run of a task, loaded."""

    task: type[Task]
    tiny: TinyRun
    folder: Path
    run: Run
    file: str | None  # what the commands of a task that reads files are given

    @property
    def can(self) -> tuple[str, ...]:
        return self.task.pipeline_class().can()

    def given(self, verb: str) -> str:
        """The input of a command."""
        return self.file or self.tiny.inputs.get(verb, "0")

    def refusal(self, verb: str) -> str:
        """The one sentence for a command that the run does not support, with the reason where the task gives one."""
        why = self.task.pipeline_class().no_export if verb == "export" else ""
        can = ", ".join(self.can)
        return f"{self.folder} is {article(self.task.title)}: it cannot {verb}; it can {can}{why and f' ({why})'}"


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Two threads would add in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return tmp_path_factory.mktemp("contract")


@pytest.fixture(scope="module", params=BUILT_IN)
def made(request, desk):
    """The run of a task, made once for all the tests of it."""
    name = request.param
    if name not in TINY:
        pytest.fail(f"task {name!r} is registered, and has no tiny run in headway.reliability.runs")
    tiny = TINY[name]
    if tiny.needs is not None:
        pytest.importorskip(tiny.needs)
    with tiny.short():
        folder = make(tiny, desk / name, desk / "cache")
        run = headway.load(folder, device="cpu")
        yield Made(TASKS[name], tiny, folder, run, None if tiny.file is None else tiny.file(desk))


def test_every_task_has_a_tiny_run_and_no_other():
    assert sorted(TINY) == sorted(BUILT_IN)
    assert sorted(KEYS) == sorted(BUILT_IN)


# --- names ----------------------------------------------------------------------------------------------------------


def test_a_task_has_one_name(made):
    name = next(name for name in BUILT_IN if TASKS[name] is made.task)
    assert made.task.name == name
    assert yaml.safe_load((made.folder / "config.yaml").read_text())["task"]["type"] == name
    assert run_info(made.folder)["task"] == name
    assert run_info(made.folder)["task_title"] == made.task.title
    if made.tiny.preset is not None:
        assert PRESETS[made.tiny.preset].task == name


def test_presets_name_the_task_of_their_recipe():
    for preset in PRESETS.built_in.values():
        assert preset.task in BUILT_IN, preset.name
        if preset.run is not None:
            assert preset.recipe().task.name == preset.task, preset.name


def test_its_older_names_still_load(made, tmp_path):
    aliases = {old for old, new in TASKS.aliases.items() if new == made.task.name}
    assert aliases == set(made.task.aliases)
    for old in aliases:
        folder = tmp_path / old
        shutil.copytree(made.folder, folder)
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config["task"]["type"] = old
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        seal_run(folder)
        assert read_config(folder).task == made.run.task
        assert headway.load(folder, device="cpu").can() == made.can


# --- training -------------------------------------------------------------------------------------------------------


def test_its_data_is_prepared_and_read_again(made):
    if made.tiny.preset is None:
        data = made.run.config.data
        request = DataRequest(data=data, model=made.run.config.model, folder=made.folder, batch_tokens=8, seed=0)
        with pytest.raises(ConfigError, match=f"task={made.task.name} .* not trained here"):
            made.run.task.prepare(request)
        with pytest.raises(ConfigError, match="was imported and has no data of its own: pass --data SPEC"):
            made.run.data()
        return
    training = made.run.data()
    assert set(training.splits) >= {"train", "val"}
    batch = training.batch(training.order.epoch(0)[0])
    assert batch.count > 0


def test_its_best_checkpoint_is_chosen_by_a_figure_of_its_validation(made):
    if made.tiny.preset is None:
        pytest.skip("such runs are not trained")
    criterion, facts = criterion_of(made.run.data()), run_info(made.folder)
    validated = [entry for entry in read_log(made.folder / LOG) if "val_loss" in entry]
    sign = -1 if criterion.higher else 1
    best = min(validated, key=lambda entry: (sign * entry[criterion.figure], entry["val_loss"]))
    assert (facts["best_by"], facts["best_step"]) == (criterion.figure, best["step"])
    assert (facts["best_value"], facts["best_loss"]) == (best[criterion.figure], best["val_loss"])
    chosen = {} if criterion == LOWEST_LOSS else {criterion.figure: best[criterion.figure]}
    told = json.loads((made.folder / "best.json").read_text())
    assert told == {"step": best["step"], "loss": best["val_loss"], **chosen}


def test_classifiers_go_by_their_accuracy_or_f1(made):
    wanted = {
        "classification": "val_accuracy", "text-classification": "val_accuracy", "vectors": "val_accuracy",
        "multiple-choice": "val_accuracy", "tagging": "val_f1", "question-answering": "val_f1",
    }  # fmt: skip
    assert run_info(made.folder)["best_by"] in (wanted.get(made.task.name, "val_loss"), None)


def test_two_sittings_are_one(made, desk):
    if made.tiny.preset is None:
        pytest.skip("such runs are not trained")
    resumed = make_in_two_sittings(made.tiny, desk / f"{made.task.name}-resumed", desk / "cache")
    step = Checkpoints(made.folder).steps()[-1]
    assert step == made.tiny.steps
    files = [Checkpoints(folder).path(step) / "model.safetensors" for folder in (made.folder, resumed)]
    assert files[0].read_bytes() == files[1].read_bytes()


# --- calls over JSON ------------------------------------------------------------------------------------------------

WRITTEN_ELSEWHERE = {"generate", "chat", "play"}  # by /v1/completions and /v1/chat/completions; the last has no input


def called(made: Made, name: str) -> tuple[list[Any], int]:
    """What a server's engine computes of one input, as a frame has it."""
    given: Any = made.given({"trace": "translate"}.get(name, name))
    item = calls_of(made.run.pipeline)[name].item
    if "contentEncoding" in item:
        content = base64.b64encode(Path(given).read_bytes()).decode()
        given = {"name": "given", "suffix": Path(given).suffix, "data": content}
    elif item["type"] == "object":
        asked = made.run.require(Answers).asked(given)
        given = {"context": asked.context, "question": asked.question, "choices": list(asked.choices)}
        assert conforms(given, item)
    return computed(made.run.pipeline, Call("0", "", name, [given], {}))


def test_every_verb_can_be_called_over_json(made):
    offered = calls_of(made.run.pipeline)
    assert set(made.can) - {*OTHERS, *WRITTEN_ELSEWHERE} <= set(offered)
    for name in offered:
        results, tokens = called(made, name)
        assert results
        json.dumps(results, allow_nan=False)
        assert tokens > 0 or "contentEncoding" in offered[name].item or made.task.name == "translation", name
        if made.file is not None:
            assert str(Path(made.file).parent) not in json.dumps(results)


def test_a_call_gives_what_its_command_prints(made, capsys, monkeypatch):
    for name in set(calls_of(made.run.pipeline)) - {"trace", "score", "translate", "embed"}:
        (found, *_), _ = called(made, name)
        words = [name, str(made.folder), made.given(name), "--json", "--device", "cpu"]
        if name == "answer":
            words[2:3] = CALLS[name].words(made.given(name))
        code, out, err = say(words, capsys, monkeypatch)
        assert code == 0, err
        printed = json.loads(out.splitlines()[0])
        rows = next(
            (value for value in printed.values() if isinstance(value, list) and name not in ("tag", "answer")),
            [printed],
        )
        expected = json.loads(json.dumps(rows[0]).replace(str(made.file), "given")) if made.file else rows[0]
        assert found == expected, name


# --- evaluate -------------------------------------------------------------------------------------------------------


def say(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Run a command: its exit code, stdout and stderr."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    capsys.readouterr()
    code = main(words)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_evaluate_has_the_documented_keys(made, capsys, monkeypatch):
    if "evaluate" not in made.can:
        assert KEYS[made.task.name] == ()
        return
    code, out, err = say(["evaluate", str(made.folder), "--json", "--device", "cpu"], capsys, monkeypatch)
    assert code == 0, err
    values = json.loads(out)
    report = made.run.evaluate()
    assert values["split"] == report.split
    assert values["steps"] == ",".join(map(str, made.run.steps))
    assert set(report.values) == set(values) - {"split", "steps"}
    known, sometimes = set(KEYS[made.task.name]), SOMETIMES.get(made.task.name, set())
    assert known - sometimes <= set(report.values) <= known | sometimes
    assert report.sections


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_documentation_has_the_keys(name):
    assert documented(SECTIONS[name]) == {*KEYS[name], *SOMETIMES.get(name, ())}


def documented(sections: tuple[str, ...]) -> set[str]:
    """The keys that docs/commands.md has in the first columns of these sections."""
    text = (ROOT / "docs" / "commands.md").read_text().split("## What `evaluate` reports")[1].split("\n## ")[0]
    parts = dict(re.findall(r"^### ([^\n]+)\n\n(.*?)(?=\n### |\Z)", text, re.MULTILINE | re.DOTALL))
    cells = {name: re.findall(r"^\| (.*?) \| .* \|$", part, re.MULTILINE) for name, part in parts.items()}
    found = {key for name in sections for cell in cells[name] for key in re.findall(r"`(\w+)`", cell)}
    ranges = {name for name in found if re.fullmatch(r"(repeat_)?error_\d+", name)}
    spelled = {f"{name.rpartition('_')[0]}_{k}" for name in ranges for k in range(1, 11)}
    return found - ranges | spelled


def test_an_option_it_does_not_have_is_refused(made, capsys, monkeypatch):
    options = {"beam": "2", "stride": "4", "lengths": "4,8", "compare": str(made.folder)}
    if "evaluate" not in made.can:
        return
    for name in options.keys() - made.task.pipeline_class().evaluate_options:
        code, _, err = say(["evaluate", str(made.folder), f"--{name}", options[name]], capsys, monkeypatch)
        assert code == 2
        assert err.startswith(f"headway: --{name} is not supported by {article(made.task.title)} (")


# --- verbs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verb:
    """A verb as a method of Run, as words after `headway VERB RUN`, and whether both say the same."""

    call: Callable[[Run, str], Any]
    words: Callable[[str], list[str]]
    agree: Callable[[Any, str, str], bool]  # what the method gave, what the command printed, the input


CALLS: dict[str, Verb] = {
    "translate": Verb(
        lambda run, given: run.translate([given]),
        lambda given: [given],
        lambda got, out, _: "".join(f"{line}\n" for line in got) == out,
    ),
    "generate": Verb(
        lambda run, given: "".join(run.generate(given, max_tokens=5)),
        lambda given: ["--prompt", given, "--max-tokens", "5"],
        lambda got, out, given: f"{given}{got}\n" == out,
    ),
    "chat": Verb(
        lambda run, given: "".join(run.chat(given, max_tokens=5)),
        lambda given: [given, "--max-tokens", "5"],
        lambda got, out, _: f"{got}\n" == out,
    ),
    "score": Verb(
        lambda run, given: run.score(*reversed(given.split("\t"))),
        lambda given: [given],
        lambda got, out, given: f"{sum(nats for _, nats in got):.4f}\t{len(got)}\t{given}\n" == out,
    ),
    "classify": Verb(
        lambda run, given: run.classify([given]),
        lambda given: [given, "--json"],
        lambda got, out, _: got[0].top[0][0] == json.loads(out)["predictions"][0]["class"],
    ),
    "tag": Verb(
        lambda run, given: run.tag([given]),
        lambda given: [given],
        lambda got, out, _: f"{got[0]}\n" == out,
    ),
    "answer": Verb(
        lambda run, given: run.answer(*(given.split("\t")[:2] * 2)[:2], choice=given.split("\t")[2:]),
        lambda given: [*(given.split("\t")[:2] * 2)[:2], *(f"--choice={each}" for each in given.split("\t")[2:])],
        lambda got, out, _: out.startswith(f"{got.text}\t"),
    ),
    "caption": Verb(
        lambda run, given: run.caption([given]),
        lambda given: [given],
        lambda got, out, given: f"{given}\t{got[0].text}\n" == out,
    ),
    "transcribe": Verb(
        lambda run, given: run.transcribe([given]),
        lambda given: [given],
        lambda got, out, given: f"{given}\t{got[0].text}\n" == out,
    ),
    "pose": Verb(
        lambda run, given: run.pose([given]),
        lambda given: [given, "--json"],
        lambda got, out, _: got[0].keypoints.tolist() == list(json.loads(out)["poses"][0]["keypoints"].values()),
    ),
    "detect": Verb(
        lambda run, given: run.detect([given], threshold=0.0),
        lambda given: [given, "--threshold", "0", "--json"],
        lambda got, out, _: (
            got[0].boxes.tolist() == [each["box"] for each in json.loads(out)["detections"][0]["objects"]] != []
        ),
    ),
    "embed": Verb(
        lambda run, given: run.embed([given]),
        lambda given: [given, "--json"],
        lambda got, out, _: got.tolist() == json.loads(out)["vectors"],
    ),
    "play": Verb(
        lambda run, _: run.play(episodes=2),
        lambda _: ["--episodes", "2", "--json"],
        lambda got, out, _: set(got.to_json()) == set(json.loads(out)),
    ),
}


def test_every_capability_is_called_here():
    assert list(CALLS) == [each.verb for each in CAPABILITIES]


@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_works_or_is_refused_in_one_sentence(made, verb, capsys, monkeypatch):
    words = [verb, str(made.folder), *CALLS[verb].words(made.given(verb)), "--device", "cpu"]
    if verb in made.can:
        code, out, err = say(words, capsys, monkeypatch)
        assert code == 0, err
        assert CALLS[verb].agree(CALLS[verb].call(made.run, made.given(verb)), out, made.given(verb))
        return
    with pytest.raises(ConfigError) as caught:
        CALLS[verb].call(made.run, made.given(verb))
    assert str(caught.value) == made.refusal(verb)
    assert say(words, capsys, monkeypatch) == (2, "", f"headway: {made.refusal(verb)}\n")


@pytest.mark.parametrize("verb", ["translate", "classify", "tag", "caption", "transcribe", "pose", "detect", "embed"])
def test_one_input_is_a_list_of_one(made, verb):
    """`run.classify("a great film")` classified each of its characters."""
    if verb in made.can:
        given = made.given(verb)
        several, one = (getattr(made.run, verb)(each) for each in ([given], given))
        assert str(one) == str(several)


def test_info_says_what_it_can(made):
    assert tuple(run_info(made.folder)["can"]) == made.run.can() == made.can
    assert [verb for verb in VERBS if verb in made.can] == list(made.can)


# --- evaluate, look, verify, export ---------------------------------------------------------------------------------


def test_evaluate_works_or_is_refused_in_one_sentence(made, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    words = ["evaluate", str(made.folder), "--device", "cpu"]
    code, out, err = say(words, capsys, monkeypatch)
    if "evaluate" in made.can:
        assert code == 0, err
        assert made.task.title in out
    else:
        assert (code, out, err) == (2, "", f"headway: {made.refusal('evaluate')}\n")


def test_look_writes_a_page_with_its_attention(made, tmp_path, capsys, monkeypatch):
    page, given = tmp_path / "page.html", made.given("look")
    code, out, err = say(["look", str(made.folder), given, "-o", str(page), "--device", "cpu"], capsys, monkeypatch)
    if "look" not in made.can:
        assert (code, out, err) == (2, "", f"headway: {made.refusal('look')}\n")
        return
    assert code == 0, err
    found = payload_of(page)
    assert found["model"] == made.run.model.title
    assert found["sequences"]
    attention = sum(isinstance(part, ObservableAttention) for part in made.run.model.modules())
    assert len(found["attentions"]) == attention > 0
    assert page.read_text() == made.run.look(given)


def test_verify_finds_no_bug_or_is_refused_in_one_sentence(made, capsys, monkeypatch):
    words = ["verify", str(made.folder), "--json", "--device", "cpu"]
    if "verify" not in made.can:
        with pytest.raises(ConfigError, match=re.escape(made.refusal("verify"))):
            made.run.verify()
        assert say(words, capsys, monkeypatch) == (2, "", f"headway: {made.refusal('verify')}\n")
        return
    code, out, err = say(words, capsys, monkeypatch)
    assert code == 0, err
    assert json.loads(out)["verdict"] == "rounding"
    assert made.run.verify().bugs == []


def test_export_is_proved_or_is_refused_in_one_sentence(made, tmp_path, capsys, monkeypatch):
    out = tmp_path / "folder"
    words = ["export", str(made.folder), "--out", str(out)]
    if "export" not in made.can:
        with pytest.raises(ConfigError, match=re.escape(made.refusal("export"))):
            made.run.export(out)
        assert say(words, capsys, monkeypatch) == (2, "", f"headway: {made.refusal('export')}\n")
        return
    code, said, err = say(words, capsys, monkeypatch)
    assert code == 0, err
    assert said == f"{out}\n"
    assert (out / "PROOF.json").exists()
    again = made.run.export(tmp_path / "again")
    assert again.largest_difference <= again.bound


def test_a_pipeline_that_adds_nothing_can_do_nothing():
    assert Pipeline.can() == ()


def test_a_model_that_does_not_fit_a_command_of_its_task_says_why(tmp_path, capsys, monkeypatch):
    convnet = write_run(tmp_path / "convnet", tiny_models.VISION["convnet"])
    code, out, err = say(["look", str(convnet), "photo.png", "--device", "cpu"], capsys, monkeypatch)
    assert (code, out) == (2, "")
    assert err == f"headway: {convnet}: look needs attention; a Convnet has no attention layers\n"
    shifted = write_run(tmp_path / "shifted", tiny_models.VISION["vit-shifted"])
    code, out, err = say(["export", str(shifted), "--out", str(tmp_path / "folder")], capsys, monkeypatch)
    assert (code, out) == (2, "")
    assert err == (
        "headway: ViT has no equivalent of patches=Shifted(), only of Patches(); "
        "train with --model.patches patches to export\n"
    )
    assert "export" not in can_of(read_config(shifted))
    assert headway.load(shifted, device="cpu").can() == can_of(read_config(shifted))
    assert {"export", "look"}.isdisjoint(can_of(read_config(convnet)))
    code, out, err = say(["export", str(convnet), "--out", str(tmp_path / "folder")], capsys, monkeypatch)
    assert (code, out) == (2, "")
    assert "has no equivalent in Hugging Face's transformers" in err
    assert len(err) < 220


# --- NaN in the weights ---------------------------------------------------------------------------------------------


def test_a_model_with_nan_weights_ends_every_command_with_exit_code_6(made, tmp_path, capsys, monkeypatch):
    """D2: it printed an empty line, a class or a pose, with exit code 0."""
    real = runs.load_model

    def load_model(*arguments, **more):
        model, steps = real(*arguments, **more)
        with torch.no_grad():
            for weight in model.parameters():
                weight.view(-1)[0] = math.nan
        return model, steps

    monkeypatch.setattr(runs, "load_model", load_model)
    words = {"evaluate": [], "verify": [], "look": [made.given("look"), "-o", str(tmp_path / "page.html")]}
    words["export"] = ["--out", str(tmp_path / "folder")]
    for verb in made.can:
        given = CALLS[verb].words(made.given(verb)) if verb in CALLS else words[verb]
        code, out, err = say([verb, str(made.folder), *given], capsys, monkeypatch)
        assert code == 6, f"{verb}: {out}{err}"
        assert err.startswith("headway: ")
        assert "NaN or infinite" in err
        assert err.count("\n") == 1, err
        assert not out.strip() or verb == "generate"  # which shows the prompt first
    assert not list(tmp_path.iterdir())


@torch.no_grad()
def test_one_nan_weight_is_an_error_or_without_effect(made):
    """Whichever weight it is in, the answer is that of the clean model, or an error."""
    verbs = [verb for verb in made.can if verb in CALLS and verb != "play"]
    clean = {verb: repr(CALLS[verb].call(made.run, made.given(verb))) for verb in verbs}
    noticed = 0
    for name, weight in made.run.model.named_parameters():
        own = weight.view(-1)[0].clone()
        weight.view(-1)[0] = math.nan
        for verb in verbs:
            try:
                found = repr(CALLS[verb].call(made.run, made.given(verb)))
            except NonFiniteError:
                noticed += 1
            else:
                assert found == clean[verb], f"{name}: {verb}"
        weight.view(-1)[0] = own
    assert noticed > len(verbs) or not verbs
    assert {verb: repr(CALLS[verb].call(made.run, made.given(verb))) for verb in verbs} == clean
