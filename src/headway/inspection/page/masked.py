"""The page of an encoder that reads a text from both sides: BERT, Longformer, a sentence encoder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.tokenizers import MASK, Tokenizer
from headway.errors import DataError
from headway.inspection.page.attention import StackDescription
from headway.inspection.page.neighbours import Embed, EmbeddingTable, EncodedWords
from headway.inspection.page.payload import Output, PageSubject, build_payload
from headway.models import BertPretraining, Deck, LongformerMasked
from headway.models.bert import PretrainingLogits
from headway.nn.embedding import TokenEmbedding
from headway.tasks.sentence_embedding.embed import around

TEXT = "text"
HIDDEN = re.compile(r"(?:<mask>|\[MASK\])")


@torch.no_grad()
def masked_page(
    model: nn.Module,
    tokenizer: Tokenizer,
    text: str,
    subject: PageSubject,
    *,
    marked: Sequence[int] = (),
    embed: Embed | None = None,
) -> dict[str, Any]:
    """The payload of a text, in which `<mask>` hides a token; `marked` are places of Longformer's global tokens.

    With a sentence encoder's `embed`, neighbours are those of the vectors it gives, else those of the embedding table.
    """
    ids = text_ids(tokenizer, text)
    tokens = torch.tensor([ids], device=next(model.parameters()).device)
    more = {}
    if marked:
        more["global_BT"] = torch.zeros_like(tokens, dtype=torch.bool).index_fill_(1, torch.tensor(list(marked)), True)

    def forward() -> Tensor:
        found: Tensor | PretrainingLogits = model(tokens, **more)
        return (found.tokens if isinstance(found, PretrainingLogits) else found)[0]

    guesses = isinstance(model, BertPretraining | LongformerMasked | Deck)
    hidden = tokenizer.mask if HIDDEN.search(text) else None
    targets = [None if index == hidden else index for index in ids]
    places = [n for n, index in enumerate(ids) if index == hidden]
    vectors = next(
        part.weight for part in model.modules() if isinstance(part, TokenEmbedding)
    )  # that of words is first
    sequence = {"label": "Text", "tokens": [tokenizer.token(index) for index in ids]}
    return build_payload(
        model,
        forward,
        subject,
        reads={"": StackDescription(label="Encoder", sequence=TEXT)},
        sequences={TEXT: sequence | ({"start": places[0]} if places else {"start": min(1, len(ids) - 1)})},
        output=Output(name=tokenizer.token, label="What might stand here", sequence=TEXT, targets=targets)
        if guesses
        else None,
        tables={
            TEXT: EmbeddingTable(ids=ids, vectors=vectors, tokenizer=tokenizer)
            if embed is None
            else EncodedWords(ids=ids, embed=embed, tokenizer=tokenizer)
        },
    )


def text_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """A text as an encoder reads it, its marks around it and its hidden tokens in it. Raises DataError for none."""
    before, after = around(tokenizer)
    parts = HIDDEN.split(text)
    inside = tokenizer.encode(parts[0])
    for part in parts[1:]:
        inside += [tokenizer.mask, *tokenizer.encode(part)]
    if not inside:
        raise DataError(f"the text is empty: an encoder needs at least one token; {MASK} hides one")
    return [*before, *inside, *after]
