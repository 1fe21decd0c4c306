"""A sentence encoder at work: it embeds, is explained, verified and exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from headway.tasks.base import Pipeline, RunParts, Task
from headway.tasks.capabilities import Embeds
from headway.tasks.sentence_embedding.config import Embedding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.verification_inputs import VerificationInputs


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

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Texts, of which every token gets a vector: these are compared."""
        from headway.tasks.verification_inputs import (
            VERIFICATION,
            encoder_layout,
            first_lines,
            text_inputs,
            token_names,
        )

        text = self.parts.config.text
        sizes = self.parts.inputs or VERIFICATION
        layout = encoder_layout(self.tokenizer, self.config.max_length, two=text is not None and text.segments > 1)
        own, spell = first_lines(self.parts.data, sizes), token_names(self.tokenizer)
        return text_inputs(self.model, layout, given, own, spell, names=None, sizes=sizes)

    def export_request(self) -> ExportRequest:
        """As a masked model, and how token vectors become a sentence's."""
        from functools import partial

        from headway.tasks.export_request import ExportRequest, TextExport
        from headway.tasks.sentence_embedding.embed import pooled

        pool = partial(pooled, config=self.config)
        text = TextExport(tokenizer=self.tokenizer, around="start-stop", pool=pool)
        return ExportRequest(model=self.model, config=self.parts.config, text=text)

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
