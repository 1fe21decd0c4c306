"""Decoding images with Pillow: header checked first, converted to RGB, resized and cropped to a square."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from headway.errors import DataError, one_line
from headway.limits import expect_within

Pixels = NDArray[np.uint8]
# Formats that Pillow decodes without external programs.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
BATCH = 64  # encoded images in memory at a time
LARGE = 1 << 24  # pixels beyond which images are decoded one at a time
BAND = 1 << 22  # pixels whose colours are converted at a time
RULE = "square 1"  # part of cache keys; change it when decoding changes


class LargeImageError(DataError):
    """An image that is to be decoded one at a time."""


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image before decoding: its name in errors, its class, and a file's bytes or pixels, (H, W) or (H, W, 3)."""

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
    in_thread = how or partial(decode, largest=LARGE)

    def one(picture: EncodedImage) -> Pixels | DataError:
        try:
            return in_thread(picture, size)
        except DataError as error:
            return error

    # Pillow warns about what is checked here; warning filters are global, so they are set around the threads.
    with warnings.catch_warnings(), ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        warnings.simplefilter("ignore")
        waiting = iter(images)
        while held := list(islice(waiting, BATCH)):
            for picture, found in zip(held, pool.map(one, held), strict=True):
                yield picture, _decode_alone(picture, size) if isinstance(found, LargeImageError) else found


def _decode_alone(picture: EncodedImage, size: int) -> Pixels | DataError:
    """A large image, decoded outside the threads: one at a time, so that their memory does not add up."""
    try:
        return decode(picture, size)
    except DataError as error:
        return error


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


def decode(picture: EncodedImage, size: int, *, largest: int | None = None) -> Pixels:
    """An image as (3, size, size): its shorter side is resized to `size`, then the centre is cropped.

    Only the first frame is used, rotated as EXIF says; transparency is blended with white; 16 bits become 8. Raises
    DataError naming the file and the problem, and LargeImageError for more than `largest` pixels.
    """
    if isinstance(picture.content, bytes):
        image = open_image(picture.content, picture.where, largest=largest)
    else:
        image = Image.fromarray(picture.content)
    width, height = image.size
    if (width, height) != (size, size):
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        image = image.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
    pixels: Pixels = np.asarray(image.convert("RGB"), np.uint8).transpose(2, 0, 1)
    return pixels


def open_image(data: bytes, where: str, *, largest: int | None = None) -> Image.Image:
    """A file as an RGB image, rotated as EXIF says. Raises DataError naming the problem.

    An image of more than `largest` pixels raises LargeImageError, before anything is decoded.
    """
    if not data:
        raise DataError(f"{where}: an empty file, expected an image")
    try:
        image = Image.open(BytesIO(data), formats=FORMATS)
        width, height = image.size  # by the header
        expect_within("pixels", width * height, f"{where}: {width:,} × {height:,}", DataError)
        if not width * height:
            raise DataError(f"{where}: {width} × {height} pixels, expected at least one")
        if largest is not None and width * height > largest:
            raise LargeImageError(where)
        image.load()
        ImageOps.exif_transpose(image, in_place=True)
        return _eight_bits(image, where)
    except DataError:
        raise
    except Image.DecompressionBombError:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        expect_within("pixels", most, f"{where}: at least", DataError)
        raise DataError(f"{where}: more than {most:,} pixels, which Pillow refuses") from None
    except Exception as error:  # Pillow's readers may raise anything on invalid bytes
        reason = one_line(error) or type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            reason = f"none of {', '.join(FORMATS)}"
        raise DataError(f"{where}: not a readable image ({reason})") from None


def _eight_bits(image: Image.Image, where: str) -> Image.Image:
    """An image of any mode as 8-bit RGB, in bands: the intermediate forms take up to five times the memory."""
    width, height = image.size
    rows = max(BAND // width, 1)
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if rows >= height:
        return _converted(image, where)
    made = Image.new("RGB", image.size)
    for top in range(0, height, rows):
        made.paste(_converted(image.crop((0, top, width, min(top + rows, height))), where), (0, top))
    return made


def _converted(image: Image.Image, where: str) -> Image.Image:
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
