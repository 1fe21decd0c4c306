"""Decoding on a CPU against CTranslate2 and transformers: the same weights, shapes, threads and token counts."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.bench.peers import peer
from headway.bench.processes import Calls, Contender, time_in_turns
from headway.bench.result import BenchReport, Options, Result
from headway.decoding.beam import BeamSettings, beam_search
from headway.decoding.limits import SequenceLimits
from headway.interop.families import FAMILIES
from headway.interop.family import import_weights
from headway.models import EncoderDecoderConfig, EncoderInput, GptConfig, build_model
from headway.nn.int8 import Int8Linear, quantise
from headway.nn.positions import SinusoidalHalves
from headway.storage.tensors import set_weights

ROUNDS = 5
SENTENCES, SOURCE_TOKENS, TARGET_TOKENS = 32, 20, 24  # of a translation
VOCAB = 8001  # Marian's last token is padding, which CTranslate2 omits
PROMPT, NEW_TOKENS = 16, 48  # of a generated text


def run(options: Options) -> BenchReport:
    """Transformer-base, 32 sentences, greedy and beam 4; GPT-2 124M, batch 1 and 8; int8 against int8."""
    peer("transformers"), peer("ctranslate2")
    threads = torch.get_num_threads()
    with (
        Contender(_headway, threads) as ours,
        Contender(_ctranslate2, threads) as ct2,
        Contender(_transformers, threads) as hf,
    ):
        results, figures = [], {}
        for name in ("base_greedy", "base_beam4"):
            times = time_in_turns([(ours, name), (ct2, name), (hf, name)], rounds=ROUNDS)
            results.append(Result(f"{name}_ctranslate2", times[0], times[1]))
            results.append(Result(f"{name}_transformers", times[0], times[2]))
            figures[f"{name}_tokens_per_second"] = round(SENTENCES * TARGET_TOKENS / times[0], 1)
        for batch in (1, 8):
            name = f"gpt2_batch{batch}"
            times = time_in_turns([(ours, name), (ct2, name), (ours, f"{name}_linears")], rounds=ROUNDS)
            results.append(Result(f"{name}_ctranslate2", times[0], times[1]))
            figures[f"{name}_share_of_linears"] = round(times[2] / times[0], 3)
            figures[f"{name}_tokens_per_second"] = round(batch * NEW_TOKENS / times[0], 1)
    return BenchReport(results, figures)


def _headway(threads: int) -> Calls:
    torch.set_num_threads(threads)
    base = _ours(
        EncoderDecoderConfig(vocab=VOCAB, position=SinusoidalHalves(), width=512, heads=8, inner=2048, dropout=0.0),
        marian(),
    )
    gpt2 = _ours(GptConfig(vocab=50257, context=1024, width=768, layers=12, heads=12), _gpt2())
    calls: dict[str, Callable[[], object]] = {
        "base_greedy": partial(_search, base, _sources(), 1),
        "base_beam4": partial(_search, base, _sources(), 4),
    }
    for batch in (1, 8):
        calls[f"gpt2_batch{batch}"] = partial(_generate, gpt2, _prompts(batch))
        calls[f"gpt2_batch{batch}_linears"] = partial(_linears, gpt2, batch)
    return calls


def _ctranslate2(threads: int) -> Calls:
    ctranslate2 = peer("ctranslate2")
    loaders = peer("ctranslate2.converters.transformers")
    settings = {"compute_type": "int8", "intra_threads": threads}
    with tempfile.TemporaryDirectory() as folder:
        base = converted(loaders.MarianMTLoader(), marian(), Path(folder) / "base", VOCAB - 1)
        gpt2 = converted(loaders.GPT2Loader(), _gpt2(), Path(folder) / "gpt2", 50257)
        translator = ctranslate2.Translator(str(base), **settings)
        generator = ctranslate2.Generator(str(gpt2), **settings)
    lengths = {"max_decoding_length": TARGET_TOKENS, "min_decoding_length": TARGET_TOKENS}
    words = _words(_sources())
    calls: dict[str, Callable[[], object]] = {
        "base_greedy": partial(translator.translate_batch, words, beam_size=1, **lengths),
        "base_beam4": partial(translator.translate_batch, words, beam_size=4, **lengths),
    }
    greedy = {
        "max_length": NEW_TOKENS,
        "min_length": NEW_TOKENS,
        "sampling_topk": 1,
        "include_prompt_in_result": False,
    }
    for batch in (1, 8):
        calls[f"gpt2_batch{batch}"] = partial(generator.generate_batch, _words(_prompts(batch)), **greedy)
    return calls


def _transformers(threads: int) -> Calls:
    torch.set_num_threads(threads)
    model, tokens = marian(), _sources()
    lengths = {"min_new_tokens": TARGET_TOKENS, "max_new_tokens": TARGET_TOKENS, "do_sample": False}
    generate = partial(model.generate, input_ids=tokens, attention_mask=torch.ones_like(tokens), **lengths)
    return {"base_greedy": partial(generate, num_beams=1), "base_beam4": partial(generate, num_beams=4)}


def _sources() -> Tensor:
    return torch.randint(3, VOCAB - 1, (SENTENCES, SOURCE_TOKENS), generator=torch.Generator().manual_seed(0))


def _prompts(batch: int) -> Tensor:
    return torch.randint(3, 50257, (batch, PROMPT), generator=torch.Generator().manual_seed(batch))


def _words(tokens: Tensor) -> list[list[str]]:
    return [[str(n) for n in row] for row in tokens.tolist()]


def _search(model: Any, tokens: Tensor, beam: int) -> object:
    """With a stop token that does not exist, so that every hypothesis has the maximum length."""
    limits = SequenceLimits(start=0, stop=-1, max_tokens=TARGET_TOKENS)
    return beam_search(model, EncoderInput(tokens), BeamSettings(width=beam), limits)


@torch.inference_mode()
def _generate(model: Any, prompt: Tensor) -> None:
    logits, state = model.extend(prompt, model.start(capacity=PROMPT + NEW_TOKENS))
    for _ in range(NEW_TOKENS - 1):
        logits, state = model.extend(logits[:, -1:].argmax(-1), state)


@torch.inference_mode()
def _linears(model: nn.Module, batch: int) -> None:
    """The packed linear layers alone, for as many steps."""
    layers = [part for part in model.modules() if isinstance(part, Int8Linear)]
    inputs = {part.weight.shape[1]: torch.randn(batch, 1, part.weight.shape[1]) for part in layers}
    for _ in range(NEW_TOKENS):
        for part in layers:
            part(inputs[part.weight.shape[1]])


def _ours(config: Any, theirs: Any) -> nn.Module:
    model = build_model(config).eval()
    weights = {name: value.detach() for name, value in theirs.named_parameters()}
    set_weights(model, import_weights(FAMILIES[theirs.config.model_type], config, weights), "the peer")
    quantise(model)
    return model


def _gpt2() -> Any:
    transformers = peer("transformers")
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()


def marian() -> Any:
    """The base model of transformers."""
    transformers = peer("transformers")
    torch.manual_seed(0)  # the same weights in every process
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="relu",
        scale_embedding=True, max_position_embeddings=256, pad_token_id=VOCAB - 1, eos_token_id=0,
        decoder_start_token_id=VOCAB - 1, forced_eos_token_id=None, share_encoder_decoder_embeddings=True,
    )  # fmt: skip
    return transformers.MarianMTModel(config).eval()


class Vocabulary:
    """A stand-in for a tokenizer: the name of each token is its id."""

    bos_token = eos_token = "0"
    unk_token = "1"

    def __init__(self, size: int) -> None:
        self.words = [str(n) for n in range(size)]


def converted(loader: Any, model: Any, out: Path, size: int) -> Path:
    """The model converted to CTranslate2's format and quantised to int8."""
    vocabulary = Vocabulary(size)
    spec = loader.get_model_spec(model)
    loader.set_config(spec.config, model, vocabulary)
    if hasattr(spec, "register_source_vocabulary"):
        spec.register_source_vocabulary(vocabulary.words)
        spec.register_target_vocabulary(vocabulary.words)
    else:
        spec.register_vocabulary(vocabulary.words)
    spec.validate()
    spec.optimize(quantization="int8")
    out.mkdir()
    spec.save(str(out))
    return out
