"""Stacked recurrent layers in one direction or two: RNN, GRU or LSTM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.nn.dropout import Dropout

Cell = Literal["rnn", "gru", "lstm"]
Hidden = tuple[Tensor, ...]  # (directions, B, hidden) each: h, and for an LSTM c beside it
_LAYERS: dict[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {
    "rnn": nn.RNN,
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentConfig:
    """A stack of recurrent layers."""

    hidden: int  # features of the hidden state
    layers: int = 1  # recurrent layers on top of each other
    cell: Cell = "gru"  # the kind of cell
    bidirectional: bool = False  # read from both ends; the output is twice as wide
    dropout: float = 0.0  # between layers

    def __post_init__(self) -> None:
        positive("hidden", self.hidden)
        positive("layers", self.layers)
        probability("dropout", self.dropout)
        if self.cell not in get_args(Cell):
            raise ConfigError(f"cell={self.cell!r}, allowed: {', '.join(get_args(Cell))}")

    @property
    def width(self) -> int:
        """The width of its outputs."""
        return self.hidden * (2 if self.bidirectional else 1)


class RecurrentLayer(nn.Module):
    """One recurrent layer over padded sequences; torch's own cells, weights under torch's own names."""

    def __init__(self, inputs: int, config: RecurrentConfig) -> None:
        super().__init__()
        self.directions, self.hidden = 2 if config.bidirectional else 1, config.hidden
        self.states = 2 if config.cell == "lstm" else 1
        kind = _LAYERS[config.cell]
        self.core = kind(inputs, config.hidden, batch_first=True, bidirectional=config.bidirectional)

    def start(self, like: Tensor, rows: int) -> Hidden:
        """Zeros, the state before the first token."""
        return tuple(like.new_zeros(self.directions, rows, self.hidden) for _ in range(self.states))

    def forward(self, x_BTD: Tensor, state: Hidden, lengths_B: Tensor | None = None) -> tuple[Tensor, Hidden]:
        """Outputs (B, T, hidden·directions), zero on padding, and the state after each row's last real token."""
        first = state if self.states == 2 else state[0]
        if lengths_B is None:
            out, last = self.core(x_BTD, first)
        else:
            packed = pack_padded_sequence(x_BTD, lengths_B.cpu(), batch_first=True, enforce_sorted=False)
            out, last = self.core(packed, first)
            out, _ = pad_packed_sequence(out, batch_first=True, total_length=x_BTD.shape[1])
        return out, last if self.states == 2 else (last,)


class Recurrent(nn.Module):
    """Stacked layers with dropout between them."""

    def __init__(self, inputs: int, config: RecurrentConfig) -> None:
        super().__init__()
        widths = [inputs, *[config.width] * (config.layers - 1)]
        self.layers = nn.ModuleList(RecurrentLayer(width, config) for width in widths)
        self.dropout = Dropout(config.dropout)

    def start(self, like: Tensor, rows: int) -> tuple[Hidden, ...]:
        """The state of every layer before the first token."""
        return tuple(layer.start(like, rows) for layer in self.layers)  # type: ignore[operator]

    def forward(
        self, x_BTD: Tensor, state: tuple[Hidden, ...], lengths_B: Tensor | None = None
    ) -> tuple[Tensor, tuple[Hidden, ...]]:
        """Outputs of the top layer (B, T, width) and every layer's state after each row's last real token."""
        last: list[Hidden] = []
        for k, layer in enumerate(self.layers):
            x_BTD, after = layer(self.dropout(x_BTD) if k else x_BTD, state[k], lengths_B)
            last.append(after)
        return x_BTD, tuple(last)


def reverse_padded(x_BT: Tensor, lengths_B: Tensor | None) -> Tensor:
    """Each row's real tokens in reverse order, padding unchanged (Sutskever et al. 2014, section 3.3)."""
    if lengths_B is None:
        return x_BT.flip(1)
    steps = torch.arange(x_BT.shape[1], device=x_BT.device)
    mirrored = lengths_B.unsqueeze(-1) - 1 - steps
    return x_BT.gather(1, torch.where(mirrored >= 0, mirrored, steps))
