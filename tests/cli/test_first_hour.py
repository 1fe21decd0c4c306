"""What a new user tripped over, by the command line alone: each test can also be run with the code of that time.

The tests use nothing but `headway.cli.main` and `headway.load`, so that they fail on an older version for what it does
and not for a name that has moved. Nearer tests of the same behaviour are in the folders of their parts.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

import headway
from headway.cli import main

hf = pytest.importorskip("transformers")

QUICK = ["--train.steps=2", "--train.evaluate_every=2", "--train.save_every=2", "--train.device=cpu"]
QUICK += ["--train.batch_tokens=128", "--train.accumulate=1", "--train.precision=fp32"]
SMALL = ("width=16", "layers=1", "heads=2", "inner=32")
GPT = ["--task.context=8", *(f"--model.{each}" for each in SMALL)]
CLASSIFIER = ["--task.length=16", *(f"--model.encoder.{each}" for each in (*SMALL, "context=16", "windows.radius=3"))]
BOOK = "the cat sleeps\nthe dog runs\n\n" * 60
REVIEWS = [("good", "the cat sleeps"), ("bad", "the dog runs")] * 20


def command(*words: object) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*map(str, words)])
        except SystemExit as end:  # as argparse ends
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def train(preset: str, data: Path, out: Path, *more: str) -> tuple[int, str, str]:
    """A training of two steps; more options may follow."""
    return command("train", preset, "--data", data, "--out", out, *QUICK, f"--data.cache={out.parent}/cache", *more)


def table(path: Path, between: str) -> Path:
    path.write_text("".join(f"{label}{between}{text}\n" for label, text in [("label", "text"), *REVIEWS]))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    (folder / "book.txt").write_text(BOOK)
    return folder


@pytest.fixture(scope="module")
def writer(home) -> Path:
    """A language model with a vocabulary of words."""
    code, _, err = train("gpt-char", home / "book.txt", home / "writer", *GPT, "--data.tokenizer=word")
    assert code == 0, err
    return home / "writer"


# --- bugs ----------------------------------------------------------------------------------------------------------


def llama(folder: Path) -> Path:
    """A Llama whose columns 5 to 7 are far larger than the others before each product; their weights are as much less.

    In float32 it computes what it would without.
    """
    torch.manual_seed(3)
    config = hf.LlamaConfig(
        vocab_size=60, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
        intermediate_size=96, max_position_embeddings=64, initializer_range=0.12, tie_word_embeddings=True,
        bos_token_id=0, eos_token_id=1, pad_token_id=2,
    )  # fmt: skip
    model = hf.LlamaForCausalLM(config)
    with torch.no_grad():
        for layer in model.model.layers:
            feeds = layer.self_attn, layer.mlp
            names = ("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")
            norms = layer.input_layernorm, layer.post_attention_layernorm
            for norm, part, inside in zip(norms, feeds, names, strict=True):
                norm.weight[5:8] *= 200
                for name in inside:
                    getattr(part, name).weight[:, 5:8] /= 200
    model.save_pretrained(folder)
    words(folder, 60)
    return folder


def words(folder: Path, size: int, model: str = "WordLevel") -> None:
    """A tokenizer.json of two-letter words; the first is the unknown token."""
    vocab = {"[UNK]": 0, **{f"{chr(65 + n // 26)}{chr(65 + n % 26)}": n + 1 for n in range(size - 1)}}
    special = {"id": 0, "content": "[UNK]", "single_word": False, "lstrip": False, "rstrip": False}
    kind: dict[str, object] = {"type": model, "unk_token": "[UNK]", "vocab": vocab}
    if model == "WordPiece":
        kind |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{**special, "normalized": False, "special": True}],
        "pre_tokenizer": {"type": "Whitespace"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": kind,
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def gpt2(folder: Path) -> Path:
    """A random GPT-2 with a WordPiece tokenizer."""
    torch.manual_seed(0)
    config = hf.GPT2Config(
        vocab_size=33, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=2
    )
    hf.GPT2LMHeadModel(config).save_pretrained(folder)
    words(folder, 33, "WordPiece")
    return folder


def test_bug_1_int8_keeps_a_llama_with_outliers(tmp_path):
    assert command("import", llama(tmp_path / "llama"), "--out", tmp_path / "run")[0] == 0
    exact, quick = (headway.load(tmp_path / "run", device="cpu", precision=name).model for name in ("fp32", "int8"))
    tokens = torch.randint(5, 60, (4, 24), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        p, q = (model(tokens).log_softmax(-1) for model in (exact, quick))
    assert float((p.exp() * (p - q)).sum(-1).mean()) < 0.01  # nats: perplexity rises by 1 %


def test_bug_2_a_trained_text_classifier_classifies(tmp_path):
    data = table(tmp_path / "reviews.tsv", "\t")
    code, _, err = train("longformer-needle", data, tmp_path / "run", *CLASSIFIER, "--data.tokenizer=word")
    assert code == 0, err
    code, out, err = command("classify", tmp_path / "run", "the cat runs", "--device", "cpu")
    assert code == 0, err
    assert re.search("good|bad", out)


def test_bug_3_lengths_below_the_context_are_evaluated(writer, tmp_path):
    text = tmp_path / "short.txt"
    text.write_text("the cat")  # fewer tokens than the context of 8
    code, out, err = command("evaluate", writer, "--data", text, "--lengths", "1", "--json", "--device", "cpu")
    assert code == 0, err
    assert json.loads(out)["lengths"] == [1]


def test_bug_4_the_file_that_has_a_bad_value_is_named(tmp_path):
    folder = gpt2(tmp_path / "gpt2")
    (folder / "generation_config.json").write_text('{"eos_token_id": "x"}')
    code, _, err = command("import", folder, "--out", tmp_path / "run")
    assert code == 7
    assert "generation_config.json: eos_token_id=" in err


@pytest.mark.parametrize("verb", ["generate", "embed"])
def test_bug_5_unknown_tokens_are_told(writer, home, verb):
    run, words = writer, ["--prompt", "the zebra", "--max-tokens", "2"]
    if verb == "embed":
        run, words = home / "masked", ["the zebra"]
        sizes = ["--task.length=8", *(f"--model.bert.{each}" for each in SMALL), "--data.tokenizer=word"]
        assert train("bert-base", home / "book.txt", run, *sizes)[0] == 0
    code, _, err = command(verb, run, *words, "--device", "cpu")
    assert code == 0
    assert "not in the vocabulary" in err


def test_bug_6_the_advice_after_a_pickle_keeps_heads_and_tokenizer(tmp_path):
    """Followed to the end by tests/interop/test_next_steps.py."""
    folder = gpt2(tmp_path / "gpt2")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    code, _, err = command("import", folder, "--out", tmp_path / "run")
    assert code == 7
    assert "GPT2LMHeadModel.from_pretrained" in err  # AutoModel would drop the head
    assert "tokenizer" in err


def test_bug_7_a_space_stands_between_prompt_and_continuation(tmp_path):
    assert command("import", gpt2(tmp_path / "gpt2"), "--out", tmp_path / "run")[0] == 0
    more = ["--temperature", "5", "--seed", "1", "--max-tokens", "6", "--device", "cpu"]
    code, out, _ = command("generate", tmp_path / "run", "--prompt", "nothing known", *more)
    assert code == 0
    assert out.startswith("nothing known ")


def test_bug_8_generate_takes_a_text_and_stdin(writer, monkeypatch):
    more = ["--max-tokens", "2", "--temperature", "0", "--device", "cpu"]
    code, out, err = command("generate", writer, "the cat", *more)
    assert code == 0, err
    assert out.startswith("the cat")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the dog\n"), "utf-8"))
    assert command("generate", writer, *more)[1].startswith("the dog")


def test_bug_9_a_failed_start_leaves_no_folder(home, tmp_path):
    code, _, _ = train("gpt-char", home / "book.txt", tmp_path / "run", *GPT, "--task.context=500")
    assert code == 3
    assert not (tmp_path / "run").exists()


def test_bug_10_a_csv_is_read_by_its_columns(tmp_path):
    data = table(tmp_path / "reviews.csv", ",")
    code, _, err = train("longformer-needle", data, tmp_path / "run", *CLASSIFIER, "--data.tokenizer=word")
    assert code == 0, err
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert sorted(config["data"]["classes"]) == ["bad", "good"]


# --- frictions -----------------------------------------------------------------------------------------------------


def test_friction_1_the_cost_is_told_before_the_first_step(home, tmp_path):
    _, _, err = train("gpt-char", home / "book.txt", tmp_path / "run", *GPT)
    before, _, _ = err.partition("validation loss")
    assert re.search(r"[\d,]+ parameters", before)
    assert "2 steps of up to 128 tokens" in before
    assert str(tmp_path / "run") in before


def test_friction_2_a_log_tells_step_speed_and_time_left(home, tmp_path, monkeypatch):
    real = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: 1000 * real())  # a step takes minutes
    _, _, err = train(
        "gpt-char", home / "book.txt", tmp_path / "run", *GPT, "--train.steps=6", "--train.evaluate_every=6"
    )
    before, _, _ = err.partition("validation loss")
    assert re.search(r"step \d/6: loss .* tokens/s, .* left", before)


def test_friction_3_fewer_steps_shorten_the_warm_up():
    code, out, _ = command("train", "sl-vit-tiny", "--data", "shapes", "--train.steps", "150", "--print_config")
    assert code == 0
    assert yaml.safe_load(out)["train"]["schedule"]["warmup"] < 75


def test_friction_4_languages_come_from_the_names_of_the_files(tmp_path):
    (tmp_path / "corpus").mkdir()
    for split in ("train", "val", "test"):
        for language, text in (("en", "the cat sleeps\n"), ("cs", "ta kočka spí\n")):
            (tmp_path / "corpus" / f"{split}.{language}").write_text(text * 40)
    small = [f"--model.{each}" for each in ("width=16", "heads=2", "inner=32", "encoder_layers=1", "decoder_layers=1")]
    code, _, err = train("transformer-tiny", tmp_path / "corpus", tmp_path / "run", *small, "--data.tokenizer=word")
    assert code == 0, err
    data = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["data"]
    assert {data["source"], data["target"]} == {"en", "cs"}


def test_friction_5_the_readme_shows_how_to_install_with_pip():
    readme = Path(headway.__file__).parents[2] / "README.md"
    assert re.search(r"pip install \S", readme.read_text())


def test_friction_6_a_mistyped_command_gets_a_hint():
    code, _, err = command("trian")
    assert code == 2
    assert "did you mean train?" in err


def test_friction_7_presets_are_a_line_each_in_a_pipe():
    code, out, _ = command("presets")
    assert code == 0
    assert len(out.splitlines()) < 100


def test_friction_8_a_run_shows_what_it_is(writer):
    assert "object at 0x" not in repr(headway.load(writer, device="cpu"))


def test_friction_9_disk_use_is_shown_and_freed(writer):
    code, out, _ = command("runs", writer.parent, "--json")
    assert code == 0
    assert json.loads(out)["bytes"] > 0
    assert command("runs", "clean", writer)[0] == 0
    assert command("cache")[0] == 0


@pytest.mark.parametrize("name", ["gguf", "hub"])
def test_friction_10_gguf_and_hub_names_get_advice(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "model.gguf").write_bytes(b"GGUF")
    given = tmp_path / "folder" if name == "gguf" else "HuggingFaceTB/SmolLM2-135M"
    code, _, err = command("import", given, "--out", tmp_path / "run")
    assert code != 0
    assert ("model.gguf" if name == "gguf" else "download") in err
