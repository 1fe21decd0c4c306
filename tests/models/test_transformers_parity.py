"""With the same weights our models give the answers of Hugging Face's: logits, gradients, continuations, sizes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.interop.families import FAMILIES
from headway.interop.family import import_weights
from headway.models import (
    BertConfig,
    BertPretraining,
    BertPretrainingConfig,
    EncoderDecoderConfig,
    EncoderInput,
    Gpt,
    GptConfig,
    ModelConfig,
    TokenClassifierConfig,
    build_model,
)
from headway.nn.norms import LayerNorm, RMSNorm
from headway.nn.positions import Rotary, SinusoidalHalves
from headway.presets import PRESETS, build
from headway.tasks.training_task import IGNORED, cross_entropy

hf = pytest.importorskip("transformers")
hf.logging.set_verbosity_error()

VOCAB, CONTEXT, WIDTH, LAYERS, HEADS, INNER = 101, 40, 32, 3, 4, 48
NEW = 12  # tokens of a continuation
LENGTHS = torch.tensor([9, 4, 7])
# On logits of size 3 to 9. In double only where transformers stays there: its RMSNorm and rotary angles are float32.
EXACT = {torch.float32: 1e-5, torch.float64: 1e-9}
dtypes = pytest.mark.parametrize("dtype", EXACT, ids=["float32", "float64"])


def assert_same(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0.0)


@torch.no_grad()
def unsettle(model: nn.Module, std: float) -> None:
    """Redraw everything: gains of 1 and biases of 0 are alike everywhere and would hide a swapped name."""
    for name, value in named_parameters(model).items():
        gain = value.ndim == 1 and name.endswith("weight")
        value.normal_(1.0 if gain else 0.0, std / 2 if value.ndim == 1 else std)


def named_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Theirs that are trained, a tied one once; Marian and RoFormer keep sinusoids among them."""
    return {name: value for name, value in model.named_parameters() if "embed_positions" not in name}


def load(config: ModelConfig, theirs: nn.Module, dtype: torch.dtype, std: float = 0.2) -> Any:
    """Unsettle their weights, copy them into a model of ours, and have both evaluate in `dtype`."""
    ours: Any = config.build()
    unsettle(theirs, std)
    ours.load_state_dict(import_weights(FAMILIES[theirs.config.model_type], config, named_parameters(theirs)))
    for model in (ours, theirs):
        model.to(dtype).eval()
    return ours


def tokens(rows: int, length: int) -> Tensor:
    return torch.randint(VOCAB, (rows, length))


def real(lengths: Tensor) -> Tensor:
    """(B, T), True where a token is not padding."""
    return torch.arange(int(lengths.max())) < lengths[:, None]


def gpt2_config(kernel: str = "auto") -> GptConfig:
    return GptConfig(vocab=VOCAB, context=CONTEXT, width=WIDTH, layers=LAYERS, heads=HEADS, kernel=kernel)


def gpt2(dtype: torch.dtype = torch.float32, kernel: str = "auto") -> tuple[Any, nn.Module]:
    theirs = hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=VOCAB,
            n_positions=CONTEXT,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=HEADS,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    # With a tied output a token predicts itself, until the layers say enough.
    return load(gpt2_config(kernel), theirs, dtype, std=0.4), theirs


def llama(dtype: torch.dtype = torch.float32, kv_heads: int = 2) -> tuple[Any, nn.Module]:
    eps = 1e-2  # large enough to be seen in float32
    theirs = hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=VOCAB,
            max_position_embeddings=CONTEXT,
            hidden_size=WIDTH,
            intermediate_size=INNER,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=kv_heads,
            rms_norm_eps=eps,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    config = GptConfig(
        vocab=VOCAB,
        context=CONTEXT,
        width=WIDTH,
        layers=LAYERS,
        heads=HEADS,
        kv_heads=kv_heads,
        inner=INNER,
        position=Rotary(layout="halves"),
        norm=RMSNorm(eps=eps),
        activation="swiglu",
        bias=False,
        tied=False,
    )
    ours = load(config, theirs, dtype)
    return ours, theirs


def bert_sizes() -> dict[str, int]:
    return {
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
    }


BERT = BertConfig(vocab=VOCAB, context=CONTEXT, width=WIDTH, layers=LAYERS, heads=HEADS, inner=INNER)


