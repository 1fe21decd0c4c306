"""The transformer of vectors: order, padding, pooling, standardisation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from headway.errors import ConfigError, DataError, ShapeError
from headway.models import ModelInputs, build_model
from headway.models.vector_transformer import (
    Features,
    MeanPool,
    QueryPool,
    VectorTransformerConfig,
    standardisation,
)
from headway.nn.positions import AlibiBias, Learned, Rotary, Shaw, Sinusoidal

NAMES = ("x", "y", "z")
FEATURES = Features(names=NAMES, means=(1.0, -2.0, 0.5), deviations=(2.0, 0.5, 3.0))
CONFIG = VectorTransformerConfig(features=FEATURES, outputs=5, width=16, heads=4, inner=24, layers=2)
POOLS = {"query": QueryPool(), "two": QueryPool(layers=2), "mean": MeanPool(), "none": None}
POSITIONS = {
    "learned": Learned(),
    "sinusoidal": Sinusoidal(),
    "rotary": Rotary(),
    "alibi": AlibiBias(),
    "shaw": Shaw(reach=3),
}


def built(config=CONFIG, **changes):
    model = build_model(replace(config, **changes), seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def drawn(rows=3, length=9, seed=0):
    return 4 * torch.randn(rows, length, 3, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("mixing", [True, False])
def test_without_positions_the_order_has_no_effect(pool, mixing):
    model, x = built(pool=POOLS[pool], mixing=mixing), drawn()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    found, moved = model(x), model(x[:, order])
    torch.testing.assert_close(moved, found[:, order] if pool == "none" else found, atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pool", ["query", "mean"])
def test_with_positions_the_order_has_an_effect(position, pool):
    model, x = built(position=POSITIONS[position], pool=POOLS[pool]), drawn()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))  # reversed, ALiBi has the same distances
    assert (model(x) - model(x[:, order])).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("position", [None, *POSITIONS])
@pytest.mark.parametrize("pool", POOLS)
def test_padding_changes_nothing(pool, position):
    model = built(pool=POOLS[pool], position=POSITIONS.get(position))
    x, lengths = drawn(), torch.tensor([9, 1, 5])
    found = model(x, lengths)
    noisy = torch.where(torch.arange(9)[:, None] < lengths[:, None, None], x, 1e4)
    again = model(noisy, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = model(x[row : row + 1, :length])[0]
        for both in (found, again):
            own = both[row, :length] if pool == "none" else both[row]
            torch.testing.assert_close(own, alone, atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_without_mixing_an_element_knows_of_no_other():
    x = drawn()
    other = x.clone()
    other[:, 4:] += 1
    for mixing, same in ((False, True), (True, False)):
        model = built(pool=None, mixing=mixing)
        found = torch.allclose(model(x)[:, :4], model(other)[:, :4], atol=1e-6)
        assert found is same


@torch.no_grad()
def test_the_mean_pool_is_the_mean():
    model, x = built(pool=MeanPool()), drawn()
    vectors = model.encoder(model.embedding(model.standardised(x)))
    torch.testing.assert_close(model(x), model.head(F.gelu(model.hidden(vectors.mean(1)))))


@torch.no_grad()
def test_the_query_pool_is_attention_of_one_query():
    """By its formula: softmax(q·kᵀ/√E)·v of one learned query, between residual connections."""
    model, x = built(), drawn(rows=2)
    z = model.encoder(model.embedding(model.standardised(x)))
    block, norm = model.pool.stack.blocks[0], model.pool.stack.output_norm
    h = model.pool.query.expand(2, 1, -1)
    v = block.attention.qkv(block.attention_norm(h, None)).chunk(3, -1)[2]
    h = h + block.attention.out(v)  # one query attends to itself alone
    q = block.cross.q(block.cross_norm(h, None)).view(2, 1, 4, 4).transpose(1, 2)
    k, v = (part.view(2, 9, 4, 4).transpose(1, 2) for part in block.cross.kv(z).chunk(2, -1))
    mixed = ((q @ k.mT) / math.sqrt(4)).softmax(-1) @ v
    h = h + block.cross.out(mixed.transpose(1, 2).flatten(2))
    h = norm(h + block.feedforward(block.feedforward_norm(h, None)), None)[:, 0]
    torch.testing.assert_close(model(x), model.head(F.gelu(model.hidden(h))), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_features_are_standardised_by_the_config():
    model, x = built(), drawn()
    plain = built(features=replace(FEATURES, means=(0.0,) * 3, deviations=(1.0,) * 3))
    plain.load_state_dict(model.state_dict())
    by_hand = (x - torch.tensor(FEATURES.means)) / torch.tensor(FEATURES.deviations)
    torch.testing.assert_close(model(x), plain(by_hand))


@torch.no_grad()
def test_features_far_from_zero_keep_their_digits_in_bfloat16():
    """bfloat16 has 8 bits of a number: 1,000.5 and 1,001.5 are the same before they are standardised."""
    far = replace(FEATURES, means=(1000.0, -2000.0, 5e4), deviations=(1.0, 1.0, 1.0))
    model = built(features=far)
    x = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0)) + torch.tensor(far.means)
    half = built(features=far).to(torch.bfloat16)
    assert (half(x) - model(x)).abs().max() < 0.02 * model(x).abs().max()
    assert half(x).dtype == torch.float32


@torch.no_grad()
def test_a_number_is_in_its_own_unit():
    plain, scaled, x = built(outputs=1), built(outputs=1, mean=100.0, deviation=20.0), drawn()
    torch.testing.assert_close(scaled(x), 20 * plain(x) + 100)


def test_standardisation_is_that_of_the_rows():
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1e-3, 5.0, 0.0]) + 7
    found = standardisation(NAMES, rows)
    assert found.means == pytest.approx(rows.double().mean(0).tolist())
    assert found.deviations[:2] == pytest.approx(rows.double().std(0, correction=0)[:2].tolist())
    assert found.deviations[2] == 1.0  # always the same


def test_run_is_forward():
    x, lengths = drawn(), torch.tensor([9, 1, 5])
    whole, each = built(), built(pool=None)
    inputs = ModelInputs(vectors=x, lengths=lengths)
    assert torch.equal(whole.run(inputs).classes, whole(x, lengths))
    assert torch.equal(each.run(inputs).tokens, each(x, lengths))


def test_wrong_inputs_and_settings_get_one_line():
    model = built()
    with pytest.raises(ShapeError, match=r"vectors of shape \(2, 4, 2\), the model reads \(sets, elements, 3\)"):
        model(torch.zeros(2, 4, 2))
    with pytest.raises(DataError, match="the set is empty"):
        model(torch.zeros(2, 0, 3))
    with pytest.raises(DataError, match="set length 0 in batch row 1"):
        model(drawn(2), torch.tensor([1, 0]))
    with pytest.raises(ConfigError, match="3 names, 2 means, 3 deviations, expected the same number of each"):
        replace(FEATURES, means=(0.0, 1.0))
    with pytest.raises(ConfigError, match=r"deviations: 0\.0, allowed: above 0"):
        replace(FEATURES, deviations=(1.0, 0.0, 1.0))
    with pytest.raises(ConfigError, match=r"deviation=0\.0, allowed: above 0"):
        replace(CONFIG, deviation=0.0)


def test_a_smaller_version_keeps_what_the_data_sets():
    found = replace(CONFIG, width=256, heads=8, inner=512, layers=6).smaller()
    assert found is not None
    assert found.features == FEATURES
    assert found.width < 256
    assert CONFIG.smaller() is None
