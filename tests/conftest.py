"""Every test starts from the same random state, so that a failure is a failure again on the next run."""

import os

import hypothesis
import pytest
import torch

if not torch.cuda.is_available():  # before anything imports Triton: its kernels then run in its interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")

hypothesis.settings.register_profile("headway", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("headway")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
