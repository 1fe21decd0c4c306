"""`/tokenize`, `/detokenize` and `/tokenizer_info`, in the shapes of vLLM's, which lm-eval asks a server for."""

from __future__ import annotations

from typing import Any

from headway.errors import shown
from headway.serving.api_errors import invalid
from headway.serving.completions import read_messages
from headway.serving.fields import Fields
from headway.serving.limits import ServerLimits
from headway.serving.text_model import TextModel


def tokenize(fields: Fields, model: TextModel, limits: ServerLimits) -> dict[str, Any]:
    """The tokens of the field `prompt`, or of the prompt that the field `messages` becomes. Raises ApiError."""
    special = fields.flag("add_special_tokens", True)
    strings = fields.flag("return_token_strs")
    if "messages" in fields:
        ids = read_messages(fields, model, limits)
    else:
        ids = model.encode(fields.text("prompt"), "prompt", limits)[0 if special else len(model.before) :]
    fields.refuse_rest()
    names = [model.tokenizer.token(each) for each in ids] if strings else None
    return {"count": len(ids), "max_model_len": model.context, "tokens": ids, "token_strs": names}


def detokenize(fields: Fields, model: TextModel, limits: ServerLimits) -> dict[str, Any]:
    """The text of the field `tokens`, special ones included. Raises ApiError."""
    ids = fields.take("tokens")
    if not isinstance(ids, list):
        raise invalid(f"tokens is {shown(ids)}, expected an array of token ids", "tokens")
    fields.refuse_rest()
    return {"prompt": model.tokenizer.decode(model.check(ids, "tokens"), specials=True)}


def tokenizer_info(model: TextModel) -> dict[str, Any]:
    """What the tokenizer is, and the tokens around a text; null where it has none."""
    return {
        "tokenizer_class": type(model.tokenizer).__name__,
        "vocab_size": model.vocab,
        "bos_token": model.tokenizer.token(model.before[0]) if model.before else None,
        "eos_token": model.tokenizer.token(model.stops[0]) if model.stops else None,
    }
