from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headway.data.batching import padded
from headway.data.token_store import TokenStore

SEQUENCES = st.lists(st.lists(st.integers(0, 99), max_size=7), min_size=1, max_size=12)


def store_of(sequences):
    starts = np.concatenate([[0], np.cumsum([len(each) for each in sequences])]).astype(np.int64)
    return TokenStore(np.asarray([token for each in sequences for token in each], np.uint32), starts)


@given(SEQUENCES, st.data())
def test_padded_rows_are_the_sequences_with_their_stop_token(sequences, data):
    store = store_of(sequences)
    rows = np.asarray(data.draw(st.lists(st.integers(0, len(sequences) - 1), min_size=1, max_size=9)), np.int64)
    got, lengths = store.padded(rows, stop=100, pad=-100)
    want, counts = padded([np.asarray([*sequences[n], 100]) for n in rows], -100)
    assert np.array_equal(got, want)
    assert np.array_equal(lengths, counts)
    assert got.dtype == np.int64
