"""Consistency checks between the fields of a trace, made once when it is read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from headway.counts import counted
from headway.decoding.trace import Floats, Trace, TraceStep, checked_penalty
from headway.errors import ConfigError, DataError


def check(trace: Trace, steps: tuple[TraceStep, ...]) -> Trace:
    """The trace with these steps. Raises DataError naming the field that is inconsistent with the others."""
    if trace.n_best > trace.beam:
        raise DataError(f"n_best: {trace.n_best}, expected at most the beam of {trace.beam}")
    for name, word in (("start", trace.start), ("stop", trace.stop)):
        if word not in trace.pieces:
            raise DataError(f"{name}: {word} is not in the vocabulary")
    finished = sum(int(step.ended.sum()) for step in steps)
    if len(trace.texts) != finished:
        found = counted(len(trace.texts), "entry", "entries")
        raise DataError(f"texts: {found}, expected one for each of {finished} finished hypotheses")
    before, totals = 0, np.zeros(1, np.float32)
    for number, step in enumerate(steps):
        _check_length(trace, step, number, before, last=number == len(steps) - 1)
        _check_indices(trace, step, number, len(totals))
        _check_sums(step, number, totals)
        _check_attention(trace, step, number, 0 if step.length == before else len(totals))
        before, totals = step.length, step.totals[step.kept]
    return replace(trace, steps=steps)


def _check_length(trace: Trace, step: TraceStep, number: int, before: int, *, last: bool) -> None:
    if step.length != before + 1 and not (last and number and step.length == before):
        raise DataError(f"lengths[{number}]: {step.length}, expected {before + 1}")
    try:
        norm = checked_penalty(step.length, trace.alpha, trace.penalty)
    except ConfigError as error:
        raise DataError(f"alpha: {error}") from None
    if not math.isclose(step.norm, norm, rel_tol=1e-9):  # powers may differ in the last bit between machines
        raise DataError(f"norms[{number}]: {step.norm}, expected {norm} of {trace.penalty} with alpha {trace.alpha}")


def _check_indices(trace: Trace, step: TraceStep, number: int, slots: int) -> None:
    if (step.parents >= slots).any():
        raise DataError(
            f"parents: {step.parents.max()} at step {number}, expected less than the {slots} open hypotheses"
        )
    if (step.kept >= len(step.totals)).any() or len(np.unique(step.kept)) != len(step.kept):
        raise DataError(f"kept: at step {number} not distinct indices below its {len(step.totals)} candidates")
    for word in step.words.tolist():
        if word not in trace.pieces:
            raise DataError(f"words: {word} at step {number} is not in the vocabulary")


def _check_sums(step: TraceStep, number: int, before: Floats) -> None:
    """Every total is its parent's plus its own nats, bitwise; ended hypotheses have a probability above 0."""
    if not ((step.totals < np.inf).all() and (step.nats < np.inf).all()):  # also false for NaN
        raise DataError(f"totals: not a log-probability at step {number}")
    if (before[step.parents] + step.nats != step.totals).any():
        raise DataError(f"nats: at step {number} they do not add up to the totals")
    if (step.totals[step.ended] == -np.inf).any():
        raise DataError(f"ended: at step {number} a hypothesis of probability 0")


def _check_attention(trace: Trace, step: TraceStep, number: int, rows: int) -> None:
    if step.levels is None or step.scales is None:
        return
    if step.levels.shape != (rows, len(trace.source_pieces)):
        raise DataError(f"attending: {len(step.levels)} rows at step {number}, expected {rows}")
    if not ((step.scales >= 0) & (step.scales <= 1.01)).all():
        raise DataError(f"attention_scales: not an attention weight at step {number}")
