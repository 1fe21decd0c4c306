"""Transcription: what is said in a sound, as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.config import kind, positive
from headway.data.log_mel import LogMel
from headway.decoding.beam import Penalty, expect_length_penalty
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task, article

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal
    from headway.tasks.training_task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcription(Task):
    """Sounds with a text each as frames of a spectrogram, and the default decoding settings of a finished model."""

    name: ClassVar[str] = "transcription"
    title: ClassVar[str] = "transcriber"
    batch_unit: ClassVar[str] = "frames"
    from_source: ClassVar[tuple[str, ...]] = ("sound",)

    sound: LogMel = LogMel()  # how a sound becomes frames
    seconds: float = 30.0  # the longest sound; a longer one is an error
    max_length: int = 448  # the most tokens of a text, the stop token included; a longer one is an error
    beam: int = 4  # hypotheses kept in beam search; 1 is greedy
    length_penalty: float = 0.6  # α, of a model with a decoder: larger values favour longer texts; CTC has none
    penalty: Penalty = "gnmt"  # what a log-probability is divided by: gnmt ((5 + n)/6)^α, mean n^α

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ConfigError(f"task.seconds={self.seconds}, allowed: above 0")
        positive("task.max_length", self.max_length)
        positive("task.beam", self.beam)
        expect_length_penalty("task.length_penalty", self.length_penalty)

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.transcription.recognise import recognise

        return recognise(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read sounds with texts, train a tokenizer if the run has none."""
        from headway.tasks.transcription.data import prepare

        return prepare(self, request)

    def read(self, request: DataRequest) -> TrainingTask:
        """The run's own splits again, or all of other data as one split."""
        from headway.tasks.transcription.data import read

        return read(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.transcription.pipeline import TranscriptionPipeline

        return TranscriptionPipeline

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model that does not read frames, or frames of another number of bands."""
        if getattr(model, "objective", None) is None:
            allowed = "speech-ctc, speech-transformer"
            raise ConfigError(f"model={kind(type(model))}, allowed for {article(self.title)}: {allowed}")
        bands = getattr(model, "bands", None)
        if bands != self.sound.bands:
            raise ConfigError(f"task.sound.bands={self.sound.bands}, model.bands={bands}: expected the same")

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary."""
        return ("vocab",)
