"""The film in the README is a recording: what it shows was run, and the picture is drawn from what was recorded."""

from __future__ import annotations

import re
import shlex
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from headway.cli.parser import build_parser
from tools import film
from tools.terminal_svg import CELL, MARGIN, Recording, Screen, Style, draw, frames

SVG = "{http://www.w3.org/2000/svg}"


def shown(text: str, width: int = 20, height: int = 4) -> Screen:
    screen = Screen(width, height)
    screen.feed(text)
    return screen


# --- the terminal --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb", "a\nb"),
        ("loading 1\r\x1b[2Kdone", "done"),  # a bar that is drawn again
        ("one\r\ntwo\r\n\x1b[1A\x1b[2KTWO", "one\nTWO"),
        ("one\r\ntwo\x1b[1A\x1b[2D!", "o!e\ntwo"),
        ("a\r\nb\r\nc\r\nd\r\ne", "b\nc\nd\ne"),  # it scrolls
        ("x" * 20 + "\r\ny", "x" * 20 + "\ny"),  # a full line and its newline are one line
        ("x" * 21, "x" * 20 + "\nx"),
        ("ab\bc\td", "ac      d"),
        ("abc\x1b[1G\x1b[KX\x1b]0;title\x07", "X"),
        ("abc\r\ndef\x1b[H\x1b[JZ", "Z"),
        ("\x1b[2;3Hq\x1b[?25l\x1b[?2004h", "\n  q"),
    ],
)
def test_a_screen_shows_what_a_terminal_shows(text, expected):
    assert shown(text).text() == expected


def test_styles_are_kept_for_each_character():
    row = shown("\x1b[1;31mr\x1b[22;38;5;237mg\x1b[38;2;1;2;255mb\x1b[0;7mi\x1b[m.").snapshot().rows[0]
    assert row == (
        ("r", Style(colour=1, bold=True)), ("g", Style(colour=237)), ("b", Style(colour="#0102ff")),
        ("i", Style(reverse=True)), (".", Style()),
    )  # fmt: skip


def test_a_sequence_may_come_in_two_parts_and_an_unknown_one_is_an_error():
    screen = shown("a\x1b[3")
    screen.feed("1mb")
    assert screen.snapshot().rows[0] == (("a", Style()), ("b", Style(colour=1)))
    for wrong in ("\x1b[5Z", "\x1b[99m", "\x00"):
        with pytest.raises(ValueError, match="unknown"):
            shown(wrong)


# --- the drawing ---------------------------------------------------------------------------------------------------

LITTLE = Recording(20, 3, "a & b", ((0.5, "<one>\r\n"), (1.0, "\x1b[32mtwo\x1b[0m  \x1b[7mthree"), (1.0, "\r\n")))


def test_a_drawing_has_every_frame_and_every_text():
    root = ElementTree.fromstring(draw(LITTLE))
    film_strip = next(each for each in root.iter(f"{SVG}g") if each.get("id") == "film")
    assert len(film_strip) == len(frames(LITTLE)) == 3  # the empty screen, and two moments
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert texts == ["<one>", "two", "three", "a & b"]
    three = next(each for each in root.iter(f"{SVG}text") if each.text == "three")
    assert float(three.get("x")) == pytest.approx(MARGIN + 5 * CELL)
    assert float(three.get("textLength")) == pytest.approx(5 * CELL)
    used = {each.get("href") for each in film_strip.iter(f"{SVG}use")}
    assert used <= {f"#{each.get('id')}" for each in root.iter() if each.get("id")}


def test_a_drawing_needs_nothing_from_elsewhere_and_respects_less_motion():
    drawn = draw(LITTLE)
    assert not re.search(r"<script|<image|url\(|@import|@font-face|https?://(?!www\.w3\.org/2000/svg)", drawn)
    assert "prefers-reduced-motion" in drawn


def test_a_recording_is_read_as_it_was_written(tmp_path):
    LITTLE.write(tmp_path / "a.cast")
    assert Recording.read(tmp_path / "a.cast") == LITTLE
    assert (tmp_path / "a.cast").read_text().startswith('{"version": 2, "width": 20, "height": 3, ')


# --- the recording -------------------------------------------------------------------------------------------------


def test_a_program_runs_in_a_terminal_of_the_size_of_the_film(tmp_path):
    code = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns, 'é', os.getcwd() != '')"
    events = film.perform([sys.executable, "-c", code], tmp_path)
    assert "".join(text for _, text in events) == "True 100 é True\r\n"
    assert 0 < events[0][0] < film.LIMIT


def test_a_scene_that_fails_is_no_film(tmp_path):
    with pytest.raises(RuntimeError, match=r"exit code 3: oh no"):
        film.perform([sys.executable, "-c", "print('oh no'); raise SystemExit(3)"], tmp_path)


def test_only_time_is_edited():
    events = [(5.0, "a"), (5.01, "b"), (5.5, "c"), (9.0, "d")]
    short = film.shortened(events, faster=10)
    assert [at for at, _ in short] == pytest.approx([0.5, 0.501, 0.55, 0.9])
    assert [at for at, _ in film.shortened(events)] == pytest.approx([0.6, 0.61, 1.1, 1.7])  # waits of PAUSE at most
    assert film.joined(short) == [(pytest.approx(0.55), "abc"), (pytest.approx(0.9), "d")]
    assert "".join(text for _, text in film.joined(short)) == "abcd"


def test_what_a_bar_draws_over_at_once_is_left_out_and_nothing_else():
    bar = "\r\x1b[2Krun \x1b[31m━━\x1b[0m {}/3\x1b[0m left"
    written = [(0.0, "said"), (0.01, bar.format(1)), (0.02, bar.format(2)), (0.03, bar.format(3)), (0.04, "\r\nend")]
    ((at, text),) = film.joined(written)
    assert (at, text) == (0.04, "said" + bar.format(3) + "\r\nend")
    assert shown(text).snapshot() == shown("".join(each for _, each in written)).snapshot()
    assert film.joined([(0.0, "\r\x1b[2Ka\nb\x1b[0m\r\x1b[2Kc")]) == [(0.0, "\r\x1b[2Ka\nb\x1b[0m\r\x1b[2Kc")]


def test_the_picture_is_drawn_from_the_recording():
    assert film.PICTURE.read_text() == draw(Recording.read(film.CAST)), "run `python -m tools.film --draw`"


def test_the_recording_shows_the_scenes_and_says_what_was_edited():
    recording = Recording.read(film.CAST)
    long = film.SCENES[0]
    edited = rf"as it ran; waits are shortened, the \d+ s of `{long.command}` take {long.seconds}"
    assert re.search(edited, recording.title), "run `make film`"
    typed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", "".join(text for _, text in recording.events))
    at = [typed.index(f"$ {scene.command}\r\n") for scene in film.SCENES]
    assert at == sorted(at)
    assert not re.search(r"Traceback|headway: |/tmp/|/home/|/root", typed)
    times = [time for time, _ in recording.events]
    assert times == sorted(times)
    assert times[-1] < 60


@pytest.mark.parametrize("scene", film.SCENES, ids=lambda scene: scene.command)
def test_the_commands_of_the_film_are_still_commands(scene):
    words = shlex.split(scene.command)
    assert words[0] == "headway"
    arguments, rest = build_parser().parse_known_args(words[1:])
    assert arguments.command == words[1]
    assert not rest
