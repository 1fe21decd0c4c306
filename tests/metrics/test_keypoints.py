from __future__ import annotations

import contextlib
import io
import math

import numpy as np
import pytest

from headway.errors import DataError
from headway.metrics.keypoints import AREAS, SIGMAS, Detections, People, keypoint_report, oks

AREA = 2500.0


def person(places: np.ndarray, seen: np.ndarray | None = None, area: float = AREA) -> People:
    flags = np.full(17, 2.0) if seen is None else seen
    return People(
        keypoints=np.concatenate([places, flags[:, None]], 1)[None], areas=np.array([area]), boxes=np.zeros((1, 4))
    )


def one(places: np.ndarray) -> Detections:
    return Detections(places=places[None], scores=np.ones(1))


@pytest.fixture
def places():
    return np.random.default_rng(0).uniform(10, 60, (17, 2))


def test_a_perfect_detection_is_one(places):
    assert oks(one(places), person(places)) == 1.0
    report = keypoint_report([one(places)], [person(places)])
    assert report.ap["all"] == pytest.approx(1)
    assert report.ap["large"] is None
    assert report.to_json()["oks_ap"] == report.ap["all"]
    assert report.mean_oks == 1


def test_two_sigmas_of_the_root_of_the_area_away(places):
    moved = places + np.stack([2 * SIGMAS * math.sqrt(AREA), np.zeros(17)], 1)
    assert oks(one(moved), person(places))[0, 0] == pytest.approx(math.exp(-0.5), abs=1e-12)


def test_what_is_not_labelled_is_ignored(places):
    seen, moved = np.full(17, 2.0), places.copy()
    seen[3:] = 0
    moved[3:] += 1000
    assert oks(one(moved), person(places, seen))[0, 0] == 1.0
    seen[1:3] = 1  # hidden but labelled counts
    moved[2] += 1000
    assert oks(one(moved), person(places, seen))[0, 0] == pytest.approx(2 / 3)


def test_a_missed_person_costs_recall(places):
    none = Detections(places=np.zeros((0, 17, 2)), scores=np.zeros(0))
    report = keypoint_report([one(places), none], [person(places), person(places)])
    assert report.recall == 0.5
    assert report.ap["all"] == pytest.approx(51 / 101)
    assert report.people == 2
    with pytest.raises(DataError, match="detections of 1 images for 2"):
        keypoint_report([none], [person(places), person(places)])
    assert keypoint_report([none], [person(places)]).ap["all"] == 0.0


def drawn(random: np.random.Generator, images: int) -> tuple[list[Detections], list[People]]:
    """Images with up to four people of all sizes, some unlabelled, some a crowd, and detections near and far."""
    found, people = [], []
    for _ in range(images):
        count = int(random.integers(0, 5))
        side = random.choice([20, 60, 150, 300], count)[:, None, None]
        corner = random.uniform(0, 200, (count, 1, 2))
        places = corner + side * random.uniform(0, 1, (count, 17, 2))
        seen = (random.uniform(size=(count, 17)) < random.choice([0.0, 0.6, 1.0], (count, 1))) * 2.0
        boxes = np.concatenate([corner[:, 0], np.broadcast_to(side[:, 0], (count, 2))], 1)
        keypoints = np.concatenate([places, seen[:, :, None]], 2)
        crowds = random.uniform(size=count) < 0.1
        people.append(
            People(
                keypoints=keypoints,
                areas=side[:, 0, 0] ** 2 * random.uniform(0.3, 0.9, count),
                boxes=boxes,
                crowds=crowds,
            )
        )
        near = np.repeat(places, random.integers(0, 8), 0)
        near = near + 60 * random.uniform(0, 0.3, (len(near), 1, 1)) * random.standard_normal(near.shape)
        far = random.uniform(0, 400, (int(random.integers(0, 3)), 17, 2))
        both = np.concatenate([near, far])
        found.append(Detections(places=both, scores=random.choice(np.linspace(0, 1, 40), len(both))))  # with ties
    return found, people


def coco(found: list[Detections], people: list[People]) -> np.ndarray:
    """The ten figures of pycocotools."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    annotations, results = [], []
    for image, (detections, there) in enumerate(zip(found, people, strict=True), 1):
        for n in range(len(there.areas)):
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": image, "category_id": 1, "iscrowd": int(there.crowds[n]),
                    "area": float(there.areas[n]), "bbox": there.boxes[n].tolist(),
                    "keypoints": there.keypoints[n].ravel().tolist(),
                    "num_keypoints": int((there.keypoints[n, :, 2] > 0).sum()),
                }
            )  # fmt: skip
        for n, score in enumerate(detections.scores):
            points = np.concatenate([detections.places[n], np.ones((17, 1))], 1).ravel().tolist()
            results.append({"image_id": image, "category_id": 1, "keypoints": points, "score": float(score)})
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": n + 1} for n in range(len(people))],
            "categories": [{"id": 1, "name": "person"}],
            "annotations": annotations,
            "info": {},
        }
        truth.createIndex()
        judge = COCOeval(truth, truth.loadRes(results), "keypoints")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return judge.stats


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_figures_are_those_of_pycocotools(seed):
    pytest.importorskip("pycocotools")
    found, people = drawn(np.random.default_rng(seed), 40)
    report = keypoint_report(found, people)
    theirs = coco(found, people)
    ours = [report.ap["all"], report.ap_at[0.5], report.ap_at[0.75], report.ap["medium"], report.ap["large"]]
    assert 0.02 < report.ap["all"] < 0.98
    np.testing.assert_allclose([*ours, report.recall], theirs[:6], atol=1e-9)
    assert set(AREAS) == {"all", "medium", "large"}
