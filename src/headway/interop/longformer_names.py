"""Longformer's tensors under Hugging Face's names and under ours, both ways.

Theirs counts positions from the padding id plus one: of its table, the first `UNUSED` rows belong to no position of a
text. Ours has no such rows (4,096 of them for 4,098 there); on the way back they are zeros, which is what training
leaves in the padding's row.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from headway.interop.names import BERT, Names, named_parameters, translate

UNUSED = 2  # rows before position 0: padding id 1, plus one
_POSITIONS = "embeddings.position_embeddings.weight"
_TABLE = "stack.input_positions.table"
_SELF = "encoder.layer.{i}.attention.self."

LONGFORMER: Names = BERT | {
    "stack.blocks.{i}.attention.global_q": (_SELF + "query_global",),
    "stack.blocks.{i}.attention.global_kv": (_SELF + "key_global", _SELF + "value_global"),
}

LONGFORMER_MASKED: Names = {
    f"longformer.{ours}": tuple(f"longformer.{name}" for name in theirs) for ours, theirs in LONGFORMER.items()
} | {
    "transform": ("lm_head.dense",),
    "transform_norm": ("lm_head.layer_norm",),
    "token_head": ("lm_head",),  # a bias alone: the matrix is the embedding
}
_TIED = ("lm_head.decoder.weight", "lm_head.decoder.bias")  # the embedding and lm_head.bias once more


def to_ours(theirs: Mapping[str, Tensor], names: Names) -> dict[str, Tensor]:
    """Their tensors -> ours, `names` being LONGFORMER or LONGFORMER_MASKED; none may be left over."""
    cut = {
        name: x[UNUSED:] if name.endswith(_POSITIONS) else x
        for name, x in theirs.items()
        if not (name in _TIED or name.endswith("position_ids"))
    }
    return translate(cut, names)


def to_theirs(ours: Mapping[str, Tensor], names: Names) -> dict[str, Tensor]:
    """Our tensors -> theirs, without those that are tied; none may be left over."""
    left, found = dict(ours), {}
    layers = 1 + max(int(part) for name in ours for part in name.split(".") if part.isdigit())
    for (mine, parts), i in ((pair, i) for pair in names.items() for i in range(layers)):
        for kind in (".weight", ".bias"):
            name = mine.format(i=i) + ("" if mine.endswith(_TABLE) else kind)
            if name not in left:
                continue
            pieces = left.pop(name).chunk(len(parts))
            found.update({part.format(i=i) + kind: x for part, x in zip(parts, pieces, strict=True)})
    assert not left, f"not translated: {sorted(left)}"
    for name in [name for name in found if name.endswith(_POSITIONS)]:
        found[name] = torch.cat([found[name].new_zeros(UNUSED, found[name].shape[1]), found[name]])
    return found


def parameters(theirs: nn.Module, names: Names) -> dict[str, Tensor]:
    """The parameters of one of their models under our names."""
    return to_ours(named_parameters(theirs), names)
