"""A shorter run with the schedule of a longer one: warm-up, evaluations and checkpoints in proportion to the steps."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from headway.training.config import TrainConfig

EVALUATIONS = 4  # of a run that is too short for one by its preset
MAX_SAVES = 40  # of a run whose checkpoints are averaged
MAX_AVERAGED = 0.25  # share of a run over which checkpoints are averaged; before, the weights are those of a beginner


def is_set(key: str, keys: Collection[str]) -> bool:
    """Whether dotted keys name this one, or a section around it."""
    return any(key == each or key.startswith(f"{each}.") for each in keys)


def shortened(train: TrainConfig, before: int, fixed: Collection[str] = ()) -> TrainConfig:
    """The settings of a run of `train.steps`, given those of a recipe for `before` steps.

    The warm-up keeps its share of the steps, and the rate its peak (the one of `noam` follows from the warm-up).
    Evaluations and checkpoints that would never happen, and an average over most of the run, are scaled as well.
    Keys in `fixed` stay as they are; so does all if the run is not shorter.
    """
    if train.steps >= before:
        return train
    share = train.steps / before
    if train.schedule.warmup:
        train = with_warmup(train, max(round(train.schedule.warmup * share), 1), fixed)
    every = math.ceil(train.steps / EVALUATIONS)
    if train.evaluate_every > train.steps and not is_set("train.evaluate_every", fixed):
        train = replace(train, evaluate_every=every)
    if any(is_set(f"train.{key}", fixed) for key in ("save_every", "average", "keep")):
        return train
    window = train.average * train.save_every
    if train.average > 1 and window > MAX_AVERAGED * train.steps:
        saves = max(round(train.save_every * share), math.ceil(train.steps / MAX_SAVES))
        averaged = min(max(round(window * share / saves), 2), train.average)
        return replace(train, save_every=saves, average=averaged)
    return replace(train, save_every=every) if train.save_every > train.steps else train


def shared_out(train: TrainConfig, ranks: int, fixed: Collection[str] = ()) -> TrainConfig:
    """The settings of a step of about the same size whose micro-batches so many ranks can share out.

    It stays as it is if `fixed` names one of the two keys that say how large a step is.
    """
    if train.accumulate % ranks == 0 or any(is_set(f"train.{key}", fixed) for key in ("accumulate", "batch_tokens")):
        return train
    count = ranks * max(round(train.accumulate / ranks), 1)
    return replace(train, accumulate=count, batch_tokens=max(train.batch_tokens * train.accumulate // count, 1))


def like_before(train: TrainConfig, before: TrainConfig, fixed: Collection[str] = ()) -> TrainConfig:
    """The settings of a run that goes on after it was begun with `before`: it keeps the schedule that it has.

    Keys in `fixed` stay as they are.
    """
    kept = ("evaluate_every", "save_every", "average")
    train = replace(train, **{name: getattr(before, name) for name in kept if not is_set(f"train.{name}", fixed)})
    if type(train.schedule) is not type(before.schedule):
        return train  # which `expect_same` refuses
    return with_warmup(train, before.schedule.warmup, fixed)


def with_warmup(train: TrainConfig, warmup: int, fixed: Collection[str] = ()) -> TrainConfig:
    """Another warm-up with the same peak rate, unless `fixed` names what would change."""
    if is_set("train.schedule.warmup", fixed) or warmup == train.schedule.warmup:
        return train
    schedule = replace(train.schedule, warmup=warmup)
    if not is_set("train.learning_rate", fixed):
        old, new = (each.factor(max(each.warmup, 1), train.steps) for each in (train.schedule, schedule))
        train = replace(train, learning_rate=train.learning_rate * old / new)
    return replace(train, schedule=schedule)


def differences(before: TrainConfig, after: TrainConfig) -> str:
    """What changed, for a message: "train.schedule.warmup 11,710 -> 15, train.evaluate_every 1,171 -> 38"."""
    names = ("batch_tokens", "accumulate", "learning_rate", "evaluate_every", "save_every", "average")
    pairs = {"train.schedule.warmup": (before.schedule.warmup, after.schedule.warmup)}
    pairs |= {f"train.{name}": (getattr(before, name), getattr(after, name)) for name in names}
    return ", ".join(f"{key} {number(old)} -> {number(new)}" for key, (old, new) in pairs.items() if old != new)


def number(value: float) -> str:
    """A number for people: 11,710 and 0.00125."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
