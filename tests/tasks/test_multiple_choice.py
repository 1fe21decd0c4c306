"""Multiple choice: rows, loss and scores, what a batch must not change, fine-tuning, and what the command says."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from headway.cli import main
from headway.data.choices import ChoiceQuestion
from headway.data.config import DataConfig
from headway.data.tokenizers import Tokenizer, Word
from headway.errors import ConfigError, DataError
from headway.metrics.classification import wilson_interval
from headway.models import BertConfig, TextClassifierConfig, build_model
from headway.reliability.runs import TINY, make
from headway.tasks.answers import AskedQuestion
from headway.tasks.multiple_choice import MultipleChoice
from headway.tasks.multiple_choice.inputs import ChoiceReader
from headway.tasks.multiple_choice.training import choice_loss
from headway.tasks.question_answering import QuestionAnswering
from tests.pipelines import pipeline_of, prepared

CONTEXT, QUESTION = "John is visiting Rome , Anna is in Oslo .", "where is Anna ?"
CHOICES = ("Rome", "Oslo", "New York")
TASK = MultipleChoice(length=24)
MODEL = TextClassifierConfig(
    encoder=BertConfig(vocab=30, context=24, width=16, layers=1, heads=2, inner=16, pooler=True), classes=1
)


def tokenizer() -> Tokenizer:
    return Tokenizer.train(Word(), [CONTEXT, QUESTION, "New York"])


def spelled(asked: ChoiceQuestion, **settings) -> list[tuple[str, list[int]]]:
    made = tokenizer()
    reader = ChoiceReader(made, MultipleChoice(**{"length": 24, **settings}), segments=True)
    return [(" ".join(made.token(n) for n in row.ids), row.segments) for row in reader.rows(asked)]


def test_a_row_is_the_context_then_the_question_with_a_choice():
    rows = spelled(ChoiceQuestion("", CONTEXT, QUESTION, CHOICES, 0))
    assert [text for text, _ in rows] == [f"<s> {CONTEXT} </s> {QUESTION} {choice} </s>" for choice in CHOICES]
    assert rows[0][1] == [0] * 12 + [1] * 6


def test_an_empty_context_or_question_is_left_out():
    assert spelled(ChoiceQuestion("", CONTEXT, "", CHOICES, 0))[1][0] == f"<s> {CONTEXT} </s> Oslo </s>"
    assert spelled(ChoiceQuestion("", "", QUESTION, CHOICES, 0))[1][0] == f"<s> {QUESTION} </s> Oslo </s>"


def test_a_long_context_is_cut_and_then_the_question_but_never_the_choice():
    (text, _), *_ = spelled(ChoiceQuestion("", CONTEXT, QUESTION, CHOICES, 0), length=7)
    assert text == "<s> John </s> Anna ? Rome </s>"
    (text, _), *_ = spelled(ChoiceQuestion("", CONTEXT, QUESTION, CHOICES, 0), length=12)
    assert text == f"<s> John is visiting Rome </s> {QUESTION} Rome </s>"


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_of_each_question_alone(smoothing):
    scores = torch.randn(9, 1, generator=torch.Generator().manual_seed(0), requires_grad=True)
    counts, right = [2, 4, 3], [1, 3, 0]
    found = choice_loss(scores, torch.tensor([counts, right]).T, smoothing)
    parts = scores[:, 0].split(counts)
    expected = sum(
        F.cross_entropy(part[None], torch.tensor([n]), label_smoothing=smoothing)
        for part, n in zip(parts, right, strict=True)
    )
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found, scores)
    assert gradient.isfinite().all()


def chooser(seed: int = 3):
    return pipeline_of(TASK, build_model(MODEL, seed=seed), tokenizer(), config=MODEL)


def test_an_answer_is_the_same_alone_among_others_and_in_another_order():
    pipeline = chooser()
    asked = [
        AskedQuestion(CONTEXT, QUESTION, CHOICES),
        AskedQuestion("Anna is in Rome", "", ("John", "Anna")),
        AskedQuestion("", QUESTION, (*CHOICES, "Rome , Oslo")),
    ] * 5
    together = pipeline.answer(asked, top=9)
    for each, found in zip(asked, together, strict=True):
        alone = pipeline.answer([each], top=9)[0]
        turned = pipeline.answer([each._replace(choices=each.choices[::-1])], top=9)[0]
        assert sum(one.probability for one in found.answers) == pytest.approx(1, abs=1e-5)
        assert [one.text for one in alone.answers] == [one.text for one in turned.answers]
        assert [each.choices[one.choice] for one in found.answers] == [one.text for one in found.answers]
        for other in (alone, turned):
            expected = {one.text: one.score for one in other.answers}
            assert {one.text: one.score for one in found.answers} == pytest.approx(expected, abs=1e-5)


def write(path, count: int = 24):
    animals = ["cow", "goat"]
    rows = [
        {"context": f"horse {n % 5} sleeps", "question": "who ?", "choices": [f"horse {n % 5}", *animals[: 1 + n % 2]]}
        for n in range(count)
    ]
    rows = [{**row, "answer": 0} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return DataConfig(spec=str(path), tokenizer=Word())


def test_the_figures_are_those_of_asking_one_by_one(tmp_path):
    data = write(tmp_path / "a.jsonl")
    made = prepared(TASK, data, MODEL, batch_tokens=60)
    model = build_model(MODEL, seed=1).eval()
    report = made.training.evaluate(model, torch.device("cpu"), "train")
    pipeline = pipeline_of(TASK, model, dict(made.tokenizers), config=MODEL)
    questions = made.training.splits["train"]
    said = pipeline.answer([AskedQuestion(*each[1:4]) for each in questions], top=3)
    right = sum(found.answers[0].choice == each.right for found, each in zip(said, questions, strict=True))
    values = report.to_json()
    assert values["accuracy"] == right / len(questions)
    assert (values["accuracy_low"], values["accuracy_high"]) == wilson_interval(right, len(questions))
    assert values["chance"] == pytest.approx(np.mean([1 / len(each.choices) for each in questions]))
    shares = [next(one.probability for one in found.answers if one.choice == 0) for found in said]
    assert values["loss"] == pytest.approx(-np.log(shares).mean(), abs=1e-5)


def test_the_choices_of_a_question_are_in_one_batch(tmp_path):
    made = prepared(TASK, write(tmp_path / "a.jsonl"), MODEL, batch_tokens=60)
    seen = []
    for indices in made.training.order.epoch(0):
        batch = made.training.batch(indices)
        assert len(batch.inputs[0]) == batch.targets[:, 0].sum()
        assert batch.inputs[0].numel() <= 60
        seen += indices.tolist()
    assert sorted(seen) == list(range(len(made.training.splits["train"])))


def test_a_model_of_other_outputs_is_refused_and_fine_tuning_gives_one():
    with pytest.raises(ConfigError, match=r"model\.classes=3, allowed for a multiple-choice answerer: 1"):
        TASK.check_model(TextClassifierConfig(encoder=MODEL.encoder, classes=3))
    with pytest.raises(ConfigError, match=r"task\.length=25, allowed: up to 24"):
        MultipleChoice(length=25).check_model(MODEL)
    source = TextClassifierConfig(encoder=MODEL.encoder, classes=4)
    task, model = MultipleChoice(length=99).finetuned(MODEL, TASK, source, "runs/other")
    assert (task.length, model.classes) == (24, 1)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (AskedQuestion("", " ", CHOICES), "neither a context nor a question"),
        (AskedQuestion("a", "b", ("", "Oslo")), "an empty choice"),
    ],
)
def test_an_empty_text_is_told(asked, told):
    with pytest.raises(DataError, match=told):
        chooser().answer([asked])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    desk = tmp_path_factory.mktemp("chooser")
    with TINY["multiple-choice"].short():
        return make(TINY["multiple-choice"], desk / "run", desk / "cache")


@pytest.mark.parametrize("form", ["arguments", "no question", "file", "lines", "tabs"])
def test_the_command_reads_choices_in_every_form(run, form, tmp_path, capsys, monkeypatch):
    context, question = "the dog left the apple because it was too sour", "what is it ?"
    (tmp_path / "context.txt").write_text(context)
    choices = ["--choice", "the dog", "--choice", "the apple"]
    row = {"context": context, "question": question, "choices": ["the dog", "the apple"]}
    words, given = {
        "arguments": ([context, question, *choices], ""),
        "no question": ([context, *choices], ""),
        "file": ([f"@{tmp_path / 'context.txt'}", question, *choices], ""),
        "lines": ([], json.dumps(row) + "\n\n"),
        "tabs": ([], f"{context}\t{question}\tthe dog\tthe apple\n"),
    }[form]
    monkeypatch.setattr("sys.stdin", io.StringIO(given))
    assert main(["answer", str(run), *words, "--top", "2", "--json", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["question"] == (context if form == "no question" else question)
    assert {(each["text"], each["choice"]) for each in found["answers"]} == {("the dog", 0), ("the apple", 1)}
    assert sum(each["probability"] for each in found["answers"]) == pytest.approx(1, abs=1e-5)
    assert found["answer"] == found["answers"][0]["text"]
    assert found.keys() == {"question", "answer", "answers"}


@pytest.mark.parametrize(
    ("words", "given", "code", "told"),
    [
        (["a", "why ?"], "", 2, "0 choices, allowed: 2 to 26; give --choice for each of them"),
        (["a", "why ?", "--choice", "b"], "", 2, "1 choice, allowed: 2 to 26"),
        (
            ["a", "why ?", "--choice", "b", "--choice", "b"],
            "",
            3,
            "the choice 'b' is there twice, expected different ones",
        ),
        (["a", "why ?", "--choice", "b", "--choice", "c", "--threshold", "1"], "", 2, "always answers with a choice"),
        (["--choice", "b"], "", 2, "--choice without a context"),
        (
            [],
            "a\tb\tc\n",
            3,
            "stdin: line 1: expected a JSON object, or a context, a question and at least two choices",
        ),
        ([], '{"question": "a", "choices": "bc"}\n', 3, "stdin: line 1: 'bc' as choices, expected a list of strings"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(run, words, given, code, told, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(given))
    assert main(["answer", str(run), *words, "--device", "cpu"]) == code
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_reader_of_spans_has_no_use_for_choices(capsys, tmp_path):
    from tests.tasks.test_question_answering import answerer

    assert answerer().config == QuestionAnswering(length=40, stride=5, question=12, answer=6)
    with pytest.raises(ConfigError, match="answers with a part of the context: leave them out"):
        answerer().answer([AskedQuestion("a b", "c", ("a", "b"))])


def test_questions_of_ones_own_are_recognised(tmp_path):
    from headway.tasks.proposal import recognise

    found = recognise(write(tmp_path / "a.jsonl").spec)
    assert (found.preset, found.found) == ("bert-choice", "multiple-choice questions")
    (tmp_path / "b.csv").write_text("context,question,choice1,choice2,label\n" + "a b,who ?,x,y,0\n" * 4)
    assert recognise(str(tmp_path / "b.csv")).preset == "bert-choice"


@pytest.mark.slow  # 1,200 steps, two minutes of one core
def test_the_preset_learns_what_it_is(tmp_path):
    import headway
    from headway.config import override
    from headway.presets import preset
    from headway.runs.train import train_run

    train_run(override(preset("bert-choice").recipe(), {"train.seed": 0, "train.device": "cpu"}), tmp_path / "run")
    run = headway.load(tmp_path / "run", device="cpu")
    values = run.evaluate(split="test").values
    assert values["questions"] == 1000
    assert values["accuracy"] >= 0.98
    choices = ("the dog", "the apple", "the cow", "the pear")
    for said, answer in (("sour", "the apple"), ("sleepy", "the dog")):
        assert (
            run.answer(f"the dog left the apple because it was too {said}", "what is it ?", choice=choices).text
            == answer
        )


def test_a_context_that_is_the_name_of_a_file_is_told(run, tmp_path, capsys):
    (tmp_path / "book.txt").write_text("it was late\n")
    words = ["why ?", "--choice", "b", "--choice", "c", "--device", "cpu"]
    assert main(["answer", str(run), str(tmp_path / "book.txt"), *words]) == 0
    assert "book.txt is a file, and its name is taken for the context; pass @" in capsys.readouterr().err
    assert main(["answer", str(run), f"@{tmp_path / 'book.txt'}", *words]) == 0
    assert "is a file" not in capsys.readouterr().err
