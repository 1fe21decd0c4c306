"""The benchmarks run at small sizes and report their values; the speed itself is not tested."""

from __future__ import annotations

import json
import re

import pytest
import torch

from headway.bench import (
    BENCHES,
    Options,
    bench,
    capture,
    checkpoint_save,
    flash,
    imagine,
    longformer,
    start_up,
    train_text,
    vit_cpu,
    vit_gpu,
    world,
)
from headway.bench.result import BenchReport, Result
from headway.cli import main
from headway.config import override
from headway.errors import ConfigError
from headway.models import EncoderDecoderConfig, GptConfig, VitConfig
from headway.presets import PRESETS

TINY = {
    "model.vocab": 200, "model.width": 32, "model.inner": 32, "model.heads": 2, "model.encoder_layers": 1,
    "model.decoder_layers": 1, "train.batch_tokens": 256,
}  # fmt: skip


def test_training_against_marian():
    report = train_text.run(Options(), train_text.TrainTextSizes(changes=TINY, steps=1, rounds=1))
    values = report.to_json()
    assert set(values) == {"fp32", "bf16", "best", "loading_share", "padding"}
    assert all(value > 0 for value in values.values())
    assert values["padding"] < 0.1


def test_training_on_own_data(tmp_path, monkeypatch):
    for side, line in (("en", "one two three"), ("de", "eins zwei drei vier")):
        (tmp_path / f"train.{side}").write_text(f"{line}\n" * 60)
    monkeypatch.setenv("HOME", str(tmp_path))
    sizes = train_text.TrainTextSizes(changes={**TINY, "data.tokenizer.vocab": 30}, steps=1, rounds=1)
    report = train_text.run(Options(data=str(tmp_path)), sizes)
    assert report.figures["padding"] == 0  # every line is as long as the others
    assert [result.name for result in report.results] == ["fp32", "bf16", "best"]


def test_saving_beside_training():
    sizes = checkpoint_save.SaveSizes(model=GptConfig(vocab=50, context=8, width=16, layers=1, heads=2), rounds=1)
    values = checkpoint_save.run(Options(), sizes).to_json()
    assert set(values) == {
        "save_async_stop", "megabytes", "stopped_async_seconds", "stopped_sync_seconds", "async_on_disk_after_seconds",
    }  # fmt: skip


def test_generated_batches_are_as_long_as_multi30ks():
    task = train_text.make_task(PRESETS["transformer-tiny"].recipe(), Options())
    train = task.splits["train"]
    assert train.source.lengths.mean() == pytest.approx(13.77, abs=0.1)
    assert train.target.lengths.mean() == pytest.approx(13.99, abs=0.15)
    assert train_text.padding(task.order) < 0.1


