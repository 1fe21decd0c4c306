"""What a live page is told: the numbers of the file's page, and those of ablation, patching and decoding."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from headway.decoding.sampling import GREEDY, Sampling
from headway.inspection.ablation import ablate
from headway.inspection.page.number_origin import NumberChoice
from headway.inspection.page.payload import PageOptions, payload, run_facts
from headway.models import VitConfig, build_model
from headway.serving.api_errors import ApiError
from headway.serving.fields import Fields
from headway.serving.live.fields import LookRequest, read_number
from headway.serving.live.session import LiveSession
from headway.tasks.image_classification import Classification
from tests.inspection.page.subjects import LINE, pixels, spread
from tests.pages import payload_of
from tests.pipelines import pipeline_of
from tests.serving.live.conftest import translator, writer


def request(**fields: Any) -> LookRequest:
    return LookRequest.read(Fields({"input": LINE, **fields}))


def numbers(page: dict[str, Any], name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    kept = page["tensors"][name]
    return np.frombuffer(base64.b64decode(kept["data"]), "<f4").reshape(kept["shape"])


@pytest.mark.parametrize("kind", [translator, writer])
def test_a_look_is_the_page_of_the_file(kind):
    pipeline = kind()
    live = LiveSession(pipeline).look(request(), every_head=True)
    plain = payload(pipeline.model, pipeline.explain(LINE), run_facts(pipeline), PageOptions())
    assert {name: live[name] for name in plain} == plain
    assert live["writer"]["sequence"] in plain["sequences"]


def test_a_text_is_read_without_the_search_for_what_follows_it():
    live = LiveSession(writer())
    searched, quick = live.look(request()), live.look(request(search=False))
    assert "trace" in searched
    assert "trace" not in quick
    assert (searched["given"], quick["given"], quick["said"]) == (LINE, LINE, "")
    logits = [numbers(page, page["output"]["logits"]) for page in (searched, quick)]
    np.testing.assert_array_equal(*logits)
    off = live.look(request(search=False, ablated=[{"part": "layers.0.self", "head": 1}]))
    assert off["change"]["said"] == ["", ""]
    assert live.look(request(ablated=[{"part": "layers.0.self", "head": 1}]))["change"]["said"][0] == searched["said"]
    decoder = LiveSession(translator())  # what it writes is found by its search
    assert decoder.look(request(search=False))["said"] == decoder.look(request())["said"]


@torch.no_grad()
def test_heads_off_are_those_of_ablation():
    pipeline = translator()
    off = [
        {"part": "decoder.layers.1.cross", "head": 1},
        {"part": "encoder.layers.0.feedforward", "instead": "mean"},
        {"part": "decoder.layers.0"},
    ]
    page = LiveSession(pipeline).look(request(ablated=off))
    explanation = pipeline.explain(LINE)
    before = explanation.forward().log_softmax(-1)
    with (
        ablate(pipeline.model, heads={"decoder.layers.1.cross": [1]}),
        ablate(pipeline.model, parts=["encoder.layers.0.feedforward"], instead="mean"),
        ablate(pipeline.model, parts=["decoder.layers.0"]),
    ):
        after = explanation.forward().log_softmax(-1)
        again = pipeline.explain(LINE)
    places = page["change"]["places"]
    targets = torch.tensor(explanation.output.targets).unsqueeze(-1)  # type: ignore[union-attr]
    for name, logits in (("before", before), ("after", after)):
        wanted = logits.gather(-1, targets).squeeze(-1)
        np.testing.assert_allclose(numbers(page, places[name]), wanted.numpy(), atol=1e-6)
    assert page["said"] == again.said
    assert page["change"]["said"] == [explanation.said, again.said]
    assert pipeline.explain(LINE).said == explanation.said  # no hook is left


def test_values_of_another_input_are_patched_in():
    pipeline, other = translator(), "the red house sees the small cat"
    live = LiveSession(pipeline)
    patch = {"input": other, "parts": ["decoder.layers.1.cross"]}
    page = live.look(request(patch=patch))
    places = page["change"]["places"]
    assert not np.allclose(numbers(page, places["before"]), numbers(page, places["after"]))
    same = live.look(request(patch={**patch, "input": LINE}))
    places = same["change"]["places"]
    np.testing.assert_allclose(numbers(same, places["before"]), numbers(same, places["after"]), atol=1e-5)
    with pytest.raises(ApiError, match="cannot be patched"):
        live.look(request(patch={"input": other, "parts": ["decoder.layers.1"]}))


@pytest.mark.parametrize("kind", [translator, writer])
def test_what_is_written_are_the_tokens_of_the_parallel_forward(kind):
    pipeline = kind()
    live = LiveSession(pipeline)
    tokens = list(live.write(request(), GREEDY, 0, 6))
    assert [each["id"] for each in tokens] == [each["top"][0][0] for each in tokens]
    start = list(pipeline.token_writer(LINE).prompt)  # type: ignore[union-attr]
    page = live.look(request(written=[*start, *(each["id"] for each in tokens)]))
    logits, place = numbers(page, page["output"]["logits"]), max(len(start) - 1, 0)
    for n, token in enumerate(tokens):
        np.testing.assert_allclose([each[2] for each in token["top"]], logits[place + n], atol=1e-4)


def test_a_branch_goes_on_from_another_token_with_the_parts_that_are_off():
    live = LiveSession(translator())
    first = list(live.write(request(), GREEDY, 0, 4))
    other = first[1]["top"][1][0]
    branch = list(live.write(request(written=[first[0]["id"], other]), GREEDY, 0, 4))
    page = live.look(request(written=[first[0]["id"], other, *(each["id"] for each in branch)]))
    assert page["sequences"]["target"]["ids"][1:3] == [first[0]["id"], other]
    off = request(written=[first[0]["id"]], ablated=[{"part": "decoder.layers.0.cross"}])
    assert [each["top"] for each in live.write(off, GREEDY, 0, 2)] != [each["top"] for each in first[1:3]]


def test_one_seed_draws_the_same_tokens():
    live = LiveSession(writer())
    drawn = [[each["id"] for each in live.write(request(), Sampling(top_k=9), seed, 8)] for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_saved_view_holds_the_numbers_of_the_look(tmp_path):
    live = LiveSession(translator())
    page = live.look(request(ablated=[{"part": "decoder.layers.1.cross", "head": 0}]))
    path = tmp_path / "look.html"
    path.write_text(live.saved(page["look"], {"head": 2, "at.target": 1, "evil": ["x"]}))
    kept = payload_of(path)
    assert kept["tensors"] == page["tensors"]
    assert kept["change"] == page["change"]
    assert kept["start"] == {**page["start"], "head": 2, "at.target": 1}
    with pytest.raises(ApiError, match="not kept"):
        live.saved("99", {})


def test_a_number_is_followed_back_in_the_look_as_it_was_changed(tmp_path):
    live = LiveSession(translator())
    plain = live.look(request())
    off = live.look(request(ablated=[{"part": "encoder.layers.0.feedforward"}]))
    name, at = "decoder.layers.1.cross", NumberChoice(part="k", token=2, index=3, attention="decoder.layers.1.cross")
    values = []
    for page in (plain, off):
        (entry,) = (each for each in page["attentions"] if each["name"] == name)
        values.append(numbers(page, entry["k"])[0, 2, 3].item())
        found = live.origin(page["look"], at)
        assert found["value"] == pytest.approx(values[-1], rel=1e-6)
        (row,) = found["rows"]
        x, w = (numbers(found, row[each]).astype(float) for each in "xw")
        assert (x @ w).item() + (row["bias"] or 0) == pytest.approx(found["value"], rel=1e-5)
    assert values[0] != values[1]
    path = tmp_path / "look.html"
    path.write_text(live.saved(off["look"], {"of": "k", "dim": 3}))
    assert payload_of(path)["origins"] == [live.origin(off["look"], at)]
    with pytest.raises(ApiError, match="not kept"):
        live.origin("99", at)
    with pytest.raises(ApiError, match="index=9"):
        live.origin(off["look"], NumberChoice(part="k", token=2, index=9, attention=name))


def test_a_file_keeps_the_last_numbers_that_were_followed_and_no_more_than_it_has_room_for(monkeypatch, tmp_path):
    live = LiveSession(translator())
    look, path = live.look(request())["look"], tmp_path / "look.html"
    choices = [NumberChoice(part="logit", token=n // 8, index=n % 8) for n in range(20)]
    for number in choices:
        live.origin(look, number)
    path.write_text(live.saved(look, {}))
    kept = payload_of(path)["origins"]
    assert [each["number"] for each in kept] == [asdict(number) for number in choices[-16:]]
    without = len(path.read_text()) - sum(len(json.dumps(each, separators=(",", ":"))) for each in kept)
    monkeypatch.setattr("headway.serving.live.session.FILE_BYTES", without + 5_000)
    path.write_text(live.saved(look, {}))
    assert 0 < len(payload_of(path)["origins"]) < 16


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "part"),
        ({"part": "weights"}, "one of q, k, v, logit"),
        ({"part": "q", "token": -1}, "integer from 0"),
        ({"part": "q", "attention": 3}, "attention"),
    ],
)
def test_a_number_of_no_known_kind_is_refused(fields, message):
    with pytest.raises(ApiError, match=message):
        read_number(Fields(fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ablated": [{"part": "nowhere"}]}, "unknown part"),
        ({"ablated": [{"part": "decoder.layers.0.self", "head": 9}]}, "head 9"),
        ({"ablated": [{"part": "decoder.layers.0.self", "instead": "noise"}]}, "zero or mean"),
        ({"ablated": "all"}, "expected up to"),
        ({"written": [10**6]}, "beyond the vocabulary"),
        ({"written": [-1]}, "token ids"),
        ({"input": "x" * 30_000}, "allowed: 20,000"),
        ({"input": ""}, "empty"),
    ],
)
def test_what_cannot_be_done_is_said(fields, message):
    live = LiveSession(translator())
    with pytest.raises(ApiError, match=message):
        live.look(request(**fields))


def test_a_page_chooses_no_file_and_an_image_is_looked_at_and_ablated(tmp_path):
    Image.fromarray(pixels(16).transpose(1, 2, 0)).save(tmp_path / "photo.png")
    config = VitConfig(classes=2, image=16, patch=4, width=32, layers=1, heads=4, inner=32)
    pipeline = pipeline_of(Classification(size=16), spread(build_model(config)), classes=("cat", "dog"))
    live = LiveSession(pipeline, str(tmp_path / "photo.png"))
    assert live.described()["fixed"]
    plain, other = (live.look(request(input=given)) for given in ("", "/etc/passwd"))
    assert plain["tensors"] == other["tensors"]
    assert plain["writer"] is None
    changed = live.look(request(ablated=[{"part": "layers.0.self"}]))["change"]
    assert changed["places"]["came"]
    assert len(changed["said"]) == 2
    with pytest.raises(ApiError, match="does not write text"):
        next(live.write(request(), GREEDY, 0, 4))
