"""Training steps of `transformer-tiny` against the same model built from transformers' Marian classes."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from headway.bench.peers import peer
from headway.bench.result import BenchReport, Options, Result
from headway.config import override
from headway.data.batching import Bucketed
from headway.data.token_store import TokenStore
from headway.models import EncoderDecoderConfig, build_model
from headway.presets import PRESETS
from headway.runs.config import RunConfig
from headway.tasks.base import DataRequest
from headway.tasks.training_task import IGNORED, Batch
from headway.tasks.translation.config import Translation
from headway.tasks.translation.training import Pairs, TranslationTraining
from headway.training.callbacks import SilentCallback
from headway.training.trainer import Trainer

# Lengths of Multi30k's 29,000 training pairs, English to German, with a joint vocabulary of 9,712: the number of
# sources of 4, 5, … 30 tokens, and of targets with -7, … 9 tokens more. The tails, below 1 %, are left out.
SOURCES = (5, 27, 170, 647, 1405, 2006, 2643, 3050, 2999, 2857, 2617, 2171, 1778, 1504, 1195, 955, 738, 554, 414, 342,
           230, 180, 119, 99, 77, 65, 36)  # fmt: skip
LEADS = (63, 146, 343, 781, 1677, 3256, 5296, 5662, 4237, 2929, 1897, 1114, 677, 374, 207, 119, 66)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTextSizes:
    """The preset's settings to override, and how many steps of each contender in how many rounds."""

    changes: Mapping[str, object] = field(default_factory=dict)
    steps: int = 2
    rounds: int = 5


class _TokenIds:
    """The special tokens of generated data."""

    pad, start, stop = 0, 1, 2


SIZES = TrainTextSizes()


def run(options: Options, sizes: TrainTextSizes = SIZES) -> BenchReport:
    """Seconds per target token in fp32 and bf16; the share of data loading in a step, and of padding in a batch."""
    transformers = peer("transformers")
    config = override(PRESETS["transformer-tiny"].recipe(), sizes.changes)
    task = make_task(config, options)
    if options.data is not None:
        config = replace(config, model=override(config.model, {"vocab": task.target_tokenizer.size}))
    results, shares = [], []
    for precision in ("fp32", "bf16"):
        with tempfile.TemporaryDirectory() as folder:
            train = override(config.train, {"precision": precision, "device": "cpu"})
            trainer = Trainer(build_model(config.model), task, train, Path(folder), SilentCallback())
            result, share = _compare(precision, trainer, MarianTrainer(transformers, config), sizes)
        results.append(result)
        shares.append(share)
    # Our fastest precision against the peer's fastest.
    best = Result("best", min(r.ours for r in results), min(r.peer for r in results))
    return BenchReport(
        [*results, best], {"loading_share": round(max(shares), 4), "padding": round(padding(task.order), 4)}
    )


def make_task(config: RunConfig, options: Options) -> TranslationTraining:
    """The task on the data of the options, else on generated data with the lengths of Multi30k."""
    settings: dict[str, Any] = {"batch_tokens": config.train.batch_tokens, "seed": 0}
    task = cast(Translation, config.task)
    if options.data is not None:
        data = replace(config.data, spec=options.data, source=options.source, target=options.target)
        request = DataRequest(data=data, model=config.model, folder=Path(), **settings)
        return cast(TranslationTraining, task.prepare(request).training)
    vocab = cast(EncoderDecoderConfig, config.model).vocab
    random = np.random.default_rng(0)
    pairs = sum(SOURCES)
    sources = random.permutation(np.repeat(np.arange(4, 4 + len(SOURCES)), SOURCES))
    leads = random.choice(np.arange(-7, 10), pairs, p=np.asarray(LEADS) / sum(LEADS))
    sides = [_store(lengths, vocab, random) for lengths in (sources, np.maximum(sources + leads, 4))]
    return TranslationTraining(task, _TokenIds(), _TokenIds(), {"train": Pairs(*sides)}, **settings)  # type: ignore[arg-type]


def _store(lengths: np.ndarray[Any, np.dtype[np.int64]], vocab: int, random: np.random.Generator) -> TokenStore:
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return TokenStore(random.integers(3, vocab, starts[-1], dtype=np.uint32), starts)


def padding(order: Bucketed) -> float:
    """The share of padding in the batches of an epoch, source and target."""
    batches = order.epoch(0)
    real = sum(int(order.lengths[rows].sum()) for rows in batches)
    return 1 - real / sum(len(rows) * int(order.lengths[rows].max(0).sum()) for rows in batches)


class MarianTrainer:
    """The same sizes, loss, clipping and optimiser with transformers' model, on prepared batches."""

    def __init__(self, transformers: Any, config: RunConfig) -> None:
        model, train = cast(EncoderDecoderConfig, config.model), config.train
        self.clip, self.smoothing = train.clip, train.label_smoothing
        sizes = transformers.MarianConfig(
            vocab_size=model.vocab, d_model=model.width, encoder_layers=model.encoder_layers,
            decoder_layers=model.decoder_layers, encoder_attention_heads=model.heads,
            decoder_attention_heads=model.heads, encoder_ffn_dim=model.inner, decoder_ffn_dim=model.inner,
            dropout=model.dropout, attention_dropout=model.attention_dropout,
            activation_dropout=model.activation_dropout, activation_function=model.activation, scale_embedding=True,
            max_position_embeddings=256, pad_token_id=_TokenIds.pad, eos_token_id=_TokenIds.stop,
            decoder_start_token_id=_TokenIds.start, share_encoder_decoder_embeddings=True, tie_word_embeddings=True,
        )  # fmt: skip
        self.model: nn.Module = transformers.MarianMTModel(sizes).train()
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)

    def step(self, batch: Batch, precision: str) -> None:
        """Forward, backward, clip, update."""
        source, target, source_lengths, _ = batch.inputs
        assert source is not None
        assert source_lengths is not None
        mask = torch.arange(source.shape[1]) < source_lengths.unsqueeze(-1)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            logits = self.model(
                input_ids=source, attention_mask=mask.long(), decoder_input_ids=target, use_cache=False
            ).logits
            loss = F.cross_entropy(
                logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, label_smoothing=self.smoothing
            )
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip or math.inf)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)


def _compare(precision: str, trainer: Trainer, marian: MarianTrainer, sizes: TrainTextSizes) -> tuple[Result, float]:
    """Seconds per target token of both, alternately on the same batches; and the share of data loading in ours."""
    loading = total = 0.0
    made = trainer.task.batch

    def batch(indices: Any) -> Batch:
        nonlocal loading
        start = time.perf_counter()
        ready = made(indices)
        loading += time.perf_counter() - start
        seen.append(ready)
        return ready

    trainer.task.batch = batch  # type: ignore[method-assign]
    times: tuple[list[float], list[float]] = ([], [])
    try:
        for round_ in range(sizes.rounds + 1):
            seen: list[Batch] = []
            if round_ == 1:
                loading = total = 0.0
            start = time.perf_counter()
            tokens = sum(trainer.advance()["tokens"] for _ in range(sizes.steps))
            middle = time.perf_counter()
            for ready in list(seen):
                marian.step(ready, precision)
            end = time.perf_counter()
            total += middle - start
            if round_:  # the first round warms up
                times[0].append((middle - start) / tokens)
                times[1].append((end - middle) / tokens)
    finally:
        trainer.task.batch = made  # type: ignore[method-assign]
    return Result(precision, *(float(np.median(kept)) for kept in times)), loading / total
