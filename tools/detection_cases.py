"""Cases for tests/metrics: boxes and detections with the figures of pycocotools.

    PYTHONPATH=src:FOLDER python tools/detection_cases.py

FOLDER has pycocotools (2.0.11 made the stored ones). The cases are drawn from a fixed seed: images without objects or
without detections, crowds, equal scores, objects of all ranges of areas, classes without objects, and more detections
of an image than are counted.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "tests" / "metrics" / "data" / "detection.json"
CASES = 240
NAMES = (
    "ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large", "ar1", "ar10", "ar100", "ar_small", "ar_medium",
    "ar_large",
)  # fmt: skip


def drawn_box(draw: random.Random, most: int) -> list[float]:
    """x, y, width, height."""
    return [draw.randint(0, 120), draw.randint(0, 120), draw.randint(2, most), draw.randint(2, most)]


def drawn_image(draw: random.Random, classes: int, number: int) -> dict[str, Any]:
    """Objects [box, class, area, crowd] and detections [box, class, score] of an image."""
    most = draw.choice((40, 90, 300))
    objects = []
    for _ in range(draw.choice((0, 1, 1, 2, 3, 5))):
        box = drawn_box(draw, most)
        area = round(box[2] * box[3] * draw.choice((1.0, 0.7, 0.4)), 1)
        objects.append([box, draw.randrange(classes), area, int(draw.random() < 0.12)])
    found = []
    for box, label, _, crowd in objects:
        for _ in range(draw.choice((0, 1, 1, 1, 2)) + 2 * crowd):
            away = draw.choice((0, 1, 3, 9))
            moved = [max(part + draw.randint(-away, away), 1) for part in box]
            own = label if draw.random() < 0.85 else draw.randrange(classes)
            found.append([moved, own, round(draw.random(), 1 if number % 3 else 3)])
    for _ in range(draw.choice((0, 0, 1, 3))):
        found.append([drawn_box(draw, most), draw.randrange(classes), round(draw.random(), 1)])
    if number == CASES - 1:  # more than are counted
        found += [[drawn_box(draw, most), 0, round(draw.random(), 3)] for _ in range(130)]
    return {"objects": objects, "found": found}


def figures(images: list[dict[str, Any]], classes: int) -> dict[str, float]:
    """What pycocotools says; -1 where there is nothing to say."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    annotations, results = [], []
    for number, image in enumerate(images):
        for box, label, area, crowd in image["objects"]:
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": number, "category_id": label, "bbox": box, "area": area,
                    "iscrowd": crowd,
                }
            )  # fmt: skip
        for box, label, score in image["found"]:
            results.append({"image_id": number, "category_id": label, "bbox": box, "score": score})
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "info": {},
            "images": [{"id": number} for number in range(len(images))],
            "annotations": annotations,
            "categories": [{"id": number} for number in range(classes)],
        }
        truth.createIndex()
        found = truth.loadRes(results) if results else COCO()
        evaluation = COCOeval(truth, found, "bbox")
        evaluation.params.imgIds = list(range(len(images)))
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return dict(zip(NAMES, map(float, evaluation.stats), strict=True))


def main() -> None:
    """Write the file."""
    draw = random.Random("detection cases")
    cases = []
    for number in range(CASES):
        classes = draw.choice((1, 2, 3))
        images = [drawn_image(draw, classes, number) for _ in range(draw.choice((1, 2, 3, 4)))]
        if not any(image["found"] for image in images):
            images[0]["found"].append([drawn_box(draw, 40), 0, 0.5])
        cases.append({"classes": classes, "images": images, "figures": figures(images, classes)})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    FILE.write_text(f'{{"reference": "pycocotools {version("pycocotools")}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
