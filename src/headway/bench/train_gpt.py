"""Training GPT-2 124M on a GPU in bf16, through headway's trainer, against two compiled peers in turns.

The peers are GPT-2 as a short script has it (`plain_gpt`: SDPA, `F.cross_entropy`, fused AdamW, one compiled graph for
model and loss), and transformers' GPT-2, compiled with its loss. All train 32 texts of 1,024 tokens a step, without
dropout, with the same optimiser and clipping. Ours also reads its batches from a text, and logs; the peers' are ready.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from headway.bench.gpu_turns import Steps, compare, decayed, loading_share, plain_step
from headway.bench.peers import peer
from headway.bench.plain_gpt import PlainGpt
from headway.bench.result import BenchReport, Options
from headway.config import override
from headway.data.token_store import TokenStore
from headway.errors import ConfigError
from headway.models import GptConfig, build_model
from headway.presets import PRESETS
from headway.tasks.language_modelling.config import Language
from headway.tasks.language_modelling.training import LanguageTraining
from headway.training.callbacks import SilentCallback
from headway.training.ranks import ALONE, Alone
from headway.training.trainer import Trainer

RATE, DECAY, BETAS, CLIP = 6e-4, 0.1, (0.9, 0.95), 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainGptSizes:
    """The shape of a step, and how many steps of each contender in how many rounds."""

    rows: int = 32
    context: int = 1024
    width: int = 768
    layers: int = 12
    heads: int = 12
    steps: int = 20
    rounds: int = 3


SIZES = TrainGptSizes()


def run(options: Options, sizes: TrainGptSizes = SIZES) -> BenchReport:
    """Seconds of a step of each, alternately, and their peak memory."""
    if not torch.cuda.is_available():
        raise ConfigError("train-gpt needs a GPU, and torch finds no GPU")
    transformers = peer("transformers")
    with tempfile.TemporaryDirectory() as folder:
        trainers: list[Trainer] = []

        def ours() -> Steps:
            trainers.append(make_trainer(Path(folder), sizes))
            return lambda: len(trainers[0].next_steps())

        makers = {
            "ours": ours,
            "plain": lambda: _compiled(_plain(sizes), sizes),
            "transformers": lambda: _compiled(_from_transformers(transformers, sizes), sizes),
        }
        tokens = dict.fromkeys(makers, sizes.rows * sizes.context)
        report = compare(makers, steps=sizes.steps, rounds=sizes.rounds, tokens=tokens)
        share = loading_share(trainers[0], steps=sizes.steps, rounds=sizes.rounds)
        return BenchReport(report.results, {**report.figures, "loading_share": round(share, 4)})


def make_trainer(folder: Path, sizes: TrainGptSizes, ranks: Alone = ALONE, **train: object) -> Trainer:
    """headway's trainer on random tokens, as `headway train gpt2` makes it, but for `train`."""
    model = GptConfig(vocab=50257, context=sizes.context, width=sizes.width, layers=sizes.layers, heads=sizes.heads)
    recipe = PRESETS["gpt2"].recipe()
    ids = np.random.default_rng(0).integers(0, model.vocab, 2**22, dtype=np.uint32)
    store = TokenStore(ids, np.asarray([0, len(ids)]))
    batch = sizes.rows * sizes.context
    task = LanguageTraining(
        override(cast(Language, recipe.task), {"context": sizes.context}), cast(Any, None), {"train": store},
        batch_tokens=batch, seed=0,
    )  # fmt: skip
    settings = override(
        recipe.train,
        {
            "steps": 10**6, "evaluate_every": 10**6, "save_every": 10**6, "batch_tokens": batch, "accumulate": 1,
            "learning_rate": RATE, "schedule": "constant", "optimiser": "adam-w", "optimiser.decay": DECAY,
            "optimiser.beta1": BETAS[0], "optimiser.beta2": BETAS[1], "clip": CLIP, "precision": "bf16",
            "compile": True, "device": "cuda", **train,
        },
    )  # fmt: skip
    return Trainer(build_model(model), task, settings, folder, SilentCallback(), ranks)


def _plain(sizes: TrainGptSizes) -> nn.Module:
    return PlainGpt(context=sizes.context, width=sizes.width, layers=sizes.layers, heads=sizes.heads)


def _from_transformers(transformers: Any, sizes: TrainGptSizes) -> nn.Module:
    config = transformers.GPT2Config(
        n_positions=sizes.context, n_embd=sizes.width, n_layer=sizes.layers, n_head=sizes.heads,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    return WithLoss(transformers.GPT2LMHeadModel(config))


class WithLoss(nn.Module):
    """transformers' model with the signature of `PlainGpt`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        """The mean loss in nats, ()."""
        logits = self.model(input_ids=tokens_BT).logits
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets_BT.flatten())


def _compiled(model: nn.Module, sizes: TrainGptSizes) -> Steps:
    """A step of a peer: compiled, on a batch that is on the GPU."""
    model = model.cuda().train()
    optimiser = torch.optim.AdamW(decayed(model, DECAY), lr=RATE, betas=BETAS, fused=True)
    tokens = torch.randint(0, 50257, (sizes.rows, sizes.context + 1), device="cuda")
    given, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    loss_of = torch.compile(model, dynamic=False)
    return plain_step(model, optimiser, lambda: loss_of(given, targets), CLIP)
