"""The reader of JSON and YAML: what it refuses, in one short line and at once (D6, D8)."""

from __future__ import annotations

import json
import math
import os
import random
import time
from pathlib import Path

import pytest
import yaml

from headway.documents import parse_json, parse_yaml, read_json, read_yaml
from headway.errors import BadModelError, ConfigError, DataError, HeadwayError, one_line, shown
from headway.limits import raised

ALIAS_BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGE_BOMB = "a0: &a0 {b: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
)
BAD_JSON: list[tuple[str, bytes | str, str]] = [
    ("empty", "", r"not JSON \(Expecting value: line 1 column 1"),
    ("cut", '{"a": 1', "not JSON"),
    ("two", "{} {}", r"not JSON \(Extra data"),
    ("deep list", "[" * 65 + "]" * 65, r"nested more than 64 levels deep \(--limit depth=N raises it\)"),
    ("5000-deep list", "[" * 5000 + "]" * 5000, "nested more than 64 levels"),
    ("100,000 brackets", "[" * 100_000, "nested more than 64 levels"),
    ("3000-deep map", '{"a":' * 3000 + "1" + "}" * 3000, "nested more than 64 levels"),
    ("6000-digit int", '{"a": ' + "9" * 6000 + "}", "an integer of more than 4,300 digits, allowed: 64 bits"),
    ("2**63", str(2**63), "9223372036854775808 is too large an integer, allowed: 64 bits"),
    ("-2**63 - 1", f"[{-(2**63) - 1}]", "-9223372036854775809 is too large an integer"),
    ("overflow", "[1e400]", "1e400 is too large a number"),
    ("negative overflow", "[-1E+0400]", r"-1E\+0400 is too large a number"),
    ("NaN", "[NaN]", "NaN is not a JSON number"),
    ("infinity", "[-Infinity]", "-Infinity is not a JSON number"),
    ("key twice", '{"a": 1, "b": 2, "a": 1}', "duplicate key 'a'"),
    ("not UTF-8", b'{"a": "\xff"}', "invalid UTF-8 at byte 8"),
    ("UTF-16", '{"a": 1}'.encode("utf-16"), "invalid UTF-8 at byte 1"),
    ("surrogate", r'["\ud800"]', "lone surrogate in a string"),
    ("surrogate key", r'{"\udfff": 1}', "lone surrogate in a string"),
    ("encoded surrogate", b'["\xed\xa0\x80"]', "invalid UTF-8 at byte 3"),
    ("surrogate in a str", '["\ud800"]', "lone surrogate in a string"),
    ("quotes without end", '"' + '\\"' * 500_000, "not JSON"),
]
BAD_YAML: list[tuple[str, bytes | str, str]] = [
    ("alias bomb", ALIAS_BOMB, "line 1: anchor or alias 'a0': these are not read, write the value out"),
    ("merge bomb", MERGE_BOMB, "line 1: anchor or alias 'a0'"),
    ("merge key", "a: {<<: {b: 1}}", "line 1: merge key '<<': these are not read, write the keys out"),
    ("recursive alias", "a: &a [*a]", "anchor or alias 'a'"),
    ("unknown alias", "a: *a", "anchor or alias 'a'"),
    ("anchor of a long name", "a: &" + "a" * 100_000 + " 1", "anchor or alias 'aaa"),
    ("5000-deep", "[" * 5000 + "]" * 5000, "nested more than 64 levels deep"),
    ("deep block", "- " * 65 + "a", "nested more than 64 levels deep"),
    ("3000-deep map", "{a: " * 3000 + "1" + "}" * 3000, "nested more than 64 levels deep"),
    ("3000-deep block map", "".join(" " * n + "a:\n" for n in range(3000)), "nested more than 64 levels deep"),
    ("6000-digit int", "a: " + "9" * 6000, "9{39}… is too large an integer"),
    ("hex int", "a: 0x" + "f" * 6000, "0xf{37}… is too large an integer"),
    ("octal int", "a: 0" + "7" * 300, "is too large an integer"),
    ("base-60 int", "a: 1" + ":59" * 120, "is too large an integer"),
    ("2**63", f"a: {2**63}", "9223372036854775808 is too large an integer, allowed: 64 bits"),
    ("overflow", "a: 1.0e+400", r"1.0e\+400 is too large a number"),
    ("long float", "a: 0." + "1" * 5000, "is too long a number, allowed: 400 characters"),
    ("base-60 float", "a: 1" + ":59" * 140 + ".5", "is too long a number"),
    ("key 1", "1: 2", "line 1: key 1, expected text, in quotes if need be"),
    ("key on", "a: 1\non: 2", "line 2: key True, expected text"),
    ("key list", "? [a]\n: 1", r"key \[\], expected text"),
    ("key twice", "a: 1\nb: 2\na: 1", "line 3: duplicate key 'a'"),
    ("python tag", "a: !!python/object/apply:os.system [id]", "line 1: tag 'tag:yaml.org,2002:python"),
    ("safe tag", "a: !!int '3'", "line 1: tag 'tag:yaml.org,2002:int': tags are not read"),
    ("two documents", "a: 1\n---\nb: 1\n", "2 documents, expected one"),
    ("not YAML", "a: b: c", r"line 1: not YAML \(mapping values are not allowed"),
    ("open quote", "\n'" + "a" * 100_000, r"line 2: not YAML"),
    ("surrogate", r'a: "\ud800"', "line 1: not YAML"),
    ("surrogate in a str", "a: \ud800", "not YAML"),
    ("control character", "a: \x01", r"not YAML \(control characters are not allowed"),
    ("not UTF-8", b"a: \xff", "invalid UTF-8 at byte 4"),
]


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in BAD_JSON], ids=[case[0] for case in BAD_JSON])
def test_bad_json_is_refused_in_one_short_line(data, message):
    began = time.perf_counter()
    with pytest.raises(ConfigError, match=f"^f: .*{message}") as caught:
        parse_json(data, "f", error=ConfigError)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(("data", "message"), [case[1:] for case in BAD_YAML], ids=[case[0] for case in BAD_YAML])
