"""Log-mel frames against transformers' Whisper, and their properties."""

from __future__ import annotations

import numpy as np
import pytest

from headway.data.log_mel import LogMel, from_mel, mel_filters, to_mel
from headway.errors import ConfigError, DataError
from tests.sounds import write_wav


def noise(samples: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    time = np.arange(samples) / 16_000
    return (0.3 * np.sin(2 * np.pi * 440 * time) + 0.05 * random.standard_normal(samples)).astype(np.float32)


@pytest.mark.parametrize(
    "settings",
    [{}, {"rate": 8000, "window": 256, "hop": 128, "bands": 40}, {"rate": 22_050, "window": 512, "hop": 200}],
)
def test_the_frames_are_whisper_s(settings):
    transformers = pytest.importorskip("transformers")
    sound = LogMel(**settings)
    theirs = transformers.WhisperFeatureExtractor(
        feature_size=sound.bands, sampling_rate=sound.rate, hop_length=sound.hop, n_fft=sound.window
    )
    filters = transformers.audio_utils.mel_filter_bank(
        1 + sound.window // 2, sound.bands, 0.0, sound.rate / 2, sound.rate, norm="slaney", mel_scale="slaney"
    )  # the extractor's own end at 8 kHz, whatever the rate
    np.testing.assert_allclose(mel_filters(sound.rate, sound.window, sound.bands), filters, atol=1e-12)
    theirs.mel_filters = filters
    for samples in (sound.window, 3000, 16_001):
        expected = theirs._np_extract_fbank_features(noise(samples)[None], "cpu")[0].T
        found = sound.frames(noise(samples), "x")
        assert found.shape == expected.shape == (samples // sound.hop, sound.bands)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_mel_scale_is_linear_to_1_khz_and_has_an_inverse():
    hertz = np.asarray([0.0, 200.0, 1000.0, 6400.0])
    np.testing.assert_allclose(to_mel(hertz), [0, 3, 15, 42])
    np.testing.assert_allclose(from_mel(to_mel(hertz)), hertz)


def test_each_filter_has_area_1():
    areas = mel_filters(16_000, 4096, 40).sum(0) * 16_000 / 4096
    np.testing.assert_allclose(areas, 1, atol=0.02)


def test_a_louder_sound_is_the_same_but_for_a_constant():
    sound = LogMel()
    soft, loud = sound.frames(noise(4000), "x"), sound.frames(10 * noise(4000), "x")
    np.testing.assert_allclose(loud - soft, 0.5, atol=1e-4)  # log10 of 100 times the power, by 4


def test_files_at_another_rate_and_in_stereo_are_converted(tmp_path):
    time = np.arange(8000) / 8000
    wave = (0.5 * np.sin(2 * np.pi * 500 * time)).astype(np.float32)
    write_wav(tmp_path / "8k.wav", wave, 8000)
    frames = LogMel().read(tmp_path / "8k.wav")
    assert frames.shape == (100, 80)
    middles = from_mel(np.linspace(0, float(to_mel(np.asarray(8000.0))), 82))[1:-1]
    assert abs(middles[frames[50].argmax()] - 500) < 40


def test_a_sound_shorter_than_a_window():
    with pytest.raises(DataError, match=r"^x.wav: 399 samples at 16,000 a second \(0.025 s\), expected at least a win"):
        LogMel().frames(noise(399), "x.wav")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hop": 500}, "task.sound.hop=500, allowed: at most the window, 400"),
        ({"bands": 200}, "task.sound.bands=200: a window of 400 samples has too few frequencies"),
        ({"window": 8}, "task.sound.window=8, allowed: whole numbers from 16"),
        ({"window": 1 << 20}, "task.sound.window=1048576, allowed: at most 32,768"),
        ({"bands": 100_000}, "task.sound.bands=100000, allowed: at most 512"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        LogMel(**settings)
