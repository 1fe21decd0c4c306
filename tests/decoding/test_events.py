from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from headway.decoding.beam import BeamSettings, beam_search
from headway.decoding.ensemble import Ensemble
from headway.decoding.events import observe_searches, search_finished, search_started
from headway.decoding.limits import SequenceLimits
from headway.models import EncoderInput
from tests.models.tiny import build


class Log:
    def __init__(self) -> None:
        self.started, self.finished = 0, []

    def search_started(self) -> None:
        self.started += 1

    def search_finished(self, hypotheses: list[list[list[int]]]) -> None:
        self.finished.append(hypotheses)


def test_an_observer_is_called_for_its_model_alone_and_only_while_registered():
    mine, other, log = object(), object(), Log()
    with observe_searches(mine, log):
        assert search_started(mine)
        assert not search_started(other)
        search_finished(other, [[[1]]])
        search_finished(mine, [[[2]]])
    assert not search_started(mine)
    search_finished(mine, [[[3]]])
    assert (log.started, log.finished) == (1, [[[[2]]]])


def test_observers_are_removed_one_by_one_and_after_an_error():
    model, outer, inner = object(), Log(), Log()

    def fail() -> None:
        with observe_searches(model, inner):
            raise ValueError("x")

    with observe_searches(model, outer):
        with pytest.raises(ValueError, match="x"):
            fail()
        search_finished(model, [])
    assert (outer.finished, inner.finished) == ([[]], [])


def test_a_thread_started_elsewhere_reports_to_no_observer():
    model, log = object(), Log()
    with observe_searches(model, log), ThreadPoolExecutor(1) as pool:
        pool.submit(search_finished, model, [[[1]]]).result()
    assert log.finished == []


def test_members_of_an_ensemble_and_compiled_models_are_found():
    models = [build("transformer-learned", seed=seed) for seed in (1, 2)]
    log, source = Log(), EncoderInput(torch.arange(6).view(2, 3))
    limits = SequenceLimits(start=0, stop=3, max_tokens=4)
    with observe_searches(models[1], log):
        found = beam_search(Ensemble(models), source, BeamSettings(width=2, n_best=2), limits)
        search_finished(torch.compile(models[1], backend="eager"), [])
    assert log.finished == [[[hypothesis.tokens for hypothesis in row] for row in found], []]
