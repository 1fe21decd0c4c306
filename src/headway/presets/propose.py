"""A recipe that fits the data: the preset if none is named, how the files are read, and the size of the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.config import flat, override, plain
from headway.data.datasets import kinds_of
from headway.errors import DataError
from headway.presets import preset
from headway.runs import with_settings
from headway.runs.config import RunConfig
from headway.tasks.proposal import Proposal, Reading, recognise

READING = (  # the settings that a `Reading` may have
    "data.source", "data.target", "data.text", "data.text2", "data.label", "data.separator", "data.group",
    "task.labels",
)  # fmt: skip
VOCAB, FIT = "data.tokenizer.vocab", "data.tokenizer.fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRecipe:
    """A recipe for some data, and what the data decided."""

    preset: str
    recipe: RunConfig  # with `settings`
    given: Mapping[str, Any]  # what the user sets, by dotted key
    changes: Mapping[str, Any]  # what is set on top of the recipe: that, and what follows from it
    settings: Mapping[str, object] = field(default_factory=dict)  # what the data decided, beside the user's
    found: str = ""  # what the data was recognised as, and by what, where it chose the preset
    notes: tuple[str, ...] = ()  # lines for the user

    @property
    def config(self) -> RunConfig:
        """The recipe with the changes."""
        return with_settings(self.recipe, self.changes)

    def spelled_out(self) -> dict[str, object]:
        """The settings that make `config` of the preset's own recipe, beside those the user gives."""
        final, own = flat(plain(self.config)), preset(self.preset).recipe()
        settings = {key: final.get(key, value) for key, value in _free(self.settings, self.given).items()}
        named = flat(plain(with_settings(own, _with_fit(own, {**settings, **self.given}))))
        return settings | {key: value for key, value in final.items() if named.get(key) != value}


def fitted_recipe(name: str | None, changes: Mapping[str, Any]) -> FittedRecipe:
    """The recipe of a preset, or of the one that suits `data.spec` if none is named, fitted to that data.

    `changes` are the user's own settings by dotted key, which nothing overrides. Raises DataError for data that is not
    recognised, or could be read in several ways, and ConfigError for a name or a setting that does not exist.
    """
    spec = str(changes.get("data.spec") or "")
    proposal: Proposal | None = None
    if name is None:
        errors = {key: str(changes[key]) for key in ("data.errors",) if key in changes}
        proposal = recognise(spec, _given(changes) | errors)
        name = proposal.preset
    recipe = preset(name).recipe()
    reading = _reading(recipe, spec, changes)
    settings = {**reading.settings, **({} if proposal is None else proposal.settings)}
    recipe = with_settings(recipe, settings)
    return FittedRecipe(
        preset=name,
        recipe=recipe,
        given=changes,
        changes=_with_fit(recipe, changes),
        settings=settings,
        found="" if proposal is None else f"{spec}: {proposal.found}, by {proposal.sign}",
        notes=tuple(note for note in (reading.note, "" if proposal is None else proposal.note) if note),
    )


def _free(settings: Mapping[str, object], changes: Mapping[str, Any]) -> dict[str, object]:
    """The settings that the user has not set, alone or together with others: `train.schedule` sets its warm-up."""
    return {
        key: value for key, value in settings.items() if not any(f"{key}.".startswith(f"{own}.") for own in changes)
    }


def _given(changes: Mapping[str, Any]) -> dict[str, str]:
    """What the user says about how the data is read."""
    return {key: str(changes[key]) for key in READING if key in changes}


def _reading(recipe: RunConfig, spec: str, changes: Mapping[str, Any]) -> Reading:
    try:
        kinds_of(spec)
    except DataError:  # an environment, or nothing: training says so
        return Reading()
    found = recipe.task.reading(spec, _given(changes))
    return Reading(settings=_free(found.settings, changes), note=found.note)  # type: ignore[arg-type]


def _with_fit(recipe: RunConfig, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The changes, and whether the vocabulary may be smaller than it says: it may, unless the user set its size."""
    spelled_out = FIT in changes or isinstance(changes.get("data.tokenizer"), Mapping)
    if spelled_out or not hasattr(override(recipe, changes).data.tokenizer, "fit"):
        return changes
    return {**changes, FIT: VOCAB not in changes}
