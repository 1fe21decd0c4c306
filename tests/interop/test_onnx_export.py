"""A graph that onnxruntime runs says what the model says, at any batch and length, or it is not handed out."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.cli import main
from headway.errors import ConfigError, VerificationError
from headway.interop import exporter as exporting
from headway.interop.exporter import export
from headway.interop.onnx_export import OnnxProof, expect_onnx
from headway.models import BertPretrainingConfig, ModelConfig, VitConfig
from headway.nn.longformer_attention import Windows
from headway.nn.positions import Rotary
from headway.tasks.export_request import ExportRequest, ImageScaling
from headway.tasks.sentence_embedding.embed import Embedding
from tests.interop import runs
from tests.interop import test_exporter as exported
from tests.interop.test_exporter import GPT, MASKED, MASKING, request, unsettled

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

BERT, PICTURES = replace(exported.BERT, layers=1), replace(exported.PICTURES, layers=1)  # tracing costs by the layer
WINDOWED = replace(exported.WINDOWED, layers=1, windows=Windows(radius=3))
SENTENCES = Embedding(normalise=True, max_length=16)
MODELS: dict[str, tuple[ModelConfig, object | None, tuple[str, ...]]] = {
    "bert-pretraining": (BertPretrainingConfig(bert=BERT), MASKED, ("prediction_logits", "seq_relationship_logits")),
    "sentences": (BERT, SENTENCES, ("last_hidden_state", "pooler_output", "sentence_embedding")),
    "roformer": (
        BertPretrainingConfig(bert=replace(BERT, position=Rotary(), pooler=False), follows=False),
        MASKED,
        ("logits",),
    ),
    "longformer": (replace(WINDOWED, pooler=False), None, ("last_hidden_state",)),
    "vit": (PICTURES, None, ("logits",)),
}


def given(name: str) -> ExportRequest:
    config, task, _ = MODELS[name]
    if task is not None:
        return request(unsettled(config), config, task, {"tokenizer.json": MASKING})
    pixels = ImageScaling(mean=(0.5,) * 3, std=(0.5,) * 3) if isinstance(config, VitConfig) else None
    return ExportRequest(model=unsettled(config), config=config, images=pixels)


def session(path: Path) -> object:
    return runtime.InferenceSession(path / "model.onnx", providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_says_what_the_model_says(name, tmp_path):
    what, outputs = given(name), MODELS[name][2]
    proof = export(what, tmp_path / "out", onnx=True)
    assert proof.onnx is not None
    assert proof.onnx.holds
    assert proof.onnx.outputs == outputs
    assert json.loads((tmp_path / "out/PROOF.json").read_text())["onnx"]["runtime"].startswith("onnxruntime ")
    graph = session(tmp_path / "out")
    if name == "vit":
        images = torch.randn(5, 3, *PICTURES.size)
        found = graph.run(None, {"pixel_values": images.numpy()})
        with torch.no_grad():
            np.testing.assert_allclose(found[0], what.model(images).numpy(), atol=1e-4)
        return
    for rows, length in ((4, 17), (1, 1), (2, 3)):  # none of which the graph was traced with
        ids = torch.randint(2, 70, (rows, length))
        lengths = torch.tensor([length, max(length // 2, 1), length, 1][:rows])
        mask = (torch.arange(length) < lengths.unsqueeze(1)).long()
        segments = torch.zeros_like(ids)
        named = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
        found = graph.run(None, {key: x.numpy() for key, x in named.items()})
        with torch.no_grad():
            ours = what.model(ids, lengths)
        first = ours.tokens if hasattr(ours, "tokens") else ours
        real = mask.bool().numpy()
        np.testing.assert_allclose(found[0][real], first.numpy()[real], atol=1e-4)


def test_a_graphs_sentence_vectors_are_those_of_embed(tmp_path):
    run = runs.write_run(tmp_path / "run", BertPretrainingConfig(bert=BERT))
    found = headway.load(run, device="cpu")
    assert isinstance(found.config.model, BertPretrainingConfig)
    what = request(found.model.bert, found.config.model.bert, SENTENCES, found.tokenizers)
    export(what, tmp_path / "out", onnx=True)
    text = "two dogs run to one lake"
    read = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(tmp_path / "out")
    vectors = session(tmp_path / "out").run(["sentence_embedding"], dict(read([text], return_tensors="np")))[0]
    expected = torch.nn.functional.normalize(torch.from_numpy(found.embed([text])), dim=-1)
    np.testing.assert_allclose(vectors, expected.numpy(), atol=1e-5)


def test_what_is_no_encoder_is_refused_by_name(tmp_path, capsys):
    run = runs.write_run(tmp_path / "run", GPT)
    assert main(["export", str(run), "--out", str(tmp_path / "out"), "--onnx"]) == 2
    said = capsys.readouterr().err
    assert "kind Gpt" in said
    assert "Bert" in said
    assert not (tmp_path / "out").exists()


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> object:
        if name == "onnxscript":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ConfigError, match=r"^--onnx needs .*onnxscript.*: .*pip install .*onnx"):
        expect_onnx(BERT, 0)


def test_a_graph_too_large_for_one_file_is_refused():
    with pytest.raises(ConfigError, match="bytes of weights"):
        expect_onnx(BERT, 2**31)


def test_a_graph_that_differs_leaves_nothing(tmp_path, monkeypatch):
    wrong = OnnxProof(runtime="onnxruntime", inputs=(), outputs=(), compared="", largest_difference=0.5, bound=1e-4)
    monkeypatch.setattr(exporting, "write_graph", lambda path, *given: path.write_bytes(b""))
    monkeypatch.setattr(exporting, "prove_graph", lambda *given: wrong)
    with pytest.raises(VerificationError, match=r"graph run by onnxruntime differs by 0\.5"):
        export(given("vit"), tmp_path / "out", onnx=True)
    assert not (tmp_path / "out").exists()
