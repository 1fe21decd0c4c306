"""Greedy decoding of GPT-2 124M on a GPU, bf16, against transformers with its compiled static cache."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import cast

import torch
from torch import Tensor

from headway.bench.peers import peer
from headway.bench.result import BenchReport, Options, Result
from headway.decoding.cuda_graph import GraphDecoder
from headway.errors import ConfigError
from headway.interop.families import FAMILIES
from headway.interop.family import import_weights
from headway.models import Gpt, GptConfig, build_model
from headway.storage.tensors import set_weights

PROMPT, NEW_TOKENS, ROUNDS = 16, 240, 5


def run(options: Options) -> BenchReport:
    """Batch 1 against the peer; batch 32 and 256 as tokens per second, share of the bandwidth limit, peak memory."""
    if not torch.cuda.is_available():
        raise ConfigError("decode-gpu needs a GPU, and torch finds no GPU")
    transformers = peer("transformers")
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    config = GptConfig(vocab=50257, context=1024, width=768, layers=12, heads=12)
    model, weights = build_model(config).eval(), {name: value.detach() for name, value in theirs.named_parameters()}
    set_weights(model, import_weights(FAMILIES["gpt2"], config, weights), "the peer")
    theirs, model = theirs.to("cuda", torch.bfloat16), model.to("cuda", torch.bfloat16)
    model = cast(Gpt, model)
    bandwidth = _bandwidth()
    figures: dict[str, float] = {"read_bandwidth_tb_per_second": round(bandwidth / 1e12, 2)}

    def measured(batch: int) -> float:
        torch.cuda.reset_peak_memory_stats()
        decoder = GraphDecoder(model, rows=batch, capacity=PROMPT + NEW_TOKENS)
        took = _seconds(partial(decoder.write, _prompt(batch), NEW_TOKENS))
        figures[f"batch{batch}_tokens_per_second"] = round(batch * NEW_TOKENS / took)
        figures[f"batch{batch}_share_of_bandwidth_limit"] = round(
            _bytes(model, batch) / bandwidth * NEW_TOKENS / took, 3
        )
        figures[f"batch{batch}_peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        print(f"batch {batch}: {batch * NEW_TOKENS / took:,.0f} tokens/s", file=sys.stderr)
        return took

    ours, prompt = measured(1), _prompt(1)
    lengths = {"min_new_tokens": NEW_TOKENS, "max_new_tokens": NEW_TOKENS}
    settings = {"cache_implementation": "static", "do_sample": False, "pad_token_id": 0, **lengths}
    other = _seconds(partial(theirs.generate, prompt, attention_mask=torch.ones_like(prompt), **settings))
    print(f"transformers, batch 1: {NEW_TOKENS / other:,.0f} tokens/s", file=sys.stderr)
    for batch in (32, 256):
        measured(batch)
    return BenchReport([Result("batch1_transformers", ours, other)], figures)


def _prompt(batch: int) -> Tensor:
    return torch.randint(3, 50257, (batch, PROMPT), generator=torch.Generator().manual_seed(batch)).cuda()


def _seconds(call: Callable[[], object]) -> float:
    times = []
    for round_ in range(ROUNDS + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        if round_ > 1:  # the first ones compile
            times.append(time.perf_counter() - start)
    return median(times)


def _bytes(model: Gpt, batch: int) -> float:
    """A lower bound of the bytes read per step: every weight once (the tied embedding too), half the cache."""
    weights = sum(p.numel() * p.element_size() for name, p in model.named_parameters() if "table" not in name)
    layers, width = len(model.stack.blocks), model.embedding.weight.shape[1]
    return weights + batch * layers * 2 * width * 2 * (PROMPT + NEW_TOKENS / 2)


def _bandwidth() -> float:
    """Bytes per second of a sum over one GiB."""
    block = torch.ones(2**29, dtype=torch.bfloat16, device="cuda")
    return block.numel() * 2 / _seconds(lambda: block.sum())
