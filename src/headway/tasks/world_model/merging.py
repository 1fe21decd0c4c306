"""Equal windows merged into one: the gradient of all that was collected, for the price of those that differ."""

from __future__ import annotations

import numpy as np
import torch

from headway.tasks.training_task import Batch


def merged(batch: Batch) -> Batch:
    """A batch of windows in which equal ones are one that counts as often as they occur; ages are not compared.

    Its loss is that of the whole batch. The weights are scaled to a mean of 1 over the steps that are left.
    """
    seen, actions, ages, counted = batch.inputs
    assert seen is not None
    assert actions is not None
    assert ages is not None
    assert counted is not None
    columns = (seen, actions, counted, batch.targets)
    table = np.concatenate([each.flatten(1).double().numpy() for each in columns], 1)
    _, first, times = np.unique(table, axis=0, return_index=True, return_counts=True)
    rows = torch.from_numpy(first)
    kept = counted[rows]
    weights = torch.from_numpy(times).float().unsqueeze(-1) * kept
    weights *= kept.sum() / weights.sum()
    return Batch((seen[rows], actions[rows], ages[rows], weights), batch.targets[rows], int(kept.sum()))
