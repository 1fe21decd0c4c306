from __future__ import annotations

import pytest
import torch

from headway.models import build_model
from headway.tasks.world_model.imagination import Start, acting, actor_critic, drawn, greedy, imagine, lambda_returns
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
    assert torch.equal(acting(model, greedy)(found[0].states[0], 0), acting(model, greedy)(found[0].states[0], 1))


def test_only_actor_and_critic_learn_from_a_dream():
    model = build_model(LAKE)
    found = imagine(model, BEGIN, 5, acting(model, drawn))
    sum(actor_critic(model, found, discount=0.9, trace=0.9, entropy=0.01)).backward()
    reached = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert reached == {"actor", "critic"}


BEGIN = start()
