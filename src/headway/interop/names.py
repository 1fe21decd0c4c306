"""Names of Hugging Face's tensors and ours, side by side, and the copy from one to the other."""

from collections.abc import Mapping
from itertools import product

import torch
from torch import Tensor, nn

# Ours <- theirs. Where there are several of theirs, ours holds them joined by rows. Each line stands for a weight and,
# where there is one, its bias; {i} is the layer.
Names = dict[str, tuple[str, ...]]

GPT2: Names = {
    "embedding": ("transformer.wte",),
    "stack.input_positions.table": ("transformer.wpe",),
    "stack.blocks.{i}.attention_norm": ("transformer.h.{i}.ln_1",),
    "stack.blocks.{i}.attention.qkv": ("transformer.h.{i}.attn.c_attn",),
    "stack.blocks.{i}.attention.out": ("transformer.h.{i}.attn.c_proj",),
    "stack.blocks.{i}.feedforward_norm": ("transformer.h.{i}.ln_2",),
    "stack.blocks.{i}.feedforward.up": ("transformer.h.{i}.mlp.c_fc",),
    "stack.blocks.{i}.feedforward.down": ("transformer.h.{i}.mlp.c_proj",),
    "stack.output_norm": ("transformer.ln_f",),
}

LLAMA: Names = {
    "embedding": ("model.embed_tokens",),
    "stack.blocks.{i}.attention_norm": ("model.layers.{i}.input_layernorm",),
    "stack.blocks.{i}.attention.qkv": tuple(f"model.layers.{{i}}.self_attn.{x}_proj" for x in "qkv"),
    "stack.blocks.{i}.attention.out": ("model.layers.{i}.self_attn.o_proj",),
    "stack.blocks.{i}.feedforward_norm": ("model.layers.{i}.post_attention_layernorm",),
    "stack.blocks.{i}.feedforward.up": ("model.layers.{i}.mlp.gate_proj", "model.layers.{i}.mlp.up_proj"),
    "stack.blocks.{i}.feedforward.down": ("model.layers.{i}.mlp.down_proj",),
    "stack.output_norm": ("model.norm",),
    "head": ("lm_head",),
}

_LAYER = "encoder.layer.{i}."
ROFORMER: Names = {
    "embedding": ("embeddings.word_embeddings",),
    "segment_embedding": ("embeddings.token_type_embeddings",),
    "stack.input_norm": ("embeddings.LayerNorm",),
    "stack.blocks.{i}.attention.qkv": tuple(_LAYER + f"attention.self.{x}" for x in ("query", "key", "value")),
    "stack.blocks.{i}.attention.out": (_LAYER + "attention.output.dense",),
    "stack.blocks.{i}.attention_norm": (_LAYER + "attention.output.LayerNorm",),
    "stack.blocks.{i}.feedforward.up": (_LAYER + "intermediate.dense",),
    "stack.blocks.{i}.feedforward.down": (_LAYER + "output.dense",),
    "stack.blocks.{i}.feedforward_norm": (_LAYER + "output.LayerNorm",),
}

BERT: Names = ROFORMER | {
    "stack.input_positions.table": ("embeddings.position_embeddings",),
    "pooler": ("pooler.dense",),
}

BERT_PRETRAINING: Names = {
    f"bert.{ours}": tuple(f"bert.{name}" for name in theirs) for ours, theirs in BERT.items()
} | {
    "transform": ("cls.predictions.transform.dense",),
    "transform_norm": ("cls.predictions.transform.LayerNorm",),
    "token_head": ("cls.predictions",),  # a bias alone
    "follows": ("cls.seq_relationship",),
}


def _marian_stack(side: str) -> Names:
    ours, theirs = f"{side}.blocks.{{i}}.", f"model.{side}.layers.{{i}}."
    return {
        ours + "attention.qkv": tuple(f"{theirs}self_attn.{x}_proj" for x in "qkv"),
        ours + "attention.out": (theirs + "self_attn.out_proj",),
        ours + "attention_norm": (theirs + "self_attn_layer_norm",),
        ours + "feedforward.up": (theirs + "fc1",),
        ours + "feedforward.down": (theirs + "fc2",),
        ours + "feedforward_norm": (theirs + "final_layer_norm",),
    }


_CROSS = "model.decoder.layers.{i}.encoder_attn"
MARIAN: Names = {
    "target_embedding": ("model.shared",),
    **_marian_stack("encoder"),
    **_marian_stack("decoder"),
    "decoder.blocks.{i}.cross.q": (_CROSS + ".q_proj",),
    "decoder.blocks.{i}.cross.kv": (_CROSS + ".k_proj", _CROSS + ".v_proj"),
    "decoder.blocks.{i}.cross.out": (_CROSS + ".out_proj",),
    "decoder.blocks.{i}.cross_norm": (_CROSS + "_layer_norm",),
}

FIXED = "embed_positions"  # sinusoids that Hugging Face keeps as parameters and we compute


def named_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Theirs that are trained, a tied one once."""
    return {name: value for name, value in model.named_parameters() if FIXED not in name}


def translate(theirs: Mapping[str, Tensor], names: Names) -> dict[str, Tensor]:
    """Tensors under their names (parameters, or gradients of them) -> the same under ours; none may be left over."""
    # GPT-2's Conv1D keeps (in, out).
    left = {name: x.mT if ".c_" in name and x.ndim == 2 else x for name, x in theirs.items()}
    layers = 1 + max(int(part) for name in theirs for part in name.split(".") if part.isdigit())
    found: dict[str, Tensor] = {}
    for (ours, parts), i, kind in product(names.items(), range(layers), (".weight", ".bias")):
        sources = [part.format(i=i) + kind for part in parts]
        if any(source in left for source in sources):
            name = ours.format(i=i) + ("" if ours.endswith("table") else kind)
            found[name] = torch.cat([left.pop(source) for source in sources])
    assert not left, f"not translated: {sorted(left)}"
    return found