def test_bad_yaml_is_refused_in_one_short_line(data, message):
    began = time.perf_counter()
    with pytest.raises(ConfigError, match=message) as caught:
        parse_yaml(data, "f", error=ConfigError)
    assert str(caught.value).startswith("f: ")
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - began < 2


def test_what_is_allowed_is_read_as_the_libraries_do():
    tree = {"a": [1, -1, 2**63 - 1, -(2**63), 0.5, 1e300, 1e-300, True, None], "é": {"": "x\ny", "😀": [[], {}]}}
    for ascii_only in (True, False):
        text = json.dumps(tree, ensure_ascii=ascii_only)
        assert (
            parse_json(text, "f") == parse_json(text.encode(), "f") == parse_json(b"\xef\xbb\xbf" + text.encode(), "f")
        )
        assert parse_json(text, "f") == tree
    assert parse_yaml(yaml.safe_dump(tree, allow_unicode=True), "f") == tree
    plain = "a: yes\nb: 0x1F\nc: 010\nd: 1_000\ne: 1:30\nf: ~\ng: -.inf\n"
    plain += "h: 1e5\ni: 'on'\nj: [1, {k: 08}]\nl: |\n  x\n  y\nm:\n"
    assert parse_yaml(plain, "f") == yaml.safe_load(plain)
    assert parse_yaml("a: 2020-01-01", "f") == {"a": "2020-01-01"}
    assert parse_yaml("", "f") is parse_yaml("# nothing\n", "f") is None
    assert parse_json("[" * 64 + "]" * 64, "f") == parse_yaml("[" * 64 + "]" * 64, "f")
    assert parse_json(r'["\ud83d\ude00", "[[", "1e999", "\\\"[{"]', "f") == ["😀", "[[", "1e999", '\\"[{']


