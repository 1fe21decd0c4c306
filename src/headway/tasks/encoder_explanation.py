"""What the page shows of an encoder that reads a text from both sides: BERT, Longformer, a sentence encoder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from headway.data.tokenizers import MASK, Tokenizer
from headway.errors import DataError
from headway.models.inputs import Model, ModelInputs
from headway.nn.embedding import TokenEmbedding
from headway.tasks.explanation import (
    Embed,
    EmbeddingTable,
    EncodedWords,
    Explanation,
    Output,
    StackDescription,
    token_sequence,
)

TEXT = "text"
HIDDEN = re.compile(r"(?:<mask>|\[MASK\])")


def explain_text(
    model: nn.Module,
    tokenizer: Tokenizer,
    text: str,
    *,
    global_tokens: Sequence[int] = (),
    embed: Embed | None = None,
    predicts: bool = True,
) -> Explanation:
    """A text, in which `<mask>` hides a token; `global_tokens` are the places of Longformer's global attention.

    With `predicts` the model's output is logits for each token. With a sentence encoder's `embed`, neighbours are
    those of the vectors it gives, else those of the embedding table.
    """
    ids = text_ids(tokenizer, text)
    hidden = tokenizer.mask if HIDDEN.search(text) else None
    places = [n for n, index in enumerate(ids) if index == hidden]
    output = None
    if predicts:
        targets = [None if index == hidden else index for index in ids]
        output = Output(name=tokenizer.display, label="What might stand here", sequence=TEXT, targets=targets)
    return Explanation(
        kind="masked",
        given=text,
        forward=_forward(model, ids, global_tokens),
        reads={"": StackDescription(label="Encoder", sequence=TEXT)},
        sequences={TEXT: token_sequence(tokenizer, ids, start=places[0] if places else min(1, len(ids) - 1))},
        output=output,
        tables={
            TEXT: embedding_table(model, tokenizer, ids)
            if embed is None
            else EncodedWords(ids=ids, embed=embed, tokenizer=tokenizer)
        },
    )


def _forward(model: nn.Module, ids: list[int], global_tokens: Sequence[int]) -> Callable[[], Tensor]:
    assert isinstance(model, Model)
    tokens = torch.tensor([ids], device=next(model.parameters()).device)
    inputs = ModelInputs(tokens=tokens)
    if global_tokens:
        marked = torch.zeros_like(tokens, dtype=torch.bool).index_fill_(1, torch.tensor(list(global_tokens)), True)
        inputs = ModelInputs(tokens=tokens, global_tokens=marked)

    @torch.no_grad()
    def forward() -> Tensor:
        outputs = model.run(inputs)
        logits = outputs.vectors if outputs.tokens is None else outputs.tokens
        assert logits is not None
        return logits[0]

    return forward


def embedding_table(model: nn.Module, tokenizer: Tokenizer, ids: Sequence[int]) -> EmbeddingTable:
    """The table of token vectors, which is a model's first embedding."""
    vectors = next(part.weight for part in model.modules() if isinstance(part, TokenEmbedding))
    return EmbeddingTable(ids=ids, vectors=vectors, tokenizer=tokenizer)


def text_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """A text as an encoder reads it, with special tokens around it and masks in it. Raises DataError if empty."""
    before, after = tokenizer.around
    parts = HIDDEN.split(text)
    inside = tokenizer.encode(parts[0])
    for part in parts[1:]:
        inside += [tokenizer.mask, *tokenizer.encode(part)]
    if not inside:
        raise DataError(f"the text is empty: an encoder needs at least one token; {MASK} hides one")
    return [*before, *inside, *after]
