"""The tiny runs leave nothing behind in the process that makes them."""

import pytest

from headway.data.synthetic import coreference
from headway.data.synthetic.coreference_choice import documents
from headway.reliability.runs import TINY


@pytest.mark.parametrize("task", ["multiple-choice", "tagging"])
def test_what_is_generated_is_short_within_a_tiny_run_alone(task):
    with TINY[task].short():
        short = {name: len(documents(name)) for name in coreference.COUNTS}
        assert short == coreference.COUNTS
    assert {name: len(documents(name)) for name in coreference.COUNTS} == coreference.COUNTS
    assert coreference.COUNTS["train"] > short["train"]
