"""Questions with answers from files: SQuAD's JSON, JSON lines, splits, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.data.questions import Question, load_questions
from headway.errors import DataError

CONTEXT = "Vienna is in Austria, and Oslo is in Norway."


def squad(*asked: dict[str, Any], context: str = CONTEXT) -> dict[str, Any]:
    return {"version": "2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(asked)}]}]}


def asked(name: str = "q1", text: str = "Austria", start: Any = 13, **more: Any) -> dict[str, Any]:
    return {"id": name, "question": "where is Vienna?", "answers": [{"text": text, "answer_start": start}], **more}


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def two(*questions: dict[str, Any]) -> dict[str, Any]:
    """The questions, and a second context to hold out."""
    made = squad(*questions)
    made["data"] += squad(asked("last"), context=f"{CONTEXT} ")["data"]
    return made


def test_both_versions_are_read(tmp_path):
    impossible = {"id": "q2", "question": "where is Rome?", "answers": [], "is_impossible": True}
    found = load_questions(str(write(tmp_path / "a.json", two(asked(is_impossible=False), impossible))))
    assert found.splits["train"] == [
        Question("q1", "where is Vienna?", CONTEXT, ("Austria",), (13,)),
        Question("q2", "where is Rome?", CONTEXT),
    ]
    assert [each.id for each in found.splits["val"]] == ["last"]


def test_plausible_answers_of_an_impossible_question_do_not_count(tmp_path):
    question = asked("q2", is_impossible=True)
    assert load_questions(str(write(tmp_path / "a.json", two(question)))).splits["train"][0].answers == ()


def test_no_context_is_in_two_splits(tmp_path):
    paragraphs = [
        {"context": f"{CONTEXT} {n}", "qas": [asked(f"{n}-{k}") for k in range(1 + n % 3)]} for n in range(30)
    ]
    found = load_questions(str(write(tmp_path / "a.json", {"data": [{"paragraphs": paragraphs}]})))
    train, val = ({each.context for each in found.splits[split]} for split in ("train", "val"))
    assert not train & val
    assert len(val) == 3


def test_a_folder_has_a_file_for_each_split(tmp_path):
    for name in ("train-v2.0.json", "dev-v2.0.json", "harder.json"):
        write(tmp_path / name, squad(asked()))
    assert list(load_questions(str(tmp_path)).splits) == ["train", "val", "harder"]


def test_json_lines_have_the_same_questions(tmp_path):
    row = {"id": "q1", "question": "where is Vienna?", "context": CONTEXT}
    lists = {"text": ["Austria"], "answer_start": [13]}
    lines = [json.dumps({**row, "answers": lists}), json.dumps({**asked("last"), "context": f"{CONTEXT} "})]
    left = load_questions(str(write(tmp_path / "a.jsonl", "\n".join(lines))))
    right = load_questions(str(write(tmp_path / "a.json", two(asked()))))
    assert {split: left.fingerprint(split) for split in left.splits} == {
        split: right.fingerprint(split) for split in right.splits
    }


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            two(asked(text="Germany")),
            r"question 'q1': the answer 'Germany' does not stand at .* it is not in its context",
        ),
        (two(asked(start=12)), r"question 'q1': the answer 'Austria' .* where ' Austri' is; it begins at character 13"),
        (two(asked(start=-8)), "'q1': the answer 'Austria' does not stand at character -8"),
        (two(asked(start=10_000)), "'q1': the answer 'Austria' does not stand at character 10000"),
        (two(asked(start="13")), "'q1': the answer 'Austria' at '13', expected a text and the number"),
        (two(asked(start=True)), "'q1': the answer 'Austria' at True"),
        (two(asked(text=" ")), "'q1': the answer ' ' at 13"),
        (two({"id": "q1", "question": "why?"}), "'q1': no key 'answers'"),
        (two({"id": "q1", "question": " ", "answers": []}), "'q1': an empty question"),
        (two({"question": "why?", "answers": []}), "a question with the id None"),
        (two({"id": "q1", "question": "why?", "answers": 3}), "'q1': answers is a int, expected a list"),
        (two({"id": "q1", "question": "why?", "answers": ["x"]}), "'q1': the answer 'x' is not an object"),
        (squad(asked()), "1 context, expected at least 2"),
        ({"data": []}, "no question, expected at least 1"),
        ({"data": [{}]}, "article 1: None as paragraphs, expected a list of objects"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "article 1: no context, expected a string"),
        ([], "not SQuAD's JSON"),
        ("{", "not JSON"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, content, told):
    with pytest.raises(DataError, match=told) as caught:
        load_questions(str(write(tmp_path / "a.json", content)))
    assert "\n" not in str(caught.value)
