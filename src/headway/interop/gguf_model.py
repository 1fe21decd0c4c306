"""A GGUF file seen as a model folder: its metadata as config.json, its tensors under Hugging Face's names."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from headway.errors import BadModelError, shown
from headway.interop.families import FAMILIES
from headway.interop.gguf_architectures import ARCHITECTURES, Architecture
from headway.interop.gguf_blocks import PLAIN
from headway.interop.gguf_file import GgufFile, is_gguf, read_gguf
from headway.interop.model_folder import INDEX, WEIGHTS, ModelFolder
from headway.interop.safetensors_header import Entry
from headway.interop.unsupported import why_unsupported

SUFFIX = ".gguf"
LAYER = re.compile(r"(blk)\.(\d+)\.")
# Settings that change the computation; one that an architecture does not map must be absent, 0 or false.
UNSUPPORTED = (
    "attention.clamp_kqv", "attention.max_alibi_bias", "attention.scale", "attention.sliding_window",
    "attn_logit_softcapping", "embedding_scale", "expert_count", "final_logit_softcapping", "logit_scale",
    "residual_scale", "use_parallel_residual",
)  # fmt: skip


def open_model(path: Path) -> ModelFolder:
    """A model folder, or a GGUF file: given by its name, or the only one of a folder without safetensors.

    Raises BadModelError.
    """
    if path.is_dir():
        found = sorted(each.name for each in path.iterdir() if each.name.endswith(SUFFIX))
        if not found or (path / WEIGHTS).exists() or (path / INDEX).exists():
            return ModelFolder(path)
        if len(found) > 1:
            names = ", ".join(found[:4]) + (f" and {len(found) - 4:,} more" if len(found) > 4 else "")
            raise BadModelError(f"{path}: {len(found):,} GGUF files ({names}); name one of them: {path / found[0]}")
        return GgufModel(_inside(path, found[0]))
    named = path.name.endswith(SUFFIX) and path.exists()
    return GgufModel(path) if named or is_gguf(path) else ModelFolder(path)


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BadModelError(f"{path}: a link out of the folder; `cp -rL` makes a folder of real files")
    return path


class GgufModel(ModelFolder):
    """The model of a GGUF file, dequantised as it is read. Raises BadModelError naming the file and the key or tensor.

    The only file of this folder is the GGUF file: there is no config.json, `config` is made of the metadata.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.root, self.files = path, path.parent.resolve(), ()
        self.gguf: GgufFile = read_gguf(path)
        parts = self.gguf.metadata.get("split.count", 0)
        if parts not in (0, 1):
            raise BadModelError(f"{path}: one of {shown(parts)} parts; `llama-gguf-split --merge` joins them")
        self.architecture = self._architecture()
        self.config = self._config()
        self._originals: dict[str, str] = {}  # the name in `tensors` -> the one in the file
        self.tensors = self._entries()

    def named(self, name: str) -> str:
        return str(self.path)

    def has(self, name: str) -> bool:
        return False

    def read(self, name: str) -> Tensor:
        """One tensor under its Hugging Face name, dequantised, in the order of rows of Hugging Face's file."""
        original = self._originals[name]
        tensor, template = self.gguf.read(original), _template(original)[0]
        if template in self.architecture.transposed and tensor.ndim == 2:
            tensor = tensor.mT
        if template in self.architecture.interleaved:
            heads = self.config[self.architecture.interleaved[template]]
            # (heads, pairs, 2) -> (heads, 2, pairs): neighbouring pairs become halves.
            tensor = tensor.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
        return tensor - 1 if template in self.architecture.increased else tensor

    def _architecture(self) -> Architecture:
        name = self.gguf.metadata.get("general.architecture")
        known = {key: each for key, each in ARCHITECTURES.items() if each.family in FAMILIES}
        if not isinstance(name, str):
            raise BadModelError(f"{self.path}: general.architecture {shown(name)}, there are {', '.join(known)}")
        if name not in known:
            raise BadModelError(f"{self.path}: general.architecture {shown(name)} {why_unsupported(name, known)}")
        return known[name]

    def _config(self) -> dict[str, Any]:
        """What a config.json of this model would say."""
        of, metadata, tensors = self.architecture, self.gguf.metadata, self.gguf.tensors
        name = metadata["general.architecture"]
        own = {key.removeprefix(f"{name}."): value for key, value in metadata.items() if key.startswith(f"{name}.")}
        mapped = {**of.sizes, **of.optional}
        for key in of.sizes.values():
            if key not in own:
                raise BadModelError(f"{self.path}: no metadata key {name}.{key}")
        for key in UNSUPPORTED:
            if own.get(key) and key not in mapped.values():
                raise BadModelError(f"{self.path}: {name}.{key}={shown(own[key])} has no equivalent here")
        if "token_embd.weight" not in tensors:
            raise BadModelError(f"{self.path}: no tensor token_embd.weight")
        config = _defaults(own, of) | {field: _plain(own[key]) for field, key in mapped.items() if key in own}
        self._check_rotation(name, own, config)
        tokens = {key: metadata.get(f"tokenizer.ggml.{key}") for key in ("bos_token_id", "padding_token_id")}
        stops = [metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom")]
        stops = list(dict.fromkeys(each for each in stops if each is not None))
        return {
            **config,
            "model_type": of.family,
            "architectures": [of.hf_class],
            "vocab_size": tensors["token_embd.weight"].shape[0],
            "tie_word_embeddings": "output.weight" not in tensors,
            "bos_token_id": tokens["bos_token_id"],
            "eos_token_id": stops,
            "pad_token_id": tokens["padding_token_id"],
            "attention_bias": "blk.0.attn_q.bias" in tensors,
            "mlp_bias": "blk.0.ffn_up.bias" in tensors,
        }

    def _check_rotation(self, name: str, own: Mapping[str, Any], config: dict[str, Any]) -> None:
        """Raise BadModelError unless all numbers of a head are rotated, by unscaled angles."""
        kind, linear = own.get("rope.scaling.type", "none"), own.get("rope.scale_linear", 1.0)
        if kind != "none" or linear != 1.0 or "rope_freqs.weight" in self.gguf.tensors:
            what = f"{name}.rope.scaling.type={shown(kind)}" if kind != "none" else "rope_freqs.weight"
            raise BadModelError(f"{self.path}: {what}: scaled rotary positions have no equivalent here")
        rotated, whole = own.get("rope.dimension_count"), config.get("head_dim")
        if rotated is not None and rotated != whole:
            given = f"{name}.rope.dimension_count={shown(rotated)} of {shown(whole)}"
            raise BadModelError(f"{self.path}: {given} numbers of a head are rotated, here only all of them")

    def _entries(self) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for name, entry in self.gguf.tensors.items():
            template, layer, last = _template(name)
            usual = self.architecture.names.get(template)
            renamed = name if usual is None else f"{usual.replace('{i}', layer)}.{last}"
            if renamed in found:
                raise BadModelError(f"{self.path}: tensor {shown(name)} is there twice")
            transposed = template in self.architecture.transposed and len(entry.shape) == 2
            dtype = entry.type if entry.type in PLAIN and template not in self.architecture.increased else "F32"
            shape = entry.shape[::-1] if transposed else entry.shape
            found[renamed] = Entry(self.path.name, dtype, shape, entry.begin, entry.end)
            self._originals[renamed] = name
        return found


def _template(name: str) -> tuple[str, str, str]:
    """A tensor's name without its last part and with {i} for the layer; the layer; the last part."""
    stem, _, last = name.rpartition(".")
    found = LAYER.match(stem)
    return (stem, "", last) if found is None else (LAYER.sub(r"\1.{i}.", stem, count=1), found[2], last)


def _defaults(own: Mapping[str, Any], of: Architecture) -> dict[str, Any]:
    """What llama.cpp assumes where a file is silent, of the settings that an architecture has."""
    width, heads = own["embedding_length"], own["attention.head_count"]
    known = type(width) is int and type(heads) is int and heads > 0  # otherwise the family rejects what is there
    found = {"head_dim": width // heads if known else None, "num_key_value_heads": heads, "rope_theta": 10_000.0}
    return {field: value for field, value in found.items() if field in of.optional}


def _plain(value: Any) -> Any:
    """A value as JSON would have it: of an array of equal numbers that number, of a float32 its shortest decimal."""
    if isinstance(value, array):
        return value[0] if len(set(value)) == 1 else value.tolist()
    return float(str(np.float32(value))) if isinstance(value, float) else value
