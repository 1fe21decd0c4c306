from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import pytest
import torch

from headway.decoding.row_batch import RowBatch, prepare
from headway.errors import ShapeError
from headway.models import EncoderDecoderConfig, EncoderInput, GptConfig, build_model
from headway.nn import int8
from headway.nn.int8 import layers as int8_layers
from headway.nn.int8 import quantise, torchscript_step
from headway.nn.int8.torchscript_step import TorchScriptStep
from headway.nn.positions import AlibiBias, Rotary
from tests.decoding.calls import search

pytestmark = pytest.mark.skipif(
    not (int8.supported() and int8_layers.TORCHSCRIPT), reason="no 8-bit product, or no TorchScript in this Python"
)


@pytest.fixture
def taken(monkeypatch) -> list[bool]:
    """Whether each step ran as a program, from the first on."""
    taken: list[bool] = []
    step = TorchScriptStep.step

    def recorded(self: TorchScriptStep, *args: Any) -> Any:
        found = step(self, *args)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(TorchScriptStep, "step", recorded)
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 0)
    return taken


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


SOURCE = EncoderInput(torch.arange(35).view(5, 7) + 3, torch.tensor([7, 3, 5, 6, 2]))


def searched(model: Any, beam: int, source: EncoderInput = SOURCE) -> object:
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
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 10**9)
    assert searched(model, beam) == got


@pytest.mark.parametrize(("rows", "beam"), [(2, 2), (2, 16), (30, 1), (20, 5)])
def test_few_hypotheses_and_many_are_the_same_to_the_bit(rows, beam, taken, monkeypatch):
    """Keys are gathered by list where there are enough queries, and multiplied as one matrix where there are not."""
    model = translator()
    tokens = torch.randint(3, 500, (rows, 18), generator=torch.Generator().manual_seed(rows))
    source = EncoderInput(tokens, torch.arange(rows) % 17 + 2)
    limits = torch.arange(rows) % 5 + 15
    got = search(model, source, start=1, stop=2, beam=beam, max_tokens=limits, n_best=beam)
    assert sum(taken) >= 14
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 10**9)
    assert search(model, source, start=1, stop=2, beam=beam, max_tokens=limits, n_best=beam) == got


def test_sources_without_padding(taken, monkeypatch):
    model, whole = translator(), EncoderInput(SOURCE.tokens)
    got = searched(model, 4, whole)
    assert any(taken)
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 10**9)
    assert searched(model, 4, whole) == got


def test_a_language_model_writes_the_same_logits(taken, monkeypatch):
    model = writer()
    got = written(model)
    assert taken == [True] * 20
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 10**9)
    assert torch.equal(written(model), got)


def test_it_compiles_after_some_steps(taken, monkeypatch):
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 12)
    written(writer())
    assert taken == [False] * 12 + [True] * 8


def test_hooks_and_observers_see_every_step(taken):
    model, calls, records = writer(), [], []
    hook = model.stack.blocks[1].attention.tap_q.register_forward_hook(lambda *_: calls.append(1))
    written(model)
    hook.remove()
    assert len(calls) == 21
    model.stack.blocks[0].attention.on_attention = records.append
    written(model)
    assert len(records) == 21
    assert not any(taken)


@pytest.mark.parametrize("position", [Rotary(), AlibiBias()])
def test_other_positions_step_in_python(position, taken):
    assert written(writer(position=position)).isfinite().all()
    assert not any(taken)


@pytest.mark.parametrize(
    "changes", [{"activation": "swiglu"}, {"kv_heads": 2}, {"kernel": "reference"}, {"bias": False}]
)
def test_unsupported_parts_step_in_python(changes, taken):
    assert written(writer(**changes)).isfinite().all()
    assert any(taken) == (changes == {"bias": False})  # the linear layers may be without, the norms are not


def test_if_compiling_fails_it_steps_in_python(taken, monkeypatch):
    def fails(_: object) -> None:
        raise OSError("could not get source code")

    model = writer()
    got = written(model)
    monkeypatch.setattr(torch.jit, "script", fails)
    taken.clear()
    assert torch.equal(written(writer()), got)
    assert taken == [False] * 20


def test_a_model_without_references_is_freed(taken):
    model = writer()
    written(model)
    assert any(taken)
    gone = weakref.ref(model.stack.blocks[0])
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda program: pickle.loads(pickle.dumps(program))])
def test_a_copy_of_a_program_compiles_its_own(duplicate, taken):
    model = writer()
    want = written(model)
    model.stack.step_program = duplicate(model.stack.step_program)
    assert model.stack.step_program.program is None
    assert torch.equal(written(model), want)
    assert taken == [True] * 40


def test_only_quantised_stacks_have_a_program():
    model = build_model(GptConfig(vocab=90, context=64, width=32, layers=2, heads=4)).eval()
    assert model.stack.step_program is None
    quantise(model)
    assert isinstance(model.stack.step_program, TorchScriptStep)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_python_without_torchscript_gives_the_same_translations(beam, taken, monkeypatch):
    """Python 3.14 and later: no program is installed, and the module that compiles it is not imported."""
    want = searched(translator(), beam)
    assert any(taken)
    taken.clear()
    monkeypatch.setattr(int8_layers, "TORCHSCRIPT", False)
    monkeypatch.setitem(sys.modules, "headway.nn.int8.torchscript_step", None)  # an import would raise
    model = translator()
    assert model.decoder.step_program is None
    assert searched(model, beam) == want
    assert taken == []


def test_a_python_without_torchscript_gives_the_same_logits(taken, monkeypatch):
    want = written(writer())
    monkeypatch.setattr(int8_layers, "TORCHSCRIPT", False)
    taken.clear()
    assert torch.equal(written(writer()), want)
    assert taken == []


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
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 10**9)
    assert torch.equal(got, written(model))


@torch.inference_mode()
def test_rows_that_do_not_fit_the_cache_are_refused(taken):
    model = writer()
    _, state = model.extend(torch.arange(15).view(3, 5), model.start(capacity=9))
    _, state = model.extend(torch.ones(3, 1, dtype=torch.long), state)
    with pytest.raises(ShapeError, match="2 rows of tokens for a cache of 3 rows"):
        model.extend(torch.ones(2, 1, dtype=torch.long), state)


def test_a_hook_on_all_modules_sees_the_blocks(taken):
    model, calls = writer(), []
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, *_: calls.append(type(module)))
    written(model)
    handle.remove()
    assert calls.count(type(model.stack.blocks[0])) == 2 * 21


@torch.inference_mode()
def rows_written(model: Any) -> torch.Tensor:
    """Rows of unequal length that come, step and go."""
    batch: RowBatch[Any] = RowBatch(model)
    steps = []
    for n in range(12):
        if n < 6:
            _, state = model.extend(torch.arange(1, 4 + 3 * n).unsqueeze(0), model.start())
            batch.add(state)
        if n == 8:
            batch.remove([1, 3])
        steps.append(batch.step(range(batch.count)).flatten())
    return torch.cat(steps)


@pytest.mark.parametrize("changes", [{}, {"activation": "relu", "bias": False}, {"activation": "silu"}])
def test_rows_of_unequal_length_step_to_the_bit(changes, taken, monkeypatch):
    model = writer(**changes)
    prepare(model)
    got = rows_written(model)
    assert sum(taken) >= 12
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 10**9)
    assert torch.equal(rows_written(model), got)


def test_rows_with_another_attention_step_in_python(taken):
    model = writer(kv_heads=2)
    prepare(model)
    assert rows_written(model).isfinite().all()
    assert not any(taken)