def marian(dtype: torch.dtype) -> tuple[Any, nn.Module]:
    theirs = hf.MarianMTModel(
        hf.MarianConfig(
            vocab_size=VOCAB,
            max_position_embeddings=CONTEXT,
            d_model=WIDTH,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS - 1,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=INNER,
            decoder_ffn_dim=INNER,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=VOCAB - 1,
            decoder_start_token_id=VOCAB - 1,
            eos_token_id=None,
            forced_eos_token_id=None,
        )
    )
    config = EncoderDecoderConfig(
        vocab=VOCAB,
        width=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS - 1,
        heads=HEADS,
        inner=INNER,
        position=SinusoidalHalves(),
    )
    ours = load(config, theirs, dtype)
    return ours, theirs


def continued(ours: Gpt, prompt: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The best token NEW times (B, NEW), each read from the cache, and the logits it was best in (B, NEW, V)."""
    rows, best, chosen_from = torch.arange(len(prompt)), [], []
    logits, state = ours.extend(prompt, ours.start(capacity=4), counts)  # too small: it has to grow
    last = logits[rows, counts - 1]
    for _ in range(NEW):
        chosen_from.append(last)
        best.append(last.argmax(-1))
        logits, state = ours.extend(best[-1][:, None], state)
        last = logits[:, -1]
    return torch.stack(best, 1), torch.stack(chosen_from, 1)


def generated(theirs: nn.Module, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """The same by their `generate`, which gives logits in float32 whatever the model's dtype."""
    out = theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=NEW,
        return_dict_in_generate=True,
        output_logits=True,
    )
    return out.sequences[:, prompt.shape[1] :], torch.stack(out.logits, 1)


def assert_varied(continuation: Tensor) -> None:
    """A model that repeats one word would agree with anything that does."""
    assert all(len(row.unique()) > 3 for row in continuation)


# --- GPT-2 ---------------------------------------------------------------------------------------------------------


@dtypes
@torch.no_grad()
def test_gpt2_gives_the_logits_of_transformers(dtype: torch.dtype) -> None:
    ours, theirs = gpt2(dtype)
    text = tokens(3, CONTEXT)
    assert_same(ours(text), theirs(text).logits, EXACT[dtype])


@dtypes
@torch.no_grad()
def test_gpt2_gives_the_logits_of_transformers_on_padded_rows(dtype: torch.dtype) -> None:
    ours, theirs = gpt2(dtype)
    text, kept = tokens(3, 9), real(LENGTHS)
    expected = theirs(text, attention_mask=kept.long()).logits
    assert_same(ours(text, LENGTHS)[kept], expected[kept], EXACT[dtype])


Pair = Callable[[torch.dtype], tuple[Any, nn.Module]]
pairs = pytest.mark.parametrize(
    ("pair", "dtype"), [(gpt2, torch.float64), (llama, torch.float32)], ids=["gpt2", "llama"]
)


@pairs
def test_a_cached_greedy_continuation_is_that_of_generate(pair: Pair, dtype: torch.dtype) -> None:
    ours, theirs = pair(dtype)
    prompt = tokens(3, 9)
    got, logits = continued(ours, prompt, torch.full((3,), 9))
    expected, expected_logits = generated(theirs, prompt)
    assert_varied(expected)
    assert torch.equal(got, expected)
    assert_same(logits.float(), expected_logits, EXACT[torch.float32])


