"""Whether a classifier of a model folder reads pairs of texts, which no field of its config.json is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What sentence-transformers writes for its CrossEncoder, whose inputs are pairs: of today and until its version 4.
CROSS_ENCODER, FORMER = "sentence_transformers", "sbert_ce_default_activation_function"
ACTIVATION, IDENTITY = "activation_fn", "torch.nn.modules.linear.Identity"
# Classes that relate one text to another: of natural language inference, GLUE's pairs and duplicate questions.
RELATIONS = frozenset(
    {
        "entailment", "not_entailment", "non_entailment", "contradiction", "duplicate", "not_duplicate", "paraphrase",
        "not_paraphrase", "equivalent", "not_equivalent",
    }
)  # fmt: skip


def reads_pairs(config: Mapping[str, Any], classes: Sequence[str]) -> bool:
    """Whether a config.json or the names of the classes show that the inputs are pairs of texts."""
    given = config.get(CROSS_ENCODER)
    if (isinstance(given, dict) and ACTIVATION in given) or FORMER in config:
        return True
    return any(name.strip().casefold().replace("-", "_").replace(" ", "_") in RELATIONS for name in classes)


def pair_settings() -> dict[str, Any]:
    """What config.json says of a classifier of pairs: CrossEncoder loads it, and gives the outputs as they are."""
    return {CROSS_ENCODER: {ACTIVATION: IDENTITY}}
