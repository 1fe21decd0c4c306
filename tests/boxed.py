"""A folder of drawn scenes with the boxes of their shapes beside them, as COCO's instances have it."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from headway.data.synthetic.drawing import SHAPES
from headway.data.synthetic.scattered import scattered_shapes


def write_scenes(folder: Path, count: int, *, size: int = 48) -> Path:
    """So many PNG files, 0.png and on, and train.json."""
    folder.mkdir(parents=True)
    drawn = scattered_shapes(count, size=size, seed=5)
    images, objects = [], []
    for n, pixels in enumerate(drawn.pixels):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(folder / f"{n}.png")
        images.append({"id": n, "file_name": f"{n}.png"})
        for (left, top, right, bottom), label in zip(drawn.boxes[n].tolist(), drawn.classes[n].tolist(), strict=True):
            if label >= 0:
                objects.append({"image_id": n, "category_id": label, "bbox": [left, top, right - left, bottom - top]})
    categories = [{"id": number, "name": name} for number, name in enumerate(SHAPES)]
    tree = {"images": images, "annotations": objects, "categories": categories}
    (folder / "train.json").write_text(json.dumps(tree))
    return folder
