"""What a page shows first: the tokens that were asked for, or the head that the output needs most."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from headway.errors import DataError
from headway.inspection.page.html import document
from headway.models import EncoderDecoderConfig, GptConfig, build_model
from headway.tasks.base import Pipeline
from headway.tasks.language_modelling import Language
from headway.tasks.translation import Translation
from tests.inspection.page.subjects import LINE, bert, language, page_payload, spread, translation, words
from tests.pipelines import pipeline_of


def pipeline() -> Pipeline:
    tokenizer = words()
    config = GptConfig(vocab=tokenizer.size, context=64, width=32, layers=3, heads=4)
    return pipeline_of(Language(), spread(build_model(config)), tokenizer)


def test_a_page_opens_at_the_tokens_that_were_asked_for(show):
    found = page_payload(pipeline(), LINE, open="house:cat")
    tokens = found["sequences"]["text"]["tokens"]
    i, j = tokens.index("house"), tokens.index("cat")
    weights = []
    for entry in found["attentions"]:
        kept = found["tensors"][entry["weights"]]
        weights.append(np.frombuffer(base64.b64decode(kept["data"]), "<f4").reshape(kept["shape"])[:, i, j])
    attention, head = (int(n) for n in np.unravel_index(np.argmax(weights), (3, 4)))
    assert found["start"] == {"attention": attention, "head": head, "at.text": i, "key": j}
    page = show(found).page
    assert page.get_attribute(f".token >> nth={i}", "aria-pressed") == "true"
    assert "From house to cat" in page.inner_text("#attention")
    assert page.url.endswith(".html")  # what is shown first is no part of the address


def test_one_token_is_enough():
    found = page_payload(pipeline(), LINE, open="cat")
    assert found["start"] == {"at.text": found["sequences"]["text"]["tokens"].index("cat")}


def test_a_target_looks_at_its_source():
    tokenizer = words()
    config = EncoderDecoderConfig(vocab=tokenizer.size, context=64, width=32, inner=32, heads=4)
    translator = pipeline_of(Translation(max_extra=1), spread(build_model(config)), tokenizer)
    found = page_payload(translator, LINE, open="<s>:house")
    assert found["attentions"][found["start"]["attention"]]["kind"] == "cross"
    assert found["start"]["at.target"] == 0


@pytest.mark.parametrize("wanted", ["dog:cat", "cat:dog", "dog"])
def test_a_token_that_is_not_there_is_named(wanted):
    with pytest.raises(DataError, match=r"no token 'dog'; the page has text: .*the small cat"):
        page_payload(pipeline(), LINE, open=wanted)


def test_else_it_opens_at_the_head_that_matters():
    found = translation()
    kept = found["tensors"][found["ablation"]["changes"]]
    changes = np.frombuffer(base64.b64decode(kept["data"]), "<f4").reshape(kept["shape"]).sum(1)
    head = found["ablation"]["heads"][int(changes.argmin())]
    assert found["start"] == {"attention": head["attention"], "head": head["head"]}
    assert found["sequences"]["target"]["start"] == 1


def test_a_hidden_token_is_where_a_masked_model_starts():
    found = bert()
    assert "at.text" not in found["start"]
    assert found["sequences"]["text"]["tokens"][found["sequences"]["text"]["start"]] == "<mask>"


def test_a_text_opens_where_the_head_is_missed_most():
    found = language()
    place, head = found["start"]["at.text"], found["ablation"]["needed"]["head"]
    kept = found["tensors"][found["ablation"]["changes"]]
    changes = np.frombuffer(base64.b64decode(kept["data"]), "<f4").reshape(kept["shape"])[head]
    assert place == 1 + changes[1:].argmin()  # at the first token a head has nothing to choose


@pytest.mark.parametrize("tokens", [16, 64, 256, 512])
def test_the_file_stays_within_its_limit(tokens, monkeypatch):
    limit = 700_000
    monkeypatch.setattr("headway.inspection.page.payload.FILE_BYTES", limit)
    monkeypatch.setattr("headway.inspection.page.payload.EXACT", 40_000)
    tokenizer = words()
    config = GptConfig(vocab=tokenizer.size, context=600, width=48, layers=6, heads=4)
    long = pipeline_of(Language(), build_model(config), tokenizer)
    found = page_payload(long, " ".join((LINE.split() * 60)[:tokens]))
    size = len(document(found).encode())
    assert size <= limit
    assert size > limit / 2 or not found["left_out"]  # room is used
    assert len(found["attentions"]) + found["left_out"] == 6


def test_a_text_too_long_for_one_layer_says_so(show, monkeypatch):
    empty = len(document({"title": ""}).encode())
    monkeypatch.setattr("headway.inspection.page.payload.FILE_BYTES", empty + 60_000)
    seen = show(language(" ".join(LINE.split() * 5)))
    assert "not even one of 2 layers fits" in seen.page.inner_text("#attention")
    assert not seen.faults
