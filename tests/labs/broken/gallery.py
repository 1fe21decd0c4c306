from __future__ import annotations

from headway.labs import gallery
from headway.nn import Sinusoidal
from tests.labs.broken import Mutation

codes = gallery.codes

BROKEN = (
    Mutation("codes", lambda kind, count, width: codes(kind, count + 1, width)[1:], fails="cat opened its"),  # from 1
    Mutation("codes", lambda kind, count, width: codes(kind, count, width) * 2, fails="sinusoids: size"),
    Mutation(
        "codes", lambda kind, count, width: codes(Sinusoidal(), count, width), fails="tanh(t/10): step from place 30"
    ),
    Mutation("codes", lambda kind, count, width: codes(gallery.KINDS["sine"], count, width), fails="sinusoids: least"),
    Mutation(
        "codes",
        lambda kind, count, width: codes(Sinusoidal() if isinstance(kind, Sinusoidal) else kind, count, width),
        fails="another layout",
    ),
    Mutation("longest_learned", lambda context, width: context + 3, fails="learned: longest"),
)
