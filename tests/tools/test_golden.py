"""The comparison of golden records: every difference is found, and only what is allowed passes."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest

from tools import golden
from tools.golden import Difference, Record, Rule, compare, differences, hunks, read_rules
from tools.golden_cases.recorder import Recorder, tensors, timeless

SAME = {"gpt/train#exit": ("exit", "0"), "gpt/evaluate#stdout": ("json", '{"loss": 1.5, "steps": "6"}')}


def record(folder: Path, entries: dict[str, tuple[str, str]], *, failed: tuple[str, ...] = ()) -> Record:
    """A record with these entries, long ones in files of their own."""
    kept = {}
    for name, (kind, value) in entries.items():
        kept[name] = {"kind": kind, "value": value}
        if len(value) > 60:
            path = folder / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value)
            kept[name] = {"kind": kind, "hash": hashlib.sha256(value.encode()).hexdigest()}
    folder.mkdir(exist_ok=True)
    (folder / "record.json").write_text(json.dumps({"about": {"torch": "2"}, "failed": failed, "entries": kept}))
    return Record(folder)


@pytest.fixture
def old(tmp_path):
    return record(tmp_path / "old", SAME)


def changed(tmp_path: Path, **entries: tuple[str, str]) -> Record:
    return record(tmp_path / "new", SAME | {name.replace("__", "/"): value for name, value in entries.items()})


def test_equal_records_have_no_difference(old, tmp_path, capsys):
    new = changed(tmp_path)
    assert list(differences(old, new)) == []
    assert compare(old, new, []) == 0
    assert "2 and 2 entries; 0 differences allowed; 0 not allowed" in capsys.readouterr().out


def test_a_changed_value_a_new_entry_and_a_lost_one_are_found(tmp_path, capsys):
    old = record(tmp_path / "old", SAME | {"gpt/gone#exit": ("exit", "3")})
    new = record(tmp_path / "new", SAME | {"gpt/train#exit": ("exit", "2"), "gpt/more#exit": ("exit", "0")})
    assert list(differences(old, new)) == [
        Difference("gpt/gone#exit", "exit", "3", golden.MISSING),
        Difference("gpt/more#exit", "exit", golden.MISSING, "0"),
        Difference("gpt/train#exit", "exit", "0", "2"),
    ]
    assert compare(old, new, []) == 1
    assert "3 not allowed (exit 3), in 3 entries" in capsys.readouterr().out


def test_a_long_text_is_shown_by_the_lines_that_differ(tmp_path):
    lines = [f"weight.{n} F32 [2] {n:064d}" for n in range(9)]
    old = record(tmp_path / "old", {"run/model": ("weights", "\n".join(lines))})
    other = [*lines[:4], "weight.4 F32 [2] other", *lines[5:8], "weight.8 F32 [2] too"]
    new = record(tmp_path / "new", {"run/model": ("weights", "\n".join(other))})
    assert [(each.old, each.new) for each in differences(old, new)] == [(lines[4], other[4]), (lines[8], other[8])]


def test_json_differs_by_its_leaves_and_by_the_order_of_its_keys():
    assert hunks('{"a": {"b": [1, 2]}, "c": 3}', '{"a": {"b": [1, 5]}, "c": 3}') == [("a.b[1] = 2", "a.b[1] = 5")]
    assert hunks('{"a": 1, "c": []}', '{"a": 1}') == [("c = []", "")]
    assert hunks('{"a": 1, "b": 2}', '{"b": 2, "a": 1}')
    assert hunks('{"a": 1}', '{"a":  1}') == [('{"a": 1}', '{"a":  1}')]


def test_texts_that_differ_in_their_last_line_end_differ():
    assert hunks("a\n", "a") == [("'a\\n'", "'a'")]


def test_a_changed_kind_is_a_difference_and_information_is_not(tmp_path):
    old = record(tmp_path / "old", {"a": ("stdout", "x"), "modules": ("information", "1200")})
    new = record(tmp_path / "new", {"a": ("report", "x"), "modules": ("information", "900")})
    assert list(differences(old, new)) == [Difference("a", "stdout", "kind stdout", "kind report")]


def test_what_a_rule_allows_passes_and_nothing_else_does(old, tmp_path, capsys):
    old = record(
        tmp_path / "old", SAME | {"wrong/a#stderr": ("message", "'x' is no tap"), "b#stderr": ("message", "b")}
    )
    new = changed(tmp_path, **{"wrong__a#stderr": ("message", "unknown tap 'x'"), "b#stderr": ("message", "c")})
    rule = Rule(name="wrong/*#stderr", kind="message", old=r"'\w' is no tap", new=r"unknown tap '\w'", reason="words")
    assert compare(old, new, [rule]) == 1
    out = capsys.readouterr().out
    assert "1 differences allowed; 1 not allowed (message 1)" in out
    assert "b#stderr (message)\n  - b\n  + c\n" in out
    assert "wrong/a" not in out
    assert rule.used == 1
    assert compare(old, new, [rule, Rule(name="b#stderr", old="b", new="c", reason="letters")]) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"name": "gpt/*"}, {"kind": "exit"}, {"old": "one"}, {"new": "two"}, {"old": "on"}, {"new": ""}],
)
def test_a_rule_must_match_name_kind_and_both_texts_whole(wrong):
    each = Difference("wrong/a#stderr", "message", "one\nmore", "two\nmore")
    right = {"name": "wrong/*", "kind": "message", "old": "one.*", "new": "two.*", "reason": "why"}
    assert Rule(**right).accepts(each)
    assert not Rule(**(right | wrong)).accepts(each)


def test_a_rule_that_nothing_met_is_reported(old, tmp_path, capsys):
    rule = Rule(name="gpt/*", old="a", new="b", reason="was renamed")
    assert compare(old, changed(tmp_path), [rule]) == 0
    assert "allowed but not met: gpt/* (*) 'a' -> 'b': was renamed" in capsys.readouterr().out


def test_a_group_that_failed_is_never_equal(old, tmp_path, capsys):
    new = record(tmp_path / "new", SAME, failed=("pose",))
    assert compare(old, new, []) == 1
    assert "group pose failed in the second record" in capsys.readouterr().out


def test_rules_are_read_from_a_table_and_need_a_reason(tmp_path):
    path = tmp_path / "allowed.toml"
    path.write_text("[[allowed]]\nname = 'a'\nold = 'b'\nnew = 'c'\nreason = 'd'\n")
    assert read_rules(path) == [Rule(name="a", old="b", new="c", reason="d")]
    for text in ("name = 'a'\nold = 'b'\nnew = 'c'", "name = 'a'\nold = 'b'\nnew = 'c'\nreason = ' '", "nmae = 'a'"):
        path.write_text(f"[[allowed]]\n{text}\n")
        with pytest.raises(ValueError, match="rule 1: "):
            read_rules(path)


def test_the_table_of_the_repository_can_be_read():
    assert isinstance(read_rules(golden.ALLOWED), list)


def test_the_command_compares_a_part(old, tmp_path, capsys):
    changed(tmp_path, **{"gpt__train#exit": ("exit", "2"), "gpt__evaluate#stdout": ("json", '{"loss": 2}')})
    table = tmp_path / "none.toml"
    table.write_text("allowed = []\n")
    folders = [str(tmp_path / "old"), str(tmp_path / "new"), "--allowed", str(table)]
    assert golden.main(["compare", *folders, "--only", "*#exit"]) == 1
    assert "1 and 1 entries" in capsys.readouterr().out
    assert golden.main(["compare", str(tmp_path / "old"), str(tmp_path / "old"), "--allowed", str(table)]) == 0


def test_entries_are_short_in_the_record_or_whole_beside_it(tmp_path):
    recorder = Recorder("gpt", tmp_path / "out", Path("/somewhere"), None)
    recorder.entry("short", "message", "headway: /somewhere/run: 12,345 bytes free there")
    recorder.entry("long", "stdout", "x" * 500)
    assert recorder.entries["gpt/short"]["value"] == "headway: <tmp>/run: N bytes free there"
    assert (tmp_path / "out" / "raw" / "gpt" / "long").read_text() == "x" * 500
    assert recorder.entries["gpt/long"] == {"kind": "stdout", "hash": hashlib.sha256(b"x" * 500).hexdigest()}
    with pytest.raises(ValueError, match="two entries are called gpt/short"):
        recorder.entry("short", "message", "again")


def test_a_log_is_kept_without_its_times():
    assert timeless('{"step": 1, "loss": 2.5, "seconds": 0.3}\n') == '{"step": 1, "loss": 2.5}\n'


def test_tensors_are_listed_by_name_with_digests(tmp_path):
    data = struct.pack("<3f", 1, 2, 3)
    header = {
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]},
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    }
    text = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    _, metadata, first, second = tensors(tmp_path / "x.safetensors").splitlines()
    assert metadata == "metadata null"
    assert first == f"a F32 [2] {hashlib.sha256(data[:8]).hexdigest()}"
    assert second == f"b F32 [1] {hashlib.sha256(data[8:]).hexdigest()}"
