"""Longformer: the answers of Hugging Face's with the same weights, and what only ours can do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.errors import DataError, ShapeError
from headway.interop.families.longformer import LONGFORMER, UNUSED
from headway.interop.family import import_weights, to_hf
from headway.models import (
    Bert,
    BertConfig,
    Gpt,
    GptConfig,
    Longformer,
    LongformerConfig,
    LongformerMasked,
    LongformerMaskedConfig,
    build_model,
)
from headway.nn.longformer_attention import Windows
from headway.presets import PRESETS
from tests.models.test_transformers_parity import unsettle

hf = pytest.importorskip("transformers")
VOCAB, CONTEXT, WIDTH, LAYERS, HEADS, INNER = 101, 64, 32, 3, 4, 48
PAD = 1  # theirs finds positions by it; ours counts
TINY = LongformerConfig(
    vocab=VOCAB, windows=Windows(radius=(2, 4, 4)), context=CONTEXT, width=WIDTH, layers=LAYERS, heads=HEADS,
    inner=INNER, segments=2,
)  # fmt: skip


def theirs(kind: str):
    """In float32: its softmax knows no other, and its mask overflows there in double, to gradients of NaN."""
    config = hf.LongformerConfig(
        vocab_size=VOCAB, max_position_embeddings=CONTEXT + UNUSED, hidden_size=WIDTH, intermediate_size=INNER,
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, attention_window=[4, 8, 8], type_vocab_size=2,
        layer_norm_eps=1e-5, pad_token_id=PAD,
    )  # fmt: skip
    model = getattr(hf, kind)(config).eval()
    unsettle(model, 0.3)
    return model


def parameters(other, config) -> dict[str, Tensor]:
    """Their parameters under our names."""
    return import_weights(LONGFORMER, config, {name: x.detach() for name, x in other.named_parameters()})


def batch(length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens, lengths, segments, and global marks: several, one, and in the last row none."""
    lengths = torch.tensor([length, max(length - 3, 1), max(length // 2, 1)])
    marks = torch.rand(3, length) < 0.2
    marks[1], marks[2] = torch.arange(length) == 0, False
    tokens = torch.randint(3, VOCAB, (3, length))
    return tokens.masked_fill(~real(length, lengths), PAD), lengths, torch.randint(2, (3, length)), marks


def real(length: int, lengths: Tensor) -> Tensor:
    return torch.arange(length) < lengths[:, None]


def assert_close(ours: Tensor, others: Tensor, bound: float = 1e-5) -> None:
    torch.testing.assert_close(ours, others, atol=bound * max(1.0, others.abs().max().item()), rtol=0)


@pytest.mark.parametrize("kernel", ["auto", "banded", "sdpa"])
@pytest.mark.parametrize("length", [1, 7, 16, 37, CONTEXT])  # theirs pads to its window, ours to nothing
@torch.no_grad()
def test_the_masked_model_gives_the_logits_of_transformers(kernel, length):
    other = theirs("LongformerForMaskedLM")
    config = LongformerMaskedConfig(longformer=replace(TINY, pooler=False, kernel=kernel))
    ours = LongformerMasked(config).eval()
    ours.load_state_dict(parameters(other, config))
    tokens, lengths, segments, marks = batch(length)
    keep = real(length, lengths)
    for chosen in (None, marks):
        expected = other(
            tokens,
            attention_mask=keep.long(),
            token_type_ids=segments,
            global_attention_mask=None if chosen is None else chosen.long(),
        ).logits
        got = ours(tokens, lengths, segments_BT=segments, global_BT=chosen)
        assert expected[keep].abs().max() > 2
        assert_close(got[keep], expected[keep])


@torch.no_grad()
def test_the_encoder_gives_the_vectors_and_the_pooled_one_of_transformers():
    other = theirs("LongformerModel")
    ours = Longformer(TINY).eval()
    ours.load_state_dict(parameters(other, TINY))
    tokens, lengths, segments, marks = batch(29)
    keep = real(29, lengths)
    expected = other(tokens, attention_mask=keep.long(), token_type_ids=segments, global_attention_mask=marks.long())
    hidden = ours(tokens, lengths, segments_BT=segments, global_BT=marks)
    assert_close(hidden[keep], expected.last_hidden_state[keep])
    assert_close(ours.pool(hidden), expected.pooler_output)


def test_gradients_are_those_of_transformers():
    other = theirs("LongformerForMaskedLM")
    config = LongformerMaskedConfig(longformer=replace(TINY, pooler=False, kernel="banded"))
    ours = LongformerMasked(config).eval()
    ours.load_state_dict(parameters(other, config))
    tokens, lengths, segments, marks = batch(21)
    keep = real(21, lengths)
    for each in (
        ours(tokens, lengths, segments_BT=segments, global_BT=marks),
        other(tokens, attention_mask=keep.long(), token_type_ids=segments, global_attention_mask=marks.long()).logits,
    ):
        F.cross_entropy(each[keep], tokens[keep]).backward()
    expected = import_weights(LONGFORMER, config, {name: p.grad for name, p in other.named_parameters()})
    assert expected["longformer.stack.blocks.0.attention.global_q.weight"].abs().max() > 1e-3
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad, expected[name])


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("LongformerModel", TINY),
        ("LongformerForMaskedLM", LongformerMaskedConfig(longformer=replace(TINY, pooler=False))),
    ],
)
def test_names_go_both_ways(kind, config):
    given = {name: x.detach() for name, x in theirs(kind).named_parameters()}
    back = to_hf(LONGFORMER.mappings(config), import_weights(LONGFORMER, config, given))
    assert back.keys() - {"lm_head.decoder.bias"} == given.keys()  # that one is lm_head.bias once more
    for name in given:
        start = UNUSED if name.endswith("position_embeddings.weight") else 0
        assert back[name].shape == given[name].shape
        assert torch.equal(back[name][start:], given[name][start:])


