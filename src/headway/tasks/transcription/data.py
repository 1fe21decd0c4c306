"""Sounds with texts as a transcription task: read, train a tokenizer if the run has none."""

from __future__ import annotations

from pathlib import Path

from headway.config import kind
from headway.data.config import DataConfig
from headway.data.datasets import load_speech
from headway.data.digests import check_digests
from headway.data.speech import SpeechDataset, SpeechReading
from headway.data.tokenizers import Tokenizer
from headway.tasks.base import ONE_TOKENIZER, DataRequest, Prepared
from headway.tasks.transcription.config import Transcription
from headway.tasks.transcription.objectives import objective_of
from headway.tasks.transcription.training import TranscriptionTraining


def prepare(config: Transcription, request: DataRequest) -> Prepared:
    """Sounds with texts, their tokenizer (the run's, else one trained on them) and their digests by split."""
    speech = load_speech(request.data.spec, speech_reading(config, request.data), request.progress)
    check_digests(speech.contents, request.expected)
    tokenizer = request.tokenizer
    if tokenizer is None:
        tokenizer = Tokenizer.train(request.data.tokenizer, speech.splits["train"].texts)
    rate = config.sound.frames_per_second
    facts = {
        "sounds": ", ".join(
            f"{name} {len(sounds):,} ({len(sounds.frames) / rate / 60:.1f} minutes)"
            for name, sounds in speech.splits.items()
        ),
        "vocabulary": f"{tokenizer.size:,} tokens ({kind(type(request.data.tokenizer))})",
    }
    if speech.left_out:
        facts["left out"] = f"{speech.left_out:,} sounds that are missing or cannot be read"
    training = _training(config, request, tokenizer, speech)
    if not request.reads_only:  # a text that cannot be learnt ends here, not at the first validation
        for split in ("train", "val"):
            training.tokens(split)
    return Prepared(
        training=training,
        tokenizers={ONE_TOKENIZER: tokenizer},
        model_overrides={"vocab": tokenizer.size},
        digests=speech.contents,
        facts=facts,
    )


def read(config: Transcription, request: DataRequest) -> TranscriptionTraining:
    """The data of a finished run, of the same splits as in training; of other data all, as one split."""
    if request.own_data:
        return prepare(config, request).training  # type: ignore[return-value]
    reading = speech_reading(config, request.data, to_train=False)
    speech = load_speech(request.data.spec, reading, request.progress)
    return _training(config, request, request.tokenizers[ONE_TOKENIZER], speech)


def speech_reading(config: Transcription, data: DataConfig, *, to_train: bool = True) -> SpeechReading:
    """How the files of a run are read."""
    return SpeechReading(
        sound=config.sound,
        seconds=config.seconds,
        text=data.text,
        val=data.val if to_train else "",
        skip_bad=data.skip_bad,
        to_train=to_train,
        errors=data.errors,
        cache=Path(data.cache).expanduser(),
    )


def _training(
    config: Transcription, request: DataRequest, tokenizer: Tokenizer, speech: SpeechDataset
) -> TranscriptionTraining:
    return TranscriptionTraining(
        config,
        tokenizer,
        objective_of(config, tokenizer, request.model),
        speech.splits,
        batch_tokens=request.batch_tokens,
        seed=request.seed,
    )
