"""A sentence encoder at work: it embeds, is evaluated, explained, verified and exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import torch

from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Embeds
from headway.tasks.sentence_embedding.config import Embedding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.data.scored_pairs import ScoredPairs
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.report import Report
    from headway.tasks.sentence_embedding.embed import Encoder
    from headway.tasks.sentence_embedding.training import EmbeddingTraining
    from headway.tasks.verification_inputs import InputSizes, VerificationInputs


class EmbeddingPipeline(Pipeline, Embeds):
    """Texts in, vectors out."""

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Embedding)
        self.config = task

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector a text (N, D)."""
        from headway.tasks.sentence_embedding.embed import embed

        return embed(self.encoder, self.tokenizer, self.config, texts, self.device)

    @property
    def encoder(self) -> Encoder:
        """The model without pretraining heads."""
        encoder: Encoder = getattr(self.model, "encoder", self.model)
        return encoder

    def evaluate(self, request: EvaluateRequest) -> Report:
        """How often a text finds the other one of its pair among all of a split, and how the vectors lie.

        Of other data with a score for each pair, how well cosine similarity agrees with the scores.
        """
        from headway.data.unknown_tokens import count_stored
        from headway.tasks.report import Facts, Report, Sample, Samples

        if request.data is not None and (scored := self._scored(request.data)) is not None:
            return self._similarity(scored, request.split)
        training: EmbeddingTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        for side in training.splits[split].sides:
            count_stored(self.tokenizer, side.ids)
        found = training.evaluate(self.encoder, self.device, split)  # type: ignore[arg-type]
        values = found.to_json()
        rows = {
            "recall_at_1": f"{values['recall_at_1']:.1%}  of {len(found.asked):,} texts find the other of their pair",
            "recall_at_5": f"{values['recall_at_5']:.1%}  have it among the first five",
            "mrr": f"{values['mrr']:.4f}  mean reciprocal rank among {values['candidates']:,} texts",
            "alignment": f"{values['alignment']:.4f}  mean squared distance of a pair; lower is closer",
            "uniformity": f"{values['uniformity']:.4f}  of all vectors on the sphere; lower is more even",
            "loss": f"{values['loss']:.4f}  nats a pair, in batches of up to {training.rows:,} pairs",
            "pairs": f"{values['pairs']:,}",
        }
        blocks = [
            [Sample("text", first), Sample("its pair", second), Sample("nearest", nearest)]
            for first, second, nearest in training.shown(split, found)
        ]
        return Report(split=split, values=values, sections=[Facts(rows), Samples("samples", blocks)])

    def _scored(self, spec: str) -> ScoredPairs | None:
        """Pairs with scores; None for other data, among it every built-in set."""
        from headway.data.datasets import kinds_of
        from headway.data.scored_pairs import load_scored_pairs

        return None if kinds_of(spec) else load_scored_pairs(spec, errors=self.parts.data.errors)

    def _similarity(self, scored: ScoredPairs, wanted: str | None) -> Report:
        from headway.tasks.sentence_embedding.similarity import cosines, similarity_report

        split = split_of(scored.splits, wanted)
        pairs = scored.splits[split]
        vectors = self.embed([text for pair in pairs for text in pair[:2]])
        return similarity_report(split, pairs, cosines(vectors[::2], vectors[1::2]))

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Texts, of which every token gets a vector: these are compared."""
        from headway.tasks.verification_inputs import (
            VERIFICATION,
            encoder_layout,
            text_inputs,
            token_names,
        )

        text = self.parts.config.text
        sizes = self.parts.inputs or VERIFICATION
        layout = encoder_layout(self.tokenizer, self.config.max_length, two=text is not None and text.segments > 1)
        own, spell = self._own_texts(sizes), token_names(self.tokenizer)
        return text_inputs(self.model, layout, given, own, spell, names=None, sizes=sizes)

    def _own_texts(self, sizes: InputSizes) -> Callable[[], list[str]] | None:
        """Reads the first texts of the validation split; None for an imported run, which has no data."""
        from headway.data.datasets import load_parallel
        from headway.tasks.verification_inputs import first_lines

        data = self.parts.data
        if not data.spec or self.config.positives == "dropout":
            return first_lines(data, sizes)

        def own() -> list[str]:
            pairs = load_parallel(
                data.spec, data.source, data.target, errors=data.errors, skip_bad=data.skip_bad
            ).pairs("val")
            return [first for first, _ in islice(pairs, sizes.own)]

        return own

    def export_request(self) -> ExportRequest:
        """As a masked model, and how token vectors become a sentence's."""
        from functools import partial

        from headway.tasks.export_request import ExportRequest, SentencePooling, TextExport
        from headway.tasks.sentence_embedding.embed import pooled

        pool = partial(pooled, config=self.config)
        sentence = SentencePooling(
            mode=self.config.pooling, normalise=self.config.normalise, max_length=self.config.max_length
        )
        text = TextExport(tokenizer=self.tokenizer, around="start-stop", pool=pool, sentence=sentence)
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
