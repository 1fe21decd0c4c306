"""Classifiers of texts and of tokens, and readers of answers: transformers' models and ours give the same numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.errors import BadModelError, ConfigError
from headway.interop.compare import HfModel, Probe
from headway.interop.families import export_config, family_of
from headway.interop.families.heads import HEADED
from headway.interop.family import GenerationTokens, export_weights
from headway.models import BertConfig, ModelInputs
from headway.models.text_classifier import TextClassifierConfig
from headway.models.token_classifier import TokenClassifierConfig
from headway.nn.positions import Sinusoidal
from tests.interop.peers import BERT, CONTEXT, GPT2, LENGTHS, NONE, VOCAB, hf, inputs, pair, unsettle

LABELS = 5
HEADS = {"QuestionAnswering": "span", "MultipleChoice": "choice"}  # what is no class


def _model(kind: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(hf, kind)(getattr(hf, config)(**settings))


OFFSET = {**BERT, "max_position_embeddings": CONTEXT + 2, "pad_token_id": 1}
LONG = {**OFFSET, "attention_window": [4, 8, 8]}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "BertForSequenceClassification": _model(
        "BertForSequenceClassification", "BertConfig", num_labels=LABELS, hidden_act="gelu_new", **BERT
    ),
    "BertForTokenClassification": _model("BertForTokenClassification", "BertConfig", num_labels=LABELS, **BERT),
    "BertForQuestionAnswering": _model("BertForQuestionAnswering", "BertConfig", **BERT),
    "BertForMultipleChoice": _model("BertForMultipleChoice", "BertConfig", **BERT),
    "RobertaForMultipleChoice": _model("RobertaForMultipleChoice", "RobertaConfig", type_vocab_size=1, **OFFSET),
    "RobertaForSequenceClassification": _model(
        "RobertaForSequenceClassification", "RobertaConfig", num_labels=LABELS, type_vocab_size=1, **OFFSET
    ),
    "RobertaForTokenClassification": _model(
        "RobertaForTokenClassification", "RobertaConfig", num_labels=LABELS, type_vocab_size=1, **OFFSET
    ),
    "RobertaForQuestionAnswering": _model("RobertaForQuestionAnswering", "RobertaConfig", type_vocab_size=1, **OFFSET),
    "RoFormerForTokenClassification": _model(
        "RoFormerForTokenClassification", "RoFormerConfig", num_labels=LABELS, **BERT
    ),
    "RoFormerForQuestionAnswering": _model("RoFormerForQuestionAnswering", "RoFormerConfig", **BERT),
    "LongformerForSequenceClassification": _model(
        "LongformerForSequenceClassification", "LongformerConfig", num_labels=LABELS, **LONG
    ),
    "LongformerForTokenClassification": _model(
        "LongformerForTokenClassification", "LongformerConfig", num_labels=LABELS, **LONG
    ),
    "GPT2ForSequenceClassification": _model(
        "GPT2ForSequenceClassification", "GPT2Config", num_labels=LABELS, **{**GPT2, **NONE, "pad_token_id": VOCAB - 1}
    ),
}


def _given(reads: frozenset[str], kinds: int) -> ModelInputs:
    text, _, segments = inputs(VOCAB, kinds)
    return ModelInputs(tokens=text, lengths=LENGTHS, segments=segments if "segments" in reads else None)


def _outputs(found: Any, given: ModelInputs) -> Tensor:
    (output,) = found.present.values()
    return output[Probe(given, GenerationTokens()).real] if output.ndim == 3 else output


def test_every_architecture_is_compared():
    assert MODELS.keys() == HEADED.keys()


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_of_transformers_both_ways(name, tmp_path):
    theirs = MODELS[name]()
    unsettle(theirs, 0.2)
    found = pair(theirs, tmp_path)
    given = _given(found.ours.reads, getattr(theirs.config, "type_vocab_size", 1))
    expected = _outputs(HfModel(theirs).run(given), given)
    with torch.no_grad():
        ours = _outputs(found.ours.run(given), given)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.05
    head = next((kind for ending, kind in HEADS.items() if name.endswith(ending)), None)
    family, config = export_config(found.imported.model, found.imported.tokens, head=head)
    assert config["architectures"] == [name]
    again = export_weights(family, found.imported.model, found.ours.state_dict())
    kept = theirs.state_dict()
    assert again.keys() <= kept.keys()
    for tensor, value in again.items():
        first = 2 if tensor.endswith("position_embeddings.weight") and found.family.name != "bert" else 0  # unused rows
        torch.testing.assert_close(value[first:], kept[tensor][first:], msg=tensor)
    loaded = getattr(hf, name)(type(theirs.config)(**{**config, "num_labels": theirs.config.num_labels})).eval()
    missing, extra = loaded.load_state_dict(again, strict=False)
    assert not extra
    assert all("embed_positions" in each for each in missing)  # sinusoids
    torch.testing.assert_close(_outputs(HfModel(loaded).run(given), given), expected, atol=1e-5, rtol=1e-5)


def test_a_head_without_its_matrix_is_one_line(tmp_path):
    theirs = MODELS["BertForTokenClassification"]().eval()
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    family = family_of(config)
    with pytest.raises(BadModelError, match=r"BertForTokenClassification without a matrix classifier\.weight"):
        family.read(config, {"bert.embeddings.word_embeddings.weight": (VOCAB, 32)})


def test_a_reader_has_two_outputs(tmp_path):
    config = {**BERT, "model_type": "bert", "architectures": ["BertForQuestionAnswering"]}
    with pytest.raises(BadModelError, match="qa_outputs has 3 outputs, expected 2: start and end"):
        family_of(config).read(config, {"qa_outputs.weight": (3, 32)})


def test_an_encoder_without_an_equivalent_is_refused():
    encoder = BertConfig(vocab=9, width=8, heads=2, layers=1, inner=8, position=Sinusoidal(), pooler=True)
    with pytest.raises(ConfigError, match="BERT has no equivalent of position"):
        export_config(TextClassifierConfig(encoder=encoder, classes=2), GenerationTokens())


def test_the_architecture_of_a_classifier_of_tokens_depends_on_what_its_outputs_are():
    encoder = BertConfig(vocab=9, width=8, heads=2, layers=1, inner=8, pooler=False)
    model = TokenClassifierConfig(encoder=encoder, classes=2)
    for head, name in (("span", "BertForQuestionAnswering"), (None, "BertForTokenClassification")):
        assert export_config(model, GenerationTokens(), head=head)[1]["architectures"] == [name]
    one = TextClassifierConfig(encoder=replace(encoder, pooler=True), classes=1)
    for head, name in (("choice", "BertForMultipleChoice"), (None, "BertForSequenceClassification")):
        assert export_config(one, GenerationTokens(), head=head)[1]["architectures"] == [name]


@pytest.mark.parametrize("name", ["BertForMultipleChoice", "RobertaForMultipleChoice"])
def test_choices_in_transformers_form_give_the_scores_of_rows_of_their_own(name, tmp_path):
    theirs = MODELS[name]()
    unsettle(theirs, 0.2)
    ours = pair(theirs, tmp_path).ours
    tokens = torch.randint(2, VOCAB, (3, 4, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs.eval()(input_ids=tokens).logits
        found = ours(tokens.flatten(0, 1)).view(3, 4)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_choice_has_one_score():
    config = {**BERT, "model_type": "bert", "architectures": ["BertForMultipleChoice"]}
    with pytest.raises(BadModelError, match="classifier has 3 outputs, expected 1: the score of a choice"):
        family_of(config).read(config, {"classifier.weight": (3, 32), "bert.pooler.dense.weight": (32, 32)})
