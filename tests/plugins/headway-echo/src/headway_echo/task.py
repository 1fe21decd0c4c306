"""The task `echo`: whether the second half of a string repeats the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.config import positive
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo(Task):
    """Strings with a class each."""

    name: ClassVar[str] = "echo"
    title: ClassVar[str] = "echo detector"
    unit: ClassVar[str] = "strings"
    models: ClassVar[tuple[str, ...]] = ("echo-net",)

    length: int = 4  # most characters of a string

    def __post_init__(self) -> None:
        positive("task.length", self.length, least=2)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read strings with their classes. Raises DataError, ConfigError."""
        from headway.data.digests import check_digests
        from headway.data.labelled_text import load_labelled_texts
        from headway_echo.training import EchoTraining

        found = load_labelled_texts(request.data, request.tokenizer, room=self.length)
        check_digests(found.contents, request.expected)
        request.note(f"{len(found.splits['train'].labels):,} strings")
        return Prepared(
            training=EchoTraining(found, batch_tokens=request.batch_tokens, seed=request.seed),
            tokenizers={ONE_TOKENIZER: found.tokenizer},
            model_overrides={"vocab": found.tokenizer.size, "classes": len(found.classes)},
            classes=found.classes,
            digests=found.contents,
        )

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway_echo.pipeline import EchoPipeline

        return EchoPipeline

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary and the classes."""
        return ("vocab", "classes")
