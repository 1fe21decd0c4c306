"""Records a first contact with headway in a terminal: docs/film.cast, and docs/film.svg, which is drawn from it.

Every scene is really run, in a pseudo-terminal and an empty folder, and what it writes is recorded. Only time is
edited: the commands are typed at an even pace, a wait is cut to PAUSE, and a long scene is shown faster; the title
says so. `--draw` only draws the recording again.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.terminal_svg import Recording, draw

ROOT = Path(__file__).parents[1]
CAST, PICTURE = ROOT / "docs" / "film.cast", ROOT / "docs" / "film.svg"
WIDTH, HEIGHT = 100, 28
PROMPT = "\x1b[1;32m$\x1b[0m "
KEY, PAUSE, READ = 0.03, 0.6, 4.0  # seconds: between two keys, the longest wait, and to read what a scene wrote
APART = 0.12  # seconds between two frames at least
# A line that a bar draws and erases again before it can be seen.
OVERDRAWN = re.compile(r"\r\x1b\[2K(?:[^\r\n\x1b]|\x1b\[[0-9;]*m)*\x1b\[0m(?:[^\r\n\x1b])*(?=\r\x1b\[2K)")
LIMIT = 1800  # seconds of a scene


@dataclass(frozen=True, slots=True)
class Scene:
    """A command, and the seconds in which it is shown if it took longer; None for the time it took."""

    command: str
    seconds: float | None = None


SCENES = (
    Scene("headway demo --steps 400", 12),
    Scene("headway info runs/demo"),
    Scene("headway translate runs/demo 'the small cat sleeps in the red house.'"),
    Scene("headway look runs/demo 'the small cat sleeps in the red house.' -o page.html"),
)
Events = list[tuple[float, str]]


def perform(words: Sequence[str], folder: Path, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Events:
    """Run a command in a pseudo-terminal: what it wrote, and when. Raises RuntimeError if its exit code is not 0."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CI")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment |= {"TERM": "xterm-256color", "HOME": str(folder), "XDG_CACHE_HOME": str(folder / ".cache")}
    started, decode, found = time.perf_counter(), codecs.getincrementaldecoder("utf-8")(), []
    process = subprocess.Popen(
        words, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        while time.perf_counter() - started < LIMIT:
            if not select.select([master], [], [], 1)[0]:
                continue
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux's way to say that the other end is closed
                break
            if not data:
                break
            found.append((time.perf_counter() - started, decode.decode(data)))
    finally:
        os.close(master)
        if time.perf_counter() - started >= LIMIT or sys.exc_info()[0] is not None:
            process.kill()
    if process.wait():
        raise RuntimeError(
            f"{shlex.join(words)}: exit code {process.returncode}: {''.join(t for _, t in found)[-500:]}"
        )
    return found


def shortened(events: Events, faster: float = 1.0) -> Events:
    """The same texts with every wait divided, and cut to PAUSE."""
    now = before = 0.0
    short = []
    for at, text in events:
        now += min((at - before) / faster, PAUSE)
        before = at
        short.append((now, text))
    return short


def joined(events: Events) -> Events:
    """The same texts, those within APART as one event, at the time of the last, without what it drew over itself."""
    found: Events = []
    begin = -APART
    for at, text in events:
        if found and at - begin < APART:
            found[-1] = (at, found[-1][1] + text)
        else:
            found.append((at, text))
            begin = at
    return [(at, OVERDRAWN.sub("", text)) for at, text in found]


def recorded(scenes: Sequence[Scene]) -> Recording:
    """Type and run the scenes one after another, in one folder. The title says how their time was edited."""
    events: Events = []
    now, edited = 0.0, "waits are shortened"
    with tempfile.TemporaryDirectory(prefix="headway-film-") as folder:
        for scene in scenes:
            events.append((now, PROMPT))
            now += PAUSE
            for char in scene.command:
                events.append((now, char))
                now += KEY
            events.append((now, "\r\n"))
            print(f"recording: {scene.command}", file=sys.stderr)
            written = perform([sys.executable, "-m", *shlex.split(scene.command)], Path(folder))
            if folder in "".join(text for _, text in written):
                raise RuntimeError(f"{scene.command}: names the folder of the recording, {folder}")
            took = written[-1][0]
            faster = 1.0 if scene.seconds is None else max(took / scene.seconds, 1.0)
            if faster > 1:
                edited += f", the {took:.0f} s of `{scene.command}` take {scene.seconds:g}"
            events += [(now + at, text) for at, text in joined(shortened(written, faster))]
            now = events[-1][0] + READ
    title = f"headway: a first contact, as it ran; {edited}"
    return Recording(WIDTH, HEIGHT, title, (*events, (now, PROMPT)))


def main(arguments: list[str] | None = None) -> int:
    """Record and draw, or draw only."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--draw", action="store_true", help="draw docs/film.svg from docs/film.cast, and record nothing"
    )
    if not parser.parse_args(arguments).draw:
        recorded(SCENES).write(CAST)
    film = Recording.read(CAST)
    PICTURE.write_text(draw(film), encoding="utf-8")
    print(f"docs/film.svg: {film.events[-1][0]:.0f} s, {PICTURE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
