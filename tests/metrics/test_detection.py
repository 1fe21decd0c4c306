"""Average precision and recall of boxes, held to pycocotools on stored cases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headway.errors import DataError
from headway.metrics.detection import DetectionReport, FoundBoxes, TrueBoxes, box_overlaps, detection_report

CASES = json.loads((Path(__file__).parent / "data" / "detection.json").read_text())


def true_boxes(objects) -> TrueBoxes:
    return TrueBoxes(
        boxes=np.array([each[0] for each in objects], np.float64).reshape(-1, 4),
        classes=np.array([each[1] for each in objects], np.int64),
        areas=np.array([each[2] for each in objects], np.float64),
        crowds=np.array([each[3] for each in objects], bool),
    )


def found_boxes(found) -> FoundBoxes:
    return FoundBoxes(
        boxes=np.array([each[0] for each in found], np.float64).reshape(-1, 4),
        classes=np.array([each[1] for each in found], np.int64),
        scores=np.array([each[2] for each in found], np.float64),
    )


def report_of(case) -> DetectionReport:
    images = case["images"]
    return detection_report(
        [found_boxes(image["found"]) for image in images],
        [true_boxes(image["objects"]) for image in images],
        case["classes"],
    )


def test_the_cases_are_pycocotools():
    assert CASES["reference"].startswith("pycocotools ")
    assert len(CASES["cases"]) >= 200
    images = [image for case in CASES["cases"] for image in case["images"]]
    assert any(not image["objects"] for image in images)
    assert any(not image["found"] for image in images)
    assert max(len(image["found"]) for image in images) > 100
    assert any(each[3] for image in images for each in image["objects"])
    for name in ("ap_small", "ap_medium", "ap_large"):
        assert len({case["figures"][name] for case in CASES["cases"]}) > 20


def test_every_case_has_pycocotools_figures():
    for number, case in enumerate(CASES["cases"]):
        own = report_of(case).to_json()
        for name, expected in case["figures"].items():
            found = -1.0 if own[name] is None else own[name]
            assert found == pytest.approx(expected, abs=1e-6), f"case {number}: {name}"


def test_the_order_of_images_and_of_objects_changes_nothing():
    for case in CASES["cases"][:20]:
        turned = {
            **case,
            "images": [{**each, "objects": each["objects"][::-1]} for each in case["images"]],
        }
        scores = [each[2] for image in case["images"] for each in image["found"]]
        if len(set(scores)) == len(scores):  # equal scores are taken in the order they are given in
            turned["images"].reverse()
        assert report_of(turned).to_json() == pytest.approx(report_of(case).to_json(), abs=1e-12)


def test_perfect_detections_score_one():
    image = {"objects": [[[3, 4, 50, 60], 0, 3000.0, 0], [[70, 4, 9, 9], 1, 81.0, 0]], "found": []}
    image["found"] = [[box, label, 0.9] for box, label, _, _ in image["objects"]]
    found = report_of({"classes": 3, "images": [image]})
    assert (found.ap["all"], found.ap_at[0.5], found.recall_of[100]) == pytest.approx((1.0, 1.0, 1.0))
    assert (found.ap["small"], found.ap["medium"]) == pytest.approx((1.0, 1.0))
    assert found.ap["large"] is None
    assert found.by_class[:2] == pytest.approx((1.0, 1.0))
    assert found.by_class[2] is None
    assert (found.images, found.objects) == (1, 2)
    assert found.curves.min() == pytest.approx(1.0)


def test_a_crowd_takes_any_number_of_detections():
    crowd = [[0, 0, 100, 100], 0, 9000.0, 1]
    single = [[200, 0, 20, 20], 0, 400.0, 0]
    found = [[[0, 0, 20, 20], 0, 0.9], [[30, 30, 20, 20], 0, 0.8], [[200, 0, 20, 20], 0, 0.7]]
    assert report_of({"classes": 1, "images": [{"objects": [crowd, single], "found": found}]}).ap[
        "all"
    ] == pytest.approx(1)
    without = report_of({"classes": 1, "images": [{"objects": [single], "found": found}]})
    assert without.ap["all"] == pytest.approx(1 / 3)


def test_overlaps_of_boxes():
    found = np.array([[0, 0, 10, 10], [5, 0, 10, 10], [50, 50, 0, 0]], np.float64)
    true = np.array([[0, 0, 10, 10], [0, 0, 20, 20]], np.float64)
    np.testing.assert_allclose(box_overlaps(found, true, np.array([False, False])), [[1, 0.25], [1 / 3, 0.25], [0, 0]])
    np.testing.assert_allclose(box_overlaps(found, true, np.array([False, True]))[:, 1], [1, 1, 0])


def test_as_many_detections_as_images():
    with pytest.raises(DataError, match="detections of 0 images for 0: expected the same, at least one"):
        detection_report([], [], 1)
