"""The page of a translation: the source, the best target the search found, and the search itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headway.data.tokenizers import Tokenizer
from headway.decoding.trace import Trace, lines
from headway.errors import DataError
from headway.inspection.page.attention import StackDescription
from headway.inspection.page.neighbours import EmbeddingTable
from headway.inspection.page.payload import Output, PageSubject, build_payload
from headway.inspection.page.tracing import trace_entry
from headway.models import RnnSeq2Seq
from headway.tasks.translation.traces import Readers
from headway.tasks.translation.training import before_source

SOURCE, TARGET = "source", "target"


@torch.no_grad()
def translation_page(model: nn.Module, readers: Readers, trace: Trace, subject: PageSubject) -> dict[str, Any]:
    """The payload of one source and its best line. Raises DataError where the search found none."""
    found = lines(trace)
    if not found:
        raise DataError(f"{subject.given!r}: the source is empty, so that there is nothing to look at")
    device = next(model.parameters()).device
    source = source_ids(readers.source, trace.source)
    written = [*found[0].tokens, *([readers.target.stop] if found[0].stopped else [])]
    read = [readers.target.start, *written[:-1]]

    def forward() -> torch.Tensor:
        logits: torch.Tensor = model(torch.tensor([source], device=device), torch.tensor([read], device=device))
        return logits[0]

    spelled = [readers.source.token(index) for index in source]
    turned = isinstance(model, RnnSeq2Seq) and model.reverse_source
    memory = f"{SOURCE}, read backwards" if turned else SOURCE
    sequences: dict[str, Any] = {SOURCE: {"label": "Source", "tokens": spelled, "start": 0}}
    if turned:
        sequences[memory] = {"label": "Source, as it was read", "tokens": spelled[::-1]}
    sequences[TARGET] = {
        "label": "Target",
        "tokens": [readers.target.token(index) for index in read],
        "start": min(1, len(read) - 1),
        "writes": [readers.target.token(index) for index in written],
    }
    looks = StackDescription(label="Decoder", sequence=TARGET, memory=memory)
    return build_payload(
        model,
        forward,
        subject,
        reads={"encoder": StackDescription(label="Encoder", sequence=memory), "decoder": looks, "attention": looks},
        sequences=sequences,
        output=Output(name=readers.target.token, label="What is written next", sequence=TARGET, targets=written),
        tables={
            SOURCE: EmbeddingTable(ids=source, vectors=_table(model, "source"), tokenizer=readers.source),
            TARGET: EmbeddingTable(ids=read, vectors=_table(model, "target"), tokenizer=readers.target),
        },
        more=lambda tensors, _: {"trace": trace_entry(trace, tensors)},
    )


def _table(model: nn.Module, side: str) -> torch.Tensor:
    """The word vectors of a side; one table may serve both."""
    own = getattr(model, f"{side}_embedding")
    vectors: torch.Tensor = (own or model.target_embedding).weight  # type: ignore[union-attr, assignment]
    return vectors


def source_ids(tokenizer: Tokenizer, line: str) -> list[int]:
    """A source as the model reads it."""
    return [*before_source(tokenizer), *tokenizer.encode(line), tokenizer.stop]
