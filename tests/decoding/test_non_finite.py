"""NaN and infinite outputs: an error with the sequence and the token, never a text (D2)."""

from __future__ import annotations

import math

import pytest
import torch

from headway.decoding.beam import BeamSettings, beam_search
from headway.decoding.constraints import Constraints
from headway.decoding.cuda_graph import GraphDecoder
from headway.decoding.ensemble import Ensemble
from headway.decoding.limits import SequenceLimits
from headway.decoding.non_finite import expect_finite, numbered
from headway.decoding.sampling import GREEDY, Sampling, stream
from headway.errors import NonFiniteError, NonFiniteOutputError
from headway.models import EncoderInput, GptConfig, build_model
from headway.nn.int8 import pack, quantise, supported
from tests.decoding.calls import draw, search
from tests.models.tiny import GPT, TRANSLATOR

ROW, MAX_TOKENS, VOCAB = 1, 7, TRANSLATOR.vocab
SOURCE = EncoderInput(torch.randint(4, VOCAB, (3, 5), generator=torch.Generator().manual_seed(0)))
VALUES = (math.nan, math.inf, -math.inf)


class Poisoned:
    """A stepper whose logits for one sequence hold a bad value in one step."""

    def __init__(self, model, step: int, value: float, *, token: int | None = None, row: int = ROW) -> None:
        self.model, self.vocab, self.step, self.value, self.token, self.row = model, VOCAB, step, value, token, row

    def start(self, source=None, *, capacity=64):
        return self.model.start(source, capacity=capacity), None, 0

    def extend(self, tokens, state, counts=None):
        inner, numbers, taken = state
        logits, inner = self.model.extend(tokens, inner, counts)
        numbers = torch.arange(len(tokens)) if numbers is None else numbers
        if taken + 1 == self.step:
            logits = logits.clone()
            logits[numbers == self.row, ..., slice(None) if self.token is None else self.token] = self.value
        return logits, (inner, numbers, taken + 1)

    def select(self, state, rows):
        inner, numbers, taken = state
        numbers = torch.arange(int(rows.max()) + 1) if numbers is None else numbers
        return self.model.select(inner, rows), numbers[rows], taken


@pytest.fixture(scope="module")
def model():
    return build_model(TRANSLATOR, seed=3).eval()


SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4},
    "n-best": {"beam": 4, "n_best": 4},
    "best": {"beam": 3, "stop_rule": "best"},
    "diverse": {"beam": 4, "groups": 2},
    "required": {"beam": 4, "constraints": Constraints(must=((5, 6),))},
    "diverse and required": {"beam": 4, "groups": 2, "constraints": Constraints(must=((5, 6),))},
    "banned": {"beam": 2, "constraints": Constraints(banned=((7,), (8, 9)))},
    "no repeats": {"beam": 2, "constraints": Constraints(no_repeat=2)},
    "prefix": {"beam": 2, "constraints": Constraints(prefix=(5,))},
}


@pytest.mark.parametrize("step", [1, 3, MAX_TOKENS])
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("value", VALUES)
def test_a_beam_search_names_the_sequence_and_the_token(model, name, step, value):
    stepper = Poisoned(model, step, value)
    with pytest.raises(NonFiniteOutputError, match=f"^sequence 2, token {step}: the model's output is NaN") as caught:
        search(stepper, SOURCE, start=2, stop=-1, max_tokens=MAX_TOKENS, **SEARCHES[name])
    assert (caught.value.row, caught.value.step, caught.value.exit_code) == (ROW, step, 6)


@pytest.mark.parametrize("name", SEARCHES)
def test_one_bad_logit_is_enough(model, name):
    token = 5  # the prefix allows no other
    with pytest.raises(NonFiniteOutputError):
        search(Poisoned(model, 1, math.nan, token=token), SOURCE, start=2, stop=-1, max_tokens=4, **SEARCHES[name])


@pytest.mark.parametrize("name", SEARCHES)
def test_a_forbidden_token_and_a_finished_row_raise_no_alarm(model, name):
    settings = {"start": 2, "max_tokens": MAX_TOKENS, **SEARCHES[name]}
    search(Poisoned(model, 2, -math.inf, token=9), SOURCE, stop=-1, **settings)
    found = search(model, SOURCE, stop=3, **settings)
    after = max(len(hypothesis.tokens) for hypothesis in found[0]) + 2
    search(Poisoned(model, after, math.nan, row=99), SOURCE, stop=3, **settings)


def test_one_bad_member_spoils_an_ensemble(model):
    other = build_model(TRANSLATOR, seed=4).eval()
    for value in VALUES:
        with pytest.raises(NonFiniteOutputError, match="sequence 2, token 2"):
            search(Ensemble([model, Poisoned(other, 2, value)]), SOURCE, start=2, stop=-1, max_tokens=4)


