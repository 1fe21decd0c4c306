"""Random models of transformers, small and odd or of the published sizes, and how both sides are run side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from headway.interop.families import family_of
from headway.interop.family import Family, GenerationTokens, Imported, import_weights
from headway.models import Bert, EncoderDecoder, EncoderInput, Gpt, Longformer, LongformerMasked, Vit, build_model
from headway.models.bert import PretrainingLogits

hf = pytest.importorskip("transformers")
hf.logging.set_verbosity_error()
hf.utils.logging.disable_progress_bar()

VOCAB, CONTEXT = 103, 96
LENGTHS, TARGETS = torch.tensor([9, 4, 7]), torch.tensor([3, 8, 5])
NEW = 64  # tokens of a continuation
GPT2 = {"vocab_size": VOCAB, "n_positions": CONTEXT, "n_embd": 32, "n_layer": 3, "n_head": 4}
BERT = {
    "vocab_size": VOCAB,
    "max_position_embeddings": CONTEXT,
    "hidden_size": 32,
    "intermediate_size": 52,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
SOME_SLIDE = ["sliding_attention", "full_attention", "sliding_attention"]
LLAMA = {**BERT, "bos_token_id": 1, "eos_token_id": None}
SEQ2SEQ = {
    "vocab_size": VOCAB,
    "max_position_embeddings": CONTEXT,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 52,
    "decoder_ffn_dim": 52,
    "pad_token_id": VOCAB - 1,
    "decoder_start_token_id": VOCAB - 1,
    "eos_token_id": None,
    "forced_eos_token_id": None,
}
MODERN = {"bos_token_id": None, "eos_token_id": None, "cls_token_id": None, "sep_token_id": None}
T5 = {
    "vocab_size": VOCAB, "d_model": 32, "d_kv": 8, "d_ff": 52, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
    "pad_token_id": VOCAB - 1, "decoder_start_token_id": VOCAB - 1, "eos_token_id": None,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
}  # fmt: skip
NONE = {"bos_token_id": None, "eos_token_id": None}

Make = Callable[[], nn.Module]


def _gpt2(**changed: Any) -> Make:
    return lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**{**GPT2, **NONE, **changed}))


def _llama(**changed: Any) -> Make:
    return lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**{**LLAMA, **changed}))


def _decoder(family: str, model: str = "", **changed: Any) -> Make:
    config, kind = getattr(hf, f"{model or family}Config"), getattr(hf, f"{family}ForCausalLM")
    return lambda: kind(config(**{**LLAMA, "num_key_value_heads": 2, **changed}))


def _bert(kind: str, **changed: Any) -> Make:
    return lambda: getattr(hf, kind)(hf.BertConfig(**{**BERT, **changed}))


def _roformer(kind: str, **changed: Any) -> Make:
    return lambda: getattr(hf, kind)(hf.RoFormerConfig(**{**BERT, **changed}))


def _longformer(kind: str, **changed: Any) -> Make:
    sizes = {**BERT, "max_position_embeddings": CONTEXT + 2, "attention_window": [4, 8, 8], "layer_norm_eps": 1e-5}
    return lambda: getattr(hf, kind)(hf.LongformerConfig(**{**sizes, **changed}))


def _encoder(family: str, head: str, **changed: Any) -> Make:
    config, kind = getattr(hf, f"{family}Config"), getattr(hf, f"{family}{head}")
    return lambda: kind(config(**{**BERT, **changed}))


def _distilbert(head: str, **changed: Any) -> Make:
    sizes = {"dim": 32, "hidden_dim": 52, "n_layers": 3, "n_heads": 4, "hidden_size": 32, "num_hidden_layers": 3}
    plain = {key: x for key, x in BERT.items() if key in ("vocab_size", "max_position_embeddings")}
    return lambda: getattr(hf, f"DistilBert{head}")(hf.DistilBertConfig(**{**plain, **sizes, **changed}))


def _vit(**changed: Any) -> Make:
    sizes = {key: BERT[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
    settings = {**sizes, "image_size": 12, "patch_size": 4, "num_labels": 7, **changed}
    return lambda: hf.ViTForImageClassification(hf.ViTConfig(**settings))


def _marian(**changed: Any) -> Make:
    return lambda: hf.MarianMTModel(hf.MarianConfig(**{**SEQ2SEQ, **changed}))


def _bart(**changed: Any) -> Make:
    return lambda: hf.BartForConditionalGeneration(hf.BartConfig(**{**SEQ2SEQ, **NONE, **changed}))


def _t5(*, untied: bool = False, **changed: Any) -> Make:
    def make() -> nn.Module:
        model = hf.T5ForConditionalGeneration(hf.T5Config(**{**T5, **changed}))
        if untied:  # as version 1.1 is; a config alone always ties
            model.lm_head.weight = nn.Parameter(torch.empty_like(model.shared.weight))
            model.config.scale_decoder_outputs = False
        return model

    return make


TINY: dict[str, Make] = {
    "gpt2": _gpt2(),
    "gpt2-untied-relu": _gpt2(tie_word_embeddings=False, activation_function="relu", n_inner=50, n_head=2),
    "bert": lambda: hf.BertModel(hf.BertConfig(**BERT)),
    "bert-without-pooler": lambda: hf.BertModel(hf.BertConfig(**BERT, type_vocab_size=3), add_pooling_layer=False),
    "bert-pretraining": _bert("BertForPreTraining", hidden_act="gelu_new", layer_norm_eps=1e-3),
    "bert-masked": _bert("BertForMaskedLM"),
    "bert-masked-untied": _bert("BertForMaskedLM", tie_word_embeddings=False, hidden_act="relu"),
    "roberta": _encoder("Roberta", "Model", type_vocab_size=1, layer_norm_eps=1e-5),
    "roberta-masked": _encoder("Roberta", "ForMaskedLM", type_vocab_size=1),
    "roberta-masked-untied": _encoder("Roberta", "ForMaskedLM", tie_word_embeddings=False),
    "distilbert": _distilbert("Model", activation="relu"),
    "distilbert-masked": _distilbert("ForMaskedLM", sinusoidal_pos_embds=True),
    "distilbert-masked-untied": _distilbert("ForMaskedLM", tie_word_embeddings=False),
    "modernbert": _encoder("ModernBert", "Model", pad_token_id=0, local_attention=4, **MODERN),
    "modernbert-masked": _encoder("ModernBert", "ForMaskedLM", pad_token_id=0, local_attention=6, **MODERN),
    "modernbert-masked-odd": _encoder(
        "ModernBert",
        "ForMaskedLM",
        pad_token_id=0,
        tie_word_embeddings=False,
        norm_bias=True,
        attention_bias=True,
        mlp_bias=True,
        classifier_bias=True,
        hidden_activation="silu",
        classifier_activation="silu",
        layer_types=["full_attention"] * 3,
    ),
    "roformer": _roformer("RoFormerModel", layer_norm_eps=1e-3),
    "roformer-masked": _roformer("RoFormerForMaskedLM"),
    "roformer-masked-untied": _roformer("RoFormerForMaskedLM", tie_word_embeddings=False),
    "longformer": _longformer("LongformerModel", type_vocab_size=3),
    "longformer-masked": _longformer("LongformerForMaskedLM", attention_window=6),
    "vit": _vit(layer_norm_eps=1e-3),
    "vit-odd": _vit(qkv_bias=False, image_size=[12, 16], num_channels=1, hidden_act="gelu_new"),
    "marian": _marian(scale_embedding=True, activation_function="swish"),
    "marian-two-vocabularies": _marian(share_encoder_decoder_embeddings=False, decoder_vocab_size=VOCAB),
    "marian-untied": _marian(share_encoder_decoder_embeddings=False, tie_word_embeddings=False, scale_embedding=True),
    "bart": _bart(),
    "bart-untied-scaled": _bart(tie_word_embeddings=False, scale_embedding=True, activation_function="relu"),
    "t5": _t5(),
    "t5-v1.1": _t5(untied=True, feed_forward_proj="gated-gelu", d_kv=6, layer_norm_epsilon=1e-3),
    "llama": _llama(num_key_value_heads=2, rms_norm_eps=1e-3),
    "llama-one-key-head": _llama(num_key_value_heads=1, tie_word_embeddings=True),
    "llama-biases": _llama(
        attention_bias=True, mlp_bias=True, rope_parameters={"rope_type": "default", "rope_theta": 5e5}
    ),
    "llama-attention-biases": _llama(attention_bias=True, num_key_value_heads=2),
    "llama-mlp-biases-wide-heads": _llama(mlp_bias=True, head_dim=12),
    "mistral": _decoder("Mistral", sliding_window=6, head_dim=12),
    "mistral-without-window": _decoder("Mistral", sliding_window=None),
    "qwen2": _decoder("Qwen2", tie_word_embeddings=True),
    "qwen2-some-windows": _decoder("Qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "qwen3": _decoder("Qwen3", head_dim=16, rms_norm_eps=1e-3),
    "qwen3-biases-windows": _decoder(
        "Qwen3", head_dim=6, attention_bias=True, use_sliding_window=True, sliding_window=3, max_window_layers=0
    ),
    "gemma": _decoder("Gemma", head_dim=12, rms_norm_eps=1e-3),
    "gemma-biases-untied": _decoder("Gemma", head_dim=8, attention_bias=True, tie_word_embeddings=False),
    "gemma3": _decoder(
        "Gemma3", "Gemma3Text", head_dim=12, sliding_window=4, query_pre_attn_scalar=16, layer_types=SOME_SLIDE
    ),
    "gemma3-all-full": _decoder("Gemma3", "Gemma3Text", head_dim=8, layer_types=["full_attention"] * 3),
}
_BASE = {"encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "encoder_attention_heads": 8, "decoder_attention_heads": 8}
PUBLISHED: dict[str, Make] = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config()),
    "bert-base": lambda: hf.BertForPreTraining(hf.BertConfig()),
    "roformer-base": lambda: hf.RoFormerForMaskedLM(hf.RoFormerConfig()),
    "longformer-base": lambda: hf.LongformerForMaskedLM(
        hf.LongformerConfig(vocab_size=50265, max_position_embeddings=4098, type_vocab_size=1, layer_norm_eps=1e-5)
    ),
    "vit-b16": lambda: hf.ViTForImageClassification(hf.ViTConfig(num_labels=1000)),
    "opus-mt": lambda: hf.MarianMTModel(
        hf.MarianConfig(
            d_model=512, encoder_layers=6, decoder_layers=6, scale_embedding=True, activation_function="swish", **_BASE
        )
    ),
    "bart-base": lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(
            d_model=768,
            encoder_layers=6,
            decoder_layers=6,
            encoder_ffn_dim=3072,
            decoder_ffn_dim=3072,
            encoder_attention_heads=12,
            decoder_attention_heads=12,
        )
    ),
    "llama-300m": lambda: hf.LlamaForCausalLM(  # TinyLlama's parts and width, fewer layers
        hf.LlamaConfig(
            hidden_size=2048,
            intermediate_size=5632,
            num_hidden_layers=4,
            num_attention_heads=32,
            num_key_value_heads=4,
            rms_norm_eps=1e-5,
        )
    ),
}


@torch.no_grad()
def unsettle(model: nn.Module, std: float) -> None:
    """Redraw everything: gains of 1 and biases of 0 are alike everywhere and would hide a swapped name."""
    fixed = type(model).__name__.startswith(("Marian", "RoFormer"))  # sinusoids, kept as tensors
    for name, value in model.state_dict().items():
        if not (fixed and "embed_positions" in name):
            gain = value.ndim == 1 and name.endswith("weight")
            value.normal_(1.0 if gain else 0.0, std / 2 if value.ndim == 1 else std)


@dataclass
class Pair:
    """A model of theirs and what ours made of its folder."""

    family: Family
    imported: Imported
    ours: nn.Module
    theirs: nn.Module


def read(folder: Path) -> tuple[Family, Imported, dict[str, Tensor]]:
    """A folder as its family, our config, and our tensors."""
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    family = family_of(config)
    assert family is not None
    imported = family.read(config, {name: tuple(x.shape) for name, x in tensors.items()})
    return family, imported, import_weights(family, imported.model, tensors)


def pair(theirs: nn.Module, folder: Path) -> Pair:
    """Write a model of theirs into a folder, and take it up from there."""
    theirs.eval().save_pretrained(folder)
    family, imported, tensors = read(folder)
    ours = build_model(imported.model, device="meta")
    ours.load_state_dict(tensors, assign=True)
    return Pair(family, imported, ours.eval(), theirs)


def real(lengths: Tensor) -> Tensor:
    """(B, T), True where a token is not padding."""
    return torch.arange(int(lengths.max())) < lengths[:, None]


def inputs(vocab: int, segments: int = 2, rows: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets and segments, three rows of different lengths."""
    random = torch.Generator().manual_seed(1)
    length, target = int(LENGTHS.max()), int(TARGETS.max())
    return (  # no token is Longformer's padding
        torch.randint(2, vocab - 1, (rows, length), generator=random),
        torch.randint(vocab - 1, (rows, target), generator=random),
        torch.randint(min(segments, 2), (rows, length), generator=random),
    )


