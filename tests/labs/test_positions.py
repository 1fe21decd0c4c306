"""Positions compared: means over seeds, what is refused, and that ALiBi goes on where others do not."""

from __future__ import annotations

import pytest

from headway.errors import ConfigError
from headway.labs import positions
from headway.labs.positions import PositionComparison, PositionRun, SeedMean
from headway.metrics.language import LanguageReport
from headway.metrics.loss_by_length import LengthReport, LengthRow


def trained(*losses: float | None, validation: dict[int, float]) -> PositionRun:
    rows = []
    for n, loss in enumerate(losses):
        report = None if loss is None else LanguageReport(10 * loss, 10)
        rows.append(
            LengthRow(length=8 * 2**n, blocks=report, sliding=report, refused="too long" if not report else None)
        )
    return PositionRun(LengthReport(rows=tuple(rows), trained=8), validation)


@pytest.fixture
def comparison() -> PositionComparison:
    steps = {n: 4 - n / 10 for n in (2, 4, 6, 8, 10)}
    return PositionComparison(
        {
            "learned": [trained(2.0, None, validation=steps), trained(3.0, None, validation=steps)],
            "alibi": [trained(2.5, 2.0, validation=steps), trained(2.5, 1.0, validation={**steps, 12: 1.0})],
        }
    )


def test_a_mean_has_a_spread_where_there_are_several():
    assert str(SeedMean.of([1.5])) == "1.500"
    assert str(SeedMean.of([1.0, 2.0])) == "1.500 ±.707"
    assert str(SeedMean.of([1.0, 9.0])) == "5.000 ±5.657"


def test_a_length_that_a_kind_refuses_has_no_loss(comparison):
    assert comparison.lengths == [8, 16]
    assert comparison.trained == 8
    assert comparison.loss("learned", 8).value == 2.5
    assert comparison.loss("learned", 16) is None
    assert comparison.loss("alibi", 16, sliding=True).value == 1.5


def test_validation_is_told_at_steps_that_all_have(comparison):
    assert comparison.steps() == [2, 4, 6, 10]
    assert comparison.steps(2) == [4, 10]
    assert comparison.validation("alibi", 10).value == 3.0


def test_the_figure_and_the_values(comparison):
    figure = positions._figure(comparison)
    assert figure.png.startswith(b"\x89PNG")
    assert "learned 2.50 to 2.50 at 8" in figure.alt
    values = comparison.to_json()
    assert values["kinds"]["learned"][1]["loss_by_length"] == [3.0, None]
    assert values["kinds"]["alibi"][1]["validation"]["12"] == 1.0


def test_a_recipe_is_gpt_char_but_for_its_position():
    made = {kind: positions.run_config(kind, data="pydocs", steps=5, seed=3, changes={}) for kind in positions.KINDS}
    assert {type(config.model.position).__name__ for config in made.values()} == {
        "Learned", "Sinusoidal", "Rotary", "AlibiBias", "NoneType",
    }  # fmt: skip
    assert {config.train.seed for config in made.values()} == {3}
    with pytest.raises(ConfigError, match="sideways"):
        positions.run_config("sideways", data="pydocs", steps=5, seed=3, changes={})
