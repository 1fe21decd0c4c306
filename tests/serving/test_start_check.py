"""The check at the start of an engine: it measures that rows are independent, and says so where they are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.decoding import row_batch
from headway.ops.kernels import ragged
from headway.reliability.runs import TINY
from headway.runs.train import train_run
from headway.serving.engine import Engine
from headway.serving.server import _facts

RUNS = ("language", "translation")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checked")
    for name in RUNS:
        train_run(TINY[name].config(folder / "cache", {}), folder / name)
    return {name: folder / name for name in RUNS}


def described(run: Path, precision: str = "fp32") -> dict[str, Any]:
    """What an engine says of a run when it is ready."""
    limits = {"rows": 32, "tokens": 2048, "waiting": 8, "waiting_of_client": 8}
    settings = {"run": str(run), "precision": precision, "threads": 0, "scheduler": limits}
    return Engine(None, settings).description()  # type: ignore[arg-type]


def last_bit(product: Callable[..., Tensor], rows: Callable[..., int]) -> Callable[..., Tensor]:
    """A kernel whose numbers are the next larger ones where it is given more than 16 rows."""

    def mutated(*given: Any) -> Tensor:
        out = product(*given)
        return torch.nextafter(out, out.new_tensor(torch.inf)) if rows(*given) > 16 else out

    return mutated


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", RUNS)
def test_an_engine_whose_rows_are_independent_is_exact(runs: dict[str, Path], name: str, precision: str) -> None:
    found = described(runs[name], precision)
    assert found["exact"] is True
    assert _facts(found).endswith(f"{precision}, exact")


@pytest.mark.parametrize("name", RUNS)
def test_a_product_whose_last_bit_depends_on_the_number_of_rows(
    runs: dict[str, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = last_bit(torch.nn.functional.linear, lambda x, *_: x[..., 0].numel())
    monkeypatch.setattr(nn.functional, "linear", product)
    found = described(runs[name])
    assert found["exact"] is False
    assert "NOT exact" in _facts(found)


def test_an_attention_whose_last_bit_depends_on_the_number_of_rows(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = TINY["language"].config(runs["language"].parent / "cache", {}).model.heads  # type: ignore[attr-defined]
    kernel = last_bit(ragged.ragged_attention, lambda q_RE, *_: len(q_RE) // heads)
    monkeypatch.setattr(ragged, "ragged_attention", kernel)
    assert described(runs["language"])["exact"] is False


@pytest.mark.parametrize("name", RUNS)
def test_8_bit_layers_with_one_scale_for_all_rows(
    runs: dict[str, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_batch, "scale_per_row", lambda model: None)
    assert described(runs[name], "int8")["exact"] is False
