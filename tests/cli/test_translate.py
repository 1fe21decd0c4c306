"""`translate` and `generate` on lines as people have them, and however they end."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headway
from headway.cli import main
from headway.cli.commands.translate import LINES_AT_ONCE
from headway.cli.lines import blocks
from headway.data.tokenizers import Bpe, ByteBpe, Characters, Tokenizer, Unigram, Word
from headway.decoding.constraints import Constraints
from headway.errors import ConfigError, DataError
from headway.tasks.language_modelling.streaming import before_stop, decoded_stream
from headway.tasks.translation.translator import text_constraints
from tests.cli.test_commands import QUICK, parallel, train_words

SIZES = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def translator(home) -> Path:
    out, data = home / "run", parallel(home / "data")
    assert main([*train_words(data, out, ["--data.cache", str(home / "cache")]), "--task.max_length", "12"]) == 0
    return out


@pytest.fixture(scope="module")
def sibling(home, translator) -> Path:
    out = home / "sibling"
    again = [*train_words(home / "data", out, ["--data.cache", str(home / "cache")]), "--train.seed", "9"]
    assert main(again) == 0
    return out


@pytest.fixture(scope="module")
def numbered(home) -> Path:
    """Learned positions: sixteen of them and no more."""
    out = home / "numbered"
    words = train_words(home / "data", out, ["--data.cache", str(home / "cache")])
    parallel(home / "data")
    assert main([*words, "--model.position", "learned", "--model.context", "16", "--task.max_length", "99"]) == 0
    return out


@pytest.fixture(scope="module")
def writer(home) -> Path:
    book, out = home / "book.txt", home / "writer"
    book.write_text("to be or not to be, that is the question.\n" * 40)
    data = ["--data", str(book), "--data.cache", str(home / "cache")]
    assert main(["train", "gpt-char", *data, "--out", str(out), *SIZES, *QUICK]) == 0
    return out


def said(arguments, capsys, given: str | None = None) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        if given is not None:
            patch.setattr("sys.stdin", io.StringIO(given))
        capsys.readouterr()
        assert main(["translate", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def test_empty_lines_stay_where_they_are(translator, capsys):
    lines = said([translator], capsys, "the cat\n\n   \t\nthe cat\n\n")
    assert len(lines) == 5
    assert lines[1] == lines[2] == lines[4] == ""
    assert lines[0] == lines[3] != ""
    assert said([translator, "the cat", "", "--n-best", 2], capsys)[2] == ""


def test_order_is_the_inputs_and_neighbours_change_nothing(translator, capsys):
    texts = [("the cat number 3 sleeps " * n).strip() for n in (2, 1, 2, 1)] + ["sleeps", "cat the"]
    together = said([translator, *texts], capsys)
    assert together == [said([translator, text], capsys)[0] for text in texts]


def test_a_long_line_is_split_by_the_rule_and_says_so(translator, capsys):
    first, second = "the cat number 3 sleeps .", "the cat number 4 sleeps ! the cat"
    assert main(["translate", str(translator), "the cat", f"{first} {second} sleeps", "cat"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert len(lines) == 3
    assert "headway: note: line 2: 15 tokens, translated in 2 parts" in shown.err
    assert lines[1] == " ".join(said([translator, first, second + " sleeps"], capsys))
    run = headway.load(translator)
    with pytest.warns(headway.errors.AdviceWarning, match="line 1: 15 tokens"):
        assert run.translate([f"{first} {second} sleeps"]) == [lines[1]]
    best = said([translator, f"{first} {second} sleeps", "--n-best", 3], capsys)
    scores = [float(line.split("\t")[1]) for line in best]
    assert scores == sorted(scores, reverse=True)
    assert best[0].split("\t")[2] == lines[1]
    assert main(["translate", str(translator), f"{first} {second} sleeps", "--must", "chat"]) == 3
    assert "line 1: 15 tokens, and the model takes 11" in capsys.readouterr().err


def test_learned_positions_bound_source_and_target(numbered, capsys):
    assert len(said([numbered, "the cat number 3 sleeps " * 20], capsys)) == 1
    assert len(said([numbered, "the cat number 3 sleeps " * 3, "--beam", 1, "--no-repeat", 1], capsys)) == 1


def test_unknown_words_are_counted(translator, capsys):
    assert main(["translate", str(translator), "the zebra", "zebra zebra", "the cat"]) == 0
    assert "headway: note: 3 tokens in 2 lines are not in the vocabulary" in capsys.readouterr().err


def test_what_a_translation_must_hold(translator, capsys):
    texts = ["the cat number 3 sleeps", "the cat"]
    wanted = ["--must", "chat numéro", "--must", "dort", "--prefix", "le", "--ban", "6", "--no-repeat", 2]
    for line in said([translator, *texts, *wanted, "--n-best", 3], capsys):
        text = line.split("\t")[2].split()
        assert text[0] == "le"
        assert "6" not in text
        assert "dort" in text
        assert "chat numéro" in " ".join(text)
    run = headway.load(translator)
    ids = tuple(run.tokenizer.encode("dort"))
    found = run.translate(texts, constraints=Constraints(must=(ids,)), n_best=2, beam=3)
    assert [len(lines) for lines in found] == [2, 2]
    assert all("dort" in text for lines in found for text in lines)
    for words, message in (
        (["--must", "zèbre"], "must 'zèbre': the model's vocabulary cannot write it"),
        (["--must", "chat", "--ban", "chat"], "impossible"),
        (["--must", "chat " * 60], "impossible: prefix and required phrases take 60 tokens"),
        (["--beam", "4", "--groups", "3"], "groups=3 with beam=4"),
        (["--max-extra", "-20"], "max_tokens"),
    ):
        assert main(["translate", str(translator), "the cat", *words]) == 2
        assert message in capsys.readouterr().err


def test_searches_by_name(translator, capsys):
    diverse = ["--beam", 4, "--groups", 2, "--diversity", 2.5, "--n-best", 4]
    for words in (["--stop-rule", "best"], diverse, ["--max-extra", 0]):
        assert said([translator, "the cat number 3", *words], capsys)
    short = said([translator, "the cat number 3", "--max-extra", 0, "--beam", 1], capsys)[0]
    assert len(short.split()) <= 5


def test_an_ensemble_of_runs(translator, sibling, numbered, writer, home, capsys):
    text = "the cat number 3 sleeps"
    alone = said([translator, text, "--n-best", 4], capsys)
    twins = said([translator, text, "--n-best", 4, "--ensemble", translator], capsys)
    assert [line.split("\t")[2] for line in alone] == [line.split("\t")[2] for line in twins]
    assert said([translator, text, "--ensemble", f"{sibling},{numbered}"], capsys)
    other = home / "other"
    data = home / "otherdata"
    parallel(data)
    for path in data.iterdir():
        path.write_text(path.read_text().replace("cat", "dog"))
    assert main(train_words(data, other, ["--data.cache", str(home / "cache")])) == 0
    for run, message in ((other, "its vocabulary differs"), (writer, "it cannot translate")):
        assert main(["translate", str(translator), text, "--ensemble", str(run)]) == 2
        assert message in capsys.readouterr().err


def run_headway(arguments, **settings) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "headway", *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, **settings,
    )  # fmt: skip


def test_bytes_that_are_no_text_are_named_and_what_came_before_is_translated(translator):
    process = run_headway(["translate", translator])
    out, err = process.communicate(b"\xef\xbb\xbfthe cat\r\nthe cat\nbad \xff here\n")
    assert process.returncode == 3
    assert b"stdin: line 3, byte 5: invalid UTF-8" in err
    assert len(out.splitlines()) == 2
    assert len(set(out.splitlines())) == 1


def test_an_interrupt_leaves_whole_lines(translator, home):
    written = home / "out.txt"
    text = "".join(f"the cat number {n % 7} sleeps\n" for n in range(3000))
    (home / "in.txt").write_text(text)
    reference = None
    with (home / "in.txt").open() as given, written.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "headway", "translate", str(translator), "--max-extra", "3"],
            stdin=given, stdout=out, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        until = time.monotonic() + 60
        while written.stat().st_size == 0 and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    said = written.read_bytes()
    assert said.endswith(b"\n")
    lines = said.decode().splitlines()
    assert len(lines) % LINES_AT_ONCE == 0 or len(lines) == 3000
    reference = lines[:7]
    assert all(line == reference[n % 7] for n, line in enumerate(lines))
    if process.returncode:
        assert process.returncode == 130
        assert b"interrupted" in err


def test_a_terminal_shows_the_progress(translator, home):
    """On a terminal as stderr, and only there."""
    (home / "few.txt").write_text("the cat\n" * 1100)
    ours, theirs = os.openpty()
    with (home / "few.txt").open() as given:
        process = subprocess.Popen(
            [sys.executable, "-m", "headway", "translate", str(translator), "--max-extra", "2"],
            stdin=given, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        )  # fmt: skip
    os.close(theirs)
    out, _ = process.communicate(timeout=60)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is gone once all is read
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert len(out.splitlines()) == 1100
    assert b"lines/s" in shown
    process = run_headway(["translate", translator, "--max-extra", "2"])
    assert process.communicate(b"the cat\n")[1] == b""


def test_an_interrupted_text_keeps_what_was_written(writer):
    process = run_headway(["generate", writer, "--prompt", "to be", "--max-tokens", "100000"])
    assert process.stdout is not None
    first = process.stdout.read(60)
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (first + rest).startswith(b"to be")
    assert rest.endswith(b"\n")
    assert err == b"headway: interrupted\n"


@pytest.mark.slow
def test_memory_stays_flat_over_a_long_job(translator):
    process = run_headway(["translate", translator, "--max-extra", "2", "--beam", "2"])
    sizes: list[int] = []
    assert process.stdin is not None
    assert process.stdout is not None
    for block in range(40):
        process.stdin.write("".join(f"{'the cat ' * (n % 4)}sleeps\n" for n in range(LINES_AT_ONCE)).encode())
        process.stdin.flush()
        if block:
            for _ in range(LINES_AT_ONCE):
                process.stdout.readline()
            status = Path(f"/proc/{process.pid}/status").read_text()
            sizes.append(int(next(row for row in status.splitlines() if row.startswith("VmRSS")).split()[1]))
    process.communicate()
    assert process.returncode == 0
    middle = max(sizes[len(sizes) // 4 : len(sizes) // 2])
    assert max(sizes[len(sizes) // 2 :]) < middle + 8 * 1024  # KiB


def test_blocks_come_out_before_an_error():
    def lines():
        yield from "abc"
        raise DataError("line 4")

    found = []
    with pytest.raises(DataError, match="line 4"):
        found.extend(blocks(lines(), 2))
    seen = blocks(lines(), 2)
    assert [next(seen), next(seen)] == [["a", "b"], ["c"]]


def test_texts_apart_and_each_its_own(writer, capsys):
    base = ["generate", str(writer), "--prompt", "to be", "--max-tokens", "30", "--seed", "3"]
    assert main([*base, "--num", "3"]) == 0
    texts = capsys.readouterr().out.removesuffix("\n").split("\n---\n")
    assert len(texts) == 3
    assert len(set(texts)) == 3
    assert all(text.startswith("to be") for text in texts)
    assert main(base) == 0
    assert capsys.readouterr().out == texts[0] + "\n"


def test_samplers_have_flags(writer, capsys):
    base = ["generate", str(writer), "--prompt", "to be", "--max-tokens", "20"]
    assert main([*base, "--temperature", "0"]) == 0
    greedy = capsys.readouterr().out
    for words in (["--top-k", "1"], ["--top-p", "0.0001"], ["--min-p", "1"]):
        assert main([*base, "--temperature", "2", *words]) == 0
        assert capsys.readouterr().out == greedy
    assert main([*base, "--temperature", "0", "--repetition-penalty", "50"]) == 0
    assert capsys.readouterr().out != greedy


def test_a_text_ends_before_its_stop_string(writer, capsys):
    base = ["generate", str(writer), "--prompt", "to be", "--max-tokens", "80", "--seed", "1"]
    assert main(base) == 0
    whole = capsys.readouterr().out.removesuffix("\n").removeprefix("to be")
    for stop in (whole[10:13], whole[20:21], whole[-1], "never there"):
        assert main([*base, "--stop", "never that", "--stop", stop]) == 0
        assert capsys.readouterr().out == "to be" + whole.split(stop)[0] + "\n"


@given(st.lists(st.text("ab", max_size=4), max_size=8), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_no_part_of_a_stop_string_is_shown(pieces, stops):
    whole = "".join(pieces)
    places = [whole.index(stop) for stop in stops if stop in whole]
    assert "".join(before_stop(pieces, stops)) == whole[: min(places, default=len(whole))]


TEXT = ["to be or not to be, that is the question", "été où naïf 🙂 日本 Ωmega", "a  b   c"] * 8
TOKENIZERS = [
    Tokenizer.train(kind, TEXT) for kind in (Word(), Characters(), Bpe(vocab=60), ByteBpe(vocab=300), Unigram(vocab=34))
]


@settings(deadline=None)
@given(st.data())
def test_text_streams_as_it_decodes(data):
    """Any ids: piece by piece as together, but for half a character at the end."""
    for tokenizer in TOKENIZERS:
        ids = data.draw(st.lists(st.integers(4, tokenizer.size - 1), min_size=2, max_size=20))
        prompt = tokenizer.encode("to be")
        whole = tokenizer.decode([*prompt, *ids])
        shown = "".join(decoded_stream(tokenizer, prompt, ids))
        expected = whole[len(tokenizer.decode(prompt)) :]
        assert expected == shown or expected.startswith(shown)
        assert expected[len(shown) :].strip("\ufffd") == "" or "\ufffd" in expected


def test_phrases_as_tokens():
    byte = TOKENIZERS[3]
    found = text_constraints(byte, prefix="to", must=["be", "be"], ban=["not"], no_repeat=3)
    assert found.prefix == tuple(byte.encode("to"))
    assert found.must == (tuple(byte.encode("be")),)
    assert set(found.banned) == {tuple(byte.encode("not")), tuple(byte.encode(" not"))}
    with pytest.raises(ConfigError, match="ban ''"):
        text_constraints(TOKENIZERS[0], ban=[""])
    assert not text_constraints(byte)
