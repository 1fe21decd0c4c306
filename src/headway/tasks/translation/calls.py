"""What a translator answers over JSON: translations with constraints, and the searches behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.documents import parse_json
from headway.tasks.capabilities import BEAM, Translates
from headway.tasks.json_calls import TEXT, integer, json_call, number, text, texts
from headway.tasks.translation.config import Decoding

if TYPE_CHECKING:
    from headway.decoding.trace import Trace

LENGTH_PENALTY = number(0, 10, "by default the recipe's")


class TranslationCalls(Translates):
    """The calls of a pipeline that translates."""

    recipe_beam: int

    @json_call(
        TEXT,
        searches=True,
        beam=BEAM,
        n_best=integer(1, 64, "translations of each text, best first"),
        length_penalty=LENGTH_PENALTY,
        prefix=text("what each translation begins with"),
        must=texts("what each translation contains"),
        ban=texts("what no translation contains"),
        no_repeat=integer(0, 16, "tokens in a row that do not come twice"),
    )
    def call_translate(
        self,
        inputs: Sequence[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        **constraints: Any,
    ) -> list[Any]:
        """The translations of each text with their scores, best first."""
        decoding = Decoding(
            beam=self._width(beam, n_best),
            n_best=n_best,
            length_penalty=length_penalty,
            constraints=self.constraints(**constraints) if constraints else None,
        )
        found = self.translator(decoding).translate(inputs)
        return [
            {"translations": [each.text for each in best], "scores": [each.score for each in best]} for best in found
        ]

    @json_call(
        TEXT,
        beam=BEAM,
        n_best=integer(1, 64, "hypotheses that are called best"),
        length_penalty=LENGTH_PENALTY,
    )
    def call_trace(
        self, inputs: Sequence[str], *, beam: int | None = None, n_best: int = 1, length_penalty: float | None = None
    ) -> list[Any]:
        """The search behind the translation of each text: a line of a file that `headway trace` reads."""
        from headway.decoding.trace.format import to_json

        traces: list[Trace] = []
        decoding = Decoding(beam=self._width(beam, n_best), n_best=n_best, length_penalty=length_penalty)
        self.translator(decoding, on_trace=traces.append).translate(inputs)
        return [parse_json(to_json(each), "", nonfinite=True) for each in traces]

    def _width(self, beam: int | None, n_best: int) -> int:
        """The beam: as many hypotheses as are asked for, unless it is set."""
        return max(self.recipe_beam, n_best) if beam is None else beam
