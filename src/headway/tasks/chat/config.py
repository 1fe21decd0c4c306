"""Chat: a language model that answers the messages of a user (instruction tuning)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.data.chat_template import CHATML, AnyTemplate
from headway.tasks.base import DataRequest, Pipeline, Prepared
from headway.tasks.language_modelling.config import Language

if TYPE_CHECKING:
    from headway.tasks.proposal import Proposal, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat(Language):
    """Conversations as sequences of tokens, of which the model learns the answers."""

    name: ClassVar[str] = "chat"
    title: ClassVar[str] = "chat model"
    models: ClassVar[tuple[str, ...]] = ("gpt", "rnn-lm")
    length_key: ClassVar[str] = "context"
    from_source: ClassVar[tuple[str, ...]] = ("template",)

    context: int = 256  # most tokens of a conversation that are trained on; what is longer is cut, and counted
    template: AnyTemplate = CHATML  # the text around the messages of each role

    @property
    def own_special_tokens(self) -> tuple[str, ...]:
        """Those of the template."""
        return self.template.special

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.chat.recognise import recognise

        return recognise(spec)

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """Conversations are read in one way."""
        from headway.tasks.proposal import Reading

        return Reading()

    def prepare(self, request: DataRequest) -> Prepared:
        """Read conversations, train a tokenizer if the run has none, encode."""
        from headway.tasks.chat.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.chat.pipeline import ChatPipeline

        return ChatPipeline
