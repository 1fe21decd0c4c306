"""The page of a language model: a text, and after each of its tokens what might follow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import BeamSettings
from headway.decoding.trace import lines
from headway.inspection.page.attention import StackDescription
from headway.inspection.page.neighbours import EmbeddingTable
from headway.inspection.page.payload import Output, PageSubject, build_payload
from headway.inspection.page.tracing import searched, trace_entry
from headway.tasks.translation.training import positions_end

TEXT = "text"
FURTHER = 12  # tokens that a search goes beyond the text


@torch.no_grad()
def language_page(model: nn.Module, tokenizer: Tokenizer, tokens_1T: Tensor, subject: PageSubject) -> dict[str, Any]:
    """The payload of a text (1, T) that a language model read, and of a search for what follows it."""
    ids: list[int] = tokens_1T[0].tolist()
    end = positions_end(model)
    trace = None
    if end is None or len(ids) + FURTHER <= end:
        trace = searched(model, None, tokens_1T, tokenizer, BeamSettings(), FURTHER)
        said = next((line.text for line in lines(trace)), "")
        subject = subject.with_output(said)
    vectors: Tensor | None = model.embedding.weight  # type: ignore[union-attr, assignment]  # one-hot input has none
    return build_payload(
        model,
        lambda: model(tokens_1T)[0],
        subject,
        reads={"": StackDescription(label="Decoder", sequence=TEXT)},
        sequences={TEXT: {"label": "Text", "tokens": [tokenizer.token(index) for index in ids]}},
        output=Output(name=tokenizer.token, label="What comes next", sequence=TEXT, targets=[*ids[1:], None]),
        more=lambda tensors, _: {} if trace is None else {"trace": trace_entry(trace, tensors)},
        tables={} if vectors is None else {TEXT: EmbeddingTable(ids=ids, vectors=vectors, tokenizer=tokenizer)},
    )
