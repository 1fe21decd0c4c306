"""Transcribers: an encoder of spectrogram frames with CTC (Graves et al. 2006) or a decoder (Radford et al. 2023)."""

from __future__ import annotations

from functools import partial

from headway.data.config import DataConfig
from headway.data.log_mel import LogMel
from headway.data.tokenizers import Characters
from headway.models import ModelConfig, SpeechCtcConfig, SpeechTransformerConfig
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.transcription import Transcription
from headway.training.config import TrainConfig
from headway.training.optimisers import Muon
from headway.training.schedules import Cosine

SOUND = LogMel(rate=8000, window=256, hop=128, bands=40)  # 32 ms every 16 ms


def speech_ctc() -> SpeechCtcConfig:
    """An encoder for spoken digits."""
    return SpeechCtcConfig(vocab=20, bands=40, width=96, encoder_layers=3, heads=4, inner=192)


def speech_transformer() -> SpeechTransformerConfig:
    """The same encoder with a decoder of two blocks."""
    return SpeechTransformerConfig(
        vocab=20, bands=40, strides=(2, 2), width=96, encoder_layers=3, decoder_layers=2, heads=4, inner=192
    )


def recipe(model: ModelConfig, *, steps: int) -> RunConfig:
    """The built-in `spoken-digits` in minutes on two cores."""
    return RunConfig(
        task=Transcription(sound=SOUND, max_length=100),
        data=DataConfig(spec="spoken-digits", tokenizer=Characters()),
        model=model,
        train=TrainConfig(
            steps=steps,
            batch_tokens=3000,
            learning_rate=0.01,  # of Muon
            optimiser=Muon(adam_share=0.3),
            schedule=Cosine(warmup=100, floor=0.01),
            evaluate_every=steps // 4,
            save_every=steps // 4,
        ),
    )


SPEECH = (
    Preset(
        name="speech-ctc",
        task="transcription",
        source="Graves et al. 2006, Connectionist Temporal Classification, with the encoder of Radford et al. 2023",
        parameters=265_941,
        departures=(
            "the encoder is Whisper's (convolutions and a transformer), where the paper has a bidirectional LSTM",
            "the size is ours, for the built-in `spoken-digits` in minutes on two cores; frames of 32 ms every 16 ms",
            "tokens are the characters of the texts; the paper's are phonemes",
        ),
        config=speech_ctc,
        run=partial(recipe, steps=700),
    ),
    Preset(
        name="speech-transformer",
        task="transcription",
        source="Radford et al. 2023, Whisper (Robust Speech Recognition via Large-Scale Weak Supervision), section 2.2",
        parameters=490_464,
        departures=(
            "the size is ours, for the built-in `spoken-digits` in minutes on two cores; frames of 32 ms every 16 ms",
            "both convolutions have stride 2, where Whisper's first has 1",
            "sounds have their own length, where Whisper pads all to 30 seconds; no languages, tasks or time stamps",
            "tokens are the characters of the texts, with sinusoidal positions in the decoder, too",
            "the decoder's embeddings are scaled by √D and tied to the output",
        ),
        config=speech_transformer,
        run=partial(recipe, steps=1500),
    ),
)
