"""The index of the slides: current, complete, and every command in it exists."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_lowercase

import pytest
import torch

import headway
from headway.cli import main
from headway.cli.commands import COMMANDS
from headway.labs.deck import errata
from headway.labs.registry import LABS
from headway.labs.slide_index import DECKS, class_questions, deck_errors, find_slides, slide_rows
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


def test_every_error_has_a_slide_and_a_number_or_another_lab():
    errors = {each.error: each for each in deck_errors()}
    assert len(errors) == len(deck_errors())
    assert {int(error.rstrip(ascii_lowercase)) for error in errors} == {*range(1, ERRATA + 1)}
    assert {each.error for row in slide_rows() for each in row.errors()} == {*errors}
    assert {number for row in slide_rows() for number in row.erratum.replace(",", " ").split()} == {*errors}
    computed = errata(16, 6, torch.Generator().manual_seed(0))
    assert [each.error for each in computed] == [error for error, each in errors.items() if each.lab == "deck"]
    assert {each.lab for each in errors.values() if each.lab} <= {*LABS.homes}


def test_every_question_to_the_class_belongs_to_a_row():
    assert [each.question for row in slide_rows() for each in row.questions() if each not in class_questions()] == []
    assert {each for row in slide_rows() for each in row.questions()} == {*class_questions()}


def test_the_rows_of_the_shorter_deck_are_found_by_the_lines_of_the_draft():
    rows = [row for row in slide_rows() if row.deck == "000"]
    begins = [row.begins("001") for row in rows]
    assert None not in begins
    assert begins == sorted(begins)
    pages = 64  # a number up to it is that of a slide
    assert all(find_slides("001", line) == [row] for line, row in zip(begins, rows, strict=True) if line > pages)


@pytest.mark.parametrize(
    ("deck", "number", "says"),
    [
        ("001", 853, "LN centres"),
        ("001", 1435, "derivation"),
        ("000", 600, "DenseNet"),
        ("000", 1189, "permutation matrix"),
        ("001", 1600, "f_pos"),
        ("003", 30, "keypoint"),
        ("004", 150, "√d_k"),
    ],
)
def test_a_line_between_two_rows_belongs_to_the_row_before_it(deck, number, says):
    found = find_slides(deck, number)
    assert len(found) == 1
    assert says in found[0].says


def test_a_row_is_printed_with_its_errors_and_the_questions_to_the_class(capsys):
    assert main(["deck", "004", "13"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "error 20e “initialise queries to mean 0, variance 1”, right: weights are initialised" in told
    assert "asks Why scaling? (p. 13) see headway lab scaling: Entropy" in told
    assert main(["deck", "004", "13", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert [each["error"] for each in row["errors"]] == ["20e"]
    assert [each["labs"] for each in row["questions"]] == [["scaling"]]


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