@pytest.mark.parametrize("kernel", ["auto", "banded"])
@torch.no_grad()
def test_a_window_over_everything_without_global_tokens_is_bert(kernel):
    sizes = {"vocab": VOCAB, "context": CONTEXT, "width": WIDTH, "layers": LAYERS, "heads": HEADS, "inner": INNER}
    ours = Longformer(replace(TINY, windows=Windows(radius=CONTEXT), kernel=kernel)).eval()
    bert = Bert(BertConfig(**sizes, norm=TINY.norm)).eval()
    bert.load_state_dict({name: x for name, x in ours.state_dict().items() if "global" not in name})
    tokens, lengths, _, _ = batch(50)
    keep = real(50, lengths)
    torch.testing.assert_close(ours(tokens, lengths)[keep], bert(tokens, lengths)[keep], atol=1e-5, rtol=0)


def test_the_global_projections_start_as_copies():
    ours = build_model(TINY)
    attention = ours.stack.blocks[1].attention
    joined = torch.cat([attention.global_q.weight, attention.global_kv.weight])
    assert torch.equal(joined, attention.qkv.weight)
    assert joined.std() > 0


@torch.no_grad()
def test_what_lies_beyond_all_windows_cannot_be_felt_but_through_a_global_token():
    ours = build_model(TINY, seed=1).eval()
    tokens = torch.randint(VOCAB, (1, 40))
    changed = tokens.clone()
    changed[0, 30] = (changed[0, 30] + 1) % VOCAB
    reach = 2 + 4 + 4  # a receptive field is the sum of the radii
    difference = (ours(tokens) - ours(changed))[0].abs().amax(-1)
    assert difference[: 30 - reach].max() == 0
    assert difference[30 - reach] > 0
    marks = torch.arange(40).view(1, 40) == 0
    assert (ours(tokens, global_BT=marks) - ours(changed, global_BT=marks))[0].abs().amax(-1).min() > 0


def test_bad_marks_and_long_texts_are_refused():
    ours = Longformer(TINY)
    tokens = torch.randint(VOCAB, (2, 5))
    with pytest.raises(ShapeError, match=r"global_BT is \(2, 4\) of torch.bool, expected \(2, 5\)"):
        ours(tokens, global_BT=torch.zeros(2, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"torch.int64"):
        ours(tokens, global_BT=torch.zeros_like(tokens))
    with pytest.raises(DataError, match="end at 64"):
        ours(torch.zeros(1, CONTEXT + 1, dtype=torch.long))


@torch.no_grad()
def test_marks_and_lengths_changed_in_place_are_seen_by_the_next_pass():
    ours = Longformer(TINY).eval()
    tokens, lengths, marks = torch.randint(VOCAB, (2, 30)), torch.tensor([30, 20]), torch.zeros(2, 30).bool()
    marks[:, 0] = True
    for change in (lambda: marks[0].logical_not_(), lambda: marks.zero_(), lambda: lengths.sub_(5)):
        before = ours(tokens, lengths, global_BT=marks)
        change()
        after = ours(tokens, lengths, global_BT=marks)
        assert torch.equal(after, ours(tokens, lengths.clone(), global_BT=marks.clone()))
        assert not torch.equal(after[0, :20], before[0, :20])


@torch.no_grad()
def test_forms_kept_with_a_mask_do_not_outlive_a_forward_pass():
    windows = Windows(radius=3)
    gpt = Gpt(GptConfig(vocab=VOCAB, context=CONTEXT, width=WIDTH, layers=2, heads=HEADS, windows=windows))
    longformer = Longformer(replace(TINY, windows=windows))
    for model, masks in ((gpt, gpt.masks), (longformer, longformer.windows)):
        for length in (5, 9, 30):
            model(torch.randint(VOCAB, (2, length)))
        assert all("_forms" not in mask.__dict__ for mask in masks)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.bfloat16, 4e-2)])
@pytest.mark.parametrize("places", [((0, 0), (1, 0)), ((0, 0), (0, 700), (1, 3))])
@torch.no_grad()
def test_on_a_gpu_it_gives_what_it_gives_on_a_cpu(places, dtype, bound):
    length, lengths = 4096, torch.tensor([4096, 3000])
    ours = Longformer(
        replace(TINY, windows=Windows(radius=64), context=length, width=256, inner=256, dropout=0.0)
    ).eval()
    tokens, marks = torch.randint(VOCAB, (2, length)), torch.zeros(2, length, dtype=torch.bool)
    for row, place in places:
        marks[row, place] = True
    kept = real(length, lengths)
    want = ours(tokens, lengths, global_BT=marks)[kept]
    found = ours.to("cuda", dtype)(tokens.cuda(), lengths.cuda(), global_BT=marks.cuda()).float().cpu()[kept]
    assert (found - want).abs().mean() < bound * want.abs().mean()


def test_the_preset_is_the_published_model_but_for_two_rows():
    with torch.device("meta"):
        other = hf.LongformerModel(
            hf.LongformerConfig(vocab_size=50265, max_position_embeddings=4098, type_vocab_size=1)
        )
    published = sum(p.numel() for p in other.parameters())
    assert published == 148_659_456
    assert PRESETS["longformer"].parameters == published - UNUSED * 768
