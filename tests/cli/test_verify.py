"""`headway verify` from the command line: what it says to people and machines, and how it ends."""

from __future__ import annotations

import json
import re

import pytest
from PIL import Image

from headway import ops
from headway.cli import main
from headway.ops.kernels.base import Kernel
from tests.interop.runs import write_run
from tests.models import tiny


@pytest.fixture
def writer(tmp_path):
    return write_run(tmp_path / "writer", tiny.GPT)


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_a_sound_run_gets_a_table_and_exit_0(writer, wide, capsys):
    assert main(["verify", str(writer), "--device", "cpu"]) == 0
    said = capsys.readouterr()
    rows = {line.split("  ")[0]: line for line in said.out.splitlines()}
    assert "rounding" in rows["cache in chunks"]
    assert "kernel banded" not in rows  # what did not run has no row: a classifier had 20 of 33 without a figure
    assert "not applicable or skipped, and why" in said.out
    assert "kernel banded; kernel banded, cached batch: kernel='banded' does not support these inputs" in said.out
    assert "no bugs. Rounding is up to 16 × " in said.out
    assert "no lines of the run's own data" in said.err


def test_machines_get_one_flat_object(writer, capsys):
    assert main(["verify", str(writer), "--json", "--device", "cpu"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["verdict"] == values["cache"] == values["batch_right_padding"] == "rounding"
    assert values["cache_difference"] <= values["cache_bound"]
    assert values["kernel_banded"] == "not applicable"
    assert values["precision_int8_cosine"] > 0.99
    assert all(not isinstance(value, dict | list) for value in values.values())


def test_a_bug_is_named_with_its_token_and_exit_3(writer, wide, capsys, monkeypatch):
    monkeypatch.setattr(ops.Causal, "at", lambda self, offset: self)
    assert main(["verify", str(writer), "--device", "cpu"]) == 3
    said = capsys.readouterr()
    row = next(line for line in said.out.splitlines() if line.startswith("cache  "))
    assert " bug " in row
    assert "token 1: '" in row  # the first greedy token already is another
    assert "token by token through a cache: input " in said.out
    last = said.err.strip().splitlines()[-1]
    assert "checks found a bug: cache, cache in chunks, cached batch" in last
    assert main(["verify", str(writer), "--json", "--device", "cpu"]) == 3
    values = json.loads(capsys.readouterr().out)
    assert values["verdict"] == values["cache"] == "bug"
    assert values["bugs"].startswith("cache, cache in chunks")


def test_lines_of_the_user_s_own(writer, tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text("two dogs run to one lake\na man\n")
    assert main(["verify", str(writer), "the couch", "--input", str(lines), "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == 3
    translator = write_run(tmp_path / "translator", tiny.TRANSLATOR)
    assert main(["verify", str(translator), "a man\ttwo dogs run", "the big red sky", "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == 2


def test_image_files_of_the_user_s_own(tmp_path, wide, capsys):
    run, image = write_run(tmp_path / "run", tiny.VIT), tmp_path / "x.png"
    Image.effect_noise((30, 20), 50).save(image)
    assert main(["verify", str(run), str(image), str(image), "--device", "cpu"]) == 0
    said = capsys.readouterr()
    assert "2 images of 16 x 16 pixels" in said.out
    assert "first different class" in said.out
    assert said.err == ""
    assert main(["verify", str(run), str(tmp_path / "missing.png")]) == 3
    assert "missing.png" in capsys.readouterr().err


def test_another_class_is_named(tmp_path, wide, capsys, monkeypatch):
    run = write_run(tmp_path / "run", tiny.VIT)
    right = ops.KERNELS["sdpa"]
    monkeypatch.setitem(ops.KERNELS, "sdpa", Kernel(lambda call: -9 * right.run(call), right.unsupported_reason))
    assert main(["verify", str(run), "--device", "cpu"]) == 3
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("kernel sdpa  "))
    assert re.search(r" bug +input \d: '[a-e]' → '[a-e]'", row)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nowhere"], 4, "nowhere: no such run"),
        (["RUN", "--input", "missing.txt"], 3, "--input missing.txt: cannot be read (FileNotFoundError)"),
        (["RUN", "--input", "/dev/null"], 3, "cannot be read"),
        (["RUN", "--input", "EMPTY"], 3, "no line with text in it"),
    ],
)
def test_mistakes_get_one_line_and_their_code(writer, tmp_path, capsys, words, code, message):
    (tmp_path / "empty.txt").touch()
    named = {"RUN": str(writer), "EMPTY": str(tmp_path / "empty.txt")}
    words = [named.get(word, word) for word in words]
    assert main(["verify", *words]) == code
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
