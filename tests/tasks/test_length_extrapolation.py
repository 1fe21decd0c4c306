"""Loss by length against a slow computation, one window at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from headway.data.batching import Cursor
from headway.data.token_store import TokenStore
from headway.data.tokenizers import MASK, SPECIALS, Characters, Tokenizer, Word
from headway.errors import ConfigError, DataError
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    GptConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    RnnLmConfig,
    build_model,
)
from headway.nn.longformer_attention import Windows
from headway.nn.positions import AlibiBias, Learned, Rotary, Sinusoidal
from headway.nn.recurrent import RecurrentConfig
from headway.tasks.language_modelling.training import Language, LanguageTraining
from headway.tasks.masked_lm.training import Masked, MaskedTraining
from tests.pipelines import pipeline_of

CPU = torch.device("cpu")
TEXT = "a dog and a cat and a bird; " * 3


def by_length(training, model, device, split, lengths, *, stride=None):
    """Loss by length, as the pipeline of the training's task computes it."""
    pipeline = pipeline_of(training.config, model, training.tokenizer)
    more = {} if stride is None else {"stride": stride}
    return pipeline.loss_by_length(training, split, lengths, **more)


LENGTHS = (3, 8, 16, 50)
GPT = GptConfig(vocab=16, context=8, width=16, layers=1, heads=2, init_std=0.3)


def store(sequences: list[list[int]]) -> TokenStore:
    starts = np.cumsum([0, *map(len, sequences)])
    return TokenStore(np.concatenate([np.asarray(each, np.uint32) for each in sequences]), starts)


@pytest.fixture(scope="module")
def task() -> LanguageTraining:
    tokenizer = Tokenizer.train(Characters(), [TEXT], specials=())
    split = store([tokenizer.encode(TEXT)])
    return LanguageTraining(Language(context=8), tokenizer, {"train": split, "val": split}, batch_tokens=64, seed=0)


@torch.no_grad()
def one_by_one(model: torch.nn.Module, ids: torch.Tensor, length: int, stride: int) -> float:
    """Each target alone, after the tokens its window shows it."""
    nats = 0.0
    for target in range(1, len(ids)):
        start = 0 if target <= length else stride * -(-(target - length) // stride)
        logits = model(ids[None, start:target])[0, -1]
        nats -= float(logits.log_softmax(-1)[ids[target]])
    return nats / (len(ids) - 1)


@pytest.mark.parametrize("position", [None, AlibiBias(), Rotary(), Sinusoidal()])
def test_every_loss_is_that_of_one_window_at_a_time(task, position):
    model = build_model(replace(GPT, vocab=task.tokenizer.size, position=position), seed=1).eval()
    report = by_length(task, model, CPU, "val", LENGTHS)
    ids = torch.from_numpy(task.splits["val"].ids.astype(np.int64))
    assert report.trained == 8
    for row in report.rows:
        assert row.refused is None
        assert row.stride == max(row.length // 2, 1)
        assert row.blocks.loss == pytest.approx(one_by_one(model, ids, row.length, row.length), rel=1e-5)
        assert row.sliding.loss == pytest.approx(one_by_one(model, ids, row.length, row.stride), rel=1e-5)
        assert row.blocks.tokens == row.sliding.tokens == len(ids) - 1


def test_a_stride_of_one_s_own_and_one_that_is_too_long(task):
    model = build_model(replace(GPT, vocab=task.tokenizer.size, position=None), seed=1).eval()
    ids = torch.from_numpy(task.splits["val"].ids.astype(np.int64))
    report = by_length(task, model, CPU, "val", (8, 16), stride=3)
    assert report.sliding[16] == pytest.approx(one_by_one(model, ids, 16, 3), rel=1e-5)
    with pytest.raises(ConfigError, match="context=8, stride=9"):
        by_length(task, model, CPU, "val", (8, 16), stride=9)


def test_learned_positions_refuse_beyond_their_table_and_nothing_else_does(task):
    learned = build_model(replace(GPT, vocab=task.tokenizer.size, position=Learned()), seed=1).eval()
    rows = by_length(task, learned, CPU, "val", LENGTHS).rows
    assert [row.refused is not None for row in rows] == [False, False, True, True]
    assert rows[2].refused == "a sequence of up to 16 tokens, the learned positions end at 8"
    rnn = RnnLmConfig(vocab=task.tokenizer.size, recurrent=RecurrentConfig(hidden=8), input="one-hot")
    report = by_length(task, build_model(rnn).eval(), CPU, "val", LENGTHS)
    assert list(report.blocks) == list(LENGTHS)


def test_a_length_beyond_the_text_is_refused_by_name(task):
    model = build_model(replace(GPT, vocab=task.tokenizer.size, position=None)).eval()
    with pytest.raises(DataError, match=r"--lengths 84: split 'val' has 84 tokens, allowed: 1 to 83"):
        by_length(task, model, CPU, "val", (8, 84))


# --- masked --------------------------------------------------------------------------------------------------------


def masked_task(rows: str, lines: list[str]) -> MaskedTraining:
    tokenizer = Tokenizer.train(Word(), lines, specials=(*SPECIALS, MASK))
    split = store([*(tokenizer.encode(line) for line in lines), []])
    held = {"train": split, "val": split}
    return MaskedTraining(Masked(length=16, rows=rows), tokenizer, held, batch_tokens=64, seed=0)


def test_rows_of_a_masked_model_at_other_lengths():
    task = masked_task("pairs", [" a dog and a cat", " and a bird and a dog", " a cat saw a bird"] * 6)
    bert = BertConfig(vocab=task.tokenizer.size, context=32, width=16, layers=1, heads=2, inner=16)
    model = build_model(BertPretrainingConfig(bert=bert)).eval()
    rows = by_length(task, model, CPU, "val", (8, 16, 32, 64)).rows
    own = task.evaluate(model, CPU, "val")
    assert rows[1].blocks.loss == pytest.approx(own["loss"])
    assert rows[1].blocks.tokens == own["tokens"]
    assert rows[0].blocks.tokens < rows[1].blocks.tokens < rows[2].blocks.tokens
    assert all(row.sliding is None for row in rows)
    assert "the learned positions end at 32" in rows[3].refused
    with pytest.raises(DataError, match=r"--lengths 200: .*the longest document of split 'val' has 99"):
        by_length(task, model, CPU, "val", (200,))


def test_a_longformer_learns_hidden_tokens_of_running_text():
    task = masked_task("running", [" one two three four", " five six seven eight"] * 9)
    config = LongformerConfig(
        vocab=task.tokenizer.size, windows=Windows(radius=3), context=64, width=32, layers=1, heads=2, inner=32,
        dropout=0.0, pooler=False, init_std=0.1,
    )  # fmt: skip
    model = build_model(LongformerMaskedConfig(longformer=config))
    optimiser, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for indices, _ in islice(task.order.after(Cursor()), 90):
        batch = task.batch(indices)
        terms = task.loss(model, batch)
        assert list(terms) == ["masked_token"]
        loss = terms["masked_token"].total / batch.count
        loss.backward()
        losses.append(loss.item())
        optimiser.step()
        optimiser.zero_grad()
    assert sum(losses[-10:]) / 10 < 0.5 * math.log(8)  # half of what knowing frequencies alone gives
    model.eval()
    rows = by_length(task, model, CPU, "val", (8, 16, 64)).rows
    assert [row.refused for row in rows] == [None] * 3
    assert "next_sentence_accuracy" not in task.evaluate(model, CPU, "val")
