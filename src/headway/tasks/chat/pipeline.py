"""A finished chat model at work: it answers, and does what a language model does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headway.data.chat_template import ChatEncoder, ChatTemplate
from headway.data.chats import ASSISTANT, USER, Conversation, Message, question
from headway.data.unknown_tokens import uncounted
from headway.tasks.base import EvaluateRequest, RunParts, Task, ignore, split_of
from headway.tasks.capabilities import Chats
from headway.tasks.chat.config import Chat
from headway.tasks.language_modelling.pipeline import LanguagePipeline

if TYPE_CHECKING:
    from headway.decoding.sampling import Sampling
    from headway.tasks.chat.session import ChatSession
    from headway.tasks.chat.training import ChatTraining
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.report import Report, Section
    from headway.tasks.verification_inputs import InputSizes


class ChatPipeline(LanguagePipeline, Chats):
    """Messages in, the answer out."""

    evaluate_options = frozenset({"out"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Chat)
        self.chat_task = task

    @property
    def template(self) -> ChatTemplate:
        """The run's template."""
        return self.chat_task.template

    @cached_property
    def encoder(self) -> ChatEncoder:
        """The run's template with its tokenizer."""
        return ChatEncoder(self.chat_task.template, self.tokenizer)

    @property
    def context(self) -> int | None:
        """Most tokens that the model reads; None: any number."""
        sizes = self.parts.config.text
        return None if sizes is None else sizes.context

    @cached_property
    def session(self) -> ChatSession:
        """What answers, and keeps the KV cache of the last answer."""
        from headway.tasks.chat.session import ChatSession

        return ChatSession(self.model, self.device, context=self.context)  # type: ignore[arg-type]

    def chat(
        self,
        messages: Conversation,
        sampling: Sampling,
        *,
        max_tokens: int = 200,
        seed: int = 0,
        note: Callable[[str], None] = ignore,
    ) -> Iterator[str]:
        """The answer to the last message, in pieces as they are drawn; each turn of a seed is drawn independently."""
        from headway.tasks.chat.session import fitted
        from headway.tasks.language_modelling.streaming import decoded_stream

        prompt = fitted(self.encoder, messages, context=self.context, max_tokens=max_tokens, note=note)
        special = self.tokenizer.marks
        drawn = self.session.answer(
            prompt,
            sampling,
            max_tokens=max_tokens,
            seed=seed,
            number=sum(message.role == ASSISTANT for message in messages),
            stops=frozenset((*self.encoder.ids.values(), *(special.stops if special else ()))),
            note=note,
        )
        return decoded_stream(self.tokenizer, [], drawn)

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Loss and perplexity of the answers, and how many greedy answers are exactly the reference."""
        from headway.tasks.report import Facts, Note, Report, Sample, Samples, spread

        training: ChatTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        score = training.evaluate(self.model, self.device, split)
        with uncounted():
            answered = training.answered(self.model, self.device, split)
        exact = sum(each.exact for each in answered)
        cut, left_out = training.cut(split)
        values: dict[str, Any] = {key: value for key, value in score.to_json().items() if key != "bits_per_byte"}
        values |= {
            "exact_match": exact / len(answered) if answered else None,
            "answers": len(answered),
            "conversations": len(training.splits[split]),
            "cut": cut,
            "left_out": left_out,
        }
        facts = {
            "loss": f"{score.loss:.4f}  nats per token of an answer",
            "perplexity": f"{score.perplexity:.4f}",
            "tokens": f"{score.tokens:,}, the ends of answers included",
        }
        if answered:
            facts["exact match"] = f"{exact / len(answered):.1%} of {len(answered):,} last answers (greedy)"
        sections: list[Section] = [Facts(facts)]
        if note := training.cut_note(split):
            sections.append(Note(note, warning=True))
        blocks = [
            [Sample("question", question(each.messages)), *_beside(each.reference, each.output)]
            for each in (answered[n] for n in spread(len(answered)))
        ]
        sections.append(Samples("samples", blocks))
        return Report(split=split, values=values, sections=sections, outputs=[each.output for each in answered])

    def own_lines(self, sizes: InputSizes) -> Callable[[], list[str]] | None:
        """Reads the contents of the first messages of the validation split; None for an imported run."""
        data = self.parts.data

        def own() -> list[str]:
            from headway.data.datasets import load_chats

            found: list[str] = []
            for messages in load_chats(data.spec, errors=data.errors).conversations("val"):
                found += [message.content for message in messages]
                if len(found) >= sizes.own:
                    break
            return found[: sizes.own]

        return own if data.spec else None

    def page_prompt(self, given: str) -> Tensor:
        """A question as the tokens (1, T) that its answer goes on from."""
        return torch.tensor([self.encoder.prompt([Message(USER, given)])], device=self.device)

    def export_request(self) -> ExportRequest:
        """A language model with its chat template."""
        from dataclasses import replace

        request = super().export_request()
        assert request.text is not None
        return replace(request, text=replace(request.text, chat=self.chat_task.template))


def _beside(reference: str, output: str) -> Sequence[Any]:
    """A reference and an output, marked at the first character that differs."""
    from headway.tasks.report import sentence_samples

    return list(sentence_samples("", reference, output))[1:]
