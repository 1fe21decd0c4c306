"""Small model folders as other programs write them: a GPT-2, a BERT sentence encoder, and a vision transformer."""

from __future__ import annotations

import json
import string
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

CONFIG: dict[str, Any] = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 60, "n_positions": 16, "n_embd": 8,
    "n_layer": 2, "n_head": 2, "n_inner": None, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "initializer_range": 0.02, "tie_word_embeddings": True,
    "bos_token_id": 59, "eos_token_id": 59, "use_cache": True, "scale_attn_weights": True,
}  # fmt: skip

BERT_CONFIG: dict[str, Any] = {
    "model_type": "bert", "architectures": ["BertModel"], "vocab_size": 32, "max_position_embeddings": 16,
    "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "hidden_act": "gelu",
    "layer_norm_eps": 1e-12, "type_vocab_size": 2, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "pad_token_id": 0, "initializer_range": 0.02,
}  # fmt: skip


VIT_CONFIG: dict[str, Any] = {
    "model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 8, "patch_size": 4,
    "num_channels": 3, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
    "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": True, "hidden_dropout_prob": 0.0,
    "id2label": {"0": "cat", "1": "dog"},
}  # fmt: skip
PLAIN, UNKNOWN, CONTROL = 1, 2, 3  # kinds of pieces of a SentencePiece model


def gpt2_tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    """GPT-2's tensors for CONFIG."""
    drawn = torch.Generator().manual_seed(seed)

    def matrix(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=drawn) * 0.1

    found = {"transformer.wte.weight": matrix(60, 8), "transformer.wpe.weight": matrix(16, 8)}
    for i in range(2):
        at = f"transformer.h.{i}."
        for norm in ("ln_1", "ln_2"):
            found |= {f"{at}{norm}.weight": 1 + matrix(8), f"{at}{norm}.bias": matrix(8)}
        for name, rows, columns in (
            ("attn.c_attn", 8, 24), ("attn.c_proj", 8, 8), ("mlp.c_fc", 8, 32), ("mlp.c_proj", 32, 8),
        ):  # fmt: skip
            found |= {f"{at}{name}.weight": matrix(rows, columns), f"{at}{name}.bias": matrix(columns)}
    return found | {"transformer.ln_f.weight": 1 + matrix(8), "transformer.ln_f.bias": matrix(8)}


def bert_tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    """BERT's tensors for BERT_CONFIG."""
    drawn = torch.Generator().manual_seed(seed)

    def matrix(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=drawn) * 0.1

    found = {
        "embeddings.word_embeddings.weight": matrix(32, 8),
        "embeddings.position_embeddings.weight": matrix(16, 8),
        "embeddings.token_type_embeddings.weight": matrix(2, 8),
    }
    layer = "encoder.layer.0."
    for name, rows, columns in (
        ("attention.self.query", 8, 8), ("attention.self.key", 8, 8), ("attention.self.value", 8, 8),
        ("attention.output.dense", 8, 8), ("intermediate.dense", 16, 8), ("output.dense", 8, 16),
    ):  # fmt: skip
        found |= {f"{layer}{name}.weight": matrix(rows, columns), f"{layer}{name}.bias": matrix(rows)}
    for name in ("embeddings.LayerNorm", f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"):
        found |= {f"{name}.weight": 1 + matrix(8), f"{name}.bias": matrix(8)}
    return found


def vit_tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    """ViT's tensors for VIT_CONFIG."""
    drawn = torch.Generator().manual_seed(seed)

    def matrix(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=drawn) * 0.1

    found = {
        "vit.embeddings.cls_token": matrix(1, 1, 8),
        "vit.embeddings.position_embeddings": matrix(1, 5, 8),
        "vit.embeddings.patch_embeddings.projection.weight": matrix(8, 3, 4, 4),
        "vit.embeddings.patch_embeddings.projection.bias": matrix(8),
        "classifier.weight": matrix(2, 8),
        "classifier.bias": matrix(2),
    }
    layer = "vit.encoder.layer.0."
    for name, rows, columns in (
        ("attention.attention.query", 8, 8), ("attention.attention.key", 8, 8), ("attention.attention.value", 8, 8),
        ("attention.output.dense", 8, 8), ("intermediate.dense", 16, 8), ("output.dense", 8, 16),
    ):  # fmt: skip
        found |= {f"{layer}{name}.weight": matrix(rows, columns), f"{layer}{name}.bias": matrix(rows)}
    for name in (f"{layer}layernorm_before", f"{layer}layernorm_after", "vit.layernorm"):
        found |= {f"{name}.weight": 1 + matrix(8), f"{name}.bias": matrix(8)}
    return found


def characters() -> dict[str, Any]:
    """A tokenizer.json of letters and a special token: 60 tokens."""
    letters = [*string.ascii_letters, " ", ".", ",", "\n", "!", "?", "-"]
    vocab = {letter: index for index, letter in enumerate(letters)}
    special = {
        "id": 59, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
        "special": True,
    }  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [special], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": vocab, "merges": [],
        },
    }  # fmt: skip


