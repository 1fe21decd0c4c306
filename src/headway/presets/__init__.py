"""Named configs, each with its source, exact size and list of departures.

Another package adds a preset as an entry point of the group `headway.presets` (headway.presets.registry).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from headway.config import override
from headway.errors import ConfigError, shown
from headway.models import build_model
from headway.presets.audio_and_pose import SENSES
from headway.presets.classifiers import CLASSIFIERS
from headway.presets.detection import DETECTORS
from headway.presets.preset import Preset
from headway.presets.registry import Presets
from headway.presets.sentences import SENTENCES
from headway.presets.speech import SPEECH
from headway.presets.text import TEXT
from headway.presets.tokens import TOKENS
from headway.presets.universal import UNIVERSAL
from headway.presets.vectors import SETS
from headway.presets.vision import VISION
from headway.presets.worlds import WORLDS
from headway.suggestions import did_you_mean

PRESETS = Presets(
    (
        *TEXT,
        *CLASSIFIERS,
        *TOKENS,
        *SENTENCES,
        *UNIVERSAL,
        *VISION,
        *SENSES,
        *DETECTORS,
        *SPEECH,
        *SETS,
        *WORLDS,
    )
)


def preset(name: str) -> Preset:
    """The preset of this name. Raises ConfigError naming the nearest ones."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS).strip() or "`headway presets` lists them"
        raise ConfigError(f"no preset {shown(name)}: {hint}")
    return PRESETS[name]


def build(
    name: str,
    overrides: Mapping[str, object] | None = None,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> nn.Module:
    """The model of a preset with fresh parameters drawn from `seed`.

    `overrides` swaps parts by name: `build("gpt-char", {"position": "rotary", "layers": 2})`.
    """
    return build_model(override(preset(name).config(), overrides or {}), seed=seed, device=device)


__all__ = ["PRESETS", "Preset", "build", "preset"]
