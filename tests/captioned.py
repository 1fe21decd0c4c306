"""A folder of drawn scenes with a captions file beside them, as Flickr8k has it."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from headway.data.synthetic.shapes import captions


def write_pictures(folder: Path, count: int, *, size: int = 20) -> Path:
    """So many PNG files, 0.png and on, and captions.txt."""
    folder.mkdir(parents=True)
    pixels, said = captions(count, size=size, seed=5)
    for n, image in enumerate(pixels):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{n}.png")
    (folder / "captions.txt").write_text("".join(f"{n}.png#0\t{text}\n" for n, text in enumerate(said)))
    return folder
