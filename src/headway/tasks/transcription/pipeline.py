"""A finished transcriber at work: it writes down sounds, is evaluated, verified and explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from headway.data.files import read_bytes
from headway.data.log_mel import Frames
from headway.errors import HeadwayError
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Transcribes
from headway.tasks.transcription.config import Transcription
from headway.tasks.transcription.data import speech_reading
from headway.tasks.transcription.objectives import objective_of
from headway.tasks.transcription.search import TranscriptSearch

if TYPE_CHECKING:
    from headway.data.speech import SpeechReading
    from headway.tasks.explanation import Explanation
    from headway.tasks.report import Report, Section
    from headway.tasks.transcription.training import TranscriptionTraining
    from headway.tasks.verification_inputs import Example, VerificationInputs

NOISE_FRAMES = (7, 24, 61)  # of made-up sounds


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text of a sound with its log-probability in nats; with CTC that of all alignments."""

    sound: str
    text: str
    log_probability: float
    seconds: float
    tokens: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """What `headway transcribe --json` prints of a sound."""
        return {
            "sound": self.sound,
            "text": self.text,
            "log_probability": self.log_probability,
            "seconds": self.seconds,
        }


class TranscriptionPipeline(Pipeline, Transcribes):
    """Sound files in, texts out."""

    reads_files = True
    no_export = (
        "Whisper of transformers attends to the silence that fills up a sound to 30 seconds, which is masked here, and "
        "its models with CTC have other encoders"
    )
    evaluate_options = frozenset({"beam", "out"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Transcription)
        self.config = task

    @cached_property
    def search(self) -> TranscriptSearch:
        """The search with the task's settings, the run's tokenizer and what its model is trained by."""
        return TranscriptSearch(
            self.config, self.tokenizer, objective_of(self.config, self.tokenizer, self.parts.config)
        )

    @property
    def reading(self) -> SpeechReading:
        """How a sound file is read."""
        return speech_reading(self.config, self.parts.data, to_train=False)

    def transcribe(self, sounds: Sequence[str | Path], *, beam: int | None = None) -> list[Transcript]:
        """The text of each sound file."""
        frames = self._read(sounds)
        found = self.search.search(self.model, self.device, frames, beam=beam)
        rate = self.config.sound.frames_per_second
        return [
            Transcript(
                str(file),
                self.tokenizer.decode(best[0].tokens),
                best[0].log_probability,
                len(read) / rate,
                tuple(best[0].tokens),
            )
            for file, best, read in zip(sounds, found, frames, strict=True)
        ]

    def _read(self, sounds: Sequence[str | Path]) -> list[Frames]:
        reading = self.reading
        return [reading.frames(read_bytes(Path(sound)), str(sound)) for sound in sounds]

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Word and character error rate and exact matches of the transcripts of a split, and the loss of its texts."""
        from headway.tasks.report import Facts, Report, Sample, Samples, spread

        training: TranscriptionTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        forced = training.forced(self.model, self.device, split)  # first: it names a text that cannot be written
        outputs = training.transcripts(self.model, self.device, split, beam=request.beam)
        report = training.report(outputs, split)
        words = report.words
        rows = {
            "wer": f"{words.rate:.2%}  of {words.hits + words.substitutions + words.deletions:,} words: "
            f"{words.substitutions:,} substituted, {words.deletions:,} deleted, {words.insertions:,} inserted",
            "cer": f"{report.characters.rate:.2%}  of characters",
            "exact_match": f"{report.exact_match:.1%}  every word right",
            "sounds": f"{report.sounds:,}",
            "loss": f"{forced.loss:.4f}  nats a token",
        }
        texts = training.splits[split].texts
        blocks = [[Sample("text", texts[n]), Sample("output", outputs[n])] for n in spread(len(outputs))]
        values = {**report.to_json(), "loss": forced.loss, "perplexity": forced.perplexity, "tokens": forced.tokens}
        sections: list[Section] = [Facts(rows), Samples("samples", blocks)]
        return Report(split=split, values=values, sections=sections, outputs=outputs)

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Sounds, for a model with a decoder each with the beginning of a random text."""
        from headway.data.datasets import sample_sounds
        from headway.models import ModelInputs
        from headway.tasks.verification_inputs import (
            MAX_GIVEN,
            VERIFICATION,
            Example,
            VerificationInputs,
            missing_data,
        )

        sizes = self.parts.inputs or VERIFICATION
        notes: list[str] = []
        sounds = self._read(given[:MAX_GIVEN]) if given else []
        if not given and self.parts.data.spec:
            try:
                reading = replace(self.reading, val=self.parts.data.val)
                sounds = sample_sounds(self.parts.data.spec, reading, count=sizes.own)
            except HeadwayError as error:
                notes.append(missing_data("sounds", error))
        if len({len(each) for each in sounds}) < 2 or not given:
            sounds += noise_frames(self.config.sound.bands)
        moments: Callable[[int], int] = cast(Any, self.parts.config).moments
        examples = [
            Example(
                ModelInputs(frames=torch.from_numpy(each.copy())[None], frame_lengths=torch.tensor([len(each)])),
                places=moments(len(each)),
            )
            for each in sounds
        ]
        if "tokens" in self.model.reads:
            return self._with_texts(examples, tuple(notes))
        blank: int = cast(Any, self.model).blank
        return VerificationInputs(
            examples=[each.to(self.device) for each in examples],
            vocabulary=self.tokenizer.size,
            spell=lambda index: "blank" if index == blank else repr(self.tokenizer.token(index)),
            notes=tuple(notes),
        )

    def _with_texts(self, sounds: Sequence[Example], notes: tuple[str, ...]) -> VerificationInputs:
        from headway.models import ModelInputs
        from headway.tasks.verification_inputs import (
            VERIFICATION,
            Example,
            TextLayout,
            TokenBudget,
            VerificationInputs,
            continued,
            random_examples,
            sound_examples,
            token_names,
        )

        tokenizer = self.tokenizer

        def arrange(ids: Sequence[int], source: Sequence[int] | None) -> Example:
            tokens = torch.tensor([[tokenizer.start, *ids]])
            return Example(ModelInputs(tokens=tokens), tokens.shape[1])

        layout = TextLayout(
            max_length=self.config.max_length,
            tokenizer=tokenizer,
            arrange=arrange,
            encode=lambda line: (tokenizer.encode(line), None),
            generates=True,
        )
        budget = TokenBudget.of(layout, self.model, self.parts.inputs or VERIFICATION)
        examples = sound_examples(sounds, random_examples(layout, budget))
        return VerificationInputs(
            examples=continued(self.model, examples, budget),
            generates=True,
            vocabulary=layout.vocabulary,
            spell=token_names(tokenizer),
            notes=notes,
        )

    def explain(self, given: str) -> Explanation:
        """A sound as moments of its spectrogram, its text, and where each token or moment attended."""
        from headway.tasks.transcription.explain import explain_sound

        (frames,) = self._read([given])
        return explain_sound(self.model, self.search, frames, given, self.device)


def noise_frames(bands: int, seed: int = 0) -> list[Frames]:
    """Frames (T, bands) of seeded noise, as loud as those of sounds."""
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(count, bands, generator=generator) / 2).numpy() for count in NOISE_FRAMES]
