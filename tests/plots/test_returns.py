from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from headway.metrics.run_aggregates import Estimate
from headway.plots.returns import plot_returns

TARGETS = (25.0, 500.0, 150.0)  # in any order
GOT = [Estimate(24.0, 22.0, 26.0), Estimate(450.0, 420.0, 480.0), Estimate(155.0, 150.0, 161.0)]
HOW = {"title": "two runs", "band": "95 % interval over runs"}


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_equal_results_give_equal_pictures(kind):
    runs = np.asarray([[22.0, 440.0, 150.0], [26.0, 460.0, 160.0]])
    full = {**HOW, "runs": runs, "cloned": Estimate(300.0, 280.0, 320.0), "kind": kind}
    drawn = plot_returns(TARGETS, GOT, **full)
    assert drawn == plot_returns(TARGETS, GOT, **full)
    assert drawn != plot_returns(TARGETS, GOT, **HOW, kind=kind)
    if kind == "svg":
        assert b"<svg" in drawn[:1000]
    else:
        assert Image.open(BytesIO(drawn)).size[0] == 1200
