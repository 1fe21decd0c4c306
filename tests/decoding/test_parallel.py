"""Rows of a batch in threads: the same hypotheses in the same order, and only without hooks."""

import threading
import warnings

import pytest
import torch

from headway.decoding import parallel as subject
from headway.models import EncoderDecoderConfig, EncoderInput, build_model
from headway.nn.int8 import quantise, supported, torchscript_step
from headway.nn.int8.layers import TORCHSCRIPT
from tests.decoding.calls import search

VOCAB = 40


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def model_of(*, eight_bits: bool = True):
    torch.manual_seed(0)
    model = build_model(EncoderDecoderConfig(vocab=VOCAB, width=32, heads=2, inner=64, dropout=0.0)).eval()
    if eight_bits:
        quantise(model)
    return model


def source_of(rows: int) -> EncoderInput:
    generator = torch.Generator().manual_seed(rows)
    tokens = torch.randint(4, VOCAB, (rows, 9), generator=generator)
    return EncoderInput(tokens, torch.randint(2, 10, (rows,), generator=generator))


def said(model, source: EncoderInput, limits: torch.Tensor) -> list[list[list[int]]]:
    found = search(model, source, start=2, stop=3, beam=8, n_best=2, max_tokens=limits)
    return [[line.tokens for line in lines] for lines in found]


@pytest.mark.skipif(not supported(), reason="no 8-bit products here")
def test_each_row_gets_the_result_of_its_part_alone(two_threads):
    model, source, limits = model_of(), source_of(21), torch.arange(5, 26)
    assert subject.worker_count(model, 21, 8, source.tokens.device) == 2
    together = said(model, source, limits)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    for first in range(2):
        rows = torch.arange(first, 21, 2)
        assert together[first::2] == said(model, source.rows(rows), limits[rows])


@pytest.mark.skipif(not supported(), reason="no 8-bit products here")
def test_with_a_hook_the_batch_is_searched_whole_on_this_thread(two_threads):
    model, source, heard = model_of(), source_of(32), []
    handle = model.decoder.register_forward_hook(
        lambda *_: heard.append(threading.current_thread() is threading.main_thread())
    )
    said(model, source, torch.full((32,), 4))
    assert heard
    assert all(heard)
    handle.remove()
    assert subject.worker_count(model, 32, 4, source.tokens.device) == 2


def test_small_batches_other_precisions_and_one_core_are_not_divided(two_threads):
    cpu = torch.device("cpu")
    assert subject.worker_count(model_of(eight_bits=False), 64, 4, cpu) == 1
    assert subject.worker_count(model_of(), 31, 4, cpu) == 1
    assert subject.worker_count(object(), 64, 4, cpu) == 1
    torch.set_num_threads(1)
    assert subject.worker_count(model_of(), 64, 4, cpu) == 1


def test_an_error_in_a_worker_is_raised(two_threads):
    def task(rows):
        raise ValueError(f"row {int(rows[0])}")

    with pytest.raises(ValueError, match="row 0"):
        subject.run_in_parallel(task, 16, 2)
    assert torch.get_num_threads() == 2


@pytest.mark.skipif(not (supported() and TORCHSCRIPT), reason="no 8-bit products here, or no TorchScript")
def test_workers_that_compile_a_step_at_once_compile_it_once(two_threads, monkeypatch):
    model, source, made, filters = model_of(), source_of(32), [], list(warnings.filters)
    monkeypatch.setattr(torchscript_step, "COMPILE_AFTER_STEPS", 0)
    compiled = torchscript_step.compiled
    monkeypatch.setattr(torchscript_step, "compiled", lambda blocks: made.append(1) or compiled(blocks))
    said(model, source, torch.full((32,), 6))
    assert made == [1]
    assert warnings.filters == filters
