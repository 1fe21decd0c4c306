"""The models of a server, as its endpoints ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.errors import shown
from headway.serving.api_errors import ApiError, invalid
from headway.serving.engine_group import EngineGroup
from headway.serving.fields import Fields
from headway.serving.supervisor import EngineProcess

SHOWN = ("task", "context", "precision", "steps", "fingerprint", "exact")


class ServedModels:
    """The engines of all models, by name."""

    def __init__(self, groups: Sequence[EngineGroup]) -> None:
        self.groups = {group.name: group for group in groups}

    @property
    def described(self) -> dict[str, dict[str, Any]]:
        """What is known of each model that is loaded."""
        return {name: group.described for name, group in self.groups.items() if group.described is not None}

    @property
    def loading(self) -> bool:
        """Whether there is a model of which nothing is known yet."""
        return len(self.described) < len(self.groups)

    @property
    def ready(self) -> bool:
        """Whether every model takes requests."""
        return all(group.ready for group in self.groups.values())

    @property
    def whole(self) -> bool:
        """Whether no engine is being restarted."""
        return all(group.whole for group in self.groups.values())

    def calls(self) -> dict[str, Mapping[str, Any]]:
        """The calls that any model offers, by name, each as its first model describes it."""
        found: dict[str, Mapping[str, Any]] = {}
        for described in self.described.values():
            for name, call in described["calls"].items():
                found.setdefault(name, call)
        return found

    def listed(self) -> list[dict[str, Any]]:
        """As /v1/models has them."""
        return [self.entry(group) for group in self.groups.values()]

    @staticmethod
    def entry(group: EngineGroup) -> dict[str, Any]:
        """One of them."""
        known = group.described or {}
        entry = {"id": group.name, "object": "model", "created": known.get("created", 0), "owned_by": "headway"}
        text = known.get("text")
        can = {
            "writes": text is not None,  # /v1/completions
            "chats": text is not None and text["chat"] is not None,  # with a template of its own
            "verbs": list(known.get("calls", ())),  # /v1/VERB
        }
        return {**entry, **{key: known.get(key) for key in SHOWN}, **can}

    @property
    def _names(self) -> str:
        return ", ".join(self.groups)

    def group(self, name: str) -> EngineGroup:
        """The model of a name. Raises ApiError."""
        found = self.groups.get(name)
        if found is None:
            message = f"there is no model {shown(name)}; this server has: {self._names}"
            raise ApiError(404, message, code="model_not_found", param="model")
        return found

    def of(self, fields: Fields) -> EngineProcess:
        """An engine of the field `model`, which may be left out where there is one model. Raises ApiError."""
        only = next(iter(self.groups)) if len(self.groups) == 1 else None
        if only is None and "model" not in fields:
            raise invalid(f"model is missing; this server has: {self._names}", "model")
        return self.group(fields.text("model", only)).pick()

    def offered(self, engine: EngineProcess, verb: str) -> Mapping[str, Any]:
        """How an engine's model describes a call. Raises ApiError where it does not offer it."""
        assert engine.described is not None
        call: Mapping[str, Any] | None = engine.described["calls"].get(verb)
        if call is None:
            able = ", ".join(engine.described["calls"]) or "none"
            raise invalid(f"this model does not {verb}; it has: {able}", "model", "unsupported_model")
        return call

    def pairs(self) -> list[tuple[str, str, str]]:
        """Source, target and model of each that translates."""
        found = [(described.get("languages"), name) for name, described in self.described.items()]
        return [(*pair, name) for pair, name in found if pair]
