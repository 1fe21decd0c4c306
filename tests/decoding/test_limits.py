from __future__ import annotations

import pytest
import torch

from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import sample
from headway.errors import ConfigError
from headway.models import EncoderInput
from tests.models.tiny import build


def test_a_start_token_is_repeated_for_each_row_and_bad_limits_are_rejected():
    model, source = build("transformer-none"), EncoderInput(torch.arange(6).view(2, 3))
    limits = SequenceLimits(start=2, stop=-1, max_tokens=5)
    assert sample(model, limits, source=source) == sample(
        model, SequenceLimits(start=torch.full((2, 1), 2), stop=-1, max_tokens=5), source=source
    )
    with pytest.raises(ConfigError, match="neither a source nor a prompt"):
        sample(model, limits)
    with pytest.raises(ConfigError, match="one max_tokens for all rows"):
        sample(model, SequenceLimits(start=2, stop=-1, max_tokens=torch.tensor([1, 2])), source=source)
    with pytest.raises(ConfigError, match="max_tokens=-1"):
        sample(model, SequenceLimits(start=2, stop=-1, max_tokens=-1), source=source)
