from __future__ import annotations

import struct

import numpy as np
import pytest

from headway.data.synthetic.tones import KINDS, tones
from headway.data.wav import decode_wav, read_wav, resample
from headway.errors import DataError
from headway.limits import raised
from tests.sounds import write_wav

RATE = 8000
SINE = 0.8 * np.sin(2 * np.pi * 440 * np.arange(RATE // 4) / RATE)


def riff(body: bytes, *, kind: int = 1, channels: int = 1, bits: int = 16, rate: int = RATE) -> bytes:
    head = struct.pack("<HHIIHH", kind, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    chunks = b"fmt " + struct.pack("<I", 16) + head + b"LIST" + struct.pack("<I", 3) + b"abc\0"
    chunks += b"data" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def whole(bits: int) -> bytes:
    levels = np.round(SINE * (2 ** (bits - 1) - 1)).astype(np.int64)
    if bits == 8:
        return (levels + 128).astype(np.uint8).tobytes()
    return b"".join(int(level).to_bytes(bits // 8, "little", signed=True) for level in levels)


@pytest.mark.parametrize(
    ("body", "settings", "close"),
    [
        (whole(8), {"bits": 8}, 1e-2),
        (whole(16), {"bits": 16}, 1e-4),
        (whole(24), {"bits": 24}, 1e-6),
        (whole(32), {"bits": 32}, 1e-6),
        (SINE.astype("<f4").tobytes(), {"kind": 3, "bits": 32}, 1e-6),
        (SINE.astype("<f8").tobytes(), {"kind": 3, "bits": 64}, 1e-6),
        (np.stack([2 * SINE, 0 * SINE], 1).astype("<f4").tobytes(), {"kind": 3, "bits": 32, "channels": 2}, 1e-6),
    ],
)
def test_every_width_gives_the_same_sound(tmp_path, body, settings, close):
    path = tmp_path / "a.wav"
    path.write_bytes(riff(body, **settings))
    found = read_wav(path, RATE)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, SINE, atol=close)


@pytest.mark.parametrize("rate", [4000, 11025, 16000])
def test_another_rate_is_the_same_tone(rate):
    found = resample(SINE, RATE, rate)
    assert len(found) == len(SINE) * rate // RATE
    expected = 0.8 * np.sin(2 * np.pi * 440 * np.arange(len(found)) / rate)
    inside = slice(rate // 50, -rate // 50)
    np.testing.assert_allclose(found[inside], expected[inside], atol=0.01)


def test_what_a_lower_rate_cannot_hold_is_kept_out():
    high = np.sin(2 * np.pi * 3500 * np.arange(RATE) / RATE)
    assert np.abs(resample(high, RATE, 4000)[200:-200]).max() < 0.02


def test_written_and_read_again(tmp_path):
    drawn = tones(2, seed=0, rate=RATE, seconds=0.25)
    write_wav(tmp_path / "a.wav", drawn.waves[0], RATE)
    np.testing.assert_allclose(read_wav(tmp_path / "a.wav", RATE), drawn.waves[0], atol=1e-4)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "not a WAV file"),
        (b"OggS and so on and on", "not a WAV file"),
        (riff(whole(16))[:-100], "cut short, chunk b'data' says"),
        (riff(whole(16), kind=85), r"format 85, allowed: 1 \(PCM\) and 3 \(float\)"),
        (riff(whole(16), bits=12), "12 bits, allowed: 8, 16, 24, 32"),
        (riff(whole(16), channels=0), "0 channels at 8000"),
        (riff(b"abc"), "3 bytes of samples, expected a multiple of 2"),
        (riff(b""), "a WAV file whose samples are missing, expected at least one"),
        (riff(np.full(4, np.nan, "<f4").tobytes(), kind=3, bits=32), "a sample is NaN or infinite"),
        (riff(np.full(4, 1e300, "<f8").tobytes(), kind=3, bits=64), "a sample is NaN or infinite, or beyond"),
        (riff(whole(16), rate=1), "1 samples a second, allowed: 100 to 1,000,000"),
        (riff(whole(16), rate=2**31 - 1), "2,147,483,647 samples a second, allowed: 100"),
        (riff(whole(16), channels=30_000), "expected a multiple of 60000"),
        (riff(whole(16))[:56], "without samples; chunks: b'fmt ', b'LIST'|cut short|samples are missing"),
    ],
)
def test_a_bad_file_is_named(tmp_path, data, wrong):
    path = tmp_path / "bad.wav"
    path.write_bytes(data)
    with pytest.raises(DataError, match=f"bad.wav: .*({wrong})"):
        read_wav(path, RATE)


def test_the_middle_is_all_that_is_computed():
    """A file of a low rate became thousands of times as many samples, of which a second was used."""
    for rate in (4000, 8000, 11025, 44100):
        whole_sound = resample(SINE, RATE, rate)
        for most in (100, 101, len(whole_sound), 10**6):
            start = max(len(whole_sound) - most, 0) // 2
            assert np.array_equal(resample(SINE, RATE, rate, most=most), whole_sound[start : start + most])
    data = riff(whole(8), bits=8, rate=100)
    with (
        raised({"samples": 100_000}),
        pytest.raises(DataError, match=r"at 44,100 samples a second: .* samples, allowed"),
    ):
        decode_wav(data, "a.wav", 44_100)
    assert len(decode_wav(data, "a.wav", 44_100, most=1000)) == 1000


def test_tones_are_drawn_from_their_seed_and_differ_by_kind():
    drawn, again, other = tones(160, seed=1), tones(160, seed=1), tones(160, seed=2)
    assert drawn.waves.shape == (160, 16_000)
    assert np.array_equal(drawn.waves, again.waves)
    assert not np.array_equal(drawn.waves, other.waves)
    assert set(drawn.labels) == set(range(len(KINDS)))
    assert np.abs(drawn.waves).max() <= 1

    def of(kind):
        return drawn.waves[drawn.labels == KINDS.index(kind)]

    def brightness(waves):
        power = np.abs(np.fft.rfft(waves)) ** 2
        return (power * np.arange(power.shape[1])).sum(1) / power.sum(1)

    assert brightness(of("white")).min() > brightness(of("pink")).max()
    rising = of("rising")
    assert (brightness(rising[:, 8000:]) > brightness(rising[:, :8000])).all()
    falling = of("falling")
    assert (brightness(falling[:, 8000:]) < brightness(falling[:, :8000])).mean() > 0.9
