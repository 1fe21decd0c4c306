"""The families of models that can be taken up and handed out, by config.json's `model_type`."""

from __future__ import annotations

from headway.interop.families.gpt2 import GPT2
from headway.interop.family import Family

FAMILIES: dict[str, Family] = {family.name: family for family in (GPT2,)}

__all__ = ["FAMILIES"]
