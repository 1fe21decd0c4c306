from __future__ import annotations

from headway.labs import norms
from tests.labs.broken import Mutation

normalise = norms.normalise
BROKEN = (
    Mutation(
        "normalise",  # BatchNorm in place of LayerNorm
        lambda kind, x, real=None: normalise("BatchNorm" if x.shape[1] > 1 else kind, x, real),
        fails="LayerNorm: change of a row",
    ),
    Mutation(
        "normalise", lambda kind, x, real=None: normalise(kind, x), fails="BatchNorm: change by padding that is masked"
    ),
    Mutation("as_printed", lambda x: normalise("LayerNorm", x[None])[0], fails="LayerNorm with the printed"),
)