def test_numbers_outside_the_range_are_read_where_asked():
    assert parse_json("[Infinity, -Infinity]", "f", nonfinite=True) == [math.inf, -math.inf]
    assert parse_json(f"[{10**30}]", "f", large_integers=True) == [10**30]
    with pytest.raises(DataError, match="too large an integer"):
        parse_json(f"[{10**30}, Infinity]", "f", nonfinite=True)
    with pytest.raises(DataError, match="too large an integer"):
        parse_json("1" * 401, "f", large_integers=True)


def test_only_a_regular_file_of_a_limited_size_is_read(tmp_path: Path):
    good, large, pipe = tmp_path / "good.json", tmp_path / "large.json", tmp_path / "pipe"
    good.write_text('{"a": 1}')
    large.write_text(json.dumps("x" * 1_000_000))
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(good)
    assert read_json(good) == read_yaml(good) == read_json(tmp_path / "link") == {"a": 1}
    cases = [
        (large, r"large.json: 1,000,002 bytes, allowed: up to 1,000,000 \(--limit config-bytes=N raises it\)"),
        (pipe, "pipe: not a regular file"),
        (Path("/dev/zero"), "/dev/zero: not a regular file"),
        (tmp_path, "cannot be read .Is a directory."),
        (tmp_path / "none", "none: no such file"),
        (good / "below", "cannot be read .Not a directory."),
        (tmp_path / "a\0b", "cannot be read .embedded null"),
    ]
    for path, message in cases:
        for read in (read_json, read_yaml):
            with pytest.raises(BadModelError, match=message):
                read(path, error=BadModelError)
    with raised({"config-bytes": 2_000_000}):
        assert read_json(large) == "x" * 1_000_000
    assert read_json(large, most="document-bytes") == "x" * 1_000_000


def test_damaged_documents_raise_only_our_errors():
    drawn = random.Random(5)
    tree = {"a": [1, 2.5, "x", None, True], "b": {"c": "long text", "d": [[1], {"e": -3e-5}]}, "list": list(range(9))}
    texts = [(parse_json, json.dumps(tree).encode()), (parse_yaml, yaml.safe_dump(tree).encode())]
    messages = []
    for _ in range(1500):
        read, text = drawn.choice(texts)
        damaged = bytearray(text)
        damaged[drawn.randrange(len(damaged))] ^= 1 << drawn.randrange(8)
        if drawn.random() < 0.3:
            at = drawn.randrange(len(damaged))
            damaged[at:at] = drawn.choice([b"&a ", b"*a", b"<<: ", b"!!x ", b"[", b"{", b"\\ud800", b"1e999", b"\0"])
        try:
            read(bytes(damaged), "f")
        except HeadwayError as error:
            messages.append(str(error))
    assert len(messages) > 300
    assert max(map(len, messages)) < 300
    assert not any("\n" in message for message in messages)


def test_any_value_is_shown_in_a_few_characters():
    recursive: list[object] = []
    recursive.append(recursive)
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    bomb: list[object] = ["x"]
    for _ in range(60):
        bomb = [bomb, bomb, bomb, bomb, bomb, bomb, bomb, bomb, bomb]
    for value in (
        recursive,
        deep,
        bomb,
        "x" * 10**6,
        b"x" * 10**6,
        10**5000,
        [10**5000],
        {1: bomb},
        list(range(10**6)),
    ):
        began = time.perf_counter()
        assert len(shown(value)) <= 80
        assert time.perf_counter() - began < 0.5
    assert shown("a\n\x1b\u202e😀") == r"'a\n\x1b\u202e😀'"
    assert shown({"a": [1, 2.5, None, (1,), (2, 3)], 1: "b"}) == "{'a': [1, 2.5, None, (1,), (2, 3)], 1: 'b'}"
    assert shown("x" * 100, 10) == "'xxxxxxxx…"
    assert shown(10**5000) == "<an integer of 16610 bits>"
    assert one_line("a\nb\x1b[0m" + "c" * 10**6)[:8] == "a b?[0mc"
