"""A finished tagger at work: it tags, is evaluated, explained and verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headway.data.batching import padded
from headway.data.tagged_text import has_entities
from headway.data.unknown_tokens import count_lines
from headway.data.words import divided
from headway.decoding.non_finite import expect_finite, numbered
from headway.errors import DataError
from headway.metrics.entities import Entity, entities
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Tags
from headway.tasks.tagging.alignment import WordAligner, WordRow
from headway.tasks.tagging.config import Tagging

if TYPE_CHECKING:
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.report import Report
    from headway.tasks.tagging.training import TaggingTraining
    from headway.tasks.verification_inputs import VerificationInputs

ROWS = 32  # rows in one forward pass
TEXT = "text"


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """The words of a text with their likeliest tags, the tags' probabilities, and the entities they make, if any."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    entities: list[Entity] | None  # None for tags that do not mark any

    def __str__(self) -> str:
        """One line: entities in brackets after their type, or each word with its tag."""
        if self.entities is None:
            return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))
        parts, place = [], 0
        for entity in self.entities:
            parts += self.words[place : entity.start]
            parts.append(f"[{entity.type} {' '.join(self.words[entity.start : entity.stop])}]")
            place = entity.stop
        return " ".join([*parts, *self.words[place:]])

    def to_json(self) -> dict[str, Any]:
        """What `headway tag --json` prints of a text; words are numbered from 0, `stop` is excluded."""
        found: dict[str, Any] = {"words": self.words, "tags": self.tags, "probabilities": self.probabilities}
        if self.entities is not None:
            found["entities"] = [
                {**each._asdict(), "text": " ".join(self.words[each.start : each.stop])} for each in self.entities
            ]
        return found


class TaggingPipeline(Pipeline, Tags):
    """Texts in, tags out."""

    evaluate_options = frozenset({"out"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Tagging)
        self.config, self.classes = task, parts.data.classes
        self.marks_entities = task.scheme != "plain" and has_entities(self.classes)
        self.aligner = WordAligner(self.tokenizer, parts.data.tokenizer, task.length)

    def words_of(self, text: str | Sequence[str]) -> list[str]:
        """The words of a text, which may be divided already. Raises DataError for a text without words."""
        words = divided(text, self.config.words) if isinstance(text, str) else list(text)
        if not words or not all(word.strip() for word in words):
            raise DataError("a text without words, or with an empty one: a tagger needs at least one word")
        return words

    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[TagPrediction]:
        """The likeliest tag of each word."""
        sentences = [self.words_of(text) for text in texts]
        tags = [[""] * len(words) for words in sentences]
        shares = [[0.0] * len(words) for words in sentences]
        rows = list(self.aligner.rows(sentences))
        for first in range(0, len(rows), ROWS):
            some = rows[first : first + ROWS]
            for row, best, which in self._likeliest(some):
                stop = row.first + len(row.begins)
                tags[row.sentence][row.first : stop] = [self.classes[n] for n in which]
                shares[row.sentence][row.first : stop] = best
        return [
            TagPrediction(words, found, share, entities(found) if self.marks_entities else None)
            for words, found, share in zip(sentences, tags, shares, strict=True)
        ]

    @torch.no_grad()
    def _likeliest(self, rows: Sequence[WordRow]) -> Iterator[tuple[WordRow, list[float], list[int]]]:
        """Each row with the probability and the number of the likeliest tag of its words."""
        tokens, lengths = (
            torch.from_numpy(part).to(self.device)
            for part in padded([row.ids for row in rows], self.tokenizer.pad)  # type: ignore[misc]
        )
        with numbered([row.sentence for row in rows], "text"):
            best_BT, which_BT = self.model(tokens, lengths).float().softmax(-1).max(-1)
            real_BT = torch.arange(tokens.shape[1], device=self.device) < lengths[:, None]
            expect_finite(best_BT.masked_fill(~real_BT, 0.0))
        for number, row in enumerate(rows):
            places = torch.from_numpy(row.begins).to(self.device)
            yield row, best_BT[number, places].tolist(), which_BT[number, places].tolist()

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Accuracy by word and by tag; of entities precision, recall and F1."""
        from headway.tasks.tagging.report import tagging_report

        training: TaggingTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        count_lines(self.tokenizer, [row.ids.tolist() for row in training.splits[split].rows])
        return tagging_report(split, training.evaluate(self.model, self.device, split))

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Texts, of which every token is tagged; the run's own data, sentences with tags, is not read."""
        from headway.tasks.verification_inputs import VERIFICATION, class_names, encoder_layout, text_inputs

        sizes = self.parts.inputs or VERIFICATION
        layout = encoder_layout(self.tokenizer, self.config.length, two=False)
        spell = class_names(self.classes)
        return text_inputs(self.model, layout, given, None, spell, names="class", sizes=sizes)

    def export_request(self) -> ExportRequest:
        """The tagger with the names of its tags."""
        from headway.tasks.export_request import ExportRequest, TextExport

        text = TextExport(tokenizer=self.tokenizer, around="start-stop")
        return ExportRequest(model=self.model, config=self.parts.config, text=text, classes=self.classes)

    def explain(self, given: str) -> Explanation:
        """A text, and the tags of its tokens, of which the first of each word counts."""
        from headway.tasks.encoder_explanation import embedding_table
        from headway.tasks.explanation import Explanation, Output, StackDescription, token_sequence

        words = self.words_of(given)
        row = next(self.aligner.rows([words]))
        ids, begins = row.ids.tolist(), row.begins.tolist()
        tokens = torch.tensor([ids], device=self.device)

        @torch.no_grad()
        def forward() -> Tensor:
            logits: Tensor = self.model(tokens)[0]
            return logits

        def said(logits_TC: Tensor) -> str:
            tags = [self.classes[n] for n in logits_TC[row.begins].argmax(-1).tolist()]
            shown = words[: len(tags)]
            found = entities(tags) if self.marks_entities else None
            return str(TagPrediction(shown, tags, [], found))

        return Explanation(
            kind="tagging",
            given=given,
            said=said,
            forward=forward,
            reads={"encoder": StackDescription(label="Encoder", sequence=TEXT)},
            sequences={TEXT: token_sequence(self.tokenizer, ids, start=begins[0])},
            output=Output(
                name=lambda index: self.classes[index],
                label="Its tag",
                sequence=TEXT,
                targets=[None] * len(ids),
                unit="tag",
            ),
            tables={TEXT: embedding_table(self.model, self.tokenizer, ids)},
        )
