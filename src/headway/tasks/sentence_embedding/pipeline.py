"""A sentence encoder at work: it embeds, is explained, verified and exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from headway.errors import ConfigError
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task
from headway.tasks.capabilities import Embeds
from headway.tasks.sentence_embedding.config import Embedding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.tasks.explanation import Explanation
    from headway.tasks.report import Report


class EmbeddingPipeline(Pipeline, Embeds):
    """Texts in, vectors out."""

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Embedding)
        self.config = task

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector a text (N, D)."""
        from headway.tasks.sentence_embedding.embed import embed

        encoder = getattr(self.model, "encoder", self.model)  # without pretraining heads
        return embed(encoder, self.tokenizer, self.config, texts, self.device)

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Raise ConfigError: there is no metric for vectors alone."""
        raise ConfigError(f"{self.folder} is a sentence encoder: it has no metric here; `headway embed` uses it")

    def explain(self, given: str) -> Explanation:
        """A text, and the words whose vectors are nearest to those of its tokens."""
        from headway.tasks.encoder_explanation import explain_text

        predicts = hasattr(self.model, "output")
        return explain_text(
            self.model,
            self.tokenizer,
            given,
            embed=lambda texts: torch.from_numpy(self.embed(texts)),
            predicts=predicts,
        )
