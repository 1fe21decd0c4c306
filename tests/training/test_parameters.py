"""Frozen parameters, layer-wise learning rates and adapters in the training loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headway.errors import ConfigError
from headway.models import EncoderDecoderConfig, RnnLmConfig, build_model
from headway.nn.lora import Lora, merge
from headway.nn.recurrent import RecurrentConfig
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig
from headway.training.optimisers import Adam, AdamW, Muon, Optimiser, Sgd
from headway.training.parameters import choose_parameters, layer_shares
from tests.training.small import MODEL, TRAIN, state_hash, trainer

OPTIMISERS: tuple[Optimiser, ...] = (
    Sgd(momentum=0.9, decay=0.1),
    Adam(),
    AdamW(decay=0.1, decays="all"),
    Muon(decay=0.1),
)
FROZEN = ("embedding.*", "stack.blocks.0.*")
LORA = Lora(rank=2, dropout=0.2, also=("stack.output_norm.*",))
CHANGES = {
    "freeze": {"freeze": FROZEN},
    "layer decay": {"layer_decay": 0.7},
    "lora": {"lora": LORA},
    "lora and freeze": {"lora": LORA, "freeze": ("*blocks.0.*",), "layer_decay": 0.8},
}


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda each: type(each).__name__)
def test_frozen_parameters_stay_to_the_bit(optimiser, tmp_path):
    made = trainer(tmp_path, replace(TRAIN, freeze=FROZEN, optimiser=optimiser, steps=4))
    before = {name: tensor.clone() for name, tensor in made.model.state_dict().items()}
    made.train()
    frozen = {name for name in before if name.startswith(("embedding.", "stack.blocks.0."))}
    assert {name for name, tensor in made.model.state_dict().items() if torch.equal(tensor, before[name])} == frozen
    saved = Checkpoints(tmp_path).weights()[0]  # the running mean
    assert all(torch.equal(saved[name], before[name]) for name in frozen)


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda each: type(each).__name__)
def test_each_parameter_has_the_rate_of_its_depth(optimiser, tmp_path):
    made = trainer(tmp_path, replace(TRAIN, layer_decay=0.5, optimiser=optimiser))
    made._set_rate(0.1)
    names = {id(parameter): name for name, parameter in made.model.named_parameters()}
    rates = {
        names[id(parameter)]: (group["lr"], group["share"])
        for each in made.optimisers
        for group in each.param_groups
        for parameter in group["params"]
    }
    assert rates.keys() == set(names.values())
    for name, (rate, _) in rates.items():
        outside = isinstance(optimiser, Muon) and not (
            ".blocks." in name and name.endswith("weight") and "norm" not in name
        )
        factor = 0.1 * (optimiser.adam_share if outside else 1.0)
        expected = {"stack.blocks.1": 0.5, "stack.blocks.0": 0.25, "embedding.w": 0.125, "stack.input": 0.125}
        share = next((each for start, each in expected.items() if name.startswith(start)), 1.0)
        assert rate == pytest.approx(factor * share), name


def test_a_decoder_stands_on_its_encoder():
    model = build_model(EncoderDecoderConfig(vocab=5, width=8, heads=2, inner=8, encoder_layers=1, decoder_layers=2))
    shares = layer_shares(model, 0.1)
    assert shares["target_embedding.weight"] == pytest.approx(1e-4)
    assert shares["encoder.blocks.0.attention.qkv.weight"] == pytest.approx(1e-3)
    assert shares["decoder.blocks.1.cross.kv.bias"] == pytest.approx(1e-1)
    recurrent = build_model(RnnLmConfig(vocab=5, width=8, recurrent=RecurrentConfig(hidden=8, layers=1)))
    with pytest.raises(ConfigError, match="this model has no blocks"):
        layer_shares(recurrent, 0.1)


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("optimiser", [AdamW(), Muon()], ids=lambda each: type(each).__name__)
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(changes, optimiser, tmp_path):
    config = replace(TRAIN, optimiser=optimiser, **changes)
    whole = trainer(tmp_path / "whole", config)
    whole.train()
    expected = state_hash(whole)
    first = trainer(tmp_path / "parts", config)
    for _ in range(6):
        first.advance()
        if first.step % config.evaluate_every == 0:
            first._evaluate()
    first.save()
    torch.rand(7)  # what happens between two sittings must not matter
    rest = trainer(tmp_path / "parts", config)
    assert rest.resume()
    assert rest.step == 6
    rest.train()
    assert state_hash(rest) == expected


def test_only_adapters_and_what_else_is_named_train(tmp_path):
    made = trainer(tmp_path, replace(TRAIN, lora=LORA, ema=0.0, steps=4))
    before = {name: tensor.clone() for name, tensor in made.model.state_dict().items()}
    plain = build_model(MODEL, seed=TRAIN.seed).eval()
    tokens = torch.arange(8)[None]
    with torch.no_grad():
        assert torch.equal(made.model.eval()(tokens), plain(tokens))  # B is zero
    made.train()
    after = made.model.state_dict()
    changed = {name for name in before if not torch.equal(after[name], before[name])}
    adapters = {name for name in before if name.endswith((".lora_A", ".lora_B"))}
    assert len(adapters) == 2 * 2 * 4  # A and B of four layers in two blocks
    assert changed == adapters | {name for name in before if name.startswith("stack.output_norm.")}
    stored = Checkpoints(tmp_path).weights(merged=False)[0]
    plain.load_state_dict(Checkpoints(tmp_path).weights()[0])
    merged = merge(stored)
    assert merged.keys() == plain.state_dict().keys()
    made.model.load_state_dict(stored)
    with torch.no_grad():
        torch.testing.assert_close(plain(tokens), made.model.eval()(tokens), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"freeze": ("embeding.weight",)}, r"freeze='embeding.weight' matches nothing: did you mean embedding.w"),
        ({"freeze": ("nothing.*",)}, "matches nothing: there are embedding.weight, "),
        ({"freeze": ("*",)}, "nothing is left to train"),
        ({"lora": Lora(targets=("*.conv",))}, r"lora.targets='\*.conv' matches nothing: there are stack.blocks.0"),
        ({"lora": Lora(also=("nowhere",))}, "train.lora.also='nowhere' matches nothing"),
    ],
)  # fmt: skip
def test_patterns_without_a_match_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        choose_parameters(build_model(MODEL), replace(TRAIN, **config))


def test_settings_out_of_range_are_refused():
    for settings, message in (({"layer_decay": 0.0}, "layer_decay=0.0"), ({"layer_decay": 1.5}, "layer_decay=1.5")):
        with pytest.raises(ConfigError, match=message):
            TrainConfig(**settings)
    for settings, message in (
        ({"rank": 0}, "rank=0"), ({"alpha": 0.0}, "alpha=0.0"), ({"dropout": 1.0}, "dropout=1.0"),
        ({"targets": ()}, "is empty"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            Lora(**settings)
