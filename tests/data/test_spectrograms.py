from __future__ import annotations

import numpy as np
import pytest

from headway.data.image_decoding import EncodedImage
from headway.data.spectrograms import Spectrogram, fit_length
from headway.errors import ConfigError, DataError
from tests.sounds import write_wav

RATE = 8000
SOUND = Spectrogram(rate=RATE, seconds=0.5, window=512, lowest=100)


def sine(pitch: float, seconds: float = 0.5, rate: int = RATE) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * pitch * np.arange(round(rate * seconds)) / rate)).astype(np.float32)


def test_an_octave_is_as_many_rows_anywhere():
    loudest = [int(SOUND.pictures(sine(pitch)[None], 64)[0, 0, :, 32].argmax()) for pitch in (400, 800, 1600)]
    octave = 64 / np.log2(4000 / 100)
    assert loudest[0] > loudest[1] > loudest[2]  # higher pitches lie higher
    np.testing.assert_allclose(-np.diff(loudest), octave, atol=1.01)


def test_a_column_is_a_moment():
    wave = np.concatenate([np.zeros(2000, np.float32), sine(1000, 0.25)])
    picture = SOUND.pictures(wave[None], 32)[0, 0]
    assert picture.shape == (32, 32)
    assert picture[:, :12].max() == 0
    assert picture[:, 20:30].max() == 255


def test_loudness_changes_nothing_but_silence_is_black():
    wave = sine(700)[None]
    assert np.array_equal(SOUND.pictures(wave, 32), SOUND.pictures(0.25 * wave, 32))
    pair = SOUND.pictures(np.concatenate([wave, 0 * wave]), 32)
    assert np.array_equal(pair[:1], SOUND.pictures(wave, 32))
    assert len(np.unique(pair[1])) == 1


def test_files_of_any_rate_give_the_same_picture(tmp_path):
    seen = []
    for rate in (8000, 11025, 22050):
        write_wav(tmp_path / "a.wav", sine(600, rate=rate), rate)
        picture = EncodedImage("a.wav", 0, (tmp_path / "a.wav").read_bytes())
        seen.append(SOUND.decode(picture, 32).astype(int))
    rows = [int(each[0, :, 16].argmax()) for each in seen]
    assert rows[0] == rows[1] == rows[2]


def test_long_sounds_lose_their_ends_and_short_ones_get_silence():
    wave = np.arange(10, dtype=np.float32)
    assert fit_length(wave, 4).tolist() == [3, 4, 5, 6]
    assert fit_length(wave[:3], 5).tolist() == [0, 1, 2, 0, 0]


def test_a_bad_file_is_named():
    with pytest.raises(DataError, match=r"b\.wav: not a WAV file"):
        SOUND.decode(EncodedImage("b.wav", 0, b"OggS"), 32)


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"rate": 0}, "task.sound.rate=0"),
        ({"window": 4}, "task.sound.window=4"),
        ({"lowest": 9000.0}, "task.sound.lowest=9000.0, allowed: above 0 and below 8000"),
        ({"seconds": 0.0}, "task.sound.seconds=0.0"),
    ],
)
def test_settings_that_make_no_sense(settings, wrong):
    with pytest.raises(ConfigError, match=wrong):
        Spectrogram(**settings)