def test_slopes_of_window_attention_and_two_layers_against_transformers(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    sizes = longformer.LongformerSizes(lengths=(64, 128, 256), radius=8, width=64, rounds=1, on_cpu=((1, 32),))
    values = longformer.run(Options(), sizes).to_json()
    assert set(values) == {"cpu_float32_1x32", "time_slope", "memory_slope", "longest_seconds", "longest_mib"}
    assert longformer.slope((2, 4, 8), [3.0, 12.0, 48.0]) == pytest.approx(2.0)


def test_a_vision_transformer_against_transformers():
    small = VitConfig(classes=5, image=32, width=32, layers=1, heads=2, inner=64)
    values = vit_cpu.run(Options(), vit_cpu.VitCpuSizes(model=small, batches=(2,), rounds=1)).to_json()
    assert {"batch2_fp32_transformers", "batch2_auto_transformers", "auto_logit_error"} <= set(values)
    assert 0 <= values.pop("auto_logit_error") < 0.1
    assert all(value > 0 for value in values.values())


def test_a_step_of_the_trainer_and_what_loading_takes_of_it(tmp_path, monkeypatch):
    """The parts of vit-gpu that run without a GPU."""
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr("torch.compile", lambda called, **how: called)
    monkeypatch.setattr("headway.training.trainer.pick_device", lambda wanted: torch.device("cpu"))
    sizes = vit_gpu.VitGpuSizes(images=8, batch=4, steps=1, rounds=1)
    changes = {"model.image": 32, "task.size": 32, "model.layers": 1, "model.width": 16, "model.heads": 2}
    trainer = vit_gpu.make_trainer(override(PRESETS["vit-s16"].recipe(), changes), tmp_path, sizes)
    times = vit_gpu.time_in_turns({"trainer": lambda: len(trainer.next_steps())}, sizes)
    assert times["trainer"] > 0
    shares = vit_gpu.loading_shares(trainer, times["trainer"], sizes)
    assert set(shares) == {"loading_share_recipe", "loading_share_everything"}


def test_flash_beside_its_peers_and_auto_beside_the_best(monkeypatch):
    def measured(row):
        took = {"flash": 2.0, "flex": 3.0, "auto": 2.1}
        if row.kind == "causal":
            took |= {"sdpa_flash": 2.5, "sdpa_cudnn": 1.5, "auto": 1.5}
        return {"forward": took, "both": {who: 3 * seconds for who, seconds in took.items()}}

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(flash, "measured", measured)
    values = bench("flash")(Options()).to_json()
    assert values["causal_64_4096_forward_sdpa_flash"] == 1.25
    assert values["causal_128_16384_both_sdpa_cudnn"] == 0.75
    assert values["window_64_4096_forward_flex"] == 1.5
    assert values["alibi_128_16384_both_auto_over_best"] == 1.05
    assert values["causal_64_4096_both_auto_over_best"] == 1.0
    assert values["auto_over_best_worst"] == 1.05


def test_the_command_prints_a_report(monkeypatch, capsys):
    monkeypatch.setattr("headway.bench.imagine.run", lambda options: BenchReport([Result("a", 2.0, 3.0)], {"b": 0.5}))
    assert main(["bench", "imagine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"a": 1.5, "b": 0.5}


def test_a_report_is_flat():
    report = BenchReport([Result("a", 2.0, 3.0)], {"b": 0.5})
    assert report.to_json() == {"a": 1.5, "b": 0.5}


def test_what_cannot_run_here_says_so(capsys, monkeypatch):
    assert main(["bench", "decode-gpu"]) == 2
    assert "decode-gpu needs a GPU" in capsys.readouterr().err
    assert main(["bench", "flash"]) == 2
    assert "flash needs a GPU" in capsys.readouterr().err
    assert main(["bench", "vit-gpu"]) == 2
    assert "vit-gpu needs a GPU" in capsys.readouterr().err
    assert main(["bench", "nothing"]) == 2
    assert ", ".join(BENCHES) in capsys.readouterr().err
    monkeypatch.setattr("headway.bench.peers.import_module", lambda name: (_ for _ in ()).throw(ImportError))
    assert main(["bench", "train-text"]) == 2
    assert re.search(r"this benchmark needs transformers: .*pip install transformers$", capsys.readouterr().err.strip())


@pytest.mark.slow  # full-size models
def test_decoding_beside_ctranslate2(capsys):
    assert main(["bench", "decode-cpu", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {"base_greedy_ctranslate2", "base_beam4_ctranslate2", "gpt2_batch1_share_of_linears"} <= set(values)
    assert all(value > 0 for value in values.values())


def test_the_overhead_of_capture():
    small = {"vocab": 50, "width": 24, "heads": 4, "layers": 6}
    sizes = capture.CaptureSizes(
        timed=override(capture.GPT2, small), measured=override(capture.SMALL, small), lengths=(16,), rounds=1,
        rows=(256, 512), length=512, growing=(512, 1024),
    )  # fmt: skip
    values = capture.run(Options(), sizes).to_json()
    assert {name for name in values if "slope" in name} == {"memory_slope_in_rows", "memory_slope_in_length"}
    assert 0.5 < values["memory_slope_in_rows"] < 1.2
    assert values["memory_slope_in_length"] < 1.2
    assert values["weights_one_layer_of_twelve_T16"] > 0


def test_imagination_is_counted_in_model_steps():
    small = imagine.ImagineSizes(rollouts=8, horizon=3, rounds=1)
    report = imagine.run(Options(), small)
    assert report.figures["model_steps_per_second"] > 0
    assert report.results[0].name == "8 imagined rollouts of 3 steps, against no cache"


def test_starting(monkeypatch, tmp_path):
    small = EncoderDecoderConfig(vocab=40, width=16, inner=16, heads=2, encoder_layers=1, decoder_layers=1)
    monkeypatch.setattr(start_up, "marian", lambda: None)  # here the peer is only a process, without a model
    monkeypatch.setattr(start_up, "converted", lambda *given: tmp_path)
    monkeypatch.setattr(start_up, "CTRANSLATE2", "print('un chat')")
    report = start_up.run(Options(), start_up.StartUpSizes(model=small, rounds=1))
    first, whole = report.results
    assert 0 < first.ours < whole.ours
    assert 0 < first.peer < whole.peer
    assert 0 < report.figures["tokens"] <= 53


def test_a_contender_that_fails_is_an_error():
    with pytest.raises(ConfigError, match="exit code 3"):
        start_up._started(["-c", "raise SystemExit(3)"])


def test_worlds_over_seeds_against_q_learning(capsys, monkeypatch):
    pytest.importorskip("gymnasium")
    monkeypatch.setattr("headway.tasks.world_model.q_learning.UPDATES", 20)
    changes = {
        "task.collect": (60,), "task.round.world": 2, "task.round.act": 1, "train.steps": 3, "train.batch_tokens": 32,
        "train.device": "cpu", "model.width": 16, "model.layers": 1,
    }  # fmt: skip
    sizes = world.WorldSizes(changes=changes, seeds=2, beside=1, episodes=3)
    told: list[tuple[str, int, int]] = []
    values = world.run(Options(told=lambda *each: told.append(each)), sizes).to_json()
    assert values["interquartile_mean_low"] <= values["interquartile_mean"] <= values["interquartile_mean_high"]
    assert 0 <= values["probability_of_improvement"] <= 1
    assert {"return_0", "return_1", "online_probability_of_improvement"} <= set(values)
    assert told == [("training", 3, 6), ("training", 6, 6)]
    monkeypatch.setattr(world, "SIZES", sizes)
    assert main(["bench", "world"]) == 0
    shown = capsys.readouterr().out
    assert "probability of improvement over Q-learning" in shown
    assert "times as fast" not in shown
    with pytest.raises(ConfigError, match="gpt-char is a language model, allowed: world models"):
        world.run(Options(data="gpt-char"))
