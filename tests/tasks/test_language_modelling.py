"""Language modelling: each token counted once, whatever the windows; forced guesses beside free continuations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.data.token_store import TokenStore
from headway.data.tokenizers import Characters, Tokenizer
from headway.errors import ConfigError, DataError
from headway.models import GptConfig, build_model
from headway.tasks.language_modelling import training as language
from headway.tasks.language_modelling.training import Language, LanguageTraining, windows
from headway.tasks.training_task import IGNORED, cross_entropy

CPU = torch.device("cpu")
TEXT = "a dog and a cat and a bird; " * 9


def store(ids: list[int]) -> TokenStore:
    return TokenStore(np.asarray(ids, np.uint32), np.asarray([0, len(ids)]))


def task_of(context: int = 8, *, val: str = TEXT) -> LanguageTraining:
    tokenizer = Tokenizer.train(Characters(), [TEXT], specials=())
    splits = {"train": store(tokenizer.encode(TEXT)), "val": store(tokenizer.encode(val))}
    return LanguageTraining(Language(context=context), tokenizer, splits, batch_tokens=64, seed=0)


def trained(task: LanguageTraining, steps: int = 60) -> torch.nn.Module:
    config = GptConfig(vocab=task.tokenizer.size, context=32, width=16, layers=1, heads=2)
    model = build_model(config, seed=0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        batch = task.batch(task.order.epoch(step)[0])
        optimiser.zero_grad()
        (task.loss(model, batch)["next_token"].total / batch.count).backward()
        optimiser.step()
    return model.eval()


@given(tokens=st.integers(2, 60), context=st.integers(1, 20), data=st.data())
def test_every_token_but_the_first_is_counted_once_with_enough_before_it(tokens, context, data):
    stride = data.draw(st.integers(1, context))
    seen = []
    for inputs, targets in windows(store(list(range(tokens))), context, stride):
        assert inputs.shape == targets.shape
        assert inputs.shape[1] == context
        for row, column in (targets != IGNORED).nonzero().tolist():
            token = int(targets[row, column])
            assert inputs[row, : column + 1].tolist() == list(range(token - column - 1, token))
            assert column + 1 >= min(token, context - stride + 1)
            seen.append(token)
    assert seen == list(range(1, tokens))


@given(context=st.integers(1, 9), rows=st.integers(1, 5), data=st.data())
def test_a_pass_holds_few_windows_and_none_is_lost_between_two(context, rows, data):
    stride = data.draw(st.integers(1, context))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "EVALUATION_TOKENS", rows * context)
        batches = list(windows(store(list(range(40))), context, stride))
    assert max(len(inputs) for inputs, _ in batches) <= rows
    counted = torch.cat([targets[targets != IGNORED] for _, targets in batches])
    assert counted.tolist() == list(range(1, 40))


def test_stride_one_gives_each_token_its_full_window():
    task = task_of()
    model, ids = trained(task), torch.from_numpy(task.splits["val"].ids.astype(np.int64))
    with torch.no_grad():
        nats = sum(
            float(cross_entropy(model(ids[None, max(0, t - 8) : t])[:, -1:], ids[t].view(1, 1)))
            for t in range(1, len(ids))
        )
    report = task.evaluate(model, CPU, "val", stride=1)
    assert report.nats == pytest.approx(nats, rel=1e-5)
    assert report.tokens == len(ids) - 1


def test_without_a_stride_the_blocks_do_not_overlap():
    task = task_of()
    model, ids = trained(task), torch.from_numpy(task.splits["val"].ids.astype(np.int64))
    with torch.no_grad():
        nats = sum(
            float(cross_entropy(model(ids[None, s : s + 8][:, : len(ids) - 1 - s]), ids[None, s + 1 : s + 9]))
            for s in range(0, len(ids) - 1, 8)
        )
    report = task.evaluate(model, CPU, "val")
    assert report == task.evaluate(model, CPU, "val", stride=8)
    assert report.nats == pytest.approx(nats, rel=1e-5)
    assert report.loss == task.validate(model, CPU)


def test_another_context_than_the_task_s():
    task = task_of()
    model = trained(task)
    as_trained = task_of(16).evaluate(model, CPU, "val", stride=4)
    assert task.evaluate(model, CPU, "val", context=16, stride=4) == as_trained
    assert len(task.continuations(model, CPU, "val", context=16).gold[0]) == 9


@pytest.mark.parametrize("stride", [0, 9])
def test_a_stride_that_would_leave_tokens_out_is_refused(stride):
    with pytest.raises(ConfigError, match=f"context=8, stride={stride}: expected 1 <= stride <= context"):
        task_of().evaluate(torch.nn.Identity(), CPU, "val", stride=stride)


def test_free_runs_agree_with_forced_guesses_until_they_part():
    task = task_of()
    found = task.continuations(trained(task), CPU, "val")
    report, ids = found.report, task.splits["val"].ids.tolist()
    assert len(found.gold) == (len(ids) - 1) // 8
    assert report.counts == (len(found.gold),) * 5
    assert report.forced[0] == report.free[0]
    for n, (prompt, gold, forced, free) in enumerate(
        zip(found.prompts, found.gold, found.forced, found.free, strict=True)
    ):
        assert prompt + gold == ids[8 * n : 8 * n + 9]
        end = len(gold) if report.divergence[n] is None else report.divergence[n] + 1
        assert forced[:end] == free[:end]
    assert 0 < report.free_accuracy <= report.forced_accuracy


def test_continuations_are_few_evenly_spaced_and_the_same_in_small_passes(monkeypatch):
    task = task_of()
    model = trained(task, 5)
    whole = task.continuations(model, CPU, "val")
    monkeypatch.setattr(language, "EVALUATION_TOKENS", 24)
    assert task.continuations(model, CPU, "val") == whole
    monkeypatch.setattr(language, "CONTINUED", 3)
    few = task.continuations(model, CPU, "val")
    assert few.prompts == [whole.prompts[n] for n in (0, 15, 30)]


@pytest.mark.parametrize("val", ["ab", "dog", "a dog and"])
def test_a_text_shorter_than_the_context(val):
    task = task_of(val=val.replace("b", " "))
    model = trained(task, 1)
    found = task.continuations(model, CPU, "val")
    assert len(found.gold) == 1
    assert len(found.prompts[0]) + len(found.gold[0]) == len(val)
    assert task.evaluate(model, CPU, "val", stride=3).tokens == len(val) - 1


def test_a_text_of_one_token_has_nothing_to_predict():
    task = task_of(val="a")
    for ask in (task.evaluate, task.continuations):
        with pytest.raises(DataError, match="split 'val' has 1 token,"):
            ask(torch.nn.Identity(), CPU, "val")
