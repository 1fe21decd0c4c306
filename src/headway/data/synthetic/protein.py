"""Built-in `protein`: sequences of amino acids from a hidden Markov model whose states are the secondary structure.

The states are helix (H), strand (E) and coil (C). A state is kept or left with a fixed probability, so that helices are
10 residues long in the mean, strands 5 and coils 6. An amino acid is drawn in proportion to its frequency in proteins
times its propensity for the state (Chou and Fasman 1978), the propensity squared so that a residue tells more than in
nature. Since the model is known, so is the best accuracy that any tagger can have: `ceiling` computes it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COUNTS = {"train": 6_000, "val": 300, "test": 600}
LENGTHS = (40, 90)  # residues of a sequence, at least and at most
STATES = "HEC"
MEAN_LENGTHS = (10.0, 5.0, 6.0)  # residues in a run of each state
SHARPNESS = 2.0  # power of the propensities
# Amino acid: frequency in percent (UniProtKB/Swiss-Prot), propensity for helix, strand and turn (Chou and Fasman 1978).
RESIDUES = {
    "A": (8.25, 1.42, 0.83, 0.66), "R": (5.53, 0.98, 0.93, 0.95), "N": (4.06, 0.67, 0.89, 1.56),
    "D": (5.46, 1.01, 0.54, 1.46), "C": (1.38, 0.70, 1.19, 1.19), "Q": (3.93, 1.11, 1.10, 0.98),
    "E": (6.72, 1.51, 0.37, 0.74), "G": (7.07, 0.57, 0.75, 1.56), "H": (2.27, 1.00, 0.87, 0.95),
    "I": (5.91, 1.08, 1.60, 0.47), "L": (9.65, 1.21, 1.30, 0.59), "K": (5.80, 1.16, 0.74, 1.01),
    "M": (2.41, 1.45, 1.05, 0.60), "F": (3.86, 1.13, 1.38, 0.60), "P": (4.74, 0.57, 0.55, 1.52),
    "S": (6.65, 0.77, 0.75, 1.43), "T": (5.36, 0.83, 1.19, 0.96), "W": (1.10, 1.08, 1.37, 0.96),
    "Y": (2.92, 0.69, 1.47, 1.14), "V": (6.86, 1.06, 1.70, 0.50),
}  # fmt: skip
LETTERS = "".join(RESIDUES)
# From a helix or a strand mostly to coil, from coil to both.
LEAVING = ((0.0, 0.1, 0.9), (0.1, 0.0, 0.9), (0.5, 0.5, 0.0))


def transitions() -> Floats:
    """P(next state | state), (3, 3)."""
    stay = 1 - 1 / np.asarray(MEAN_LENGTHS)
    matrix: Floats = np.asarray(LEAVING) * (1 - stay)[:, None] + np.diag(stay)
    return matrix


def emissions() -> Floats:
    """P(amino acid | state), (3, 20)."""
    table = np.asarray(list(RESIDUES.values()))
    weights = table[:, 0] * table[:, 1:].T ** SHARPNESS
    rows: Floats = weights / weights.sum(1, keepdims=True)
    return rows


def stationary() -> Floats:
    """How often each state occurs, (3,): the distribution of the first one, too."""
    shares: Floats = np.full(3, 1 / 3)
    for _ in range(1000):
        shares = shares @ transitions()
    return shares


@cache
def sequences(split: str) -> tuple[tuple[str, str], ...]:
    """Residues and states of each sequence of a split, the same each time."""
    random = np.random.default_rng([*f"protein 1 {split}".encode()])
    move, emit, first = transitions().cumsum(1), emissions().cumsum(1), stationary().cumsum()
    made = []
    for _ in range(COUNTS[split]):
        length = int(random.integers(LENGTHS[0], LENGTHS[1] + 1))
        chances, draws = random.random(length), random.random(length)
        state, states, letters = int(np.searchsorted(first, chances[0])), [], []
        for place in range(length):
            if place:
                state = int(np.searchsorted(move[state], chances[place]))
            state = min(state, 2)  # rounding may leave the last sum below 1
            states.append(STATES[state])
            letters.append(LETTERS[min(int(np.searchsorted(emit[state], draws[place])), len(LETTERS) - 1)])
        made.append(("".join(letters), "".join(states)))
    return tuple(made)


def posteriors(letters: str) -> Floats:
    """P(state at each place | the whole sequence), (T, 3), by the forward-backward algorithm (Rabiner 1989, III.A)."""
    move, emit = transitions(), emissions()[:, [LETTERS.index(letter) for letter in letters]].T
    count = len(letters)
    forward, backward = np.empty((count, 3)), np.ones((count, 3))
    forward[0] = stationary() * emit[0]
    forward[0] /= forward[0].sum()
    for place in range(1, count):
        forward[place] = forward[place - 1] @ move * emit[place]
        forward[place] /= forward[place].sum()
    for place in range(count - 2, -1, -1):
        backward[place] = move @ (emit[place + 1] * backward[place + 1])
        backward[place] /= backward[place].sum()
    both = forward * backward
    shares: Floats = both / both.sum(1, keepdims=True)
    return shares


@cache
def ceiling(split: str) -> float:
    """The share of residues that the likeliest state by `posteriors` names right: no tagger has more in expectation."""
    right = total = 0
    for letters, states in sequences(split):
        best = posteriors(letters).argmax(1)
        right += sum(STATES[state] == true for state, true in zip(best.tolist(), states, strict=True))
        total += len(letters)
    return right / total
