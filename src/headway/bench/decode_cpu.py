"""Decoding on the CPU beside CTranslate2 and transformers: the same weights, shapes, threads and token counts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from headway.bench.peers import peer
from headway.bench.result import Options, Report, Result
from headway.decoding.beam import beam_search
from headway.interop.names import GPT2, MARIAN, named_parameters, translate
from headway.models import EncoderDecoderConfig, GptConfig, Source, build_model
from headway.nn.int8 import Int8Linear, quantise
from headway.nn.positions import SinusoidalHalves
from headway.storage import set_weights

ROUNDS = 5
REST = 0.4  # seconds: the threads of the side before spin for a while, and would take time from the next
SENTENCES, READ, WRITTEN = 32, 20, 24  # of a translation
VOCAB = 8001  # Marian's last token is padding, which CTranslate2 leaves out
PROMPT, GOES_ON = 16, 48  # of a text


def run(options: Options) -> Report:
    """Transformer-base, 32 sentences, greedy and beam 4; GPT-2 124M, batch 1 and 8; each int8 beside int8."""
    transformers, ctranslate2 = peer("transformers"), peer("ctranslate2")
    results, figures = _translation(transformers, ctranslate2)
    more, others = _language(transformers, ctranslate2)
    return Report([*results, *more], {**figures, **others})


def _translation(transformers: Any, ctranslate2: Any) -> tuple[list[Result], dict[str, float]]:
    theirs = _marian(transformers)
    model = _ours(
        EncoderDecoderConfig(vocab=VOCAB, position=SinusoidalHalves(), width=512, heads=8, inner=2048, dropout=0.0),
        theirs,
        MARIAN,
    )
    tokens = torch.randint(3, VOCAB - 1, (SENTENCES, READ), generator=torch.Generator().manual_seed(0))
    words = [[str(n) for n in row] for row in tokens.tolist()]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        loader = ctranslate2.converters.transformers.MarianMTLoader()
        peer_model = ctranslate2.Translator(
            str(_converted(loader, theirs, Path(folder), VOCAB - 1)), compute_type="int8", intra_threads=_threads()
        )
        lengths = {"max_decoding_length": WRITTEN, "min_decoding_length": WRITTEN}
        mask = torch.ones_like(tokens)
        for beam, name in ((1, "greedy"), (4, "beam4")):
            ours = partial(_search, model, tokens, beam)
            same = {"num_beams": beam, "do_sample": False, "min_new_tokens": WRITTEN, "max_new_tokens": WRITTEN}
            times = _in_turns(
                ours,
                partial(peer_model.translate_batch, words, beam_size=beam, **lengths),
                partial(theirs.generate, input_ids=tokens, attention_mask=mask, **same),
            )
            results.append(Result(f"base_{name}_ctranslate2", times[0], times[1]))
            results.append(Result(f"base_{name}_transformers", times[0], times[2]))
    speeds = {f"{r.name.rsplit('_', 1)[0]}_tokens_per_second": SENTENCES * WRITTEN / r.ours for r in results}
    return results, {name: round(value, 1) for name, value in speeds.items()}


def _language(transformers: Any, ctranslate2: Any) -> tuple[list[Result], dict[str, float]]:
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    model = _ours(GptConfig(vocab=50257, context=1024, width=768, layers=12, heads=12), theirs, GPT2)
    results, figures = [], {}
    with tempfile.TemporaryDirectory() as folder:
        loader = ctranslate2.converters.transformers.GPT2Loader()
        peer_model = ctranslate2.Generator(
            str(_converted(loader, theirs, Path(folder), 50257)), compute_type="int8", intra_threads=_threads()
        )
        for batch in (1, 8):
            prompt = torch.randint(3, 50257, (batch, PROMPT), generator=torch.Generator().manual_seed(batch))
            words = [[str(n) for n in row] for row in prompt.tolist()]
            settings = {"max_length": GOES_ON, "min_length": GOES_ON, "sampling_topk": 1}
            times = _in_turns(
                partial(_go_on, model, prompt),
                partial(peer_model.generate_batch, words, include_prompt_in_result=False, **settings),
                partial(_linears, model, batch),
            )
            results.append(Result(f"gpt2_batch{batch}_ctranslate2", times[0], times[1]))
            figures[f"gpt2_batch{batch}_share_of_linears"] = round(times[2] / times[0], 3)
            figures[f"gpt2_batch{batch}_tokens_per_second"] = round(batch * GOES_ON / times[0], 1)
    return results, figures


def _search(model: Any, tokens: Tensor, beam: int) -> object:
    """A stop token that does not exist: every line is written to its end."""
    return beam_search(model, Source(tokens), start=0, stop=-1, beam=beam, max_tokens=WRITTEN)


@torch.inference_mode()
def _go_on(model: Any, prompt: Tensor) -> None:
    logits, state = model.extend(prompt, model.start(capacity=PROMPT + GOES_ON))
    for _ in range(GOES_ON - 1):
        logits, state = model.extend(logits[:, -1:].argmax(-1), state)


@torch.inference_mode()
def _linears(model: nn.Module, batch: int) -> None:
    """What the packed linear layers alone take for as many steps, back to back."""
    layers = [part for part in model.modules() if isinstance(part, Int8Linear)]
    inputs = {part.weight.shape[1]: torch.randn(batch, 1, part.weight.shape[1]) for part in layers}
    for _ in range(GOES_ON):
        for part in layers:
            part(inputs[part.weight.shape[1]])


def _ours(config: Any, theirs: nn.Module, names: Any) -> nn.Module:
    model = build_model(config).eval()
    set_weights(model, translate({n: p.detach() for n, p in named_parameters(theirs).items()}, names), "the peer")
    quantise(model)
    return model


def _marian(transformers: Any) -> Any:
    config = transformers.MarianConfig(
        vocab_size=VOCAB, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="relu",
        scale_embedding=True, max_position_embeddings=256, pad_token_id=VOCAB - 1, eos_token_id=0,
        decoder_start_token_id=VOCAB - 1, forced_eos_token_id=None, share_encoder_decoder_embeddings=True,
    )  # fmt: skip
    return transformers.MarianMTModel(config).eval()


class Vocabulary:
    """A made-up tokenizer: each token is called by its number."""

    bos_token = eos_token = "0"
    unk_token = "1"

    def __init__(self, size: int) -> None:
        self.words = [str(n) for n in range(size)]


def _converted(loader: Any, model: Any, folder: Path, size: int) -> Path:
    """The model in CTranslate2's format, quantised by it."""
    vocabulary, out = Vocabulary(size), folder / "model"
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


def _threads() -> int:
    return torch.get_num_threads()


def _in_turns(*calls: Callable[[], object]) -> list[float]:
    """The median seconds of each, in turns, after one round to warm up."""
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(ROUNDS + 1):
        for call, kept in zip(calls, times, strict=True):
            time.sleep(REST)
            start = time.perf_counter()
            call()
            if round_:
                kept.append(time.perf_counter() - start)
    return [median(kept) for kept in times]
