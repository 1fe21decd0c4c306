"""The index of the slides: current, complete, and every command in it exists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import headway
from headway.cli import main
from headway.cli.commands import COMMANDS
from headway.labs.deck import errata
from headway.labs.registry import LABS
from headway.labs.slide_index import DECKS, class_questions, find_slides, slide_rows
from headway.presets import PRESETS
from tools import deck_index

ROOT = Path(headway.__file__).parent
ERRATA = 20


def test_the_page_is_current():
    assert deck_index.PAGE.read_text() == deck_index.page(), "run `make deck-index`"


def test_every_row_is_shown_has_a_lab_to_come_or_a_reason():
    rows = slide_rows()
    assert len(rows) > 130
    assert [row.slide for row in rows if not (row.command or row.planned or row.reason)] == []
    assert {row.deck for row in rows} == {*DECKS}
    assert [row.slide for row in rows if row.reason and row.commands] == []


def test_every_command_and_file_of_a_row_exists():
    for row in slide_rows():
        for command in row.commands:
            program, name, *rest = command.split()
            assert (program, name in COMMANDS) == ("headway", True), command
            assert name != "lab" or rest[0] in LABS, command
            assert name not in ("train", "presets") or not rest or rest[0] in PRESETS, command
        assert not row.file or (ROOT / row.file).is_file(), row


def test_every_erratum_has_a_slide():
    named = {number for row in slide_rows() for number in row.erratum.replace(",", " ").split()}
    assert {int(number.rstrip("abcdefghijk")) for number in named} == {*range(1, ERRATA + 1)}
    counted = {each.error for each in errata(16, 6, torch.Generator().manual_seed(0))}
    assert counted <= named
    assert named - counted == {"19", "20"}  # without a number of its own: a year, and what other labs measure


def test_every_question_to_the_class_has_labs_that_answer_it():
    asked = class_questions()
    assert sum(each.deck in ("000", "001") for each in asked) == 16
    assert [(each.deck, each.line) for each in asked] == sorted((each.deck, each.line) for each in asked)
    assert len({(each.deck, each.line) for each in asked}) == len(asked)
    for each in asked:
        assert {*each.labs} <= {*LABS.homes}, each
        assert each.look.endswith("."), each


@pytest.mark.parametrize(
    ("words", "told"), [(["004", "13"], "√d_k"), (["000", "812"], "blow-up"), (["002", "48"], "2017")]
)
def test_a_slide_is_found_by_page_or_line(words, told, capsys):
    assert main(["deck", *words]) == 0
    assert told in capsys.readouterr().out


def test_the_command_lists_decks_and_says_what_is_wrong(capsys):
    assert main(["deck"]) == 0
    assert "IIT Kharagpur" in capsys.readouterr().out
    assert main(["deck", "003", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(find_slides("003"))
    assert main(["deck", "005"]) == 2
    assert main(["deck", "004", "99999"]) == 2
    assert "no row for page or line 99999" in capsys.readouterr().err