def byte_pairs() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A vocabulary of byte pairs and the merges that make it: at most 60 tokens."""
    merges = [("a", "a"), ("d", "o"), ("do", "g"), ("\u0120", "a")]
    tokens = [*string.ascii_letters, "\u0120", *("".join(pair) for pair in merges)]
    return {token: index for index, token in enumerate(tokens)}, merges


def pieces() -> list[tuple[str, float, int]]:
    """The pieces of a SentencePiece model with scores and kinds: at most 60."""
    special = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    return [*special, ("\u2581", -1.0, PLAIN), *((letter, -2.0, PLAIN) for letter in string.ascii_letters)]


def sentencepiece_model(pieces: Iterable[tuple[str, float, int]], algorithm: int = 1) -> bytes:
    """A SentencePiece model as the protobuf message that its files hold."""
    found = b""
    for piece, score, kind in pieces:
        text = piece.encode("utf-8", "surrogatepass")
        found += b"\x0a" + _sized(b"\x0a" + _sized(text) + b"\x15" + struct.pack("<f", score) + b"\x18" + _varint(kind))
    return found + b"\x12" + _sized(b"\x18" + _varint(algorithm))


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    found = b""
    while number >= 128:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def write_tokenizer(folder: Path, kind: str) -> Path:
    """Another tokenizer in a GPT-2 folder: "byte-pairs", or "pieces" of SentencePiece."""
    (folder / "tokenizer.json").unlink()
    if kind == "pieces":
        (folder / "spiece.model").write_bytes(sentencepiece_model(pieces()))
        return folder
    vocab, merges = byte_pairs()
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{one} {two}\n" for one, two in merges))
    return folder


def write_vit(folder: Path, seed: int = 0) -> Path:
    """A folder with a tiny vision transformer that tells cats from dogs."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(VIT_CONFIG))
    scaling = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "size": {"height": 8, "width": 8}}
    (folder / "preprocessor_config.json").write_text(json.dumps(scaling))
    save_file(vit_tensors(seed), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_gpt2(folder: Path, *, shards: int = 1, seed: int = 0) -> Path:
    """A folder with a tiny GPT-2, in one file or several."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text(json.dumps(characters()))
    tensors = gpt2_tensors(seed)
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    names = sorted(tensors)
    weight_map: dict[str, str] = {}
    for n in range(shards):
        shard = f"model-{n + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[n::shards]}
        save_file(part, folder / shard, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, shard)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def write_sentence_encoder(folder: Path, seed: int = 0) -> Path:
    """A folder with a tiny BERT as sentence-transformers writes it: modules, pooling, and vocab.txt."""
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(BERT_CONFIG))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, "##s"]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "cls_token": "[CLS]"}))
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling")
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False}))
    pooling = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    save_file(bert_tensors(seed), folder / "model.safetensors", metadata={"format": "pt"})
    return folder
