"""A search as the page shows it: the tree, every finished hypothesis for re-ranking, and what each attended to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from headway.decoding.trace import Trace, alignment, tree
from headway.inspection.page.tensors import PageTensors

LOOKED = 32  # finished lines whose look at the source is kept


def trace_entry(trace: Trace, name: Callable[[int], str], tensors: PageTensors) -> dict[str, Any]:
    """Nodes, finished lines in the order of their rank, and the settings that made them."""
    found = tree(trace)
    looks = [alignment(trace, line) for line in found.lines[:LOOKED]]
    return {
        "alpha": trace.alpha,
        "penalty": trace.penalty,
        "beam": trace.beam,
        "source": list(trace.source_pieces),
        "nodes": [
            {"parent": node.parent, "step": node.step, "piece": name(node.word), "nats": node.nats, "total": node.total,
             "status": node.status}
            for node in found.nodes
        ],
        "lines": [
            {"text": line.text, "nodes": list(line.nodes), "length": line.length,
             "log_probability": line.log_probability, "stopped": line.stopped}
            for line in found.lines
        ],
        "looks": [None if look is None else tensors.full(torch.from_numpy(look)) for look in looks],
    }  # fmt: skip
