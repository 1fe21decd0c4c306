"""Layers of two types, `full_attention` and `sliding_attention`: their windows and the rotary bases of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headway.errors import BadModelError, ConfigError
from headway.interop.config_json import FILE, ConfigFields
from headway.nn.longformer_attention import Windows
from headway.nn.positions import Rotary

SLIDING, FULL = "sliding_attention", "full_attention"
BASE = 10000.0


def read_types(fields: ConfigFields, default: Iterable[bool]) -> list[bool]:
    """Which layers slide: those that `layer_types` names, or the default. Raises BadModelError."""
    slides = list(default)
    given = fields.config.get("layer_types")
    if given is None:
        return slides
    if not isinstance(given, list) or len(given) != len(slides) or not set(map(str, given)) <= {SLIDING, FULL}:
        raise BadModelError(
            f"{FILE}: layer_types={given!r}, expected {FULL} or {SLIDING} for each of {len(slides)} layers"
        )
    return [each == SLIDING for each in given]


def write_types(slides: Iterable[bool]) -> list[str]:
    """What `layer_types` says of these layers."""
    return [SLIDING if each else FULL for each in slides]


def windows_of(slides: Sequence[bool], radius: int) -> Windows | None:
    """The windows of layers that slide."""
    if all(slides):
        return Windows(radius=radius)
    return Windows(radius=tuple(radius if each else None for each in slides)) if any(slides) else None


def slides_of(family: str, windows: Windows | None, layers: int) -> tuple[list[bool], int]:
    """Which layers slide, and the one radius of all. Raises ConfigError for windows of several kinds."""
    if windows is None:
        return [False] * layers, 0
    radii = windows.radius if isinstance(windows.radius, tuple) else (windows.radius,) * layers
    found = {radius for radius in radii if radius is not None}
    if len(found) > 1 or set(windows.dilation if isinstance(windows.dilation, tuple) else [windows.dilation]) != {1}:
        raise ConfigError(f"{family} has no equivalent of windows={windows!r}, only of one radius without dilation")
    return [radius is not None for radius in radii], next(iter(found), 0)


def read_bases(fields: ConfigFields, slides: Sequence[bool], local: float | None) -> float | tuple[float, ...]:
    """The base of the rotary angles of all layers, or of each. Raises BadModelError for scaled angles.

    `local` is the default for layers that slide; None: they have no base of their own.
    """
    whole, near = fields.number("rope_theta", BASE, above=0), BASE if local is None else local
    if local is not None:
        whole, near = (
            fields.number("global_rope_theta", whole, above=0),
            fields.number("local_rope_theta", near, above=0),
        )
        near = fields.number("rope_local_base_freq", near, above=0)
    for name in ("rope_scaling", "rope_parameters"):
        given = fields.config.get(name)
        if local is not None and isinstance(given, Mapping) and {FULL, SLIDING} & given.keys():
            whole = _base(name, given.get(FULL) or {}, whole)
            near = _base(name, given.get(SLIDING) or {}, near)
        elif given is not None:
            whole = _base(name, given, whole)
    if local is None or whole == near:
        return whole
    found = tuple(near if each else whole for each in slides)
    return found if len(set(found)) > 1 else found[0]


def _base(name: str, given: object, default: float) -> float:
    if not isinstance(given, Mapping):
        raise BadModelError(f"{FILE}: {name}={given!r}, expected an object")
    kind = given.get("rope_type", given.get("type", "default"))
    nested = any(isinstance(each, Mapping) for each in given.values())
    if kind != "default" or nested or given.get("partial_rotary_factor", 1.0) != 1.0:
        raise BadModelError(f"{FILE}: {name}={dict(given)!r} has no equivalent here, only rope_type 'default'")
    return ConfigFields(given).number("rope_theta", default, above=0)


def write_bases(family: str, position: Rotary, slides: Sequence[bool], local: float | None) -> dict[str, Any]:
    """The fields that say the bases. Raises ConfigError where layers of one type have several."""
    bases = [position.base_of(layer) for layer in range(len(slides))]
    found = {kind: {base for base, each in zip(bases, slides, strict=True) if each is kind} for kind in (True, False)}
    if any(len(each) > 1 for each in found.values()) or (local is None and len(set(bases)) > 1):
        raise ConfigError(f"{family} has no equivalent of position.base={position.base!r}")
    if local is None:
        base = bases[0]
        return {"rope_theta": base, "rope_parameters": {"rope_type": "default", "rope_theta": base}}
    written = {FULL: next(iter(found[False]), BASE), SLIDING: next(iter(found[True]), local)}
    return {"rope_parameters": {kind: {"rope_type": "default", "rope_theta": base} for kind, base in written.items()}}
