"""LibreTranslate's endpoints, its shapes and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.serving.api_errors import invalid
from headway.serving.fields import Fields
from headway.serving.gate import Route
from headway.serving.http import HttpAnswer
from headway.serving.limits import ServerLimits
from headway.serving.models import ServedModels

ROUTES = {
    "/translate": Route(method="POST", form=True),
    "/detect": Route(method="POST", form=True),
    "/languages": Route(method="GET"),
}


class LibreEndpoints:
    """Translations by languages instead of a model's name."""

    def __init__(self, models: ServedModels, limits: ServerLimits) -> None:
        self.models, self.limits = models, limits
        self.handlers = {"/translate": self._translate, "/detect": self._detect, "/languages": self._languages}

    async def _languages(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        targets: dict[str, list[str]] = {}
        for source, target, _ in self.models.pairs():
            targets.setdefault(source, []).append(target)
        return HttpAnswer([{"code": code, "name": code, "targets": found} for code, found in targets.items()])

    async def _translate(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        given = fields.take("q")
        texts = Fields({"q": given}).texts("q", self.limits.inputs)
        source, target = fields.text("source", "auto"), fields.text("target")
        if fields.text("format", "text") != "text":
            raise invalid("format: only text is supported", "format")
        alternatives = fields.digits("alternatives", 0, self.limits.choices - 1)
        fields.ignore("api_key")
        fields.refuse_rest()
        pairs = [each for each in self.models.pairs() if each[1] == target and source in ("auto", each[0])]
        if not pairs:
            raise invalid("no model translates from this source to this target; see /languages", "target")
        code, _, name = pairs[0] if source != "auto" else _only_source(pairs)
        options = {"n_best": 1 + alternatives} if alternatives else {}
        found, _ = await self.models.group(name).pick().call("translate", texts, options, client)
        best = [each["translations"][0] if each["translations"] else "" for each in found]
        others = [each["translations"][1:] for each in found]
        several = isinstance(given, list)
        answer: dict[str, Any] = {"translatedText": best if several else best[0]}
        if alternatives:
            answer["alternatives"] = others if several else others[0]
        if source == "auto":
            detected = _detected(code)
            answer["detectedLanguage"] = [detected] * len(best) if several else detected
        return HttpAnswer(answer)

    async def _detect(self, fields: Fields, client: str, scope: Mapping[str, Any]) -> HttpAnswer:
        fields.text("q")
        fields.ignore("api_key")
        fields.refuse_rest()
        pairs = self.models.pairs()
        if not pairs:
            raise invalid("no model translates; see /languages", "q")
        return HttpAnswer([_detected(_only_source(pairs)[0])])


def _only_source(pairs: Sequence[tuple[str, str, str]]) -> tuple[str, str, str]:
    """The first of pairs that have one source. Nothing detects a language: the only one is taken for granted."""
    if len({pair[0] for pair in pairs}) > 1:
        raise invalid("source: more than one language is served, name one of them", "source")
    return pairs[0]


def _detected(code: str) -> dict[str, Any]:
    return {"confidence": 100, "language": code}
