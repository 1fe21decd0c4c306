"""The answers of the completion endpoints as OpenAI's clients read them, whole or in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.data.tokenizers import Tokenizer
from headway.serving.choices import CompletionChoice
from headway.serving.completions import Completion
from headway.serving.requests import TokenEvent

Placed = Sequence[tuple[TokenEvent, int]]  # tokens, each with its place in the text


class AnswerWriter:
    """Makes the answers of one request."""

    def __init__(self, completion: Completion, name: str, fingerprint: str, tokenizer: Tokenizer) -> None:
        self.completion, self.tokenizer = completion, tokenizer
        self.head = {
            "id": f"{'chatcmpl' if completion.chat else 'cmpl'}-{completion.id}",
            "created": completion.created,
            "model": name,
            "system_fingerprint": fingerprint,
        }

    def whole(self, choices: Sequence[CompletionChoice]) -> dict[str, Any]:
        """The answer of a request that is not streamed: of each prompt's sequences the `n` best, in order."""
        best_of, n = self.completion.best_of, self.completion.n
        taken = [(choice, *choice.take()) for choice in choices]
        kept: list[tuple[CompletionChoice, str, Placed]] = []
        for first in range(0, len(taken), best_of):
            group = taken[first : first + best_of]
            if best_of > n:
                group = sorted(group, key=lambda each: -each[0].mean_log_prob(each[2]))[:n]
            kept += group
        listed = [self._choice(index, choice, text, events) for index, (choice, text, events) in enumerate(kept)]
        kind = "chat.completion" if self.completion.chat else "text_completion"
        return {**self.head, "object": kind, "choices": listed, "usage": self.usage(choices)}

    def _choice(self, index: int, choice: CompletionChoice, text: str, events: Placed) -> dict[str, Any]:
        found = {"index": index, "logprobs": self._log_probs(events), "finish_reason": choice.finish_reason}
        if self.completion.chat:
            return {**found, "message": {"role": "assistant", "content": text, "refusal": None}}
        return {**found, "text": text}

    def role(self, choice: CompletionChoice) -> dict[str, Any]:
        """The chunk that begins an answer of a chat."""
        delta = {"role": "assistant", "content": ""}
        return self._chunk({"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None})

    def chunk(self, choice: CompletionChoice) -> dict[str, Any] | None:
        """What is new of a sequence; None where nothing is."""
        text, events = choice.take()
        found = {"index": choice.index, "logprobs": self._log_probs(events), "finish_reason": choice.finish_reason}
        if not text and not choice.done and (not events or self.completion.top is None):
            return None
        if self.completion.chat:
            return self._chunk({**found, "delta": {"content": text} if text or not choice.done else {}})
        return self._chunk({**found, "text": text})

    def last(self, choices: Sequence[CompletionChoice]) -> dict[str, Any]:
        """The chunk with the usage, which ends a stream where it was asked for."""
        return {**self._chunk(None), "usage": self.usage(choices)}

    def _chunk(self, choice: dict[str, Any] | None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.completion.chat else "text_completion"
        chunk = {**self.head, "object": kind, "choices": [] if choice is None else [choice]}
        return {**chunk, "usage": None} if self.completion.usage else chunk

    def usage(self, choices: Sequence[CompletionChoice]) -> dict[str, int]:
        """Tokens read and written, all sequences together; a prompt counts once."""
        read, written = sum(map(len, self.completion.prompts)), sum(choice.tokens for choice in choices)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def _log_probs(self, events: Placed) -> dict[str, Any] | None:
        if self.completion.top is None:
            return None
        if self.completion.chat:
            return {"content": [self._chat_token(event) for event, _ in events], "refusal": None}
        first = [event.in_prompt and event.log_prob is None for event, _ in events]
        tops = [None if none else self._top(event) for none, (event, _) in zip(first, events, strict=True)]
        return {
            "tokens": [self._spelled(event.token) for event, _ in events],
            "token_logprobs": [event.log_prob for event, _ in events],
            "top_logprobs": tops if self.completion.top else None,
            "text_offset": [place for _, place in events],
        }

    def _top(self, event: TokenEvent) -> dict[str, float]:
        """The likeliest tokens with the one that was written, by their spelling: of two alike the likelier stays."""
        found: dict[str, float] = {}
        for token, value in (*event.top, (event.token, event.log_prob)):
            if value is not None:
                found.setdefault(self._spelled(token), value)
        return found

    def _chat_token(self, event: TokenEvent) -> dict[str, Any]:
        top = [self._alternative(token, value) for token, value in event.top]
        return {**self._alternative(event.token, event.log_prob), "top_logprobs": top}

    def _alternative(self, token: int | None, value: float | None) -> dict[str, Any]:
        spelled = self._spelled(token)
        return {"token": spelled, "bytes": list(spelled.encode()), "logprob": value}

    def _spelled(self, token: int | None) -> str:
        """The text of a token alone; that of a special token is its name."""
        return "" if token is None else self.tokenizer.decode([token], specials=True)
