"""Every test starts from the same random state, so that a failure is a failure again on the next run."""

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("headway", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("headway")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