def pictures(channels: int, size: tuple[int, int]) -> Tensor:
    return torch.randn(3, channels, *size, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def our_outputs(model: nn.Module, text: Tensor, target: Tensor, segments: Tensor) -> list[Tensor]:
    """What ours says of padded rows, padding left out."""
    kept = real(LENGTHS)
    if isinstance(model, Vit):
        return [model(pictures(model.channels, model.size))]
    if isinstance(model, EncoderDecoder):
        return [model(text, target, LENGTHS, TARGETS)[real(TARGETS)]]
    if isinstance(model, Gpt):
        return [model(text, LENGTHS)[kept]]
    found = model(text, LENGTHS, segments_BT=segments if "segments" in model.reads else None)
    if isinstance(found, PretrainingLogits):
        return [found.tokens[kept]] + ([] if found.follows is None else [found.follows])
    if isinstance(model, LongformerMasked):
        return [found[kept]]
    assert isinstance(model, Bert | Longformer)
    return [found[kept]] + ([] if model.pooler is None else [model.pool(found)])


@torch.no_grad()
def their_outputs(model: nn.Module, text: Tensor, target: Tensor, segments: Tensor) -> list[Tensor]:
    """The same of theirs."""
    kept, mask = real(LENGTHS), real(LENGTHS).long()
    kind = type(model).__name__
    if kind.startswith("ViT"):
        size = model.config.image_size
        both = (size, size) if isinstance(size, int) else tuple(size)
        return [model(pixel_values=pictures(model.config.num_channels, both)).logits]
    if kind.startswith(("Marian", "Bart", "T5")):
        found = model(text, attention_mask=mask, decoder_input_ids=target, decoder_attention_mask=real(TARGETS).long())
        return [found.logits[real(TARGETS)]]
    if kind.endswith(("ForCausalLM", "GPT2LMHeadModel")):
        return [model(text, attention_mask=mask).logits[kept]]
    more = {} if kind.startswith(("DistilBert", "ModernBert")) else {"token_type_ids": segments}
    found = model(text, attention_mask=mask, **more)
    if hasattr(found, "seq_relationship_logits"):
        return [found.prediction_logits[kept], found.seq_relationship_logits]
    if hasattr(found, "logits"):
        return [found.logits[kept]]
    return [found.last_hidden_state[kept]] + ([] if found.get("pooler_output") is None else [found.pooler_output])


@torch.no_grad()
def our_words(model: nn.Module, text: Tensor, tokens: GenerationTokens, *, anew: bool) -> Tensor:
    """The best token that does not stop, NEW times (B, NEW), each read from the cache; `anew` has none twice."""
    if isinstance(model, EncoderDecoder):
        assert tokens.start is not None
        state = model.start(EncoderInput(text, None))
        written = torch.full((len(text), 1), tokens.start)
    else:
        assert isinstance(model, Gpt)
        state, written = model.start(), text
    fed, read = written, written.shape[1]
    for _ in range(NEW):
        logits, state = model.extend(fed, state)
        last = logits[:, -1]
        last[:, list(tokens.stop)] = -torch.inf
        fed = (last.scatter(1, written, -torch.inf) if anew else last).argmax(-1, keepdim=True)
        written = torch.cat([written, fed], 1)
    return written[:, read:]


@torch.no_grad()
def their_words(model: nn.Module, text: Tensor, *, anew: bool) -> Tensor:
    """The same by their `generate`."""
    model.generation_config.forced_eos_token_id = None
    settings: dict[str, Any] = {"do_sample": False, "num_beams": 1, "max_new_tokens": NEW, "min_new_tokens": NEW}
    settings |= {"no_repeat_ngram_size": 1} if anew else {}
    return model.generate(text, attention_mask=torch.ones_like(text), **settings)[:, -NEW:]


def generates(model: nn.Module) -> bool:
    return isinstance(model, EncoderDecoder | Gpt)
