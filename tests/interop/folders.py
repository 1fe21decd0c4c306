"""Small model folders for the tests, as others write them."""

from __future__ import annotations

import json
import string
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


def write_gpt2(folder: Path, *, shards: int = 1, seed: int = 0) -> Path:
    """A folder with a tiny GPT-2, in one file or several."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text(json.dumps(characters()))
    tensors = gpt2_tensors(seed)
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    names, weight_map = sorted(tensors), {}
    for n in range(shards):
        shard = f"model-{n + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[n::shards]}
        save_file(part, folder / shard, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, shard)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
