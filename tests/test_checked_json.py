from __future__ import annotations

import base64
import math

import numpy as np
import pytest

from headway.checked_json import JsonFields
from headway.errors import BadModelError, DataError


def test_fields_are_read_by_type_and_defaults_only_stand_for_missing_ones():
    fields = JsonFields({"n": 3, "x": 2, "on": True, "s": "é", "list": [1, 2], "half": [0.5], "null": None})
    assert (fields.integer("n", 9), fields.integer("m", 9)) == (3, 9)
    assert (fields.number("x"), type(fields.number("x")), fields.number("y", 0.5)) == (2.0, float, 0.5)
    assert fields.flag("on") is True
    assert fields.text("s") == "é"
    assert (fields.integers("list", count=2), fields.numbers("half")) == ((1, 2), (0.5,))
    assert [fields.present(name) for name in ("s", "null", "missing")] == [True, False, False]
    fields.expect_no_others()


@pytest.mark.parametrize(
    ("values", "read", "message"),
    [
        ({}, lambda f: f.integer("n"), "n: missing"),
        ({"n": True}, lambda f: f.integer("n"), "n=True, expected a whole number from 0 to 2147483647"),
        ({"n": 0}, lambda f: f.integer("n", least=1, most=4), "n=0, expected a whole number from 1 to 4"),
        ({"n": None}, lambda f: f.integer("n", 3), "n=None, expected a whole number"),
        ({"x": math.nan}, lambda f: f.number("x"), "x=nan, expected a finite number"),
        ({"x": -math.inf}, lambda f: f.number("x"), "x=-inf, expected a finite number"),
        ({"x": 10**400}, lambda f: f.number("x"), "x=1000000000000000000000000000000000000000…, expected a finite"),
        ({"x": 0}, lambda f: f.number("x", 1.0, above=0), "x=0, expected a finite number above 0"),
        ({"on": 1}, lambda f: f.flag("on"), "on=1, expected true or false"),
        ({"s": 1}, lambda f: f.text("s"), "s=1, expected a string"),
        ({"s": "\ud800"}, lambda f: f.text("s"), r"s='\\ud800', expected valid Unicode, got a lone surrogate"),
        ({"l": "ab"}, lambda f: f.integers("l"), "l='ab', expected a list"),
        ({"l": [1]}, lambda f: f.integers("l", count=2), "l: 1 entry, expected 2"),
        ({"l": [1, "b"]}, lambda f: f.integers("l"), r"l\[1\]='b', expected a whole number"),
        ({"a": "!"}, lambda f: f.arrays("a", "<f4", [1]), "a: not base64"),
        ({"a": "AAAA"}, lambda f: f.arrays("a", "<f4", [1]), "a: 3 bytes, expected 4"),
        ({"n": 1, "more": 2}, lambda f: (f.integer("n"), f.expect_no_others()), "'more': unknown field"),
    ],
)
def test_a_malformed_field_is_named(values, read, message):
    with pytest.raises(DataError, match=f"^{message}"):
        read(JsonFields(values))


def test_errors_are_of_the_class_asked_for_and_name_the_file():
    with pytest.raises(BadModelError, match=r"^config\.json: n='x', expected"):
        JsonFields({"n": "x"}, where="config.json", error=BadModelError).integer("n")


def test_arrays_are_cut_to_their_sizes():
    packed = base64.b64encode(np.arange(5, dtype="<u4").tobytes()).decode()
    assert [part.tolist() for part in JsonFields({"a": packed}).arrays("a", "<u4", [2, 0, 3])] == [
        [0, 1],
        [],
        [2, 3, 4],
    ]
