"""The page's own computing (web/src/core) gives PyTorch's numbers, under node alone."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from typing import Any

import torch

from headway.decoding.beam import length_penalty
from headway.decoding.sampling import Sampling, allowed_tokens
from headway.inspection.page.number_origin import NumberChoice, origin_entry
from headway.models import GptConfig, build_model
from headway.nn.positions import Learned, Rotary
from headway.ops.positions import rotary_angles, rotate
from tests.inspection.page.subjects import POSITIONS, bert, language, spread, translation
from tests.node import WEB, needs_node

SETTINGS = [
    Sampling(),
    Sampling(temperature=0.5),
    Sampling(temperature=2.0, top_k=7),
    Sampling(temperature=0.8, top_p=0.6),
    Sampling(temperature=1.3, top_k=12, top_p=0.75),
]


def drawn(logits: torch.Tensor, sampling: Sampling) -> dict[str, Any]:
    scaled = logits / sampling.temperature
    kept = allowed_tokens(scaled, sampling)
    return {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or 0,
        "top_p": sampling.top_p,
        "kept": kept[0].tolist(),
        "shares": scaled.masked_fill(~kept, -torch.inf).double().softmax(-1)[0].tolist(),
    }


def rotated(layout: Any) -> dict[str, Any]:
    vector = torch.randn(8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    cos, sin = rotary_angles(torch.tensor([5]), 8, 100.0)
    out = rotate(vector.reshape(1, 1, 1, 8), cos.double(), sin.double(), layout)
    return {"vector": vector.tolist(), "by": 5, "base": 100.0, "layout": layout, "out": out.flatten().tolist()}


def normed() -> dict[str, Any]:
    x, gain, shift = torch.randn(3, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    layer = torch.nn.functional.layer_norm(x, (8,), gain, shift, 1e-5)
    rms = torch.nn.functional.rms_norm(x, (8,), gain, 1e-5)
    parts = {"x": x, "gain": gain, "shift": shift, "layer": layer, "rms": rms}
    return {"eps": 1e-5} | {name: value.tolist() for name, value in parts.items()}


def followed(position: Any) -> dict[str, Any]:
    """A component of a query and a logit of a model, followed back to its weights."""
    model = spread(build_model(GptConfig(vocab=9, context=8, width=16, layers=1, heads=2, position=position)))
    ids = torch.tensor([[1, 5, 2, 7]])
    numbers = (
        NumberChoice(part="q", token=3, index=2, attention="layers.0.self", head=1, query=3),
        NumberChoice(part="logit", token=3, index=4),
    )
    return {
        "entries": [{"number": asdict(each), **origin_entry(model, lambda: model(ids)[0], each)} for each in numbers]
    }


def test_the_modules_of_the_page_agree_with_pytorch(tmp_path):
    node = needs_node()
    logits = 3 * torch.randn(1, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    numbers = {
        "logits": logits[0].tolist(),
        "log_sum_exp": float(logits.logsumexp(-1)),
        "draws": [drawn(logits, sampling) for sampling in SETTINGS],
        "pages": {name: language(position=position) for name, position in POSITIONS.items()}
        | {"translation": translation(), "masked": bert()},
        "norms": [normed()],
        "origins": [followed(Rotary()), followed(Learned())],
        "rotated": [rotated("interleaved"), rotated("halves")],
        "penalties": [
            {"length": 7, "alpha": alpha, "kind": kind, "penalty": length_penalty(7, alpha, kind)}
            for alpha in (0.0, 0.6, 2.0)
            for kind in ("gnmt", "mean")
        ],
    }
    (tmp_path / "numbers.json").write_text(json.dumps(numbers))
    done = subprocess.run(
        [node, WEB / "test.mjs", tmp_path / "numbers.json"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "# tests 31" in done.stdout
