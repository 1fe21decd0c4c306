"""The text classifier: padding says nothing, one token is read, and the arithmetic is that of transformers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headway.config import parse, plain
from headway.errors import ConfigError
from headway.interop.families import FAMILIES
from headway.interop.family import import_weights
from headway.models import BertConfig, GptConfig, LongformerConfig, ModelConfig, TextClassifierConfig, build_model
from headway.nn.longformer_attention import Windows

LONG = LongformerConfig(vocab=20, windows=Windows(radius=2), context=64, width=16, layers=2, heads=2, inner=16)
BERT = BertConfig(vocab=20, context=64, width=16, layers=1, heads=2, inner=16)
GPT = GptConfig(vocab=20, context=64, width=16, layers=1, heads=2)
CONFIGS = {
    "global": TextClassifierConfig(encoder=LONG, classes=3, global_tokens=1),
    "windows": TextClassifierConfig(encoder=LONG, classes=3),
    "bert": TextClassifierConfig(encoder=BERT, classes=3),
    "gpt": TextClassifierConfig(encoder=GPT, classes=3),
}


def rows(length: int = 40) -> torch.Tensor:
    return torch.randint(1, 20, (2, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_changes_nothing(name):
    model, tokens = build_model(CONFIGS[name], seed=1).eval(), rows()
    padded = torch.nn.functional.pad(tokens, (0, 7))
    torch.testing.assert_close(model(padded, torch.tensor([40, 40])), model(tokens), atol=1e-5, rtol=1e-4)
    assert model(tokens).shape == (2, 3)


@pytest.mark.parametrize("name", CONFIGS)
def test_backward_reaches_every_parameter_in_use(name):
    model = build_model(CONFIGS[name], seed=1).train()
    (model(rows(), torch.tensor([40, 33])) ** 2).sum().backward()
    # The first token alone is read: where it is global, it looks through projections of its own in the last layer.
    unused = {"windows": "global", "global": "blocks.1.attention.qkv"}.get(name, "nothing")
    unreached = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert [key for key in unreached if unused not in key] == []


@pytest.mark.parametrize(("name", "sees"), [("global", True), ("windows", False), ("bert", True), ("gpt", True)])
def test_whether_the_token_that_is_read_sees_the_last(name, sees):
    model, tokens = build_model(CONFIGS[name], seed=1).eval(), rows()
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % 20
    assert torch.equal(model(tokens), model(other)) != sees


def test_a_window_reaches_as_far_as_its_layers_together():
    model, tokens = build_model(CONFIGS["windows"], seed=1).eval(), rows()
    for place, seen in ((4, True), (5, False)):
        other = tokens.clone()
        other[:, place] = (other[:, place] + 1) % 20
        assert torch.equal(model(tokens), model(other)) != seen


def test_a_config_survives_being_written():
    for config in CONFIGS.values():
        assert parse(ModelConfig, plain(config)) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": 0}, "classes=0"),
        ({"global_tokens": -1}, "global_tokens=-1"),
        ({"encoder": replace(LONG, pooler=False)}, "reads the pooler"),
        ({"encoder": BERT, "global_tokens": 1}, "global_tokens=1, allowed without windows: 0"),
        ({"encoder": GPT, "global_tokens": 1}, "global_tokens=1, allowed without windows: 0"),
        ({"scale": 0.0}, "scale=0.0, allowed: above 0"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ConfigError, match=message):
        TextClassifierConfig(**{"encoder": LONG, "classes": 3, **settings})


def test_a_gpt_is_read_at_its_last_real_token_and_sees_no_padding():
    model, tokens = build_model(CONFIGS["gpt"], seed=1).eval(), rows()
    lengths = torch.tensor([40, 12])
    found = model(tokens, lengths)
    torch.testing.assert_close(found[1:], model(tokens[1:, :12]))
    other = tokens.clone()
    other[1, 12:] = 3
    torch.testing.assert_close(model(other, lengths), found, atol=0, rtol=0)
    torch.testing.assert_close(found, model.head(model.features(tokens)[[0, 1], [39, 11]]))


def test_a_gpt_has_neither_pooler_nor_bias_nor_output_layer():
    names = dict(build_model(TextClassifierConfig(encoder=replace(GPT, tied=False), classes=3)).named_parameters())
    assert [name for name in names if not name.startswith("encoder.")] == ["head.weight"]
    assert not any("encoder.head" in name or "pooler" in name for name in names)
    assert names["head.weight"].shape == (3, 16)


def test_segments_are_read_where_the_encoder_has_them():
    tokens, segments = rows(), (torch.arange(40) > 20).long().expand(2, 40)
    model = build_model(CONFIGS["bert"], seed=1).eval()
    assert "segments" in model.reads
    assert not torch.equal(model(tokens, None, segments), model(tokens))
    torch.testing.assert_close(model(tokens, None, torch.zeros_like(segments)), model(tokens))
    gpt = build_model(CONFIGS["gpt"], seed=1).eval()
    assert "segments" not in gpt.reads
    with pytest.raises(ConfigError, match="a GPT has no embedding of segments"):
        gpt(tokens, None, segments)


def test_a_number_is_scaled_and_moved():
    plain = build_model(TextClassifierConfig(encoder=BERT, classes=1), seed=1).eval()
    moved = build_model(TextClassifierConfig(encoder=BERT, classes=1, centre=7.0, scale=3.0), seed=1).eval()
    torch.testing.assert_close(moved(rows()), plain(rows()) * 3 + 7)


@torch.no_grad()
def with_random_weights(model):
    """Every parameter redrawn: gains of 1 and biases of 0 would hide a swapped name."""
    for name, value in model.named_parameters():
        value.normal_(1.0 if value.ndim == 1 and name.endswith("weight") else 0.0, 0.2)
    return model.double().eval()


@pytest.mark.parametrize("classes", [1, 3])
def test_a_gpt_equals_gpt2_for_sequence_classification(classes):
    hf = pytest.importorskip("transformers")
    sizes = hf.GPT2Config(
        vocab_size=20, n_positions=64, n_embd=16, n_layer=2, n_head=2, num_labels=classes, pad_token_id=0
    )
    theirs = with_random_weights(hf.GPT2ForSequenceClassification(sizes))
    encoder = replace(GPT, layers=2)
    ours = build_model(TextClassifierConfig(encoder=encoder, classes=classes)).double().eval()
    body = {name: value for name, value in theirs.named_parameters() if name != "score.weight"}
    ours.encoder.load_state_dict(import_weights(FAMILIES["gpt2"], encoder, body))
    ours.head.load_state_dict({"weight": theirs.score.weight})
    tokens, lengths = rows(), torch.tensor([40, 17])
    tokens[1, 17:] = 0
    mask = (torch.arange(40) < lengths[:, None]).long()
    expected = theirs(tokens, attention_mask=mask).logits
    torch.testing.assert_close(ours(tokens, lengths), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("classes", [1, 3])
def test_a_bert_equals_bert_for_sequence_classification_on_pairs(classes):
    hf = pytest.importorskip("transformers")
    sizes = hf.BertConfig(
        vocab_size=20, max_position_embeddings=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, num_labels=classes,
    )  # fmt: skip
    theirs = with_random_weights(hf.BertForSequenceClassification(sizes))
    ours = build_model(TextClassifierConfig(encoder=BERT, classes=classes)).double().eval()
    body = {name: value for name, value in theirs.named_parameters() if not name.startswith("classifier.")}
    ours.encoder.load_state_dict(import_weights(FAMILIES["bert"], BERT, body))
    ours.head.load_state_dict(theirs.classifier.state_dict())
    tokens, lengths = rows(), torch.tensor([40, 17])
    segments = (torch.arange(40) > 9).long().expand(2, 40)
    mask = (torch.arange(40) < lengths[:, None]).long()
    expected = theirs(tokens, attention_mask=mask, token_type_ids=segments).logits
    torch.testing.assert_close(ours(tokens, lengths, segments), expected, atol=1e-9, rtol=0)
    # In training both drop the pooler's output before the head, at the encoder's rate.
    assert ours.dropout.p == theirs.dropout.p == 0.1
