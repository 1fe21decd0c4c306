"""Rows that come and go: joined, copied, moved and removed, each with the logits it has in a cache of its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headway.decoding.row_batch import RowBatch
from headway.models import Gpt, build_model
from headway.nn.row_cache import MIN_CAPACITY, MIN_ROWS, RowsKVCache
from tests.models import tiny

FORMS = ["gpt-learned", "gpt-rotary", "gpt-llama", "gpt-alibi", "gpt-windows", "gpt-shaw"]


def model_of(name: str) -> Gpt:
    torch.manual_seed(0)
    model = build_model(tiny.LANGUAGE[name], device="cpu").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    assert isinstance(model, Gpt)
    return model


def read(model: Gpt, length: int, seed: int) -> tuple[Tensor, RowsKVCache]:
    """Random tokens (1, T), and the state after them."""
    tokens = torch.randint(tiny.VOCAB, (1, length), generator=torch.Generator().manual_seed(seed))
    return tokens, model.extend(tokens, model.start())[1]  # type: ignore[return-value]


@pytest.mark.parametrize("name", FORMS)
@torch.no_grad()
def test_a_joined_row_goes_on_as_in_a_whole_pass(name: str) -> None:
    model = model_of(name)
    texts, states = zip(*(read(model, length, length) for length in (3, 9, 1, 6)), strict=True)
    state, rows = model.join(states), list(texts)
    for step in range(3):
        tokens = torch.randint(tiny.VOCAB, (4, 1), generator=torch.Generator().manual_seed(step))
        logits, state = model.extend(tokens, state)
        rows = [torch.cat([row, token.view(1, 1)], 1) for row, token in zip(rows, tokens, strict=True)]
        for row, found in zip(rows, logits, strict=True):
            torch.testing.assert_close(found[0], model(row)[0, -1])


@torch.no_grad()
def test_rows_are_moved_removed_and_copied() -> None:
    model = model_of("gpt-rotary")
    texts, states = zip(*(read(model, length, length) for length in (3, 9, 1, 6, 2)), strict=True)
    state = model.join(states)
    copy = model.fork(state, torch.tensor([1, 3]))
    kept = model.select(state, torch.tensor([0, 4, 2]))  # the fifth takes the place of the second
    assert kept.used == 3  # the longest that is left
    turned = model.fork(kept, torch.tensor([2, 0]))
    for held, places in ((kept, [0, 4, 2]), (copy, [1, 3]), (turned, [2, 0])):
        tokens = torch.full((len(places), 1), 7)
        logits, _ = model.extend(tokens, held)
        for place, found in zip(places, logits, strict=True):
            expected = model(torch.cat([texts[place], torch.tensor([[7]])], 1))
            torch.testing.assert_close(found[0], expected[0, -1])


@torch.no_grad()
def test_a_row_is_added_without_copying_the_others_while_there_is_room() -> None:
    model = model_of("gpt-learned")
    state = model.join([read(model, 4, 0)[1]])
    buffer = state.layers[0].k
    for _ in range(MIN_ROWS - 1):
        state = model.join([state, read(model, 2, 1)[1]])
        assert state.layers[0].k is buffer
    grown = model.join([state, read(model, 2, 1)[1]])
    assert grown.layers[0].k is not buffer
    assert grown.layers[0].k.shape[0] == 2 * MIN_ROWS  # type: ignore[union-attr]
    assert grown.layers[0].capacity == MIN_CAPACITY


@torch.no_grad()
def test_what_a_row_left_behind_is_never_read() -> None:
    """Not even NaN, in the place that another row takes."""
    model = model_of("gpt-learned")
    batch: RowBatch[object] = RowBatch(model)  # type: ignore[arg-type]
    for seed in range(3):
        batch.add(read(model, 12, seed)[1])
    state = batch._state
    for layer in state.layers:  # type: ignore[union-attr]
        layer.k[2], layer.v[2] = torch.nan, torch.nan
    batch.remove([2])
    batch.add(read(model, 2, 5)[1])
    alone: RowBatch[object] = RowBatch(model)  # type: ignore[arg-type]
    alone.add(read(model, 2, 5)[1])
    assert torch.equal(batch.step([1, 2, 3])[2], alone.step([3])[0])
