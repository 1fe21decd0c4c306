"""Small model folders for the tests, as others write them; the reliability campaign attacks the same ones."""

from __future__ import annotations

from headway.reliability.model_folders import CONFIG, characters, gpt2_tensors, write_gpt2

__all__ = ["CONFIG", "characters", "gpt2_tensors", "write_gpt2"]
