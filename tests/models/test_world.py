"""The world model and the decision transformer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from headway.models import DecisionConfig, WorldConfig, build_model
from headway.models.observation import Codes, Numbers, Tokens

LAKE = WorldConfig(observation=Tokens(levels=5), actions=3, width=16, layers=2, heads=2, inner=16, window=3, clock=9)
POLE = replace(LAKE, observation=Numbers(size=4))
GRID = replace(LAKE, observation=Tokens(parts=6, levels=4))
FILM = replace(LAKE, observation=Codes(image=8, patch=4, levels=6, inner=8))


def steps(config, rows=3, length=7):
    torch.manual_seed(0)
    seen = config.observation
    states = torch.randn(rows, length, seen.size) if isinstance(seen, Numbers) else torch.randint(
        seen.levels, (rows, length, seen.parts)
    )  # fmt: skip
    return states, torch.randint(3, (rows, length)), torch.arange(length).expand(rows, -1)


@pytest.mark.parametrize("config", [LAKE, POLE, GRID, FILM], ids=["lake", "pole", "grid", "film"])
def test_cached_steps_are_the_uncached_ones(config):
    model = build_model(config).eval()
    states, actions, ages = steps(config)
    with torch.no_grad():
        whole = model(states, actions, ages)
        first, cache = model.extend(states[:, :2], actions[:, :2], model.start(1), ages[:, :2])
        rest = []
        for t in range(2, 7):
            at = slice(t, t + 1)
            x, cache = model.extend(states[:, at], actions[:, at], cache, ages[:, at])
            rest.append(x)
    torch.testing.assert_close(torch.cat([first, *rest], 1), whole, atol=1e-5, rtol=1e-4)


def test_neither_the_future_nor_the_distant_past_is_seen():
    model = build_model(replace(LAKE, layers=1)).eval()
    states, actions, ages = steps(LAKE)
    other = states.clone()
    other[:, 3] = (other[:, 3] + 1) % 5
    changed = (model(states, actions, ages) - model(other, actions, ages)).abs().amax((0, 2)) > 1e-6
    assert changed.tolist() == [False, False, False, True, True, True, False]


def test_next_states_are_drawn_not_averaged():
    model = build_model(LAKE)
    h = torch.randn(1, 16)
    with torch.no_grad():
        chances = model.reader.logits(h)[0, 0].softmax(-1)
        drawn = model.reader.draw(h.expand(20_000, -1), torch.zeros(20_000, 1))
    counted = torch.bincount(drawn[:, 0], minlength=5) / 20_000
    torch.testing.assert_close(counted, chances, atol=0.02, rtol=0)
    sure = build_model(replace(LAKE, observation=Tokens(levels=5, least=0.999)))
    assert (sure.reader.draw(h, h) == sure.reader.logits(h).argmax(-1)).all()


def test_hardly_likely_rewards_and_ends_are_not_imagined():
    """Found on MiniGrid: a reward of 0.955 that always comes had a probability of 0.991, and was imagined as 0.946."""
    observation = Tokens(parts=6, levels=4, least=0.02)
    for config, said in ((replace(GRID, observation=observation), [1.0, 0.0]), (GRID, [0.991, 0.009])):
        model = build_model(config).eval()
        with torch.no_grad():
            for part in model.outcome.parameters():
                part.zero_()
            model.outcome[-1].bias.copy_(torch.tensor([math.log(0.991 / 0.009), 1.0, -math.log(0.991 / 0.009)]))
            reward, end = model.rewarded(torch.zeros(1, 16), torch.zeros(1, 6, dtype=torch.long))
        assert [reward.item(), end.sigmoid().item()] == pytest.approx(said, abs=1e-5)


def test_measuring_numbers_anew_changes_nothing():
    model = build_model(POLE).eval()
    torch.nn.init.normal_(model.actor.out.weight)
    states, actions, ages = steps(POLE)

    def everything():
        h = model(states, actions, ages)
        mean, _ = model.reader._moved(h)
        return h, mean * model.reader.moves, model.actor(model.reader.normal(states))

    with torch.no_grad():
        model.renormalise(2 * torch.randn(50, 4), 0.5 * torch.randn(50, 4))
        before = everything()
        model.renormalise(7 + 3 * torch.randn(50, 4), 0.1 * torch.randn(50, 4))
        assert (model.reader.mean - 7).abs().max() < 2
        for old, new in zip(before, everything(), strict=True):
            torch.testing.assert_close(new, old, atol=1e-4, rtol=1e-4)


def test_the_first_measure_of_numbers_leaves_the_weights():
    """They are drawn for normalised numbers; scaled by a move's deviation, first predictions were 60 of those off."""
    model = build_model(POLE).eval()
    weights = {name: p.clone() for name, p in model.named_parameters()}
    model.renormalise(7 + 3 * torch.randn(50, 4), 0.1 * torch.randn(50, 4))
    assert all(torch.equal(p, weights[name]) for name, p in model.named_parameters())
    assert model.reader.fitted


