"""Question answering: windows, spans and their scores, no answer, and what the command says."""

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from headway.cli import main
from headway.data.config import DataConfig
from headway.data.questions import Question
from headway.data.tokenizers import Bpe, ByteBpe, Characters, Tokenizer, Unigram, Word
from headway.errors import ConfigError, DataError
from headway.models import BertConfig, TokenClassifierConfig, build_model
from headway.reliability.runs import TINY, make
from headway.tasks.question_answering import QuestionAnswering
from headway.tasks.question_answering.data import ANSWER, NO_ANSWER
from headway.tasks.question_answering.spans import rank_spans
from headway.tasks.question_answering.training import span_loss
from headway.tasks.question_answering.windows import NOWHERE, ContextWindow, WindowReader
from headway.tasks.tagging import Tagging
from headway.tasks.training_task import Batch
from tests.pipelines import pipeline_of, prepared

CONTEXT = "John, the artist who met  Anna in Vienna, is visiting New York. Mary is in Oslo."
ASKED = Question("q", "where is John?", CONTEXT, ("New York",), (CONTEXT.index("New York"),))
KINDS = (Word(), Bpe(vocab=60, fit=True), ByteBpe(vocab=300, fit=True), Unigram(vocab=60, fit=True), Characters())
SMALL = QuestionAnswering(length=40, stride=5, question=12, answer=6)
MODEL = TokenClassifierConfig(
    encoder=BertConfig(vocab=300, context=64, width=16, layers=1, heads=2, inner=16, pooler=False), classes=2
)


def reader(kind=None, task: QuestionAnswering = SMALL) -> WindowReader:
    kind = kind or Bpe(vocab=60, fit=True)
    return WindowReader(Tokenizer.train(kind, [CONTEXT, ASKED.question] * 3), task, segments=True)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_the_target_of_a_window_is_the_answer(kind):
    windows = list(reader(kind).windows(0, ASKED))
    with_answer = [window for window in windows if window.target != NOWHERE]
    assert with_answer
    for window in with_answer:
        first, last = (place - window.first for place in window.target)
        found = CONTEXT[window.spans[first][0] : window.spans[last][1]]
        assert found.strip(".") == "New York"  # a word of white space has its full stop


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_windows_begin_every_stride_and_cover_the_context(kind):
    made = reader(kind)
    windows = list(made.windows(0, ASKED))
    _, spans = made.tokenizer.encode_spans(CONTEXT)
    assert len(windows) > 1 or isinstance(kind, Word)
    for number, window in enumerate(windows):
        assert len(window.ids) <= SMALL.length
        start = number * SMALL.stride
        assert list(window.spans) == spans[start : start + len(window.spans)]
    assert windows[-1].spans[-1] == spans[-1]


def test_segments_tell_question_and_context_apart():
    made = reader()
    windows = list(made.windows(0, ASKED))[:2]
    tokens, lengths, segments = made.inputs(windows)
    assert tokens.shape == segments.shape
    for row, window in enumerate(windows):
        assert segments[row, : lengths[row]].tolist() == [0] * window.first + [1] * (len(window.spans) + 1)
    assert WindowReader(made.tokenizer, SMALL, segments=False).inputs(windows)[2] is None


def brute_force(window: ContextWindow, logits: torch.Tensor, longest: int) -> list[tuple[float, int, int]]:
    spans = []
    for first, last in itertools.combinations_with_replacement(range(len(window.spans)), 2):
        if last - first < longest:
            score = float(logits[window.first + first, 0] + logits[window.first + last, 1])
            spans.append((score, window.spans[first][0], window.spans[last][1]))
    return sorted(spans, reverse=True)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("longest", [1, 3, 50])
def test_ranked_spans_are_those_of_trying_all(seed, longest):
    (window,) = reader(Word(), QuestionAnswering(length=64, question=16)).windows(0, ASKED)
    logits = torch.randn(len(window.ids), 2, generator=torch.Generator().manual_seed(seed))
    ranked = rank_spans(CONTEXT, [(window, logits)], top=8, longest=longest)
    expected = brute_force(window, logits, longest)[:8]
    assert [(each.start, each.stop) for each in ranked.spans] == [(start, stop) for _, start, stop in expected]
    assert [each.score for each in ranked.spans] == pytest.approx([score for score, _, _ in expected], abs=1e-5)
    assert all(CONTEXT[each.start : each.stop] == each.text for each in ranked.spans)
    assert ranked.nothing == pytest.approx(float(logits[0].sum()), abs=1e-6)
    shares = logits.softmax(0)
    best = brute_force(window, logits, longest)[0]
    at = [window.first + n for n, span in enumerate(window.spans) if span[0] == best[1]]
    to = [window.first + n for n, span in enumerate(window.spans) if span[1] == best[2]]
    assert ranked.spans[0].probability == pytest.approx(float(shares[at[0], 0] * shares[to[-1], 1]), rel=1e-4)


