"""Estimates beside real steps, the closed formulas and the command."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from headway.bench.estimates import EstimateSizes, run
from headway.bench.result import Options
from headway.cli import main
from headway.config import override
from headway.estimate.decoding import decoding_of
from headway.estimate.flops import WINOGRAD, flops_of
from headway.estimate.formulas import PUBLISHED
from headway.estimate.machines import MACHINES
from headway.models import build_model
from headway.presets import preset
from headway.tasks.base import DataRequest

SMALL = {
    "gpt-char": {"train.batch_tokens": 256, "task.context": 64, "model.layers": 2},
    "transformer-tiny": {"train.batch_tokens": 256},
    "rnn-lm": {"train.batch_tokens": 128},
    "vit-small-data": {"train.batch_tokens": 2},
    "bert-base": {
        "train.batch_tokens": 256, "model.bert.width": 64, "model.bert.heads": 2, "model.bert.inner": 128,
        "model.bert.layers": 2, "model.bert.vocab": 500, "train.precision": "fp32",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_the_peak_is_that_of_a_real_step_plain_and_recomputing(name):
    figures = run(Options(), EstimateSizes(presets={name: SMALL[name]}, steps=1)).figures
    for kind in ("plain", "recompute"):
        assert figures[f"{name}_{kind}_ratio"] == pytest.approx(1, abs=0.1), figures


def task_of(name, changes):
    config = override(preset(name).recipe(), changes)
    request = DataRequest(
        data=config.data, model=config.model, folder=None, batch_tokens=config.train.batch_tokens, seed=0
    )
    return config, config.task.stand_in(request)


def test_operations_of_a_gpt_are_the_formulas():
    """6N + 12·L·s·D, where a table of which rows are read is not a product."""
    changes = {"train.batch_tokens": 128, "task.context": 64, "model.layers": 3, "model.width": 64, "model.heads": 2}
    config, task = task_of("gpt-char", changes)
    flops, targets = flops_of(config, task)
    assert targets == 128
    products = 3 * 12 * 64**2 + config.model.vocab * 64
    assert flops.palm == pytest.approx(6 * products + 12 * 3 * 64 * 64, rel=1e-6)
    assert flops.causal == pytest.approx(flops.palm - 6 * 3 * 64 * 64, rel=1e-6)
    again = override(config, {"train.recompute": "blocks"})
    assert flops_of(again, task)[0].executed > flops.causal


def test_convolutions_of_three_by_three_may_take_fewer_multiplications():
    """Of those at each place: in the forward pass, for the gradient of the weights, and of all inputs but images."""
    config, task = task_of("convnet", {"train.batch_tokens": 2})
    expected = 0

    def seen(layer, given, out):
        nonlocal expected
        if layer.kernel_size == (3, 3) and layer.stride == (1, 1):
            passes = 2 if given[0].shape[1] == 3 else 3
            expected += passes * 2 * 9 * layer.in_channels * out[0].numel()

    model = build_model(config.model).eval()
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            part.register_forward_hook(seen)
    model(torch.zeros(1, 3, config.task.size, config.task.size))
    flops = flops_of(config, task)[0]
    assert flops.saved == pytest.approx((1 - 1 / WINOGRAD) * expected)
    assert 0.8 * flops.palm < expected < flops.palm


def test_what_decoding_reads_and_keeps():
    """A GPT reads its blocks and output layer in each step; keys and values are 2·L·s·D numbers of 16 bits."""
    config = preset("gpt2").recipe()
    found = decoding_of(config, MACHINES["h100"])
    assert found.cache_bytes == pytest.approx(2 * 12 * 1024 * 768 * 2, rel=1e-3)
    assert found.weights == 2 * (124_439_808 - 1024 * 768), "a position is a row of its table"
    assert found.tokens_per_second == pytest.approx(3.35e12 / (found.weights + found.cache_bytes / 2), rel=1e-6)


def test_decoding_of_an_encoder_decoder_does_not_read_the_encoder():
    config = preset("transformer-tiny").recipe()
    found = decoding_of(config, MACHINES["h100"])
    whole = 2 * 2_568_192
    assert 0.5 * whole < found.weights < 0.8 * whole


def test_a_model_that_does_not_write_has_no_decoding():
    assert decoding_of(preset("vit-ti16").recipe(), MACHINES["h100"]) is None


def test_what_the_transformer_paper_reckons():
    assert PUBLISHED["transformer-base"].flops == pytest.approx(3.3e18, rel=0.01)
    assert PUBLISHED["transformer-big"].flops == pytest.approx(2.3e19, rel=0.01)


TINY = ["--train.batch_tokens", "128", "--model.layers", "1", "--model.width", "32", "--model.heads", "2"]


def test_json_is_flat_and_has_each_range(capsys):
    assert main(["estimate", "gpt-char", *TINY, "--price", "2", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert not any(isinstance(value, dict | list) for value in values.values())
    for name in ("seconds_per_step", "hours", "gpu_hours", "cost"):
        assert values[f"{name}_low"] < values[name] < values[f"{name}_high"]
    assert values["cost"] == pytest.approx(2 * values["gpu_hours"])
    parts = ("weights", "gradients", "optimiser", "activations", "temporaries", "gathered", "other")
    assert values["peak_bytes"] == sum(values[part] for part in parts)
    assert values["weights"] == 4 * values["parameters"]
    assert values["optimiser"] == pytest.approx(8 * values["parameters"], rel=0.01)


def test_without_a_price_there_is_no_cost(capsys):
    assert main(["estimate", "gpt-char", *TINY]) == 0
    assert "cost" not in capsys.readouterr().out


@pytest.mark.parametrize("machine", ["cpu", "here"])
def test_this_machine_is_looked_at(machine, capsys):
    assert main(["estimate", "gpt-char", *TINY, "--machine", machine, "--train.device", "cpu", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["machine"] == machine
    assert values["memory_bytes"] > 2**28
    assert 0 < values["seconds_per_step_low"] < values["seconds_per_step_high"] < math.inf
    assert torch.get_num_threads() >= 1


def test_ranks_that_share_the_weights_hold_less(capsys):
    words = ["estimate", "gpt-char", *TINY, "--train.accumulate", "4", "--gpus", "4", "--json"]
    found = []
    for more in ([], ["--shard", "full"]):
        assert main([*words, *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[1]["weights"] < 0.5 * found[0]["weights"]
    assert found[1]["optimiser"] < 0.5 * found[0]["optimiser"]


def test_more_tokens_take_longer_and_hours_give_tokens(capsys):
    assert main(["estimate", "gpt-char", *TINY, "--tokens", "1e6", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one["tokens"] == 1_000_000
    assert main(["estimate", "gpt-char", *TINY, "--hours", str(one["hours"]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == pytest.approx(1_000_000, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["gpt-char", "--machine", "h300"], 2, "--machine h300: not known; allowed: h200, h100"),
        (["gpt-char", "--tokens", "5", "--hours", "5"], 2, "--tokens and --hours both decide"),
        (["gpt-char", "--machine", "here", "--gpus", "2"], 2, "--gpus 2 with --machine here"),
        (["speech-ctc"], 2, "pass --data SPEC to estimate a training on it"),
        (["universal-tiny"], 2, "decides by computed values what it computes next"),
        (["gpt2", "--gpus", "3"], 2, "3"),
        (["gpt-unknown"], 2, "gpt-unknown"),
    ],
)
def test_mistakes_are_one_line(words, code, message, capsys):
    assert main(["estimate", *words]) == code
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line


def test_what_does_not_fit_says_what_to_try(capsys, monkeypatch):
    monkeypatch.setitem(MACHINES, "4090", replace(MACHINES["4090"], memory=2**20))
    assert main(["estimate", "gpt-char", *TINY, "--train.batch_tokens", "1024", "--machine", "4090"]) == 0
    out = capsys.readouterr().out
    assert "does not fit" in out
    assert "try --recompute blocks or --train.batch_tokens 512 --train.accumulate 2" in out
