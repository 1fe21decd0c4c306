"""A number of every kind of page, followed back: the products of what the layer read with a row of its matrix."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.inspection.page.number_origin import NumberChoice, Part, origin_entry
from headway.inspection.page.record import record_forward
from headway.nn.norms import CentredRMSNorm, RMSNorm
from headway.nn.positions import Rotary
from headway.tasks.explanation import Explanation
from tests.inspection.page import subjects
from tests.inspection.page.subjects import KINDS, language

NOT_FOLLOWED = {  # not one product: identical values, kept states, keypoints of two maps; or a row of logits is places
    "translation, recurrent": {"v"},
    "caption, recurrent": {"v"},
    "pose": {"logit"},
    "objects": {"logit"},
    "answers": {"logit"},
}
Run = tuple[dict[str, Any], nn.Module, Explanation]


@pytest.fixture
def run(monkeypatch) -> Callable[[Callable[[], dict[str, Any]]], Run]:
    """The payload of a page, with its model and pass."""
    made, seen = subjects.payload, list[Any]()

    def recorded(model: nn.Module, explanation: Explanation, *rest: Any) -> dict[str, Any]:
        seen[:] = [model, explanation]
        return made(model, explanation, *rest)

    monkeypatch.setattr(subjects, "payload", recorded)

    def ran(make: Callable[[], dict[str, Any]]) -> Run:
        payload = make()
        return payload, seen[0], seen[1]

    return ran


def numbers(entry: dict[str, Any], name: str) -> Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(entry["tensors"][name]["data"]), "<f4").copy())


def sums(entry: dict[str, Any], model: nn.Module) -> list[float]:
    """The sum of each row, of the model's own weights."""
    matrix = dict(model.named_parameters())[entry["weight"]].detach()
    assert list(matrix.shape) == entry["shape"]
    found = []
    for row in entry["rows"]:
        assert torch.equal(numbers(entry, row["w"]), matrix[row["row"]])
        found.append(
            F.linear(numbers(entry, row["x"]).double(), matrix[row["row"]].double()).item() + (row["bias"] or 0)
        )
        assert found[-1] == pytest.approx(row["out"], rel=1e-5, abs=1e-6)
    return found


