"""Damage to documents that knows their structure: JSON, YAML, lines and tables, and whole documents that are hostile.

Byte-level damage mostly ends in the parser. These functions change one value, key or line, so that the parser is
content and the code behind it gets values of unexpected types and sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

from headway.documents import parse_json, parse_yaml
from headway.errors import HeadwayError
from headway.reliability.damage import SEQUENCES, Damage, damaged

# Values that a field may hold instead of its own. Those that json.dumps cannot write are among the documents below.
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 2**31 - 1, 2**63, -(2**63), 10**19, 10**400, 1.5, -0.0, 1e308, -1e308,
    1e-320, float("nan"), float("inf"), "", "x", "8", "-1", "1e999", "../x", "a.py", "\0", "é😀", "\ud800", "\u202ex",
    "\x1b[31m", "x" * 5000, [], [1], [None], [[]], [0] * 1000, {}, {"a": 1}, {"type": "x"}, {"type": 3}, [1, "a"],
    "NaN", "none", "\n\nTraceback", "a" * 64 + "!",
)  # fmt: skip

HOSTILE_JSON: tuple[bytes, ...] = (
    b"", b"{", b"}", b"[]", b"null", b"3", b'"x"', b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"{}" * 2, b"[" * 100_000,
    b'{"a":' * 50_000, b'{"a":NaN}', b'{"a":Infinity}', b'{"a":' + b"9" * 5000 + b"}", b'{"a":1,"a":2}',
    b'{"\\ud800":1}', b'{"a":"\\udfff"}', b'{"a":1e999}', b"{'a':1}", b'{"a":1,}', b"\0" * 64, b'{"a":"\xff"}',
    b'{"a":"\\x"}', b"[" * 60 + b"]" * 60, b"[" * 3000 + b"]" * 3000, b"{}\0", b'{"":{"":{"":0}}}',
    b'{"a":1e999999999999}', "{}".encode("utf-16"), b'{"step":1e400}', b'{"step":"x"}', b'{"step":-1}', b'{"step":[]}',
    b'{"step":' + b"9" * 400 + b"}", b'{"step":1.5}', b'{"step":true}', b"\x1f\x8b\x08\0", b"PK\x03\x04",
)  # fmt: skip

HOSTILE_YAML: tuple[bytes, ...] = (
    b"", b"---\n", b"~", b"3", b"[]", b"{}", b"- a\n- b\n", b"a: b: c\n", b"a:\n\t- b\n", b"\0", b"\xff\xfea: 1",
    b"a: 1\n---\nb: 2\n", b"a: &x [*x]\n", b"&x a: *x\n", b"a: &a\n  b: *a\n", b"a: *missing\n",
    b"a: !!python/name:os.x\n",
    b"a: !!python/object/apply:os.system ['touch canary']\n", b"!!python/object/new:os.system [touch canary]\n",
    b"a: !unknown 3\n", b"%YAML 9.9\n---\na: 1\n", b"%TAG ! tag:x,2026:\n---\na: !b c\n", b"? [1, 2]\n: 3\n",
    b"1: 2\n", b"null: 2\n", b"true: 2\n", b"1.5: 2\n", b"2026-11-16: 2\n", b"a: 1\na: 2\n", b"a: 0x1F\n", b"a: 0o17\n",
    b"a: 1_000\n", b"a: 190:20:30\n", b"a: 2026-11-16 10:00:00\n", b"a: !!binary aGVq\n", b"a: .nan\n", b"a: -.inf\n",
    b"a: 1e400\n", b"a: " + b"9" * 6000 + b"\n", b"a: 0x" + b"f" * 6000 + b"\n", b"a: |\n" + b"  x\n" * 5000,
    b"[" * 5000 + b"]" * 5000, b"{a: " * 3000 + b"1" + b"}" * 3000, b"a: 'unended\n", b'a: "\\ud800"\n',
    b"a: \x1b[31m\n",
    b"<<: {a: 1}\nb: 2\n", b"<<: [1]\n", b"<<: 3\n", "a: 1\n".encode("utf-16"), "a: 1\n".encode("utf-32"),
    b"".join(
        b"%s: &%s [%s]\n" % (bytes([97 + n]), bytes([97 + n]), b",".join([b"*" + bytes([96 + n])] * 9) if n else b"lol")
        for n in range(12)
    ),
    b"".join(
        b"%s: &%s\n  <<: [%s]\n  k%d: 1\n"
        % (bytes([97 + n]), bytes([97 + n]), b",".join([b"*" + bytes([96 + n])] * 9) if n else b"{x: 1}", n)
        for n in range(9)
    ),
)  # fmt: skip

HOSTILE_LINES: tuple[bytes, ...] = (
    b"", b" ", b"\t", b"\t\t\t\t", b"[1]", b"3", b"null", b'{"a":1}', b'{"step":"x"}', b'{"step":1e400}',
    b'{"step":-1}',
    b'{"step":1,"loss":NaN}', b'{"step":1,"step":2}', b'{"step":' + b"9" * 5000 + b"}", b"\xff", b"\xed\xa0\x80",
    b"[" * 100_000, b'{"a":' * 20_000, b"x" * 300_000, b"a " * 50_000, b"\0", b"\x1b]0;x\x07", b'"', b'""', b'"a\tb',
    "\u2028".encode(), "\u202eabc".encode(), b"\r", b"a\rb", b"\x0b", b"\x85", b"=cmd|' /C calc'!A0",
    b'{"en":"\\ud800"}',
    b'{"en":1,"de":2}', b'{"en":null}', b'{"label":"\\u0000","text":"x"}', b"../../../etc/passwd\tx", b"/etc/passwd,x",
    b"%s%s%s%n", b"\xef\xbb\xbfx", b"e\xcc\x81" * 20_000,
)  # fmt: skip


def damage_json(data: bytes, chance: Random) -> bytes:
    """A JSON document with one value or key changed, a key twice, or another document in its place."""
    kind = chance.random()
    if kind < 0.15:
        return chance.choice(HOSTILE_JSON)
    if kind < 0.25:
        return _with_key_twice(data, chance)
    return _changed(data, chance, parse_json, lambda tree: json.dumps(tree).encode())


def damage_yaml(data: bytes, chance: Random) -> bytes:
    """The same for YAML, whose aliases, tags and merge keys are hostile in ways that JSON has not."""
    kind = chance.random()
    hostile = chance.choice(HOSTILE_YAML)
    if kind < 0.15:
        return hostile
    if kind < 0.3:  # in the place of one line's value, so that the rest is a config
        lines = data.split(b"\n")
        at = chance.randrange(len(lines))
        lines[at] = lines[at].partition(b":")[0] + b": " + chance.choice(
            (b"&x [*x]", b"*x", b"!!python/name:os.system", b"0x1F", b"9" * 5000, b"1e999", b"[", b"{a: b", b"|", b"~",
             b".nan", b"-.inf", b"!!binary aGVq", b"2026-11-16", b"1_0", b"'", b"\t", b"&x", b"!x y", b"*")
        )  # fmt: skip
        return b"\n".join(lines)
    if kind < 0.4:
        return data + hostile
    return _changed(data, chance, parse_yaml, lambda tree: yaml.safe_dump(tree, allow_unicode=True).encode("utf-8"))


def damage_lines(data: bytes, chance: Random) -> bytes:
    """A file of lines with one of them changed, gone, twice, hostile, or without its end."""
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    kind = chance.randrange(9)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    elif kind in (2, 3):
        lines[at] = chance.choice(HOSTILE_LINES)
    elif kind == 4:
        lines.insert(at, chance.choice(HOSTILE_LINES))
    elif kind == 5:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 6:
        where = chance.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:where] + chance.choice(SEQUENCES) + lines[at][where:]
    elif kind == 7:
        return chance.choice((b"\r\n", b"\r", b"\0", b"\n\n", b"")).join(lines)
    else:
        return b"\n".join(lines[:at]) + b"\n" + lines[at][: chance.randrange(len(lines[at]) + 1)]
    return b"\n".join(lines)


def damage_json_lines(data: bytes, chance: Random) -> bytes:
    """A file of JSON objects, one a line, with one of them damaged as a document."""
    if chance.random() < 0.4:
        return damage_lines(data, chance)
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    lines[at] = damage_json(lines[at], chance).replace(b"\n", b" ") if lines[at] else chance.choice(HOSTILE_LINES)
    return b"\n".join(lines)


def or_bytes(*kinds: Damage, share: float = 0.25) -> Damage:
    """One of these kinds of damage, or with a probability of `share` damage to bytes."""

    def damage(data: bytes, chance: Random) -> bytes:
        if not data or chance.random() < share:
            return damaged(data, chance)[1]
        return chance.choice(kinds)(data, chance)

    damage.__name__ = "_or_".join(kind.__name__ for kind in kinds)
    return damage


def change_tree(tree: Any, chance: Random) -> Any:
    """A tree of dicts and lists with one value replaced, removed, renamed, moved or nudged, anywhere in it."""
    branch, steps = tree, 0
    while True:
        keys: list[Any] = list(branch) if isinstance(branch, dict) else list(range(len(branch)))
        if not keys:
            return chance.choice(ODD_VALUES) if steps == 0 else tree
        key = chance.choice(keys)
        steps += 1
        if isinstance(branch[key], dict | list) and branch[key] and chance.random() < 0.8:
            branch = branch[key]
            continue
        break
    kind = chance.randrange(8)
    if kind == 0:
        del branch[key]
    elif kind == 1 and isinstance(branch, dict):
        branch[chance.choice(("", "x", str(key).upper(), f"{key}s", "\ud83d", "type", "a" * 300))] = branch.pop(key)
    elif kind == 2 and isinstance(branch, dict):
        branch[chance.choice(("x", "", "type", f"{key}.x"))] = chance.choice(ODD_VALUES)
    elif kind == 3:
        branch[key] = branch[chance.choice(keys)]
    elif kind == 4:
        branch[key] = _nudged(branch[key], chance)
    else:
        branch[key] = chance.choice(ODD_VALUES)
    return tree


def _nudged(value: Any, chance: Random) -> Any:
    """A value close to this one: what a typing error makes of it."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return chance.choice((value + 1, value - 1, -value, value * 10, value * 10**6, value + 10**12, float(value)))
    if isinstance(value, float):
        return chance.choice((value * 10, -value, value * 1e30, value + 1e-9, str(value)))
    if isinstance(value, str) and value:
        at = chance.randrange(len(value))
        return chance.choice((value[:at] + value[at + 1 :], value[:at] + "x" + value[at:], value * 2, value.upper()))
    return [value]


def _changed(data: bytes, chance: Random, read: Callable[[bytes, str], Any], write: Callable[[Any], bytes]) -> bytes:
    """The document with its tree changed; if it cannot be parsed, with its bytes damaged."""
    try:
        tree = read(data, "")
        if not isinstance(tree, dict | list):
            return chance.choice(HOSTILE_JSON)
        return write(change_tree(tree, chance))
    except (HeadwayError, ValueError):  # of the reader; and of a writer, which cannot write a lone surrogate
        return damaged(data, chance)[1]


def _with_key_twice(data: bytes, chance: Random) -> bytes:
    """The first key of an object once more, with another value."""
    at = data.find(b'"')
    if data[:1] != b"{" or at < 0:
        return damaged(data, chance)[1]
    key = data[at : data.find(b'"', at + 1) + 1]
    value = json.dumps(chance.choice(ODD_VALUES)).encode()
    return b"{" + key + b": " + value + b", " + data[1:]
