"""An imagined rollout beside a real episode, as an animated GIF or a strip of frames (PNG)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Frame = NDArray[np.uint8]  # (H, W, 3)
HEIGHT = 160  # pixels of a frame
SHOWN = 10  # frames of a strip
MARGIN = 4
TITLE = 14  # pixels above a frame


def comparison_gif(real: Sequence[Frame], imagined: Sequence[Frame]) -> bytes:
    """An animated GIF of both episodes side by side; the shorter one stays at its last frame."""
    length = max(len(real), len(imagined))
    frames = [
        _sheet([[("real", real[min(t, len(real) - 1)]), ("imagined", imagined[min(t, len(imagined) - 1)])]])
        for t in range(length)
    ]
    return _bytes(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=60, loop=0)


def comparison_strip(real: Sequence[Frame], imagined: Sequence[Frame]) -> bytes:
    """A PNG: frames of the real episode above those of the imagined one at the same steps."""
    length = min(len(real), len(imagined))
    steps = np.unique(np.linspace(0, length - 1, min(SHOWN, length)).astype(int)).tolist()
    rows = [[(f"{name} {t}", frames[t]) for t in steps] for name, frames in (("real", real), ("imagined", imagined))]
    return _bytes(_sheet(rows), "PNG")


def _sheet(rows: Sequence[Sequence[tuple[str, Frame]]]) -> Image.Image:
    """Frames under their titles, row by row."""
    sized = [[(title, _sized(frame)) for title, frame in row] for row in rows]
    width = max(sum(image.width + MARGIN for _, image in row) for row in sized) + MARGIN
    sheet = Image.new("RGB", (width, len(sized) * (HEIGHT + TITLE + MARGIN) + MARGIN), "white")
    pen = ImageDraw.Draw(sheet)
    for n, row in enumerate(sized):
        left, top = MARGIN, MARGIN + n * (HEIGHT + TITLE + MARGIN)
        for title, image in row:
            pen.text((left, top), title, fill="black")
            sheet.paste(image, (left, top + TITLE))
            left += image.width + MARGIN
    return sheet


def _sized(frame: Frame) -> Image.Image:
    image = Image.fromarray(frame)
    kind = Image.Resampling.BOX if image.height > HEIGHT else Image.Resampling.NEAREST
    return image.resize((max(round(image.width * HEIGHT / image.height), 1), HEIGHT), kind)


def _bytes(image: Image.Image, kind: str, **how: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


def table_frame(numbers: NDArray[Any], levels: int) -> Frame:
    """Integers (P,) as a square of coloured cells; if divisible by three, each triple is an RGB colour."""
    channels = 3 if len(numbers) % 3 == 0 else 1
    cells = numbers.reshape(-1, channels)
    side = int(np.ceil(np.sqrt(len(cells))))
    shown = np.zeros((side * side, 3))
    shown[: len(cells)] = cells / max(levels - 1, 1)
    return (255 * shown.reshape(side, side, 3)).clip(0, 255).astype(np.uint8)


def bars_frame(numbers: NDArray[Any], span: NDArray[Any]) -> Frame:
    """Numbers (N,) as bars from a centre line, scaled by `span` (N,)."""
    cell, half = 12, 32
    frame = np.full((2 * half, cell * len(numbers), 3), 255, np.uint8)
    frame[half] = 128
    for n, share in enumerate(np.clip(numbers / np.maximum(span, 1e-9), -1, 1)):
        reach = round(half * float(share))
        top, bottom = sorted((half, half - reach))
        frame[top:bottom, n * cell + 2 : (n + 1) * cell - 2] = (60, 100, 180)
    return frame
