"""Tokens as a reader sees them."""

from __future__ import annotations

from headway.data.tokenizers import Tokenizer


def piece(tokenizer: Tokenizer, index: int) -> str:
    """A token as text where it has one, else by its own name."""
    text = tokenizer.decode([index], specials=True)
    return tokenizer.token(index) if not text or "\ufffd" in text else text
