"""Lengths as they are typed, and a report of them."""

from __future__ import annotations

import json

import pytest

from headway.errors import ConfigError, DataError
from headway.metrics.language import LanguageReport
from headway.metrics.loss_by_length import LengthReport, LengthRow, check_lengths, parse_lengths


def test_lengths_come_in_order_and_once():
    assert parse_lengths("64, 16,64,128") == (16, 64, 128)


@pytest.mark.parametrize("text", ["", "a", "8,", "8,,9", "-8", "1.5", "8;9", "٨", "1e3", "8 9"])
def test_what_is_no_list_of_whole_numbers_is_refused(text):
    with pytest.raises(ConfigError, match=r"--lengths .*: expected whole numbers from 1"):
        parse_lengths(text)


@pytest.mark.parametrize("text", ["0", "8,0", "000"])
def test_a_window_of_nothing_is_refused(text):
    with pytest.raises(ConfigError, match="a window of 0 tokens"):
        parse_lengths(text)


def test_a_length_the_data_does_not_reach_is_named():
    check_lengths((1, 9), longest=9, what="10 tokens")
    with pytest.raises(DataError, match=r"--lengths 12: 10 tokens, allowed: 1 to 9"):
        check_lengths((4, 12), longest=9, what="10 tokens")


def test_a_report_as_values_has_a_place_for_each_length():
    rows = (
        LengthRow(length=4, blocks=LanguageReport(8.0, 4, 8), sliding=LanguageReport(6.0, 4), stride=2),
        LengthRow(length=8, refused="too long"),
    )
    report = LengthReport(rows=rows, trained=4)
    values = json.loads(json.dumps(report.to_json()))
    assert values["lengths"] == [4, 8]
    assert values["loss_by_length"] == [2.0, None]
    assert values["sliding_loss_by_length"] == [1.5, None]
    assert values["sliding_bits_per_byte_by_length"] == [None, None]
    assert values["refused_by_length"] == [None, "too long"]
    assert values["trained_length"] == 4
    assert (report.blocks, report.sliding, report.last) == ({4: 2.0}, {4: 1.5}, 4)
    assert LengthReport(rows=rows[:1], trained=4).last is None
