"""What looking costs: a model with one of its twelve layers captured beside the same model left alone.

The memory figures are exponents: of the rows asked for at one length, and of the length at one number of rows, where 2
would mean that all n² weights were made.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import Tensor, nn

from headway.bench.longformer import slope
from headway.bench.memory import LiveBytes
from headway.bench.result import Options, Report, Result, compare
from headway.inspection import capture
from headway.models import GptConfig, build_model

GPT2 = GptConfig(vocab=50257, context=1024, width=768, layers=12, heads=12)
LENGTHS = (128, 512)  # of the texts that are timed
ROUNDS = 7
SMALL = GptConfig(vocab=64, context=8192, width=192, layers=2, heads=12)
ROWS, AT = (256, 512, 1024, 2048), 2048  # rows asked for, of a text of this length
GROWING, FEW = (1024, 2048, 4096), 64  # lengths, at which so few rows are asked for


@torch.no_grad()
def run(options: Options) -> Report:
    """GPT-2's size, forward; the peer is the same model, the same weights, without a capture."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    alone = build_model(GPT2, device=device).eval()
    looked_at = build_model(GPT2, device="meta").eval()
    looked_at.load_state_dict(alone.state_dict(), assign=True)
    results = [
        _beside(looked_at, alone, device, length, what) for length in LENGTHS for what in ("weights", "residual")
    ]
    figures = {f"slower_{result.name}": round(result.ours / result.peer - 1, 4) for result in results}
    return Report(results, figures | _slopes())


def _beside(looked_at: nn.Module, alone: nn.Module, device: str, length: int, what: str) -> Result:
    tokens = torch.randint(GPT2.vocab, (1, length), device=device, generator=torch.Generator(device).manual_seed(0))

    def finished(model: nn.Module) -> Tensor:
        out: Tensor = model(tokens)
        if device == "cuda":
            torch.cuda.synchronize()
        return out

    with capture(looked_at, layers=[5], what=what) as seen:

        def captured() -> None:
            finished(looked_at)
            seen.passes.clear()

        name = f"{what}_one_layer_of_twelve_T{length}"
        # On a CPU the processor's own seconds, which wait for nobody else.
        clock = time.perf_counter if device == "cuda" else time.process_time
        result = compare(name, captured, lambda: finished(alone), rounds=ROUNDS, clock=clock)
    print(f"{result.name}: {result.ours * 1e3:.1f} ms, alone {result.peer * 1e3:.1f} ms", file=sys.stderr)
    return result


def _slopes() -> dict[str, float]:
    model = build_model(SMALL).eval()

    def extra(length: int, rows: int) -> float:
        tokens = torch.zeros(1, length, dtype=torch.long)
        alone, watched = LiveBytes(), LiveBytes()
        with alone:
            model(tokens)
        with capture(model, layers=[0], rows=range(rows)), watched:
            model(tokens)
        more = watched.most - alone.most
        print(f"T={length}, {rows} rows: {more / 2**20:.1f} MiB more", file=sys.stderr)
        return max(more, 1.0)

    by_rows = [extra(AT, rows) for rows in ROWS]
    by_length = [extra(length, FEW) for length in GROWING]
    return {
        "memory_slope_in_rows": round(slope(ROWS, by_rows), 3),
        "memory_slope_in_length": round(slope(GROWING, by_length), 3),
        "bytes_beside_weights": round(by_rows[-1] / (4 * SMALL.heads * ROWS[-1] * AT), 3),
    }
