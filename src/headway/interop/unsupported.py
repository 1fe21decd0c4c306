"""Model types of transformers that cannot be imported: why, and the nearest that can."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_EXPERTS = "a mixture of experts"
_PARALLEL = "attention and feed-forward network in parallel"
_IMAGES = "reads images beside text"
_SPEECH = "reads speech"
# model_type -> (what has no equivalent here, the nearest type that is imported; "" where none is near).
UNSUPPORTED: dict[str, tuple[str, str]] = {
    "albert": ("layers that share their weights", "bert"),
    "beit": ("relative positions of patches", "vit"),
    "bloom": ("ALiBi with a norm of the embeddings", "gpt2"),
    "camembert": ("RoBERTa under another name: rename model_type to roberta and the architectures with it", "roberta"),
    "clip": (_IMAGES, "vit"),
    "codegen": (_PARALLEL, "gpt2"),
    "cohere": (_PARALLEL, "llama"),
    "convnext": ("a convolutional network", "vit"),
    "deberta": ("disentangled attention", "roberta"),
    "deberta-v2": ("disentangled attention", "roberta"),
    "deepseek_v2": (_EXPERTS, "llama"),
    "deepseek_v3": (_EXPERTS, "llama"),
    "deit": ("a distillation token", "vit"),
    "dinov2": ("scaled residual branches", "vit"),
    "electra": ("embeddings of another width, and a discriminator", "bert"),
    "falcon": (_PARALLEL, "llama"),
    "gemma2": ("attention scores and output logits that are soft-capped", "gemma3_text"),
    "gemma3": (f"{_IMAGES}; its text model alone is imported", "gemma3_text"),
    "gemma3n": (_IMAGES, "gemma3_text"),
    "gpt_bigcode": ("one key head in GPT-2's format", "gpt2"),
    "gpt_neo": ("scores without a scale", "gpt2"),
    "gpt_neox": (f"{_PARALLEL}, rotation of some features only", "llama"),
    "gpt_oss": (_EXPERTS, "qwen3"),
    "gptj": (f"{_PARALLEL}, rotation of some features only", "gpt2"),
    "granite": ("multipliers on scores and residual branches", "llama"),
    "llama4": (_EXPERTS, "llama"),
    "llava": (_IMAGES, "llama"),
    "m2m_100": ("pre-norm with sinusoids", "marian"),
    "mamba": ("a state space model", ""),
    "mbart": ("pre-norm", "bart"),
    "mistral3": (_IMAGES, "mistral"),
    "mixtral": (_EXPERTS, "mistral"),
    "mobilebert": ("bottlenecks between its layers", "distilbert"),
    "mpnet": ("relative positions", "roberta"),
    "mpt": ("ALiBi in GPT-2's format", "gpt2"),
    "mt5": ("T5 1.1 under another name: rename model_type to t5 and the architectures with it", "t5"),
    "olmo2": ("norms after each part only", "llama"),
    "opt": ("a format of its own; docs/extending.md writes this family as an example", "gpt2"),
    "pegasus": ("pre-norm with sinusoids", "bart"),
    "phi": (f"{_PARALLEL}, rotation of some features only", "llama"),
    "phi3": ("queries, keys and values in one tensor, scaled rotation", "llama"),
    "phimoe": (_EXPERTS, "llama"),
    "qwen2_5_vl": (_IMAGES, "qwen2"),
    "qwen2_moe": (_EXPERTS, "qwen2"),
    "qwen2_vl": (_IMAGES, "qwen2"),
    "qwen3_moe": (_EXPERTS, "qwen3"),
    "qwen3_next": (_EXPERTS, "qwen3"),
    "qwen3_vl": (_IMAGES, "qwen3"),
    "rwkv": ("a recurrent model", ""),
    "smollm3": ("layers without positions", "llama"),
    "stablelm": ("LayerNorm with rotation of some features only", "llama"),
    "starcoder2": ("LayerNorm with rotary positions", "llama"),
    "swin": ("windows of patches that are shifted", "vit"),
    "wav2vec2": (_SPEECH, ""),
    "whisper": (
        "positions of its own for text, sounds of 30 seconds, prompts of language and task; "
        "`headway train --data FOLDER` trains a model of speech", "",
    ),
    "xlm-roberta": (
        "RoBERTa under another name: rename model_type to roberta and the architectures with it", "roberta",
    ),
    "xlnet": ("attention in two streams", "bert"),
}  # fmt: skip


def why_unsupported(name: str, known: Iterable[str]) -> str:
    """Why a model type is not imported, and the nearest that is."""
    known = list(known)
    everything = f"there are {', '.join(known)}"
    reason, nearest = UNSUPPORTED.get(name, ("", ""))
    if nearest not in known:
        nearest = next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.75)), "")
    near = f"the nearest that works is {nearest}" if nearest else "none that works is near"
    return f"is not imported ({reason}); {near}; {everything}" if reason else f"is unknown; {near}; {everything}"