def test_a_span_of_several_windows_counts_once_with_its_best_score():
    windows = list(reader().windows(0, ASKED))
    generator = torch.Generator().manual_seed(0)
    scored = [(window, torch.randn(len(window.ids), 2, generator=generator)) for window in windows]
    ranked = rank_spans(CONTEXT, scored, top=200, longest=4)
    places = [(each.start, each.stop) for each in ranked.spans]
    assert len(places) == len(set(places))
    every = [entry for window, logits in scored for entry in brute_force(window, logits, 4)]
    for each in ranked.spans[:20]:
        assert each.score == pytest.approx(max(s for s, a, b in every if (a, b) == (each.start, each.stop)), abs=1e-5)
    assert ranked.nothing == pytest.approx(min(float(logits[0].sum()) for _, logits in scored), abs=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_of_both_cross_entropies_and_padding_changes_nothing(smoothing):
    logits = torch.randn(3, 9, 2, generator=torch.Generator().manual_seed(0))
    lengths, targets = torch.tensor([9, 5, 7]), torch.tensor([[2, 4], [0, 0], [6, 6]])
    found = span_loss(logits, Batch((torch.zeros(3, 9), lengths), targets, 3), smoothing)
    expected = sum(
        F.cross_entropy(logits[row, :length, side][None], targets[row, side][None], label_smoothing=smoothing)
        for row, length in enumerate(lengths.tolist())
        for side in range(2)
    )
    torch.testing.assert_close(found, expected / 2)


def write_squad(folder, *, impossible: bool):
    paragraphs = []
    for n in range(12):
        context = f"horse {n} sleeps in the garden , and cow {n} does not ."
        start = context.index("the garden")
        asked = [{"id": f"a{n}", "question": "where ?", "answers": [{"text": "the garden", "answer_start": start}]}]
        if impossible:
            asked.append({"id": f"b{n}", "question": "who sings ?", "answers": [], "is_impossible": True})
        paragraphs.append({"context": context, "qas": asked})
    (folder / "a.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return DataConfig(spec=str(folder / "a.json"), tokenizer=Word())


@pytest.mark.parametrize("impossible", [False, True])
def test_questions_without_an_answer_are_a_class_and_get_a_threshold(tmp_path, impossible):
    made = prepared(SMALL, write_squad(tmp_path, impossible=impossible), MODEL)
    assert made.classes == ((ANSWER, NO_ANSWER) if impossible else (ANSWER,))
    report = made.training.evaluate(build_model(MODEL, seed=1).eval(), torch.device("cpu"), "train")
    values = report.to_json()
    assert ("threshold" in values) == ("unanswerable_f1" in values) == impossible
    assert values["questions"] == (22 if impossible else 11)
    batch = made.training.batch(np.asarray([0, 1]))
    assert batch.targets.shape == (2, 2)
    if impossible:
        assert batch.targets[1].tolist() == [0, 0]


def answerer(*, may_lack: bool = False, seed: int = 3):
    tokenizer = reader().tokenizer
    classes = (ANSWER, NO_ANSWER) if may_lack else (ANSWER,)
    return pipeline_of(SMALL, build_model(MODEL, seed=seed), tokenizer, config=MODEL, classes=classes)


def test_an_answer_is_the_same_alone_and_among_others():
    pipeline = answerer()
    pairs = [(CONTEXT, "where is John?"), ("Mary is in Oslo.", "who?"), (CONTEXT * 3, "where is Mary?")]
    together = pipeline.answer(pairs, top=3)
    for pair, found in zip(pairs, together, strict=True):
        alone = pipeline.answer([pair], top=3)[0]
        assert [each.text for each in alone.answers] == [each.text for each in found.answers]
        assert [each.score for each in alone.answers] == pytest.approx([each.score for each in found.answers], abs=1e-4)
        assert all(pair[0][each.start : each.stop] == each.text for each in found.answers)


def test_no_answer_is_given_above_the_threshold():
    pipeline = answerer(may_lack=True)
    found = pipeline.answer([(CONTEXT, "where?")])[0]
    assert found.threshold == 0.0
    assert bool(found.answers) == (found.gap <= 0)
    for threshold in (found.gap - 1, found.gap + 1):
        assert bool(pipeline.answer([(CONTEXT, "where?")], threshold=threshold)[0].answers) == (threshold > found.gap)
    with pytest.raises(ConfigError, match="whose training questions all have an answer"):
        answerer().answer([(CONTEXT, "where?")], threshold=0.0)


@pytest.mark.parametrize(("context", "question", "told"), [("", "why?", "context"), ("a", " ", "question")])
def test_an_empty_text_is_told(context, question, told):
    with pytest.raises(DataError, match=f"an empty {told}"):
        answerer().answer([(context, question)])


def test_settings_that_do_not_fit_are_told():
    with pytest.raises(ConfigError, match=r"task\.length=20 with task.question=64, allowed: at least 68"):
        QuestionAnswering(length=20)
    with pytest.raises(ConfigError, match=r"task\.stride=0"):
        QuestionAnswering(stride=0)
    with pytest.raises(ConfigError, match=r"model\.classes=3, allowed for a question answerer: 2"):
        SMALL.check_model(TokenClassifierConfig(encoder=MODEL.encoder, classes=3))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    desk = tmp_path_factory.mktemp("answerer")
    with TINY["question-answering"].short():
        return make(TINY["question-answering"], desk / "run", desk / "cache")


@pytest.mark.parametrize("form", ["arguments", "file", "stdin", "lines", "tabs"])
def test_the_command_reads_a_context_in_every_form(run, form, tmp_path, capsys, monkeypatch):
    context, question = "John is visiting Rome .", "where is John visiting ?"
    (tmp_path / "context.txt").write_text(context)
    words, given = {
        "arguments": ([context, question], ""),
        "file": ([f"@{tmp_path / 'context.txt'}", question], ""),
        "stdin": (["-", question], context),
        "lines": ([], json.dumps({"context": context, "question": question}) + "\n\n"),
        "tabs": ([], f"{context}\t{question}\n"),
    }[form]
    monkeypatch.setattr("sys.stdin", io.StringIO(given))
    assert main(["answer", str(run), *words, "--top", "2", "--json", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["question"] == question
    assert len(found["answers"]) == 2
    for each in found["answers"]:
        assert context[each["start"] : each["stop"]] == each["text"]
    assert found["answer"] == found["answers"][0]["text"]


@pytest.mark.parametrize(
    ("words", "given", "code", "told"),
    [
        (["a context"], "", 2, "a context without a question"),
        (["@none.txt", "why ?"], "", 3, "none.txt: no such file"),
        ([], "no tab\n", 3, "stdin: line 1: expected a JSON object, or a context, a tab and a question"),
        ([], '{"context": "a"}\n', 3, "stdin: line 1: None as question, expected a string"),
        ([], "{\n", 3, "stdin: line 1: not JSON"),
        (["a", "why ?", "--threshold", "1"], "", 2, "whose training questions all have an answer"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(run, words, given, code, told, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(given))
    assert main(["answer", str(run), *words, "--device", "cpu"]) == code
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_an_input_that_is_longer_than_the_model_is_refused():
    with pytest.raises(ConfigError, match=r"task.length=384, allowed: up to 64, the positions of the model"):
        QuestionAnswering().check_model(MODEL)
    with pytest.raises(ConfigError, match=r"task.length=65, allowed: up to 64"):
        Tagging(length=65).check_model(MODEL)
    Tagging(length=64).check_model(MODEL)


@pytest.fixture(scope="module")
def unsure(tmp_path_factory):
    """A run on questions of which half have no answer: steps 2 and 4 are validated, 3 is only saved."""
    from headway.runs.config import RunConfig
    from headway.runs.train import train_run
    from headway.training.config import TrainConfig

    desk = tmp_path_factory.mktemp("unsure")
    train = TrainConfig(
        steps=4, batch_tokens=200, evaluate_every=2, save_every=1, keep=9, keep_optimiser=True, device="cpu"
    )
    data = write_squad(desk, impossible=True)
    train_run(RunConfig(task=SMALL, data=data, model=MODEL, train=train), desk / "run")
    return desk / "run"


def kept(run, step: int) -> dict[str, float]:
    return json.loads((run / f"checkpoints/step-{step:08d}/trainer.json").read_text()).get("tuned", {})


def test_the_threshold_that_validation_finds_is_kept_and_used(unsure, capsys):
    import headway

    assert kept(unsure, 1) == {}
    assert kept(unsure, 2) == kept(unsure, 3) != {}
    run = headway.load(unsure, device="cpu")
    training = run.pipeline.read()
    ranked, _ = training.ranked(run.model, run.device, "val")
    assert run.pipeline.threshold == training.tuned(ranked) == kept(unsure, run.steps[0])["threshold"]
    assert run.answer("a cow", "where ?").threshold == run.pipeline.threshold
    assert run.answer("a cow", "where ?", threshold=7.5).threshold == 7.5
    for split in ("train", "val"):
        assert run.evaluate(split=split).values["threshold"] == run.pipeline.threshold
    other = run.evaluate(str(unsure.parent / "a.json"))  # has no val split, which used to mean 0
    assert other.values["threshold"] == run.pipeline.threshold
    assert main(["info", str(unsure)]) == 0
    assert f"tuned on val     threshold {run.pipeline.threshold:.4g}\n" in capsys.readouterr().out


def test_a_resumed_run_keeps_the_threshold_of_its_last_validation(unsure, tmp_path):
    import shutil

    from headway.runs import read_config
    from headway.runs.train import train_run

    half = tmp_path / "run"
    shutil.copytree(unsure, half)
    shutil.rmtree(half / "checkpoints/step-00000004")
    shutil.rmtree(half / "checkpoints/step-00000003")
    train_run(read_config(unsure), half, resume=True)
    assert [kept(half, step) for step in (3, 4)] == [kept(unsure, step) for step in (3, 4)]


def test_a_threshold_whose_file_is_damaged_is_told_and_not_used(unsure, tmp_path):
    import shutil

    from headway.training.checkpoints import Checkpoints

    run, notes = tmp_path / "run", []
    shutil.copytree(unsure, run)
    facts = run / "checkpoints/step-00000004/trainer.json"
    facts.write_text(facts.read_text().replace('"stale": 0', '"stale": 1'))
    assert Checkpoints(run, notes.append).tuned([3, 4]) == {}
    assert len(notes) == 1
    assert "what was tuned on validation data is not known" in notes[0]
    assert Checkpoints(run, notes.append).tuned([2, 3]) == kept(unsure, 3)


@pytest.mark.parametrize("damage", ["older", "damaged"])
def test_a_run_without_a_threshold_answers_as_with_0(unsure, tmp_path, damage, recwarn):
    import shutil

    import headway
    from headway.storage.manifest import Manifest, fingerprint, read_manifest

    run = tmp_path / "run"
    shutil.copytree(unsure, run)
    for step in range(1, 5):
        facts = run / f"checkpoints/step-{step:08d}/trainer.json"
        changed = {key: value for key, value in json.loads(facts.read_text()).items() if key != "tuned"}
        if damage == "damaged":
            changed["tuned"] = {"threshold": "high"}
        facts.write_text(json.dumps(changed))
        found = read_manifest(facts.parent)
        files = {**found.files, facts.name: fingerprint(facts)}
        (facts.parent / "MANIFEST.json").write_text(Manifest(files, found.facts).text())
    loaded = headway.load(run, device="cpu")
    assert loaded.pipeline.threshold is None
    assert loaded.answer("a cow", "where ?").threshold == 0.0
    told = [str(each.message) for each in recwarn if "tuned" in str(each.message)]
    assert len(told) == (damage == "damaged")
    training = loaded.pipeline.read()
    expected = training.tuned(training.ranked(loaded.model, loaded.device, "val")[0])
    assert loaded.evaluate(split="val").values["threshold"] == expected


@pytest.mark.slow  # 1,200 steps, two minutes of one core
def test_the_preset_learns_which_clause_belongs_to_whom(tmp_path):
    import headway
    from headway.config import override
    from headway.presets import preset
    from headway.runs.train import train_run

    train_run(override(preset("bert-reader").recipe(), {"train.seed": 0, "train.device": "cpu"}), tmp_path / "run")
    run = headway.load(tmp_path / "run", device="cpu")
    values = run.evaluate(split="test").values
    assert values["questions"] == 1000
    assert values["exact_match"] >= 0.95
    context = "John , the artist whose sister Anna from Rome is visiting Vienna , is visiting New York this summer ."
    for person, city in (("John", "New York"), ("Anna", "Vienna")):
        assert run.answer(context, f"where is {person} visiting ?").answers[0].text == city
        assert run.answer(context, f"who is visiting {city} ?").answers[0].text == person
