from __future__ import annotations

from headway.labs import distance
from tests.labs.broken import Mutation

recurrent = distance.recurrent

BROKEN = (
    Mutation("attended", lambda x, layer: x[:, -3:].mean(1), fails="self-attention: gradient 50"),  # a window of three
    Mutation("states", lambda layer, x: x.cumsum(1), fails="GRU: gradient"),  # a sum forgets nothing
    Mutation("recurrent", lambda cell, open_gates=False: recurrent(cell), fails="LSTM with open"),
)
