"""Pretraining BERT-base on a GPU in bf16, through headway's trainer, against transformers' BERT, compiled.

256 rows of 128 tokens a step, as in the first nine tenths of BERT's own training, hidden tokens and next sentence,
without dropout, the same optimiser and clipping. Ours draws, hides and pads its rows while it trains; the peer has one
such batch, ready on the GPU.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F

from headway.bench.gpu_turns import Steps, compare, decayed, loading_share, plain_step
from headway.bench.peers import peer
from headway.bench.result import BenchReport, Options
from headway.config import override
from headway.data.token_store import TokenStore
from headway.errors import ConfigError
from headway.models import build_model
from headway.presets import PRESETS
from headway.tasks.masked_lm.config import Masked
from headway.tasks.masked_lm.training import MaskedTraining
from headway.tasks.training_task import IGNORED, Batch
from headway.training.callbacks import SilentCallback
from headway.training.trainer import Trainer

RATE, DECAY, CLIP = 1e-4, 0.01, 1.0


class _Tokens:
    """The special tokens of generated data."""

    pad, start, stop, mask, size = 0, 1, 2, 3, 30522
    specials = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainBertSizes:
    """The shape of a step, and how many steps of each contender in how many rounds."""

    rows: int = 256
    length: int = 128
    width: int = 768
    layers: int = 12
    heads: int = 12
    steps: int = 20
    rounds: int = 3


SIZES = TrainBertSizes()


def run(options: Options, sizes: TrainBertSizes = SIZES) -> BenchReport:
    """Seconds of a step of both, alternately, and their peak memory."""
    if not torch.cuda.is_available():
        raise ConfigError("train-bert needs a GPU, and torch finds no GPU")
    transformers = peer("transformers")
    with tempfile.TemporaryDirectory() as folder:
        trainers: list[Trainer] = []

        def ours() -> Steps:
            trainers.append(make_trainer(Path(folder), sizes))
            return lambda: len(trainers[0].next_steps())

        def theirs() -> Steps:
            task = trainers[0].task
            return _peer(transformers, task.batch(next(task.order.after(trainers[0].cursor))[0]), sizes)

        makers = {"ours": ours, "transformers": theirs}
        tokens = dict.fromkeys(makers, sizes.rows * sizes.length)
        report = compare(makers, steps=sizes.steps, rounds=sizes.rounds, tokens=tokens)
        share = loading_share(trainers[0], steps=sizes.steps, rounds=sizes.rounds)
        return BenchReport(report.results, {**report.figures, "loading_share": round(share, 4)})


def make_trainer(folder: Path, sizes: TrainBertSizes, **train: object) -> Trainer:
    """headway's trainer on random sentences, as `headway train bert-base` makes it, but for dropout and `train`."""
    recipe = PRESETS["bert-base"].recipe()
    random = np.random.default_rng(0)
    lengths = random.integers(8, 40, 20_000)
    lengths[::50] = 0  # an empty one between documents
    starts = np.concatenate([[0], np.cumsum(lengths)])
    store = TokenStore(random.integers(4, _Tokens.size, starts[-1], dtype=np.uint32), starts)
    task = MaskedTraining(
        replace(cast(Masked, recipe.task), length=sizes.length), cast(Any, _Tokens()), {"train": store},
        batch_tokens=sizes.rows * sizes.length, seed=0,
    )  # fmt: skip
    settings = override(
        recipe.train,
        {
            "steps": 10**6, "evaluate_every": 10**6, "save_every": 10**6, "batch_tokens": sizes.rows * sizes.length,
            "accumulate": 1, "learning_rate": RATE, "schedule": "constant", "optimiser.decay": DECAY, "clip": CLIP,
            "precision": "bf16", "compile": True, "device": "cuda", **train,
        },
    )  # fmt: skip
    shape = {
        "bert.width": sizes.width, "bert.layers": sizes.layers, "bert.heads": sizes.heads,
        "bert.inner": 4 * sizes.width, "bert.dropout": 0.0,
    }  # fmt: skip
    model = build_model(override(recipe.model, shape))
    return Trainer(model, task, settings, folder, SilentCallback())


def _peer(transformers: Any, batch: Batch, sizes: TrainBertSizes) -> Steps:
    """transformers' BERT with both heads on this batch, compiled with its loss."""
    config = transformers.BertConfig(
        hidden_size=sizes.width, num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads,
        intermediate_size=4 * sizes.width, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = transformers.BertForPreTraining(config).cuda().train()
    optimiser = torch.optim.AdamW(decayed(model, DECAY), lr=RATE, eps=1e-6, fused=True)
    moved = batch.to(torch.device("cuda"))
    tokens, lengths, segments = moved.inputs
    assert tokens is not None
    assert lengths is not None
    mask = (torch.arange(tokens.shape[1], device="cuda") < lengths.unsqueeze(-1)).long()
    follows, targets = moved.targets[:, 0].contiguous(), moved.targets.clone()
    targets[:, 0] = IGNORED

    @torch.compile(dynamic=False)
    def loss() -> torch.Tensor:
        found = model(input_ids=tokens, attention_mask=mask, token_type_ids=segments)
        hidden = F.cross_entropy(found.prediction_logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        return hidden + F.cross_entropy(found.seq_relationship_logits, follows)

    return plain_step(model, optimiser, loss, CLIP)
