from __future__ import annotations

import dataclasses

import pytest

import headway
from headway.config import parse, plain
from headway.errors import ConfigError
from headway.models import BertPretraining, BertPretrainingConfig, build_model
from headway.presets import PRESETS, build, preset

PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "transformer-tiny": 2_568_192,
    "transformer-base": 63_082_496,
    "transformer-big": 214_245_376,
    "gpt-char": 804_096,
    "gpt-char-large": 10_745_088,
    "vit-b16": 86_567_656,
    "vit-b32": 88_224_232,
    "vit-l16": 304_326_632,
    "vit-h14": 632_045_800,
    "vit-s16": 22_050_664,
    "vit-ti16": 5_717_416,
    "vit-small-data": 2_692_426,
    "sl-vit": 2_729_878,
}


def count(model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PRESETS)
def test_the_parameter_count_is_exact(name):
    assert count(build(name, device="meta")) == PRESETS[name].parameters


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_the_count_is_the_one_of_the_facts(name, parameters):
    assert PRESETS[name].parameters == parameters


def test_bert_with_both_heads():
    config = PRESETS["bert-base"].config()
    model = build_model(BertPretrainingConfig(bert=config), device="meta")
    assert isinstance(model, BertPretraining)
    assert count(model) == 110_106_428


@pytest.mark.parametrize(("name", "parameters"), [("vit-small-data", 2_756_744), ("sl-vit", 2_906_228)])
def test_the_small_models_at_the_sizes_of_tiny_imagenet(name, parameters):
    assert count(build(name, {"image": 64, "patch": 8, "classes": 200}, device="meta")) == parameters


def test_shifted_patches_and_local_attention_are_switched_one_by_one():
    def more(overrides: dict[str, object]) -> int:
        return count(build("vit-small-data", overrides, device="meta")) - PRESETS["vit-small-data"].parameters

    shifted, local = 192 * 192 + 2 * 240, 9 * 12
    assert more({"patches": "shifted"}) == shifted
    assert more({"local": True}) == local
    assert more({"patches": "shifted", "local": True}) == shifted + local


def test_the_issue_s_presets_are_all_there():
    wanted = "transformer-tiny transformer-base transformer-big gpt2 gpt2-medium gpt2-large gpt2-xl gpt-char"
    wanted += " gpt-char-large bert-base bert-large roformer rnn-lm rnn-seq2seq deck llama-tiny"
    wanted += " vit-b16 vit-b32 vit-l16 vit-h14 vit-s16 vit-ti16 vit-small-data sl-vit convnet audio-vit pose"
    wanted += " captioner-rnn captioner-vit longformer longformer-char longformer-needle bert-classifier gpt-classifier"
    wanted += " speech-ctc speech-transformer detr-shapes"
    wanted += " world-frozenlake world-cartpole world-minigrid decision-cartpole"
    assert set(wanted.split()) <= set(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_where_it_comes_from_and_survives_plain_data(name):
    entry = PRESETS[name]
    assert entry.source
    tasks = [
        "language",
        "chat",
        "translation",
        "masked",
        "classification",
        "text-classification",
        "tagging",
        "question-answering",
        "multiple-choice",
        "vectors",
        "captioning",
        "transcription",
        "embedding",
        "pose",
        "detection",
        "world",
        "deciding",
    ]
    assert entry.task in (*tasks, "world", "deciding")
    config = entry.config()
    assert dataclasses.is_dataclass(config)
    assert parse(type(config), plain(config)) == config


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(ConfigError, match=r"no preset 'gpt-2': did you mean gpt2"):
        preset("gpt-2")


def test_parts_are_swapped_by_name():
    model = headway.build("gpt-char", {"position": "rotary", "layers": 1, "norm": "rms-norm"}, device="meta")
    assert "stack.input_positions.table" not in model.state_dict()
    assert "stack.blocks.1.attention.out.weight" not in model.state_dict()
    with pytest.raises(ConfigError, match="did you mean rotary"):
        headway.build("gpt-char", {"position": "rotray"})
