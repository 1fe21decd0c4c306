"""Outputs that are NaN or infinite: reported with the number of their input, never used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from headway.errors import DIVERGED, InputError, NonFiniteError, NonFiniteOutputError

INT8_FAILURE = "ChooseQuantizationParams"  # in torch's message


def expect_finite(values_B: Tensor, what: str = "sequence") -> None:
    """Raise NonFiniteOutputError for the first row of (B, …) that holds a NaN or an infinity."""
    finite = values_B.isfinite().flatten(1).all(1) if values_B.ndim > 1 else values_B.isfinite()
    if not bool(finite.all()):
        raise NonFiniteOutputError(int((~finite).nonzero()[0]), what=what)


def expect_log_probabilities(nats: Sequence[float]) -> None:
    """Raise NonFiniteOutputError for the first token of a text whose log-probability is NaN or infinite."""
    bad = next((step for step, value in enumerate(nats, 1) if not math.isfinite(value)), None)
    if bad is not None:
        raise NonFiniteOutputError(0, bad, "text")


@contextmanager
def numbered(rows: Sequence[int] | Tensor, what: str | None = None) -> Iterator[None]:
    """While open, a NonFiniteOutputError or InputError about row n of a batch becomes one about input `rows[n]`.

    An 8-bit product of NaN fails inside torch, without a row; that becomes a NonFiniteError.
    """
    try:
        yield
    except (NonFiniteOutputError, InputError) as error:
        error.row, error.what = int(rows[error.row]), error.what if what is None else what
        raise
    except RuntimeError as error:
        if INT8_FAILURE not in str(error):
            raise
        raise NonFiniteError(f"the input of an 8-bit product is NaN or infinite; {DIVERGED}") from error
