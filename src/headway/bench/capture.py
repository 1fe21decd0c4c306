"""The overhead of `inspection.capture`: a model with one of twelve layers captured, and the same model without.

The memory values are exponents: of the number of rows at a fixed length, and of the length at a fixed number of rows,
where 2 would mean that all n² attention weights are materialised.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.bench.longformer import slope
from headway.bench.memory import LiveBytes
from headway.bench.result import BenchReport, Options, Result, compare
from headway.inspection import capture
from headway.models import GptConfig, build_model

GPT2 = GptConfig(vocab=50257, context=1024, width=768, layers=12, heads=12)
SMALL = GptConfig(vocab=64, context=8192, width=192, layers=2, heads=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSizes:
    """What is measured: time of `timed`, memory of `measured`."""

    timed: GptConfig = GPT2
    lengths: tuple[int, ...] = (128, 512)  # tokens of the timed passes
    rounds: int = 7
    measured: GptConfig = SMALL
    rows: tuple[int, ...] = (256, 512, 1024, 2048)  # captured, of `length` tokens
    length: int = 2048
    growing: tuple[int, ...] = (1024, 2048, 4096)  # lengths at which `few` rows are captured
    few: int = 64


SIZES = CaptureSizes()


@torch.no_grad()
def run(options: Options, sizes: CaptureSizes = SIZES) -> BenchReport:
    """Forward passes at the size of GPT-2; the peer is the same model, with the same weights, without a capture."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    plain = build_model(sizes.timed, device=device).eval()
    captured = build_model(sizes.timed, device="meta").eval()
    captured.load_state_dict(plain.state_dict(), assign=True)
    results = [
        _compared(captured, plain, device, length, what, sizes)
        for length in sizes.lengths
        for what in ("weights", "residual")
    ]
    figures = {f"slower_{result.name}": round(result.ours / result.peer - 1, 4) for result in results}
    return BenchReport(results, figures | _slopes(sizes))


def _compared(
    captured: nn.Module, plain: nn.Module, device: str, length: int, what: str, sizes: CaptureSizes
) -> Result:
    generator = torch.Generator(device).manual_seed(0)
    tokens = torch.randint(sizes.timed.vocab, (1, length), device=device, generator=generator)

    def finished(model: nn.Module) -> Tensor:
        out: Tensor = model(tokens)
        if device == "cuda":
            torch.cuda.synchronize()
        return out

    with capture(captured, layers=[5], what=what) as seen:

        def with_capture() -> None:
            finished(captured)
            seen.passes.clear()

        name = f"{what}_one_layer_of_twelve_T{length}"
        # On a CPU the process's CPU time, which background load does not affect.
        clock = time.perf_counter if device == "cuda" else time.process_time
        result = compare(name, with_capture, lambda: finished(plain), rounds=sizes.rounds, clock=clock)
    print(f"{result.name}: {result.ours * 1e3:.1f} ms, without {result.peer * 1e3:.1f} ms", file=sys.stderr)
    return result


def _slopes(sizes: CaptureSizes) -> dict[str, float]:
    model = build_model(sizes.measured).eval()

    def extra(length: int, rows: int) -> float:
        tokens = torch.zeros(1, length, dtype=torch.long)
        plain, captured = LiveBytes(), LiveBytes()
        with plain:
            model(tokens)
        with capture(model, layers=[0], rows=range(rows)), captured:
            model(tokens)
        more = captured.peak - plain.peak
        print(f"T={length}, {rows} rows: {more / 2**20:.1f} MiB more", file=sys.stderr)
        return max(more, 1.0)

    by_rows = [extra(sizes.length, rows) for rows in sizes.rows]
    by_length = [extra(length, sizes.few) for length in sizes.growing]
    weights = 4 * sizes.measured.heads * sizes.rows[-1] * sizes.length
    return {
        "memory_slope_in_rows": round(slope(sizes.rows, by_rows), 3),
        "memory_slope_in_length": round(slope(sizes.growing, by_length), 3),
        "bytes_beside_weights": round(by_rows[-1] / weights, 3),
    }
