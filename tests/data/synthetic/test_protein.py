"""`protein`: the posteriors are those of enumeration, and no decision by residue beats them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from headway.data.synthetic.protein import (
    LETTERS,
    MEAN_LENGTHS,
    STATES,
    ceiling,
    emissions,
    posteriors,
    sequences,
    stationary,
    transitions,
)


def test_the_model_is_a_model():
    assert transitions().sum(1) == pytest.approx(1)
    assert emissions().sum(1) == pytest.approx(1)
    assert stationary() @ transitions() == pytest.approx(stationary())
    assert 1 / (1 - np.diag(transitions())) == pytest.approx(MEAN_LENGTHS)


def test_posteriors_are_those_of_all_paths_enumerated():
    letters = "MKVLAGP"
    move, emit, first = transitions(), emissions(), stationary()
    total = np.zeros((len(letters), 3))
    for path in product(range(3), repeat=len(letters)):
        chance = first[path[0]] * emit[path[0], LETTERS.index(letters[0])]
        for place in range(1, len(letters)):
            chance *= move[path[place - 1], path[place]] * emit[path[place], LETTERS.index(letters[place])]
        for place, state in enumerate(path):
            total[place, state] += chance
    assert posteriors(letters) == pytest.approx(total / total.sum(1, keepdims=True), abs=1e-12)


def test_the_ceiling_is_what_the_posteriors_expect_and_above_single_residues():
    expected, count, alone = 0.0, 0, 0
    prior = stationary()[:, None] * emissions()
    for letters, states in sequences("val"):
        expected += float(posteriors(letters).max(1).sum())
        count += len(letters)
        best = [STATES[int(prior[:, LETTERS.index(letter)].argmax())] for letter in letters]
        alone += sum(a == b for a, b in zip(best, states, strict=True))
    assert ceiling("val") == pytest.approx(expected / count, abs=0.015)
    assert ceiling("val") > alone / count + 0.1


def test_what_was_drawn_has_the_frequencies_of_the_model():
    states = "".join(states for _, states in sequences("test"))
    for state, share in zip(STATES, stationary(), strict=True):
        assert states.count(state) / len(states) == pytest.approx(share, abs=0.02)
