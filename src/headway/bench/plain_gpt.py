"""GPT-2 as a short script has it, without anything of headway: the peer of `headway bench train-gpt`."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCAB = 50304  # GPT-2's 50,257 tokens and unused ones, so that rows are aligned: without them the script is slower


class PlainBlock(nn.Module):
    """Pre-norm attention and feed-forward network; torch's attention, one fused product for queries, keys, values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.inner_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        parts = self.qkv(self.attention_norm(x_BTD)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTD = x_BTD + self.out(y.transpose(1, 2).flatten(2))
        out: Tensor = x_BTD + self.down(F.gelu(self.up(self.inner_norm(x_BTD)), approximate="tanh"))
        return out


class PlainGpt(nn.Module):
    """Learned positions, tied output layer, and the loss inside, so that all of it is compiled as one."""

    def __init__(self, *, context: int, width: int, layers: int, heads: int, vocab: int = VOCAB) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(PlainBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)
        for block in self.blocks:
            for last in (block.out, block.down):
                assert isinstance(last, nn.Linear)
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * layers))

    def forward(self, tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        """The mean loss in nats, ()."""
        x_BTD = self.tokens(tokens_BT) + self.positions(torch.arange(tokens_BT.shape[1], device=tokens_BT.device))
        for block in self.blocks:
            x_BTD = block(x_BTD)
        logits = F.linear(self.norm(x_BTD), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets_BT.flatten())
