"""Transcribers: an encoder of spectrogram frames with CTC (Graves et al. 2006) or a decoder (Radford et al. 2023)."""

from __future__ import annotations

from headway.data.config import DataConfig
from headway.data.log_mel import LogMel
from headway.data.tokenizers import Characters
from headway.models import ModelConfig, SpeechCtcConfig, SpeechTransformerConfig
from headway.presets.preset import Preset
from headway.runs.config import RunConfig
from headway.tasks.transcription import Transcription
from headway.training.config import TrainConfig
from headway.training.optimisers import AdamW
from headway.training.schedules import Cosine

SOUND = LogMel(rate=8000, window=256, hop=128, bands=40)  # 32 ms every 16 ms


def speech_ctc() -> SpeechCtcConfig:
    """An encoder for spoken digits."""
    return SpeechCtcConfig(vocab=20, bands=40, width=96, encoder_layers=3, heads=4, inner=192)


def speech_transformer() -> SpeechTransformerConfig:
    """The same encoder with a decoder of two blocks."""
    return SpeechTransformerConfig(
        vocab=20, bands=40, width=96, encoder_layers=3, decoder_layers=2, heads=4, inner=192, dropout=0.05
    )


def recipe(model: ModelConfig) -> RunConfig:
    """The built-in `spoken-digits` in minutes on two cores."""
    return RunConfig(
        task=Transcription(sound=SOUND, max_length=100),
        data=DataConfig(spec="spoken-digits", tokenizer=Characters()),
        model=model,
        train=TrainConfig(
            steps=2000,
            batch_tokens=4000,
            learning_rate=2e-3,
            optimiser=AdamW(beta2=0.98, decay=0.01),
            schedule=Cosine(warmup=150, floor=0.01),
            evaluate_every=400,
            save_every=400,
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
        run=recipe,
    ),
    Preset(
        name="speech-transformer",
        task="transcription",
        source="Radford et al. 2023, Whisper (Robust Speech Recognition via Large-Scale Weak Supervision), section 2.2",
        parameters=490_464,
        departures=(
            "the size is ours, for the built-in `spoken-digits` in minutes on two cores; frames of 32 ms every 16 ms",
            "sounds have their own length, where Whisper pads all to 30 seconds; no languages, tasks or time stamps",
            "tokens are the characters of the texts, with sinusoidal positions in the decoder, too",
            "the decoder's embeddings are scaled by √D and tied to the output",
        ),
        config=speech_transformer,
        run=recipe,
    ),
)
