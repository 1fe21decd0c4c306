"""What the live page asks for, read from the fields of its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from headway.decoding.sampling import Sampling
from headway.errors import ConfigError, shown
from headway.inspection.interventions import Ablated
from headway.inspection.page.number_origin import PARTS as NUMBERS
from headway.inspection.page.number_origin import NumberChoice
from headway.serving.api_errors import invalid
from headway.serving.fields import Fields

INPUT = 20_000  # characters
TOKENS = 4_096  # written ones
PARTS = 512  # ablated or patched
WRITTEN = 256  # tokens of one stream
RUNS = 10_000  # of a dashboard


@dataclass(frozen=True, slots=True)
class RunChoice:
    """One of the runs that the page may show, and a checkpoint of it; None: the first run, its best checkpoint."""

    name: str | None
    step: int | None

    @classmethod
    def read(cls, fields: Fields) -> RunChoice:
        """Raises ApiError for fields of another shape."""
        return cls(fields.optional_text("run"), fields.optional_integer("step", 0, 1 << 62))

    @classmethod
    def beside(cls, fields: Fields) -> RunChoice | None:
        """What the look is compared with, the field `beside`; None for nothing."""
        found = fields.take("beside")
        if found is None:
            return None
        inner = Fields(found)
        choice = cls.read(inner)
        inner.refuse_rest()
        return choice


def read_versions(fields: Fields) -> dict[str, str]:
    """The versions of the runs that a page has already, by their names."""
    found = fields.take("known", {})
    sound = isinstance(found, dict) and len(found) <= RUNS
    if not sound or not all(isinstance(version, str) for version in found.values()):
        raise invalid(f"known is {shown(found)}, expected up to {RUNS:,} versions by the name of a run", "known")
    return dict(found)


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """Parts whose output comes from another input."""

    given: str
    parts: tuple[str, ...]
    head: int | None = None  # of the attentions among the parts; None: their whole output


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRequest:
    """One pass of the model: an input, the tokens that are written after it, and what is changed."""

    given: str
    written: tuple[int, ...] | None  # None: what the model writes by itself
    compare: tuple[int, ...] | None  # what was written before the change; None: the same
    ablated: tuple[Ablated, ...]
    patch: PatchRequest | None
    edited_from: str | None = None  # the input before the edit, which the output is compared with
    search: bool = True  # for what follows the input of a language model

    @classmethod
    def read(cls, fields: Fields) -> LookRequest:
        """Raises ApiError for fields of another shape."""
        given, edited = fields.text("input", ""), fields.optional_text("edited_from")
        return cls(
            given=_input(given, "input"),
            written=_ids(fields, "written"),
            compare=_ids(fields, "compare"),
            ablated=_ablated(fields),
            patch=_patch(fields),
            edited_from=None if edited is None else _input(edited, "edited_from"),
            search=fields.flag("search", True),
        )


def read_number(fields: Fields) -> NumberChoice:
    """Which number of a look is to be followed back to its weights. Raises ApiError."""
    part = fields.text("part")
    kind = next((each for each in NUMBERS if each == part), None)
    if kind is None:
        raise invalid(f"part is {shown(part)}, expected one of {', '.join(NUMBERS)}", "part")
    return NumberChoice(
        part=kind,
        token=fields.integer("token", 0, 0, 1 << 20),
        index=fields.integer("index", 0, 0, 1 << 31),
        attention=fields.text("attention", ""),
        head=fields.integer("head", 0, 0, 1 << 16),
        query=fields.integer("query", 0, 0, 1 << 20),
    )


def _input(given: str, name: str) -> str:
    if len(given) > INPUT:
        raise invalid(f"{name} has {len(given):,} characters, allowed: {INPUT:,}", name)
    return given


def read_sampling(fields: Fields) -> Sampling:
    """Temperature, top-k and top-p. Raises ApiError."""
    try:
        return Sampling(
            temperature=fields.number("temperature", 0.0, 0.0, 100.0),
            top_k=fields.integer("top_k", 0, 0, 1 << 20) or None,
            top_p=fields.number("top_p", 1.0, 0.0, 1.0),
        )
    except ConfigError as error:
        raise invalid(str(error)) from None


def _ids(fields: Fields, name: str) -> tuple[int, ...] | None:
    found = fields.take(name)
    if found is None:
        return None
    if not isinstance(found, list) or len(found) > TOKENS or not all(_index(each) for each in found):
        raise invalid(f"{name} is {shown(found)}, expected up to {TOKENS:,} token ids", name)
    return tuple(found)


def _index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _ablated(fields: Fields) -> tuple[Ablated, ...]:
    found = fields.take("ablated", [])
    if not isinstance(found, list) or len(found) > PARTS:
        raise invalid(f"ablated is {shown(found)}, expected up to {PARTS} parts", "ablated")
    return tuple(_one_ablated(Fields(each)) for each in found)


def _one_ablated(fields: Fields) -> Ablated:
    part, head = fields.text("part"), fields.optional_integer("head", 0, 1 << 16)
    instead, place = fields.text("instead", "zero"), fields.optional_integer("place", 0, 1 << 20)
    fields.refuse_rest()
    if instead not in ("zero", "mean"):
        raise invalid(f"instead is {shown(instead)}, expected zero or mean", "instead")
    kind: Literal["zero", "mean"] = "zero" if instead == "zero" else "mean"
    return Ablated(part=part, head=head, instead=kind, place=place)


def _patch(fields: Fields) -> PatchRequest | None:
    found = fields.take("patch")
    if found is None:
        return None
    patch = Fields(found)
    given, parts = patch.text("input"), patch.texts("parts", PARTS)
    head = patch.optional_integer("head", 0, 1 << 16)
    patch.refuse_rest()
    return PatchRequest(_input(given, "patch"), tuple(parts), head)
