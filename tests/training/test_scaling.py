"""Fewer steps than a recipe has: what is counted in steps follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.counts import counted
from headway.errors import ConfigError
from headway.presets import PRESETS
from headway.training.config import TrainConfig
from headway.training.quantities import duration, seconds_of, size
from headway.training.scaling import differences, like_before, shortened
from headway.training.schedules import Cosine, InverseSqrt, Linear, Noam

CONVNET = PRESETS["convnet"].recipe().train


def test_a_shortened_run_reaches_its_peak_rate_and_is_evaluated():
    """TRIALS B friction 3: 150 of 117,100 steps were all warm-up, at a rate of nearly 0."""
    found = shortened(replace(CONVNET, steps=150), CONVNET.steps)
    assert found.schedule.warmup == 15
    assert found.learning_rate == CONVNET.learning_rate
    assert (found.evaluate_every, found.save_every) == (38, 38)
    rates = [found.schedule.factor(step, 150) for step in range(1, 151)]
    assert max(rates) == 1.0
    changed = "train.schedule.warmup 11,710 -> 15, train.evaluate_every 1,171 -> 38, train.save_every 1,171 -> 38"
    assert differences(CONVNET, found) == changed


@pytest.mark.parametrize(
    "schedule", [Linear(warmup=200), Cosine(warmup=200), InverseSqrt(warmup=200), Noam(warmup=200)]
)
@pytest.mark.parametrize("steps", [1, 7, 500])
def test_the_warm_up_keeps_its_share_and_the_rate_its_peak(schedule, steps):
    recipe = TrainConfig(steps=2000, schedule=schedule, learning_rate=0.7)
    found = shortened(replace(recipe, steps=steps), 2000)
    assert found.schedule.warmup == max(round(steps / 10), 1)
    peaks = [each.learning_rate * each.schedule.factor(each.schedule.warmup, each.steps) for each in (recipe, found)]
    assert peaks[1] == pytest.approx(peaks[0])


def test_what_the_user_sets_and_a_run_that_is_not_shorter_stay():
    short = replace(CONVNET, steps=150)
    assert shortened(short, 150) == short
    keys = ("train.schedule.warmup", "train.evaluate_every", "train.save_every")
    assert shortened(short, CONVNET.steps, keys) == short
    assert shortened(short, CONVNET.steps, ("train.schedule",)).schedule == short.schedule


def test_checkpoints_are_averaged_over_the_same_share_of_the_run():
    recipe = PRESETS["transformer-tiny"].recipe().train
    found = shortened(replace(recipe, steps=500), recipe.steps)
    assert found.average * found.save_every <= 0.1 * 500
    assert found.average >= 2
    assert 500 / found.save_every <= 41
    assert shortened(replace(recipe, steps=500), recipe.steps, ("train.average",)).save_every == recipe.save_every
    assert shortened(replace(recipe, steps=4000), recipe.steps).save_every == recipe.save_every


def test_a_resumed_run_keeps_its_schedule():
    begun = shortened(replace(CONVNET, steps=150), CONVNET.steps)
    longer = like_before(replace(CONVNET, steps=300), begun)
    assert longer == replace(begun, steps=300)
    assert like_before(replace(CONVNET, schedule=Linear(warmup=3)), begun).schedule == Linear(warmup=3)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("10min", 600), ("1.5h", 5400), ("1h30m", 5400)]
)
def test_times_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "10 m", "-5m", "m", "0s", "9999d", "1e9s"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ConfigError, match=r"allowed: "):
        seconds_of(text)


def test_times_and_sizes_for_people():
    times = [duration(each) for each in (0.04, 9.51, 45, 119.6, 570, 3599, 16_800, 200_000)]
    assert times == ["0.04 s", "9.5 s", "45 s", "2 min", "9 min 30 s", "59 min", "4 h 40 min", "2 d 7 h"]
    assert [size(each) for each in (12, 3_100, 31e6, 812e6, 2.5e9)] == [
        "12 bytes",
        "3.1 kB",
        "31 MB",
        "812 MB",
        "2.5 GB",
    ]
    found = [counted(each, "step") for each in (1, 2, 0.718, 1.0, 36.25, 117_100)]
    assert found == ["1 step", "2 steps", "0.72 steps", "1 step", "36 steps", "117,100 steps"]
