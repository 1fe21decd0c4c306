"""What a page holds: numbers as they were, each once, and what happens without a head as it happens."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch

from headway.data.tokenizers import Characters, Tokenizer
from headway.inspection.page.attention import compared_rows, describe_mask
from headway.inspection.page.head_ablation import ablation_entry
from headway.inspection.page.outputs import output_entry
from headway.inspection.page.tensors import PageTensors
from headway.models import GptConfig, build_model
from headway.ops import Causal, Lengths, NotSelf, Window
from headway.tasks.encoder_explanation import text_ids
from headway.tasks.explanation import Output
from headway.tasks.language_modelling import Language
from tests.inspection.page.subjects import KINDS, language, page_payload, spread, words
from tests.pipelines import pipeline_of


def opened(kept: dict[str, Any], dtype: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(kept["data"]), dtype)


def test_tensors_come_back_within_their_precision():
    tensor = torch.randn(3, 40)
    exact = PageTensors("float32")
    kept = exact.entries[exact.exact(tensor)]
    assert kept["shape"] == [3, 40]
    assert (opened(kept, "<f4") == tensor.flatten().numpy()).all()
    tensors = PageTensors("int16")
    for name, dtype in ((tensors.exact(tensor), "<i2"), (tensors.levels(tensor), "i1")):
        scales = np.frombuffer(base64.b64decode(tensors.entries[name]["scales"]), "<f4")
        back = opened(tensors.entries[name], dtype).reshape(3, 40) * scales[:, None]
        assert np.abs(back - tensor.numpy()).max() <= scales.max() / 2 + 1e-6
    truth = torch.rand(5, 7) > 0.5
    bits = np.unpackbits(opened(tensors.entries[tensors.bits(truth)], "u1"), bitorder="little")[:35]
    assert (bits.reshape(5, 7) == truth.numpy()).all()


def test_equal_tensors_are_kept_once():
    tensors = PageTensors("float32")
    assert tensors.exact(torch.ones(2, 3)) == tensors.exact(torch.ones(2, 3))
    assert tensors.exact(torch.ones(3, 2)) != tensors.exact(torch.ones(2, 3))
    assert tensors.levels(torch.zeros(2, 3)) in tensors.entries


def test_rows_to_compare_are_spread_and_hold_the_ends():
    assert compared_rows(5) == [0, 1, 2, 3, 4]
    rows = compared_rows(1000)
    assert (rows[0], rows[-1], len(rows)) == (0, 999, 16)


def test_masks_in_words():
    assert describe_mask(Causal()) == "itself and what came before"
    assert describe_mask(Causal() & Lengths(torch.tensor([3]))) == "itself and what came before and what is not padding"
    assert describe_mask(Window(3, 0)) == "3 tokens back and 0 ahead"
    assert describe_mask(NotSelf()) == "everything but itself"


def test_logits_keep_the_share_of_everything():
    logits = torch.randn(4, 30)
    tensors = PageTensors("float32")
    output = Output(name=str, label="next", sequence="text", targets=[3, 29, None, 0])
    entry = output_entry(logits, output, tensors)
    best = opened(tensors.entries[entry["logits"]], "<f4").reshape(4, 8)
    whole = opened(tensors.entries[entry["normaliser"]], "<f4")
    shares = logits.softmax(-1).topk(8).values
    np.testing.assert_allclose(np.exp(best - whole[:, None]), shares.numpy(), rtol=1e-5)
    assert entry["ranks"][0] == int((logits[0] > logits[0, 3]).sum()) + 1
    assert set(entry["words"]) >= {"3", "29", "0"}


def test_a_head_switched_off_is_that_head_s_values_at_zero():
    tokenizer = words()
    model = spread(build_model(GptConfig(vocab=tokenizer.size, context=16, width=16, layers=2, heads=2)))
    ids = torch.tensor([tokenizer.encode("the small cat")])
    entries = [
        {"name": f"layers.{n}.self", "tap": f"layers.{n}.self", "stack": "", "heads": 2, "rows": [0, 2]} for n in (0, 1)
    ]
    output = Output(name=str, label="next", sequence="text", targets=[None, None, None])
    tensors = PageTensors("float32")
    with torch.no_grad():
        plain = model(ids)[0]
    found = ablation_entry(model, lambda: model(ids)[0], entries, plain, output, tensors)
    assert found is not None
    changes = opened(tensors.entries[found["changes"]], "<f4").reshape(4, 3)
    with torch.no_grad():
        model.stack.blocks[1].attention.out.weight[:, 8:] = 0  # what the second head of layer 2 adds
        without = model(ids)[0].log_softmax(-1)
    best = plain.argmax(-1, keepdim=True)
    expected = (without - plain.log_softmax(-1)).gather(-1, best).squeeze(-1)
    np.testing.assert_allclose(changes[3], expected.numpy(), atol=1e-5)
    assert found["said"][3] == without.argmax(-1).tolist()


def test_the_lens_of_the_last_block_is_the_output():
    payload = language()
    lens, output = payload["lens"], payload["output"]
    assert len(lens["layers"]) == 2
    assert [row[0] for row in lens["ids"][-1]] == [row[0] for row in output["ids"]]


def test_a_vocabulary_without_an_end_is_searched_too():
    tokenizer = Tokenizer.train(Characters(), ["to be or not to be"], specials=[])
    model = build_model(GptConfig(vocab=tokenizer.size, context=40, width=16, layers=1, heads=2)).eval()
    payload = page_payload(pipeline_of(Language(), model, tokenizer), "to be")
    assert len(payload["trace"]["lines"]) == 4
    assert not any(line["stopped"] for line in payload["trace"]["lines"])


def test_hidden_tokens_are_the_tokenizers_own():
    tokenizer = words()
    ids = text_ids(tokenizer, "the <mask> cat")
    assert ids.count(tokenizer.mask) == 1
    assert ids[0] == tokenizer.start
    assert ids[-1] == tokenizer.stop


def test_a_page_tells_what_kind_it_is():
    assert {KINDS[kind]()["kind"] for kind in ("language, alibi", "masked", "image")} == {"language", "masked", "image"}
