from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from headway.errors import ShapeError
from headway.models import EncoderDecoderConfig, GptConfig, Source, build_model
from headway.nn import int8
from headway.nn.int8 import quantise
from headway.nn.int8 import torchscript_step as scripted
from headway.nn.positions import Alibi, Rotary
from tests.decoding.calls import search

pytestmark = pytest.mark.skipif(
    not (int8.supported() and scripted.SCRIPTS), reason="no 8-bit product, or no TorchScript in this Python"
)


@pytest.fixture
def taken(monkeypatch) -> list[bool]:
    """Which steps were scripted, from the first on."""
    told: list[bool] = []
    step = scripted.Scripted.step

    def watched(self: scripted.Scripted, *args: Any) -> Any:
        found = step(self, *args)
        told.append(found is not None)
        return found

    monkeypatch.setattr(scripted.Scripted, "step", watched)
    monkeypatch.setattr(scripted, "PAYS", 0)
    return told


def translator(**changes: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab": 500, "width": 32, "heads": 4, "inner": 48, "encoder_layers": 2, "decoder_layers": 2}
    model = build_model(EncoderDecoderConfig(**{**sizes, "dropout": 0.0, **changes})).eval()
    quantise(model)
    return model


def writer(**changes: Any) -> Any:
    torch.manual_seed(0)
    model = build_model(
        GptConfig(**{"vocab": 90, "context": 64, "width": 32, "layers": 2, "heads": 4, **changes})
    ).eval()
    quantise(model)
    return model


SOURCE = Source(torch.arange(35).view(5, 7) + 3, torch.tensor([7, 3, 5, 6, 2]))


def searched(model: Any, beam: int, source: Source = SOURCE) -> object:
    return search(model, source, start=1, stop=2, beam=beam, max_tokens=torch.tensor([9, 14, 4, 14, 7]))


@torch.inference_mode()
def written(model: Any) -> torch.Tensor:
    logits, state = model.extend(torch.arange(15).view(3, 5), model.start(capacity=6))  # the cache has to grow
    steps = []
    for _ in range(20):
        logits, state = model.extend(logits[:, -1:].argmax(-1), state)
        steps.append(logits)
    return torch.cat(steps, 1)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("changes", [{}, {"place": "pre", "activation": "gelu"}, {"activation": "silu"}])
def test_a_search_is_the_same_to_the_bit(beam, changes, taken, monkeypatch):
    model = translator(**changes)
    got = searched(model, beam)
    assert sum(taken) >= 10
    monkeypatch.setattr(scripted, "PAYS", 10**9)
    assert searched(model, beam) == got


@pytest.mark.parametrize(("rows", "beam"), [(2, 2), (2, 16), (30, 1), (20, 5)])
def test_few_lines_and_many_are_the_same_to_the_bit(rows, beam, taken, monkeypatch):
    """Keys are looked at by list where there are enough queries, and multiplied in one piece where there are not."""
    model = translator()
    tokens = torch.randint(3, 500, (rows, 18), generator=torch.Generator().manual_seed(rows))
    source = Source(tokens, torch.arange(rows) % 17 + 2)
    limits = torch.arange(rows) % 5 + 15
    got = search(model, source, start=1, stop=2, beam=beam, max_tokens=limits, n_best=beam)
    assert sum(taken) >= 14
    monkeypatch.setattr(scripted, "PAYS", 10**9)
    assert search(model, source, start=1, stop=2, beam=beam, max_tokens=limits, n_best=beam) == got


def test_sources_without_padding(taken, monkeypatch):
    model, whole = translator(), Source(SOURCE.tokens)
    got = searched(model, 4, whole)
    assert any(taken)
    monkeypatch.setattr(scripted, "PAYS", 10**9)
    assert searched(model, 4, whole) == got


def test_a_language_model_writes_the_same_logits(taken, monkeypatch):
    model = writer()
    got = written(model)
    assert taken == [True] * 20
    monkeypatch.setattr(scripted, "PAYS", 10**9)
    assert torch.equal(written(model), got)


def test_it_begins_when_it_pays(taken, monkeypatch):
    monkeypatch.setattr(scripted, "PAYS", 12)
    written(writer())
    assert taken == [False] * 12 + [True] * 8


def test_whoever_listens_hears_every_step(taken):
    model, heard, watched = writer(), [], []
    hook = model.stack.blocks[1].attention.tap_q.register_forward_hook(lambda *_: heard.append(1))
    written(model)
    hook.remove()
    assert len(heard) == 21
    model.stack.blocks[0].attention.watch = watched.append
    written(model)
    assert len(watched) == 21
    assert not any(taken)


@pytest.mark.parametrize("position", [Rotary(), Alibi()])
def test_other_positions_step_in_python(position, taken):
    assert written(writer(position=position)).isfinite().all()
    assert not any(taken)


@pytest.mark.parametrize(
    "changes", [{"activation": "swiglu"}, {"kv_heads": 2}, {"kernel": "reference"}, {"bias": False}]
)
def test_parts_that_are_not_written_out_step_in_python(changes, taken):
    assert written(writer(**changes)).isfinite().all()
    assert any(taken) == (changes == {"bias": False})  # the linear layers may be without, the norms are not


def test_without_torchscript_it_steps_in_python(taken, monkeypatch):
    def fails(_: object) -> None:
        raise OSError("could not get source code")

    model = writer()
    got = written(model)
    monkeypatch.setattr(torch.jit, "script", fails)
    taken.clear()
    assert torch.equal(written(writer()), got)
    assert taken == [False] * 20


def test_a_model_that_is_gone_is_not_kept(taken):
    known = len(scripted._KNOWN)
    model = writer()
    written(model)
    assert len(scripted._KNOWN) == known + 1
    del model
    gc.collect()
    assert len(scripted._KNOWN) == known


def test_a_beam_too_wide_for_its_attention_steps_in_python(taken):
    searched(translator(), 17)
    assert not any(taken)


def test_a_model_in_training_keeps_its_dropout(taken):
    model = writer(dropout=0.5).train()
    assert not torch.equal(written(model), written(model))
    assert not any(taken)


def test_under_autocast_it_steps_in_python(taken):
    with torch.autocast("cpu", torch.bfloat16):
        written(writer())
    assert not any(taken)


def test_a_block_put_in_later_is_the_one_that_runs(taken, monkeypatch):
    model, other = writer(), writer(activation="relu")
    written(model)
    assert any(taken)
    model.stack.blocks[1] = other.stack.blocks[1]
    got = written(model)
    monkeypatch.setattr(scripted, "PAYS", 10**9)
    assert torch.equal(got, written(model))


@torch.inference_mode()
def test_rows_that_do_not_fit_the_cache_are_refused(taken):
    model = writer()
    _, state = model.extend(torch.arange(15).view(3, 5), model.start(capacity=9))
    _, state = model.extend(torch.ones(3, 1, dtype=torch.long), state)
    with pytest.raises(ShapeError, match="2 rows of tokens for a cache of 3 rows"):
        model.extend(torch.ones(2, 1, dtype=torch.long), state)


def test_whoever_listens_to_all_modules_hears_the_blocks(taken):
    model, heard = writer(), []
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, *_: heard.append(type(module)))
    written(model)
    handle.remove()
    assert heard.count(type(model.stack.blocks[0])) == 2 * 21