def test_a_narrow_deviation_has_a_moderate_gradient_of_its_own():
    model = build_model(POLE)
    torch.nn.init.constant_(model.reader.next.bias[4:], -3.0)  # narrow, and far from the truth
    h, before = torch.zeros(8, 16, requires_grad=True), torch.zeros(8, 4)
    slopes, read = {}, {}
    for name in ("nats", "score"):
        loss = getattr(model.reader, name)(h, before, before + 1).sum()
        bias, read[name] = torch.autograd.grad(loss, [model.reader.next.bias, h], retain_graph=True)
        slopes[name] = bias[4:]
    assert (slopes["nats"] / slopes["score"]).max() < 0.02
    error = (before + 1 - model.reader._moved(h)[0]).square().sum()
    torch.testing.assert_close(read["nats"], torch.autograd.grad(error, h)[0])  # none of it reaches the features


def test_a_code_comes_back_as_a_picture_and_unused_ones_are_revived():
    model = build_model(FILM)
    pictures = torch.randint(256, (20, 3, 8, 8), dtype=torch.uint8)
    model.codes.book.data.fill_(100)
    assert len(model.reader.state(pictures).unique()) == 1
    model.codes.revive(pictures)
    codes = model.reader.state(pictures)
    assert codes.shape == (20, 4)
    assert len(codes.unique()) > 2
    assert model.reader.state(pictures.view(4, 5, 3, 8, 8)).shape == (4, 5, 4)
    assert model.codes.pictures(codes).shape == (20, 3, 8, 8)
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(40):
        loss = sum(part.mean() for part in model.codes.autoencoded(pictures).values())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss))
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("seen", [Numbers(size=4), Tokens(parts=2, levels=5)], ids=["numbers", "tokens"])
def test_a_decision_does_not_see_the_action_it_is_to_make(seen):
    config = DecisionConfig(observation=seen, actions=3, context=7, width=16, layers=1, heads=2)
    model = build_model(config).eval()
    states, actions, _ = steps(replace(LAKE, observation=seen))
    returns = torch.rand(3, 7)
    other, richer = actions.clone(), returns.clone()
    other[:, 4] = (other[:, 4] + 1) % 3
    richer[:, 4] += 1

    def changed(*inputs):
        return ((model(*inputs) - model(returns, states, actions)).abs().amax((0, 2)) > 1e-6).tolist()

    assert model.bfloat16()(returns, states, actions).dtype == torch.bfloat16  # inputs are given in float32
    model.float()
    assert changed(returns, states, other) == [False] * 5 + [True] * 2
    assert changed(richer, states, actions) == [False] * 4 + [True] * 3


def test_a_codes_state_is_its_own_state():
    reader = build_model(FILM).reader
    codes = reader.state(torch.randint(256, (2, 3, 3, 8, 8), dtype=torch.uint8))
    assert codes.shape == (2, 3, 4)
    assert torch.equal(reader.state(codes), codes)