def test_a_recorder_is_told_nothing_of_it(model):
    class Steps(list):
        def step(self, step):
            self.append(step)

    steps = Steps()
    with pytest.raises(NonFiniteOutputError):
        search(Poisoned(model, 3, math.nan), SOURCE, start=2, stop=-1, max_tokens=5, recorder=steps)
    assert len(steps) == 2
    assert all(step.totals.isfinite().all() for step in steps)


SAMPLINGS = {
    "greedy": GREEDY,
    "plain": Sampling(),
    "top k": Sampling(top_k=3),
    "top p": Sampling(top_p=0.5),
    "min p": Sampling(min_p=0.1),
    "penalty": Sampling(repetition_penalty=1.5),
}


@pytest.mark.parametrize("step", [1, 4, MAX_TOKENS])
@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize("value", VALUES)
def test_sampling_names_the_sequence_and_the_token(name, step, value):
    stepper = Poisoned(build_model(GPT, seed=3).eval(), step, value)
    prompt = torch.tensor([[4, 5], [6, 7], [8, 9]])
    with pytest.raises(NonFiniteOutputError, match=f"^sequence 12, token {step}: "):
        draw(stepper, prompt, stop=-1, max_tokens=MAX_TOKENS, sampling=SAMPLINGS[name], numbers=[10, 11, 12])


@pytest.mark.parametrize("name", SAMPLINGS)
def test_sampling_notices_one_bad_logit_and_allows_a_forbidden_token(name):
    model, prompt = build_model(GPT, seed=3).eval(), torch.tensor([[4, 5], [6, 7]])
    settings = {"stop": -1, "max_tokens": 3, "sampling": SAMPLINGS[name]}
    for value in (math.nan, math.inf):
        with pytest.raises(NonFiniteOutputError, match="sequence 2, token 2"):
            draw(Poisoned(model, 2, value, token=8), prompt, **settings)
    draw(Poisoned(model, 2, -math.inf, token=8), prompt, **settings)
    with pytest.raises(NonFiniteOutputError):
        draw(Poisoned(model, 2, math.nan), prompt, **settings, constraints=Constraints(banned=((7,),)))


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_stream_ends_before_the_bad_token(name):
    stepper = Poisoned(build_model(GPT, seed=3).eval(), 3, math.nan, row=0)
    tokens = stream(stepper, torch.tensor([[4, 5]]), max_tokens=6, sampling=SAMPLINGS[name], number=4)
    assert next(tokens) >= 0
    assert next(tokens) >= 0
    with pytest.raises(NonFiniteOutputError, match="sequence 5, token 3"):
        next(tokens)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_fixed_shape_decoder_notices_it_and_can_be_used_again(temperature):
    model = build_model(GptConfig(vocab=37, context=24, width=32, layers=2, heads=4), seed=1).eval()
    decoder = GraphDecoder(model, rows=2, capacity=12, sampling=Sampling(temperature=temperature))
    prompt = torch.tensor([[1, 2], [3, 4]])
    good = model.embedding.weight[3].detach().clone()
    with torch.no_grad():
        model.embedding.weight[3] = math.nan  # only the second prompt reads it; the tied head shows it in both
    with pytest.raises(NonFiniteOutputError, match="sequence 1, token 1: "):
        decoder.write(prompt, 5)
    with torch.no_grad():
        model.embedding.weight[3] = good
    assert decoder.write(prompt, 5).shape == (2, 5)


@pytest.mark.skipif(not supported(), reason="this machine has no 8-bit products")
def test_an_8_bit_product_of_nan_is_the_same_error(model):
    poisoned = build_model(TRANSLATOR, seed=3).eval()
    with torch.no_grad():
        poisoned.encoder.blocks[0].attention.qkv.bias[0] = math.nan
    quantise(poisoned)
    pack(poisoned)
    limits = SequenceLimits(start=2, stop=3, max_tokens=4)
    with pytest.raises(NonFiniteError, match="NaN or infinite"):
        beam_search(poisoned, SOURCE, BeamSettings(width=2), limits)


def test_numbers_are_those_of_the_callers_inputs():
    with pytest.raises(NonFiniteOutputError, match=r"^line 8: "), numbered([5, 7], "line"):
        expect_finite(torch.tensor([[1.0, 2.0], [1.0, math.inf]]))
    nested = numbered(range(4, 9)), numbered(torch.tensor([1, 3]), "image"), numbered([7, 1])
    with pytest.raises(NonFiniteOutputError, match=r"^image 8: "), nested[0], nested[1], nested[2]:
        expect_finite(torch.tensor([0.0, math.nan]))
    with pytest.raises(RuntimeError, match="something else"), numbered([0]):
        raise RuntimeError("something else")
