"""Names of a vision transformer's tensors elsewhere and ours: Hugging Face's, in files and in its code, and timm's."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from headway.errors import DataError
from headway.interop.names import Names, translate
from headway.nn.patches import from_convolution

_OURS = "stack.blocks.{i}."


def _layers(layer: str, *, norms: tuple[str, str], qkv: tuple[str, ...], out: str, up: str, down: str) -> Names:
    """The lines of one layer, whose names begin with `layer`."""
    return {
        _OURS + "attention_norm": (layer + norms[0],),
        _OURS + "attention.qkv": tuple(layer + name for name in qkv),
        _OURS + "attention.out": (layer + out,),
        _OURS + "feedforward_norm": (layer + norms[1],),
        _OURS + "feedforward.up": (layer + up,),
        _OURS + "feedforward.down": (layer + down,),
    }


_HF_ENDS: Names = {
    "patches.projection": ("vit.embeddings.patch_embeddings.projection",),
    "stack.output_norm": ("vit.layernorm",),
    "head": ("classifier",),
}
_HF_NORMS = ("layernorm_before", "layernorm_after")

HF_FILES: Names = _HF_ENDS | _layers(  # what the hub holds and `save_pretrained` writes
    "vit.encoder.layer.{i}.",
    norms=_HF_NORMS,
    qkv=tuple(f"attention.attention.{x}" for x in ("query", "key", "value")),
    out="attention.output.dense",
    up="intermediate.dense",
    down="output.dense",
)

HF_CODE: Names = _HF_ENDS | _layers(  # what the modules of transformers 5 are called
    "vit.layers.{i}.",
    norms=_HF_NORMS,
    qkv=tuple(f"attention.{x}_proj" for x in "qkv"),
    out="attention.o_proj",
    up="mlp.fc1",
    down="mlp.fc2",
)

TIMM: Names = {
    "patches.projection": ("patch_embed.proj",),
    "stack.output_norm": ("norm",),
    "head": ("head",),
} | _layers("blocks.{i}.", norms=("norm1", "norm2"), qkv=("attn.qkv",), out="attn.proj", up="mlp.fc1", down="mlp.fc2")

# The tensors that are neither weight nor bias of a layer, each with a batch dimension of 1 that ours lack.
_BARE = {
    "vit.embeddings.cls_token": "class_token",
    "vit.embeddings.position_embeddings": "positions",
    "cls_token": "class_token",
    "pos_embed": "positions",
}
_MARKS = {"vit.encoder.layer.": HF_FILES, "vit.layers.": HF_CODE, "blocks.": TIMM}  # how a layer's name begins


def vit_names(theirs: Mapping[str, Tensor]) -> Names:
    """The table for these names. Raises DataError where they are none of the three."""
    for mark, names in _MARKS.items():
        if any(name.startswith(mark) for name in theirs):
            return names
    raise DataError(f"not a vision transformer: no tensor's name begins with {' or '.join(_MARKS)}")


def translate_vit(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of a vision transformer (weights, or gradients of them) under our names and in our shapes."""
    names = vit_names(theirs)
    found: dict[str, Tensor] = {}
    left: dict[str, Tensor] = {}
    for name, tensor in theirs.items():
        if name in _BARE:
            found[_BARE[name]] = tensor.reshape(tensor.shape[1 if _BARE[name] == "positions" else 2 :])
        else:  # the one tensor of four dimensions is the patches' convolution
            left[name] = from_convolution(tensor) if tensor.ndim == 4 else tensor
    return found | translate(left, names)
