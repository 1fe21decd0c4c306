"""Hypotheses that share a cache: the same numbers as rows of their own, without moving keys."""

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.nn.attention_record import AttentionRecord
from headway.nn.beam_cache import BeamIndex, BeamKVCache, join_hypotheses, selected_sources, split_hypotheses
from headway.nn.cache import KVCache
from headway.nn.stack import Stack
from headway.ops import Causal
from tests.nn.tiny import CAUSAL, WIDTH, tiny_stack


def step(stack: Stack, x: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
    cache = cache.ready(x.shape[1])
    out = stack(x, mask=Causal(offset=cache.length), cache=cache)
    return out, cache.advanced(x.shape[1])


class Selections(NamedTuple):
    rows: list[list[int]]  # each an index into what the selection before it left
    tokens: list[int]


@st.composite
def selections(draw: st.DrawFn) -> Selections:
    """As a beam makes them, mostly: every row several times, then hypotheses among those of their row; rows leave."""
    sources, count, found = draw(st.integers(1, 3)), draw(st.integers(2, 3)), []
    found.append([row for row in range(sources) for _ in range(count)])
    for _ in range(draw(st.integers(1, 4))):
        kept = draw(st.lists(st.sampled_from(range(sources)), min_size=1, max_size=sources, unique=True).map(sorted))
        places = st.lists(st.integers(0, count - 1), min_size=count, max_size=count)
        found.append([row * count + place for row in kept for place in draw(places)])
        sources = len(kept)
    if draw(st.booleans()):  # and then something that no beam does
        found.append(draw(st.lists(st.integers(0, sources * count - 1), min_size=1, max_size=5)))
    return Selections(found, draw(st.lists(st.integers(1, 2), min_size=len(found), max_size=len(found))))


@given(chosen=selections(), position=st.sampled_from([None, *CAUSAL]), hooked=st.booleans())
@settings(max_examples=60, deadline=None)
@torch.no_grad()
def test_hypotheses_that_share_a_prefix_go_on_as_if_read_anew(chosen, position, hooked):
    torch.manual_seed(0)
    stack = tiny_stack(CAUSAL[position] if position else None, causal=True)
    if hooked:
        stack.blocks[0].attention.tap_weights.register_forward_hook(lambda *_: None)
    text = torch.randn(1 + max(chosen.rows[0]), 3, WIDTH, dtype=torch.float64)
    _, cache = step(stack, text, stack.empty_cache(2))
    for rows, count in zip(chosen.rows, chosen.tokens, strict=True):
        cache = cache.select(torch.tensor(rows))
        new = torch.randn(len(rows), count, WIDTH, dtype=torch.float64)
        text = torch.cat([text[rows], new], 1)
        out, cache = step(stack, new, cache)
        torch.testing.assert_close(out, stack(text, mask=Causal())[:, -count:], rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_a_beam_moves_no_key():
    stack = tiny_stack(None, causal=True)
    _, cache = step(stack, torch.randn(2, 3, WIDTH, dtype=torch.float64), stack.empty_cache(8))
    cache = cache.select(torch.tensor([0, 0, 0, 1, 1, 1]))
    _, cache = step(stack, torch.randn(6, 1, WIDTH, dtype=torch.float64), cache)
    held = cache.layers[0].k
    assert held is not None
    assert held.shape[0] == 2
    before = held.clone()
    cache = cache.select(torch.tensor([2, 2, 0, 5, 3, 4]))
    assert cache.layers[0].k is held
    assert torch.equal(held, before)


def test_positions_that_depend_on_where_keys_are_stored_keep_a_row_for_each_hypothesis():
    for name, position in CAUSAL.items():
        cache = tiny_stack(position, causal=True).empty_cache(4)
        assert isinstance(cache, BeamKVCache) == (name not in ("alibi", "t5", "shaw", "shaw_keys_only")), name


def test_an_index_lists_each_hypothesis_s_own_keys():
    index = BeamIndex.parted(rows=2, count=2, shared=3).grown()
    assert index.keys().tolist() == [[0, 1, 2, 3], [0, 1, 2, 4]] * 2
    index = index.select(torch.tensor([1, 1, 2, 3])).grown()
    assert index.keys().tolist() == [[0, 1, 2, 4, 5], [0, 1, 2, 4, 6], [0, 1, 2, 3, 5], [0, 1, 2, 4, 6]]
    assert index.start(5) == 7
    stored = torch.randn(2, 1, 7, 4)
    own = index.per_hypothesis(stored)
    for hypothesis, keys in enumerate(index.keys().tolist()):
        assert torch.equal(own[hypothesis], stored[hypothesis // 2][:, keys])


def test_joining_hypotheses_is_undone_by_splitting_them():
    x = torch.randn(6, 2, 5, 4)
    joined = join_hypotheses(x, 3)
    assert joined.shape == (2, 2, 15, 4)
    assert torch.equal(split_hypotheses(joined, 3), x)


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        ([0, 2, 5, 3], ([0, 1], 2)),
        ([3, 3, 3], ([1], 3)),
        ([0, 1, 2, 3, 4], None),  # three of the first source, two of the second
        ([], None),
    ],
)
def test_rows_are_found_only_if_sources_keep_equally_many_hypotheses(rows, want):
    found = selected_sources(torch.tensor(rows, dtype=torch.long), 3)
    assert (None if found is None else (found[0].tolist(), found[1])) == want


@torch.no_grad()
def test_a_record_of_hypotheses_has_their_own_weights():
    """The observer's record of shared keys, as rows, against a cache with a row for each hypothesis."""
    stack, kept = tiny_stack(None, causal=True), {}
    text, new = torch.randn(2, 3, WIDTH, dtype=torch.float64), torch.randn(6, 1, WIDTH, dtype=torch.float64)
    rows, moves = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([2, 0, 0, 3, 5, 4])
    for kind in (BeamKVCache, KVCache):
        records: list[AttentionRecord] = []
        cache = step(stack, text, kind.empty(2, 8))[1].select(rows)
        cache = step(stack, new, cache)[1].select(moves)
        stack.blocks[1].attention.on_attention = records.append
        step(stack, new, cache)
        stack.blocks[1].attention.on_attention = None
        kept[kind] = records[0]
    beam, plain = kept[BeamKVCache], kept[KVCache]
    assert (beam.hypotheses, plain.hypotheses) == (3, 1)
    torch.testing.assert_close(beam.weights(), plain.weights())
    torch.testing.assert_close(beam.head_outputs(), plain.head_outputs())
    torch.testing.assert_close(beam.added_keys(beam.k), plain.added_keys(plain.k))