def total(entry: dict[str, Any], model: nn.Module) -> float:
    """The number, recomputed from the rows."""
    value = 0.0
    for row, out in zip(entry["rows"], sums(entry, model), strict=True):
        norm = row["norm"]
        value += row["factor"] * (
            out if norm is None else (out - norm["mean"]) / norm["root"] * norm["gain"] + norm["shift"]
        )
    return value


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_numbers_of_every_kind_are_products_of_an_input_with_a_row(kind, run):
    payload, model, explanation = run(KINDS[kind])
    with record_forward(model) as recording:
        logits = explanation.forward()
    followed, missed = 0, set()
    for entry in payload["attentions"]:
        looks = recording.attention[entry["name"]]
        q = torch.cat([look.query_vectors() for look in looks], 2)[0]
        others = {"q": q, "k": looks[0].k[0], "v": looks[0].v[0]}
        for part in ("q", "k", "v"):
            vectors, head, token = others[part], entry["heads"] - 1, min(2, others[part].shape[1] - 1)
            number = NumberChoice(part=part, token=token, index=1, attention=entry["name"], head=head, query=1)
            try:
                found = origin_entry(model, explanation.forward, number)
            except ConfigError:
                missed.add(part)
                continue
            value = vectors[head * len(vectors) // entry["heads"], token, 1].item()
            assert found["value"] == pytest.approx(value, rel=1e-6)
            assert total(found, model) == pytest.approx(value, rel=1e-5, abs=1e-5)
            followed += 1
    if payload["output"]:
        place = len(payload["output"]["ids"]) - 1
        try:
            found = origin_entry(model, explanation.forward, NumberChoice(part="logit", token=place, index=1))
            assert found["value"] == pytest.approx(logits[place, 1].item(), rel=1e-6)  # a hook may forbid a fused layer
            assert total(found, model) == pytest.approx(found["value"], rel=1e-5, abs=1e-5)
            followed += 1
        except ConfigError:
            missed.add("logit")
    assert followed
    assert missed == NOT_FOLLOWED.get(kind, set())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_rotated_component_has_two_rows_and_one_of_the_first_token_as_good_as_one(run):
    payload, model, explanation = run(lambda: language(position=Rotary(layout="halves")))
    name = payload["attentions"][0]["name"]
    found = origin_entry(model, explanation.forward, NumberChoice(part="k", token=4, index=1, attention=name))
    first, second = found["rows"]
    assert second["row"] - first["row"] == 4  # half of a head of 8
    assert first["factor"] ** 2 + second["factor"] ** 2 == pytest.approx(1, abs=1e-6)
    (alone,) = origin_entry(model, explanation.forward, NumberChoice(part="k", token=0, index=1, attention=name))[
        "rows"
    ]
    assert alone["factor"] == 1


@pytest.mark.parametrize("norm", [RMSNorm(), CentredRMSNorm])
def test_a_norm_of_heads_stands_between_the_sum_and_the_number(norm, run):
    payload, model, explanation = run(lambda: language(position=Rotary()))
    for block in (module for module in model.modules() if hasattr(module, "qkv")):
        made = norm.build(8) if isinstance(norm, RMSNorm) else norm(8, eps=1e-6)
        torch.nn.init.uniform_(made.weight, 0.5, 1.5, generator=torch.Generator().manual_seed(1))
        block.q_norm, block.k_norm = made, made
    name = payload["attentions"][1]["name"]
    with torch.no_grad(), record_forward(model) as recording:
        explanation.forward()
    look = recording.attention[name][0]
    for part, vectors in (("q", look.q), ("k", look.k)):
        number = NumberChoice(part=part, token=5, index=3, attention=name, head=2)
        found = origin_entry(model, explanation.forward, number)
        assert len(found["rows"]) == 2
        assert found["rows"][0]["norm"]["root"] > 0
        assert total(found, model) == pytest.approx(vectors[0, 2, 5, 3].item(), rel=1e-5)
    assert origin_entry(model, explanation.forward, NumberChoice(part="v", token=5, index=3, attention=name))


def test_global_tokens_have_projections_of_their_own(run):
    payload, model, explanation = run(KINDS["longformer"])
    name = payload["attentions"][1]["name"]
    with torch.no_grad(), record_forward(model) as recording:
        explanation.forward()
    own = recording.attention[name][0].global_tokens
    parts: list[tuple[Part, Tensor, int, int]] = [("q", own.q, 3, 1), ("k", own.k, 5, 5), ("v", own.v, 5, 5)]
    for part, vectors, token, at in parts:  # 0 and 3 are global
        number = NumberChoice(part=part, token=token, index=2, attention=name, head=1, query=3)
        found = origin_entry(model, explanation.forward, number)
        assert "global" in found["weight"]
        assert found["value"] == vectors[0, 1, at, 2].item()


def test_a_number_that_there_is_not_is_an_error(run):
    payload, model, explanation = run(language)
    name = payload["attentions"][0]["name"]
    wrong = [
        (NumberChoice(part="q", token=0, index=0, attention="layers.9.self"), "unknown attention"),
        (NumberChoice(part="q", token=99, index=0, attention=name), "token=99, allowed: 0 to"),
        (NumberChoice(part="q", token=0, index=8, attention=name), "index=8, allowed: 0 to 7"),
        (NumberChoice(part="q", token=0, index=0, attention=name, head=4), "head=4, allowed: 0 to 3"),
        (NumberChoice(part="logit", token=0, index=999), "index=999"),
        (NumberChoice(part="logit", token=99, index=0), "token=99"),
    ]
    for number, message in wrong:
        with pytest.raises(ConfigError, match=message):
            origin_entry(model, explanation.forward, number)
    _, model, explanation = run(KINDS["universal"])
    for use in ("99", "x", ""):  # a shared block is used a few times
        number = NumberChoice(part="q", token=0, index=0, attention=f"encoder.layers.{use}.self")
        with pytest.raises(ConfigError, match=r"not reached|unknown attention"):
            origin_entry(model, explanation.forward, number)


def test_a_layer_that_does_more_than_multiply_is_not_followed(run):
    payload, model, explanation = run(language)
    number = NumberChoice(part="q", token=1, index=0, attention=payload["attentions"][0]["name"])
    (attention,) = (module for name, module in model.named_modules() if name == "stack.blocks.0.attention")
    handle = attention.qkv.register_forward_hook(lambda module, inputs, out: out * 1.01)
    with pytest.raises(ConfigError, match="the layer does more than multiply by its matrix"):
        origin_entry(model, explanation.forward, number)
    handle.remove()
    attention.tap_q.register_forward_hook(lambda module, inputs, out: out + 1)
    with pytest.raises(ConfigError, match="another step stands between"):
        origin_entry(model, explanation.forward, number)


def test_an_untied_head_is_named_as_the_file_names_it(run):
    _, model, explanation = run(lambda: language(tied=False))
    found = origin_entry(model, explanation.forward, NumberChoice(part="logit", token=1, index=2))
    assert found["weight"] == "head.weight"
