"""Equal windows of a batch merged into one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

from headway.data.config import DataConfig
from headway.errors import ConfigError
from headway.models import build_model
from headway.tasks.world_model.merging import merged
from headway.tasks.world_model.world_loss import world_loss
from tests.pipelines import prepared
from tests.worlds import LAKE, POLE, TASK, task

CPU = torch.device("cpu")


@pytest.mark.parametrize("length", [1, 3])
def test_merged_windows_have_the_gradient_of_all(length, tmp_path):
    """Found on FrozenLake: windows drawn anew for each step left the learned table as far off as the data did."""
    made, model = task(tmp_path, config=replace(TASK, length=length, windows="distinct")), build_model(LAKE, seed=1)
    made.phase(model, 0, CPU)
    every = made.windows("train", np.arange(len(made.splits["train"].windows)))
    few = merged(every)
    assert len(few.targets) < len(every.targets)
    assert few.inputs[3].sum() == pytest.approx(few.count)

    def gradient(batch) -> tuple[float, torch.Tensor]:
        model.zero_grad()
        loss = sum(world_loss(model, batch)) / batch.count
        loss.backward()
        return loss.item(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    (loss, slope), (wanted, steep) = gradient(few), gradient(every)
    assert loss == pytest.approx(wanted, rel=1e-5)
    torch.testing.assert_close(slope, steep, rtol=1e-4, atol=1e-6)
    drawn = made.batch(np.arange(4))
    assert drawn is made.batch(np.arange(4, 8))  # one batch for all steps of a round
    assert drawn.count == few.count


def test_only_windows_of_one_symbol_a_step_are_merged(tmp_path):
    config = replace(TASK, windows="distinct")
    for data, model in (("CartPole-v1", POLE), ("FrozenLake-v1", replace(LAKE, clock=9))):
        with pytest.raises(ConfigError, match=r"task.windows=distinct, allowed for .*: drawn"):
            prepared(config, DataConfig(spec=data), model, folder=tmp_path, batch_tokens=48)
