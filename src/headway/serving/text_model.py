"""How the texts of a run become tokens in the front process, from what its engine says of it."""

from __future__ import annotations

from typing import Any

from headway.data.chat_template import ChatEncoder, ChatTemplate
from headway.data.special_tokens import SpecialTokens
from headway.data.tokenizers import Tokenizer
from headway.errors import HeadwayError, one_line, shown
from headway.serving.api_errors import invalid
from headway.serving.fields import too_long
from headway.serving.limits import ServerLimits


class TextModel:
    """A run's tokenizer, its special tokens, its context and its chat template."""

    def __init__(self, described: dict[str, Any]) -> None:
        text = described["text"]
        marks = text["marks"]
        special = None if marks is None else SpecialTokens(**{key: _tuple(value) for key, value in marks.items()})
        self.tokenizer = Tokenizer.from_json(text["tokenizer"], special)
        self.before, self.stops, self.vocab = text["before"], tuple(text["stops"]), text["vocab"]
        self.context: int | None = described["context"]
        chat = text["chat"]
        self.chat = None
        if chat is not None:
            self.chat = ChatEncoder(ChatTemplate(**{key: _tuple(value) for key, value in chat.items()}), self.tokenizer)

    def encode(self, text: str, param: str, limits: ServerLimits) -> list[int]:
        """The tokens of a prompt, with the special ones that stand before a text. Raises ApiError."""
        if self.context is not None and len(text) > limits.characters_per_token * self.context:
            raise too_long(len(text) // limits.characters_per_token, self.context)
        try:
            return [*self.before, *self.tokenizer.encode(text)]
        except HeadwayError as error:
            raise invalid(one_line(error), param) from None

    def check(self, ids: list[int], param: str = "prompt") -> list[int]:
        """Token ids as given by a client in a field. Raises ApiError for one outside the vocabulary."""
        for each in ids:
            if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each < self.vocab:
                raise invalid(f"{param} has the token id {shown(each)}, allowed: 0 to {self.vocab - 1}", param)
        return ids


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
