"""`evaluate --data FILE` of a file without splits is about all of it, for tasks that hold out a tenth in training."""

from __future__ import annotations

import json

import pytest

from headway.cli import main
from tests.interop.test_headed_runs import train

ANSWER = {"text": "Austria", "answer_start": 13}
QUESTIONS = {
    "version": "v2.0",
    "data": [
        {"paragraphs": [{
            "context": f"Vienna is in Austria. {n}",
            "qas": [{"id": str(n), "question": "where?", "answers": [ANSWER][: n % 3]}],
        } for n in range(12)]}
    ],
}  # fmt: skip
CHOICES = "".join(
    json.dumps({"context": f"Anna sees {n}", "question": "who?", "choices": ["Anna", "Otto"], "answer": "Anna"}) + "\n"
    for n in range(12)
)
FILES = {
    "bert-classifier": ("rows.csv", "text,label\n" + "a good film,good\na bad film,bad\n" * 10, "texts", 20),
    "bert-tagger": ("rows.conll", "Anna B-PER\nsees O\n\n" * 12, "sentences", 12),
    "bert-choice": ("rows.jsonl", CHOICES, "questions", 12),
    "bert-reader": ("rows.json", json.dumps(QUESTIONS), "questions", 12),
}


@pytest.mark.parametrize("preset", FILES)
def test_other_data_is_evaluated_whole_and_the_run_s_own_by_its_split(preset, tmp_path, capsys):
    name, content, key, count = FILES[preset]
    for file in (name, f"new-{name}"):
        (tmp_path / file).write_text(content)
    run = train(tmp_path, preset, tmp_path / name)
    capsys.readouterr()
    for data, expected in (([], count // 10), (["--data", str(tmp_path / f"new-{name}")], count)):
        assert main(["evaluate", str(run), "--json", *data]) == 0
        assert json.loads(capsys.readouterr().out)[key] == expected
