from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headway.models import build_model
from headway.tasks.world_model.imagination import (
    Experience,
    Start,
    acting,
    actor_critic,
    drawn,
    greedy,
    imagine,
    lambda_returns,
    proximal,
)
from tests.worlds import LAKE


def start(rows=64, context=0):
    torch.manual_seed(1)
    states, ages = torch.randint(16, (rows, context + 1, 1)), torch.arange(context + 1).expand(rows, -1)
    return Start(states, torch.zeros(rows, context, dtype=torch.long), ages)


def test_lambda_returns_by_hand():
    rewards, ends = torch.tensor([[1.0], [2.0]]), torch.tensor([[False], [False]])
    values = torch.tensor([[9.0], [3.0], [4.0]])
    last = 2 + 0.5 * 4
    first = 1 + 0.5 * (0.2 * 3 + 0.8 * last)
    found = lambda_returns(rewards, ends, values, discount=0.5, trace=0.8)
    assert found.flatten().tolist() == pytest.approx([first, last])
    cut = lambda_returns(rewards, torch.tensor([[True], [False]]), values, discount=0.5, trace=0.8)
    assert cut[0].item() == 1.0  # nothing comes after an end


@pytest.mark.parametrize("context", [0, 2])
def test_a_dream_goes_on_from_where_it_starts(context):
    model, begin = build_model(LAKE), start(context=context)
    found = imagine(model, begin, 5, acting(model, drawn))
    assert found.states.shape == (6, 64, 1)
    assert (found.states[0] == begin.states[:, -1]).all()
    assert found.alive[0].all()
    for t in range(4):
        assert (found.alive[t + 1] == (found.alive[t] & ~found.ends[t])).all()
    assert not found.states.is_inference()  # it can be learned from


def test_a_dream_repeats_with_its_seed():
    model = build_model(LAKE)
    found = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        found.append(imagine(model, BEGIN, 5, acting(model, drawn)))
    assert torch.equal(found[0].states, found[1].states)
    assert not torch.equal(found[0].states, found[2].states)
    state, nothing = found[0].states[0], torch.zeros(64, model.width)
    assert torch.equal(acting(model, greedy)(state, nothing, 0), acting(model, greedy)(state, nothing, 1))


def test_only_actor_and_critic_learn_from_a_dream():
    model = build_model(LAKE)
    found = imagine(model, BEGIN, 5, acting(model, drawn))
    sum(actor_critic(model, found, discount=0.9, trace=0.9, entropy=0.01)).backward()
    reached = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert reached == {"actor", "critic"}


def test_the_first_proximal_step_is_that_of_the_actor_critic():
    torch.manual_seed(2)
    model = build_model(LAKE)
    for network in (model.actor, model.critic):
        torch.nn.init.normal_(network.out.weight)
    rollout = imagine(model, BEGIN, 5, acting(model, drawn))
    kept = Experience.of(model, rollout, discount=0.9, trace=0.8)
    assert len(kept.actions) == int(rollout.alive.sum())
    gradients = []
    for parts in (
        proximal(model, kept, torch.arange(len(kept.actions)), clip=0.2, entropy=0.01),
        actor_critic(model, rollout, discount=0.9, trace=0.8, entropy=0.01),
    ):
        gradients.append(torch.autograd.grad(sum(parts), [*model.actor.parameters(), *model.critic.parameters()]))
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


def test_a_ratio_that_went_too_far_has_no_gradient():
    torch.manual_seed(2)
    model = build_model(LAKE)
    kept = Experience.of(model, imagine(model, BEGIN, 5, acting(model, drawn)), discount=0.9, trace=0.8)
    ones = torch.ones_like(kept.ahead)
    for ahead, moved, learns in ((1, 0.5, False), (1, -0.5, True), (-1, -0.5, False), (-1, 0.5, True)):
        far = replace(kept, ahead=ahead * ones, logs=kept.logs - moved)  # the ratio is exp(moved)
        policy, *_ = proximal(model, far, torch.arange(len(ones)), clip=0.2, entropy=0.0)
        (slope,) = torch.autograd.grad(policy, model.actor.out.bias)
        assert bool(slope.any()) == learns


BEGIN = start()
