"""Decoding images with Pillow: header checked first, converted to RGB, resized and cropped to a square."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from headway.errors import DataError

Pixels = NDArray[np.uint8]
MAX_PIXELS = 64_000_000  # a small file can claim more pixels than memory holds
# Formats that Pillow decodes without external programs.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
BATCH = 64  # encoded images in memory at a time
RULE = "square 1"  # part of cache keys; change it when decoding changes


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image before decoding: its name in errors, its class, and the bytes of a file or grey pixels (H, W)."""

    where: str
    label: int
    content: bytes | Pixels

    @property
    def data(self) -> bytes:
        """The content, for a digest."""
        return self.content if isinstance(self.content, bytes) else self.content.tobytes()


def decode_each(
    images: Iterable[EncodedImage], size: int, how: Callable[[EncodedImage, int], Pixels] | None = None
) -> Iterator[tuple[EncodedImage, Pixels | DataError]]:
    """Decode images in order with threads -> each image with its pixels, or with the error."""
    how = how or decode

    def one(picture: EncodedImage) -> Pixels | DataError:
        try:
            return how(picture, size)
        except DataError as error:
            return error

    # Pillow warns about what is checked here; warning filters are global, so they are set around the threads.
    with warnings.catch_warnings(), ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        warnings.simplefilter("ignore")
        waiting = iter(images)
        while held := list(islice(waiting, BATCH)):
            yield from zip(held, pool.map(one, held), strict=True)


def decode_images(
    images: Iterable[EncodedImage], size: int, how: Callable[[EncodedImage, int], Pixels] | None = None
) -> list[Pixels]:
    """The pixels of all images. Raises DataError for the first that cannot be read."""
    pixels: list[Pixels] = []
    for _, found in decode_each(images, size, how):
        if isinstance(found, DataError):
            raise found
        pixels.append(found)
    return pixels


def decode(picture: EncodedImage, size: int) -> Pixels:
    """An image as (3, size, size): its shorter side is resized to `size`, then the centre is cropped.

    Only the first frame is used, rotated as EXIF says; transparency is blended with white; 16 bits become 8. Raises
    DataError naming the file and the problem.
    """
    if isinstance(picture.content, bytes):
        image = open_image(picture.content, picture.where)
    else:
        image = Image.fromarray(picture.content)
    width, height = image.size
    if (width, height) != (size, size):
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        image = image.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
    pixels: Pixels = np.asarray(image.convert("RGB"), np.uint8).transpose(2, 0, 1)
    return pixels


def open_image(data: bytes, where: str) -> Image.Image:
    """A file as an RGB image, rotated as EXIF says. Raises DataError naming the problem."""
    if not data:
        raise DataError(f"{where}: an empty file, expected an image")
    try:
        image = Image.open(BytesIO(data), formats=FORMATS)
        _expect_size(image, where)
        image.load()
        return _eight_bits(ImageOps.exif_transpose(image), where)
    except DataError:
        raise
    except Image.DecompressionBombError:
        raise DataError(f"{where}: more than the {MAX_PIXELS:,} pixels allowed") from None
    except Exception as error:  # Pillow's readers may raise anything on invalid bytes
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            reason = f"none of {', '.join(FORMATS)}; it begins with {data[:8]!r}"
        raise DataError(f"{where}: not a readable image ({reason})") from None


def _expect_size(image: Image.Image, where: str) -> None:
    """Check the size in the header, before decoding."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise DataError(f"{where}: {width:,} × {height:,} pixels, allowed: at most {MAX_PIXELS:,}")
    if not width * height:
        raise DataError(f"{where}: {width} × {height} pixels, expected at least one")


def _eight_bits(image: Image.Image, where: str) -> Image.Image:
    """An image of any mode as 8-bit RGB."""
    if image.mode == "F":
        raise DataError(f"{where}: pixels are 32-bit floats, allowed: 8 or 16 bits")
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise DataError(f"{where}: pixels from {values.min()} to {values.max()}, allowed: 0 to 65535")
        return Image.fromarray(np.round(values / 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    return image.convert("RGB")
