"""A second model on a page: another run, or another checkpoint, that reads the same tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from headway.tasks.base import Pipeline
from headway.tasks.explanation import Explanation

PARTS = (
    "run", "task", "steps", "model", "parameters", "given", "said", "sequences", "attentions", "output", "precision",
    "tensors",
)  # fmt: skip


def beside_entry(payload: dict[str, Any]) -> dict[str, Any]:
    """What a page shows of the second model, from that model's own payload."""
    return {name: payload[name] for name in PARTS}


def explained_beside(
    pipeline: Pipeline, other: Pipeline, given: str, explanation: Explanation, written: Sequence[int] | None = None
) -> Explanation:
    """The forward pass of `other` on the input of `explanation`, which is that of `pipeline`.

    Where both have one vocabulary, the output that is read is the same as well: places correspond.
    """
    writer = other.token_writer(given) if vocabulary(pipeline) == vocabulary(other) else None
    if writer is None:
        return other.explain(given)
    if written is not None:
        return writer.explain(written)
    if writer.source is None or explanation.output is None:
        return other.explain(given)
    return writer.explain([target for target in explanation.output.targets if target is not None])


def vocabulary(pipeline: Pipeline) -> str:
    """A digest of a run's tokenizers: runs with the same one give the same ids to the same tokens."""
    texts = [f"{name}\n{tokenizer.to_json()}" for name, tokenizer in sorted(pipeline.parts.tokenizers.items())]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