@pairs
def test_prompts_of_unequal_length_continue_as_each_does_alone(pair: Pair, dtype: torch.dtype) -> None:
    ours, theirs = pair(dtype)
    prompts = tokens(3, 9)
    got, logits = continued(ours, prompts, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        expected, expected_logits = generated(theirs, prompts[row, None, :length])
        assert_varied(expected)
        assert torch.equal(got[row], expected[0])
        assert_same(logits[row].float(), expected_logits[0], EXACT[torch.float32])


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@dtypes
def test_gpt2_has_the_gradients_of_transformers(dtype: torch.dtype, kernel: str) -> None:
    ours, theirs = gpt2(dtype, kernel)
    text = tokens(3, 11)
    for logits in (ours(text), theirs(text).logits):  # their own loss is float32
        F.cross_entropy(logits[:, :-1].flatten(0, 1), text[:, 1:].flatten()).backward()
    grads = {name: value.grad for name, value in named_parameters(theirs).items()}
    expected = import_weights(FAMILIES["gpt2"], gpt2_config(), grads)
    assert expected["embedding.weight"].abs().max() > 1e-2  # what comes from the input and from the tied output
    assert expected.keys() == dict(ours.named_parameters()).keys()
    for name, value in ours.named_parameters():
        assert value.grad is not None
        assert_same(value.grad, expected[name], EXACT[dtype])


# --- BERT, RoFormer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@dtypes
@torch.no_grad()
def test_bert_gives_the_logits_of_both_heads_of_transformers(dtype: torch.dtype, padded: bool) -> None:
    theirs = hf.BertForPreTraining(hf.BertConfig(**bert_sizes()))
    ours = load(BertPretrainingConfig(bert=BERT), theirs, dtype)
    text, segments = tokens(3, 9), torch.randint(2, (3, 9))
    kept = real(LENGTHS) if padded else torch.ones(3, 9, dtype=torch.bool)
    got = ours(text, LENGTHS if padded else None, segments_BT=segments)
    expected = theirs(text, token_type_ids=segments, attention_mask=kept.long())
    assert_same(got.tokens[kept], expected.prediction_logits[kept], EXACT[dtype])
    assert_same(got.follows, expected.seq_relationship_logits, EXACT[dtype])


@dtypes
@torch.no_grad()
def test_bert_pools_as_transformers_does(dtype: torch.dtype) -> None:
    theirs = hf.BertModel(hf.BertConfig(**bert_sizes()))
    ours = load(BERT, theirs, dtype)
    text, kept = tokens(3, 9), real(LENGTHS)
    expected = theirs(text, attention_mask=kept.long())  # no segments: all the first, on both sides
    hidden = ours(text, LENGTHS)
    assert_same(hidden[kept], expected.last_hidden_state[kept], EXACT[dtype])
    assert_same(ours.pool(hidden), expected.pooler_output, EXACT[dtype])


def token_classifier(theirs: Any, head: nn.Linear, dtype: torch.dtype) -> nn.Module:
    """A classifier of tokens with the encoder and the head of a model of transformers."""
    encoder = replace(BERT, pooler=False)
    vectors = load(encoder, theirs.bert, dtype)
    ours = build_model(TokenClassifierConfig(encoder=encoder, classes=head.out_features)).to(dtype).eval()
    ours.encoder.load_state_dict(vectors.state_dict())
    theirs.eval().to(dtype)
    ours.head.load_state_dict(head.state_dict())
    return ours


@dtypes
@torch.no_grad()
def test_token_classification_gives_the_logits_and_the_loss_of_transformers(dtype: torch.dtype) -> None:
    theirs = hf.BertForTokenClassification(hf.BertConfig(**bert_sizes(), num_labels=5))
    ours = token_classifier(theirs, theirs.classifier, dtype)
    text, kept, segments = tokens(3, 9), real(LENGTHS), torch.randint(2, (3, 9))
    labels = torch.randint(5, (3, 9)).masked_fill(~kept, IGNORED)
    labels[:, 2] = IGNORED  # a token inside a word
    expected = theirs(text, token_type_ids=segments, attention_mask=kept.long(), labels=labels)
    got = ours(text, LENGTHS, segments)
    assert_same(got[kept], expected.logits[kept], EXACT[dtype])
    count = int((labels != IGNORED).sum())
    assert_same(cross_entropy(got, labels) / count, expected.loss, EXACT[dtype])


@dtypes
@torch.no_grad()
def test_question_answering_gives_the_start_and_end_logits_of_transformers(dtype: torch.dtype) -> None:
    theirs = hf.BertForQuestionAnswering(hf.BertConfig(**bert_sizes()))
    ours = token_classifier(theirs, theirs.qa_outputs, dtype)
    text, kept, segments = tokens(3, 9), real(LENGTHS), torch.randint(2, (3, 9))
    expected = theirs(text, token_type_ids=segments, attention_mask=kept.long())
    start, end = ours(text, LENGTHS, segments).unbind(-1)
    assert_same(start[kept], expected.start_logits[kept], EXACT[dtype])
    assert_same(end[kept], expected.end_logits[kept], EXACT[dtype])


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@torch.no_grad()
def test_roformer_gives_the_vectors_of_transformers(padded: bool) -> None:
    eps = 1e-3  # large enough to be seen in float32
    theirs = hf.RoFormerModel(hf.RoFormerConfig(**bert_sizes(), layer_norm_eps=eps))
    config = BertConfig(
        vocab=VOCAB,
        context=CONTEXT,
        width=WIDTH,
        layers=LAYERS,
        heads=HEADS,
        inner=INNER,
        position=Rotary(layout="interleaved"),
        norm=LayerNorm(eps=eps),
        pooler=False,
    )
    ours = load(config, theirs, torch.float32)
    length = 9 if padded else CONTEXT
    text, segments = tokens(3, length), torch.randint(2, (3, length))
    kept = real(LENGTHS) if padded else torch.ones(3, length, dtype=torch.bool)
    got = ours(text, LENGTHS if padded else None, segments_BT=segments)
    expected = theirs(text, token_type_ids=segments, attention_mask=kept.long()).last_hidden_state
    assert_same(got[kept], expected[kept], EXACT[torch.float32])


# --- LLaMA ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@torch.no_grad()
def test_llama_gives_the_logits_of_transformers(kv_heads: int) -> None:
    ours, theirs = llama(kv_heads=kv_heads)
    text, kept = tokens(3, 9), real(LENGTHS)
    assert_same(ours(text), theirs(text).logits, EXACT[torch.float32])
    expected = theirs(text, attention_mask=kept.long()).logits
    assert_same(ours(text, LENGTHS)[kept], expected[kept], EXACT[torch.float32])


# --- Marian --------------------------------------------------------------------------------------------------------


@dtypes
@torch.no_grad()
def test_marian_gives_the_logits_of_transformers_on_padded_rows(dtype: torch.dtype) -> None:
    ours, theirs = marian(dtype)
    source, target, target_lengths = tokens(3, 9), tokens(3, 8), torch.tensor([3, 8, 5])
    kept = real(target_lengths)
    expected = theirs(
        source,
        attention_mask=real(LENGTHS).long(),
        decoder_input_ids=target,
        decoder_attention_mask=kept.long(),
    ).logits
    assert_same(ours(source, target, LENGTHS, target_lengths)[kept], expected[kept], EXACT[dtype])


@dtypes
@torch.no_grad()
def test_marian_written_in_pieces_gives_the_logits_of_transformers(dtype: torch.dtype) -> None:
    ours, theirs = marian(dtype)
    source, target = tokens(3, 9), tokens(3, 8)
    expected = theirs(source, attention_mask=real(LENGTHS).long(), decoder_input_ids=target).logits
    state, got = ours.start(EncoderInput(source, LENGTHS), capacity=2), []
    for piece in target.split((1, 3, 1, 1, 2), dim=1):
        logits, state = ours.extend(piece, state)
        got.append(logits)
    assert_same(torch.cat(got, 1), expected, EXACT[dtype])


# --- sizes ---------------------------------------------------------------------------------------------------------


def _gpt2(layers: int, width: int, heads: int) -> Callable[[], nn.Module]:
    return lambda: hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=layers, n_embd=width, n_head=heads))


PUBLISHED: dict[str, Callable[[], nn.Module]] = {
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config()),
    "gpt2-medium": _gpt2(24, 1024, 16),
    "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    "bert-base": lambda: hf.BertModel(hf.BertConfig()),
    "bert-large": lambda: hf.BertModel(
        hf.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    ),
    "roformer": lambda: hf.RoFormerModel(hf.RoFormerConfig()),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_has_as_many_parameters_as_the_model_of_transformers(name: str) -> None:
    with torch.device("meta"):
        theirs = PUBLISHED[name]()
    expected = sum(value.numel() for value in named_parameters(theirs).values())
    assert PRESETS[name].parameters == expected
    assert sum(value.numel() for value in build(name, device="meta").parameters()) == expected


def test_the_pretraining_heads_of_bert_have_the_size_of_transformers() -> None:
    config = PRESETS["bert-base"].config()
    assert isinstance(config, BertConfig)
    with torch.device("meta"):
        theirs = hf.BertForPreTraining(hf.BertConfig())
        ours = BertPretraining(BertPretrainingConfig(bert=config))
    expected = sum(value.numel() for value in named_parameters(theirs).values())
    assert sum(value.numel() for value in ours.parameters()) == expected
