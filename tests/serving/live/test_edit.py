"""What the live page does with an edited token, an embedding, a head at one position and a head from another input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headway.inspection.ablation import ablate
from headway.inspection.capture import capture
from headway.inspection.patching import patch
from headway.serving.api_errors import ApiError
from headway.serving.live.session import LiveSession
from tests.inspection.page.subjects import LINE
from tests.serving.live.conftest import copier, translator, writer
from tests.serving.live.test_session import numbers, request
from tests.serving.live.test_student import visit

EDITED = LINE.replace("cat", "house")


def before_and_after(page: dict[str, Any]) -> list[Any]:
    return [numbers(page, page["change"]["places"][name]) for name in ("before", "after")]


@torch.no_grad()
def log_probs(pipeline: Any, given: str, explanation: Any) -> torch.Tensor:
    """Of the output of `explanation`, with another source."""
    targets = [target for target in explanation.output.targets if target is not None]
    logits = pipeline.token_writer(given).explain(targets).forward()[: len(explanation.output.targets)]
    wanted = torch.tensor(explanation.output.targets).unsqueeze(-1)
    return logits.log_softmax(-1).gather(-1, wanted).squeeze(-1)


def test_an_edited_token_is_compared_with_the_input_as_it_was():
    pipeline = translator()
    page = LiveSession(pipeline).look(request(input=EDITED, edited_from=LINE))
    plain = pipeline.explain(LINE)
    for found, given in zip(before_and_after(page), (LINE, EDITED), strict=True):
        np.testing.assert_allclose(found, log_probs(pipeline, given, plain).numpy(), atol=1e-5)
    assert page["change"]["inputs"] == [LINE, EDITED]
    assert page["change"]["said"] == [plain.said, pipeline.explain(EDITED).said]
    assert page["sequences"]["source"]["tokens"] == pipeline.explain(EDITED).sequences["source"]["tokens"]


def test_an_edit_of_a_language_model_is_compared_where_it_has_the_same_places():
    live = LiveSession(writer())
    same, longer = (live.look(request(input=given, edited_from=LINE)) for given in (EDITED, LINE + " cat"))
    assert same["change"]["places"] is not None
    before, after = before_and_after(same)
    assert np.allclose(before[0], after[0], atol=1e-6)  # what comes before the edit does not see it
    assert not np.allclose(before, after)
    assert longer["change"]["places"] is None


@torch.no_grad()
@pytest.mark.parametrize("instead", ["zero", "mean"])
def test_an_embedding_is_replaced_at_one_token(instead):
    pipeline = translator()
    off = {"part": "encoder.embedding", "instead": instead, "place": 2}
    page = LiveSession(pipeline).look(request(ablated=[off]))
    plain = pipeline.explain(LINE)
    with capture(pipeline.model, what=["encoder.embedding"]) as seen:
        plain.forward()
    vector = seen.last["encoder.embedding"].clone()
    vector[:, 2] = 0 if instead == "zero" else vector.mean(1)
    with patch(pipeline.model, {"encoder.embedding": vector}):
        wanted = log_probs(pipeline, LINE, plain)
        said = pipeline.explain(LINE).said
    np.testing.assert_allclose(before_and_after(page)[1], wanted.numpy(), atol=1e-5)
    assert page["change"]["said"][1] == said  # and the model decodes with it


@torch.no_grad()
def test_a_head_is_switched_off_at_one_position():
    pipeline = translator()
    off = {"part": "decoder.layers.1.cross", "head": 1, "place": 1}
    page = LiveSession(pipeline).look(request(ablated=[off]))
    plain = pipeline.explain(LINE)
    with ablate(pipeline.model, heads={"decoder.layers.1.cross": [1]}, rows=[1]):
        wanted = log_probs(pipeline, LINE, plain)
    before, after = before_and_after(page)
    np.testing.assert_allclose(after, wanted.numpy(), atol=1e-5)
    assert np.allclose(before[0], after[0], atol=1e-6)
    assert before[1] != after[1]
    with pytest.raises(ApiError, match=r"position 99 of decoder.layers.1.cross.heads: it has \d+ position"):
        LiveSession(pipeline).look(request(ablated=[{**off, "place": 99}]))


@torch.no_grad()
def test_one_head_is_patched_from_another_input():
    pipeline, other, part = translator(), "the red house sees the small cat", "encoder.layers.0.self"
    page = LiveSession(pipeline).look(request(patch={"input": other, "parts": [part], "head": 2}))
    with capture(pipeline.model, what=[f"{part}.heads"]) as seen:
        pipeline.explain(other).forward()
    kept = seen.last[f"{part}.heads"]
    plain = pipeline.explain(LINE)

    def changed(value: torch.Tensor) -> torch.Tensor:
        rows = min(value.shape[2], kept.shape[2])
        value = value.clone()
        value[:, :, :rows] = kept[:, :, :rows]
        return value

    with patch(pipeline.model, {f"{part}.heads": changed}, heads=[2]):
        wanted = log_probs(pipeline, LINE, plain)
    np.testing.assert_allclose(before_and_after(page)[1], wanted.numpy(), atol=1e-5)
    assert page["change"]["patched"] == [part]


def test_a_token_is_edited_in_the_page_and_taken_back(browser, live):
    seen = visit(browser, live(copier(), "the small cat"))
    page = seen.page
    page.click("summary")
    assert page.inner_text("#live-chosen") == "the"
    page.locator(".tokens[aria-label=Source] .token").nth(2).click()
    assert page.inner_text("#live-chosen") == "cat"
    page.fill("#live-by", "house")
    seen.after(lambda: page.keyboard.press("Enter"))
    assert page.input_value("#live-input") == "the small house"
    assert page.inner_text("#said-before") == "the small cat"
    assert page.inner_text("#said-after") == "the small house"
    seen.after(lambda: page.get_by_role("button", name="Undo: edited").click())
    assert page.input_value("#live-input") == "the small cat"
    assert page.locator("#said-after").count() == 0
    page.locator(".tokens[aria-label=Source] .token").nth(3).click()  # the end of the text is not in the text
    page.click("#live-replace")
    assert "not a part of the input's text" in page.inner_text("#live-status")
    assert not seen.faults


def test_an_embedding_is_switched_off_at_the_chosen_token(browser, live):
    seen = visit(browser, live(copier(), "the small cat"))
    page = seen.page
    page.locator(".tokens[aria-label=Source] .token").nth(2).click()
    page.click("#live-off")
    page.select_option("#live-instead", "zero here")
    seen.after(lambda: page.click("[data-part='encoder.embedding']"))
    assert page.get_attribute("[data-part='encoder.embedding']", "aria-pressed") == "true"
    assert "encoder embedding off at token 3" in page.inner_text(".tray")
    before, after = (page.inner_text(f"#said-{which}") for which in ("before", "after"))
    assert before == "the small cat" != after
    page.locator(".tokens[aria-label=Source] .token").nth(0).click()  # at another token it is on
    assert page.get_attribute("[data-part='encoder.embedding']", "aria-pressed") == "false"
    assert not seen.faults
