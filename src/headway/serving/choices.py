"""A sequence of an answer as its tokens come: its text, where each token stands in it, and why it ended."""

from __future__ import annotations

from headway.data.text_stream import TextStream
from headway.serving.completions import Completion
from headway.serving.requests import TokenEvent
from headway.serving.text_model import TextModel


class CompletionChoice:
    """One sequence as it is written, and what of it has not been sent yet."""

    def __init__(self, completion: Completion, model: TextModel, place: int) -> None:
        self.completion, self.model = completion, model
        self.index = place
        prompt = place // completion.best_of
        self.stream = TextStream(model.tokenizer, completion.prompts[prompt][len(model.before) :], completion.stop)
        self.prompt_text = completion.texts[prompt]
        self.shift = len(self.prompt_text) if completion.echo else 0
        self.finish_reason: str | None = None
        self.tokens = 0
        self.events: list[tuple[TokenEvent, int]] = []  # with the place of each in the text, since the last chunk
        self.piece = self.prompt_text if completion.echo else ""
        self._at = 0  # characters of the prompt whose tokens have passed

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self.finish_reason is not None

    def add(self, event: TokenEvent) -> None:
        """Take one event of the engine."""
        if self.done:
            return
        if event.in_prompt:
            assert event.token is not None
            self.events.append((event, min(self._at, self.shift)))
            self._at += len(self.model.tokenizer.decode([event.token]))
            return
        if event.token is not None:
            self.events.append((event, self.shift + self.stream.length))
            self.tokens += 1
            self.piece += self.stream.add(event.token)
            if self.stream.stopped:
                self.finish_reason = "stop"
        if event.ended:
            self.piece += self.stream.finish()
            self.finish_reason = "stop" if event.ended == "stop" else "length"

    def take(self) -> tuple[str, list[tuple[TokenEvent, int]]]:
        """The text and the tokens since this was called last."""
        piece, events, self.piece, self.events = self.piece, self.events, "", []
        return piece, events

    def mean_log_prob(self, events: list[tuple[TokenEvent, int]]) -> float:
        """By which the sequences of best_of are ranked."""
        values = [event.log_prob for event, _ in events if not event.in_prompt and event.log_prob is not None]
        return sum(values) / len(values) if values else float("-inf")
