"""`headway demo` from end to end, trained for a few steps only."""

from __future__ import annotations

import json
import re

from headway.cli import main
from headway.cli.commands.demo import SENTENCES
from headway.runs import Run
from headway.tasks.translation.search import TranslationSearch


def test_the_demo_trains_scores_translates_and_goes_on_when_asked_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where tokenised text is kept
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "run"
    assert main(["demo", "--steps", "8", "--out", str(out)]) == 0
    first = capsys.readouterr()
    splits = re.findall(r"^(\w+) +\(.*\): BLEU (\d+\.\d), (\d+\.\d)% exactly right$", first.out, re.MULTILINE)
    assert [name for name, *_ in splits] == ["test", "unseen"]
    lines = first.out.splitlines()
    assert all(f"  {sentence}" in lines for sentence in SENTENCES)
    assert len(SENTENCES) == 12
    translations = [lines[lines.index(f"  {sentence}") + 1] for sentence in SENTENCES]
    assert all(line.startswith("    ") for line in translations)
    assert f"headway translate {out}" in first.out
    assert str(out / "page.html") in first.out
    assert "a cute puppy" in (out / "page.html").read_text()
    assert json.loads((out / "latest.json").read_text()) == {"step": 8}

    # Decoding both splits again would take as long again: that the run goes on is what is tested here.
    monkeypatch.setattr(
        TranslationSearch, "search", lambda task, model, device, sources, *_, **__: [[] for _ in sources]
    )
    monkeypatch.setattr(Run, "look", lambda *_: "")  # there is no translation to show
    assert main(["demo", "--steps", "10", "--out", str(out)]) == 0
    second = capsys.readouterr()
    assert "resuming at step 8" in second.err
    assert json.loads((out / "latest.json").read_text()) == {"step": 10}


def test_the_sentences_of_the_demo_are_plain_words():
    assert not [sentence for sentence in SENTENCES if re.search(r"[^a-z .?]", sentence)]
