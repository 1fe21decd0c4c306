from __future__ import annotations

import math
import struct
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest

from headway.metrics.accuracy_by_position import position_report
from headway.plots.curves import (
    _draw_losses,
    _points,
    _smoothed,
    new_figure,
    plot_by_length,
    plot_curves,
    plot_positions,
)

BOTH = [
    {"step": step, "loss": 2 + math.exp(-step / 50), "learning_rate": 1e-3, "val_loss": None if step % 50 else 2.5}
    for step in range(5, 305, 5)
]
TRAIN_ONLY = [{"step": entry["step"], "loss": entry["loss"]} for entry in BOTH]
VAL_ONLY = [{"step": step, "val_loss": 3 - step / 100} for step in (0, 50, 100)]
BROKEN = [*TRAIN_ONLY, {"step": 400, "loss": math.nan}, {"step": 405, "loss": 1e30}, {"step": 410, "epoch": 3}]


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize(
    ("log", "panels"),
    [(BOTH, 2), (TRAIN_ONLY, 1), (VAL_ONLY, 1), (BROKEN, 1), (BOTH[:1], 2), (TRAIN_ONLY[:2], 1), ([], 1)],
    ids=["both", "train-only", "val-only", "broken", "one-entry", "two-entries", "empty"],
)
def test_curves_are_drawn_from_whatever_was_logged(log, panels):
    png = plot_curves(log)
    width, height = size(png)
    assert width == 1200
    assert height == (810 if panels == 2 else 630)
    assert 5_000 < len(png) < 300_000


def test_curves_go_to_a_file_or_a_buffer_as_well(tmp_path):
    buffer, path = BytesIO(), tmp_path / "curves.png"
    data = plot_curves(TRAIN_ONLY, buffer)
    assert plot_curves(iter(TRAIN_ONLY), path) == plot_curves(TRAIN_ONLY, str(path)) == data
    assert path.read_bytes() == buffer.getvalue() == data
    assert list(tmp_path.iterdir()) == [path]


def test_a_step_logged_again_after_a_resume_counts_once():
    log = [{"step": 1, "loss": 5}, {"step": 2, "loss": 9}, {"step": 2, "loss": 4}, {"step": 3, "loss": math.inf}]
    assert _points(log, "loss") == ([1, 2], [5, 4])


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000])
def test_smoothing_keeps_length_and_constants_and_follows_a_slope_without_lag(count):
    np.testing.assert_allclose(_smoothed([3.0] * count), [3.0] * count)
    slope = np.arange(count, dtype=float)
    reach = math.ceil(3 * max(1, count / 80))
    np.testing.assert_allclose(_smoothed(slope)[reach:-reach], slope[reach:-reach])
    assert len(_smoothed(slope)) == count


def test_smoothing_takes_out_noise():
    noise = np.random.default_rng(0).normal(size=2000)
    assert _smoothed(noise).std() < 0.2


class Compared(float):
    """A number that counts how often numbers were compared."""

    times = 0

    def __lt__(self, other: float) -> bool:
        Compared.times += 1
        return float(self) < float(other)

    def __gt__(self, other: float) -> bool:
        Compared.times += 1
        return float(self) > float(other)


def test_a_long_run_is_drawn_in_time_that_grows_with_its_length():
    losses = [Compared(2 + math.sin(step)) for step in range(3000)]
    _draw_losses(new_figure(4, 3).subplots(), (list(range(3000)), losses), ([], []), None)
    assert 3000 < Compared.times < 30 * 3000  # sorting takes some twelve each


SHARES = {"rnn": {5: 1.0, 10: 0.4, 20: 0.0}, "transformer": {5: 1.0, 10: 1.0, 20: 0.7}}


@pytest.mark.parametrize(
    ("series", "trained"),
    [
        (SHARES, None),
        (SHARES, 10),
        ({"bleu": {3: 95.2, 4: 12.0}}, 2),
        ({"one": {4: 0.5}}, 4),
        ({}, 5),
        ({"loss": {64: 2.0, 128: 1.5, 512: 1.7}}, 128),
    ],
    ids=["shares", "trained", "bleu", "one-point", "empty", "doubling"],
)
def test_accuracy_by_length_is_drawn(series, trained):
    png = plot_by_length(series, "Reverse", "exactly right", trained=trained)
    assert size(png) == (1200, 690)
    assert 5_000 < len(png) < 300_000


def test_one_picture_for_one_set_of_figures():
    assert plot_by_length(SHARES, "a", "b") == plot_by_length(SHARES, "a", "b")
    assert plot_by_length(SHARES, "a", "b") != plot_by_length(SHARES, "a", "b", trained=10)


def test_neither_import_nor_drawing_touches_pyplot():
    lines = [
        "import sys",
        "from headway.plots.curves import plot_curves",
        "assert 'matplotlib' not in sys.modules and 'torch' not in sys.modules",
        "plot_curves([{'step': 1, 'loss': 2.0}])",
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("lengths", "height"),
    [([5, 9, 9], 810), ([6, 6], 690), ([1], 690), ([100, 100], 690), ([100, 90], 810), ([*[3] * 99, 50], 810)],
    ids=["uneven", "even", "one-token", "smoothed", "smoothed-uneven", "one-long-line"],
)
def test_positions_are_drawn_with_how_many_lines_get_there_where_that_differs(lengths, height):
    gold = [[1] * length for length in lengths]
    free = [[1] * (length // 2) for length in lengths]
    png = plot_positions(position_report(gold, forced=gold, free=free), "$run, test: [bold]_x^")
    assert size(png) == (1200, height)
    assert png == plot_positions(position_report(gold, forced=gold, free=free), "$run, test: [bold]_x^")
