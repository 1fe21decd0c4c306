"""Two steps of every kind of layer, kernel, optimiser and schedule; one step on every built-in set."""

from __future__ import annotations

from pathlib import Path

from golden_cases.common import BERT, CORPUS, GPT, LAYERS, ONCE, PAIR, SOURCE, TEXT, VIT, group
from golden_cases.recorder import Recorder


def variant(rec: Recorder, name: str, words: str, flags: str) -> None:
    """Two steps of a variant: its weights, its log and its config."""
    run = f"runs/{name}"
    rec.command(f"{name}/train", f"train {words} {flags} {ONCE} --out {run}")
    for file in ("config.yaml", "log.jsonl", "checkpoints/step-00000002/model.safetensors"):
        rec.file(f"{name}/{file}", f"{run}/{file}")


@group
def variants(rec: Recorder) -> None:
    """Positions, norms, kernels, optimisers: two steps of each."""
    gpt, pair = f"gpt-char --data book.txt {GPT}", f"transformer-tiny {CORPUS} {PAIR} {LAYERS} --data.tokenizer word"
    positions = (
        "none", "raw-index", "saturating", "sine", "sine-cosine", "sinusoidal", "sinusoidal-halves",
        "sinusoidal-tensor2tensor", "learned", "rotary", "alibi", "t5", "shaw",
    )  # fmt: skip
    for kind in positions:
        variant(rec, f"gpt-{kind}", gpt, f"--model.position {kind}")
        rec.command(f"gpt-{kind}/score", ["score", f"runs/gpt-{kind}", TEXT, "--tokens"])
        rec.command(f"gpt-{kind}/generate", f"generate runs/gpt-{kind} --prompt The --max-tokens 12 --temperature 0")
        variant(rec, f"pair-{kind}", pair, f"--model.position {kind}")
        rec.command(
            f"pair-{kind}/translate", ["translate", f"runs/pair-{kind}", SOURCE, "--beam", "3", "--n-best", "2"]
        )
    for kernel in (
        "reference", "sdpa", "few", "tiled", "flash", "short", "banded", "auto", "x",
    ):  # fmt: skip
        variant(rec, f"kernel-{kernel}", gpt, f"--model.kernel {kernel}")
    windows = "--model.windows windows --model.windows.radius 5"
    for kernel in ("reference", "banded", "tiled"):
        variant(rec, f"windows-{kernel}", gpt, f"{windows} --model.kernel {kernel}")
    for name, flags in {
        "rms": "--model.norm rms-norm --model.activation swiglu --model.tied false",
        "grouped": "--model.kv_heads 1 --model.inner 24 --model.bias true",
        "concat": "--model.position sinusoidal --model.position.concat 4 --model.scaled true",
        "dropout": "--model.dropout 0.2 --train.ema 0.9 --train.accumulate 2 --train.label_smoothing 0.1",
        "bf16": "--train.precision bf16",
        "muon": "--train.optimiser muon --train.schedule inverse-sqrt",
        "sgd": "--train.optimiser sgd --train.schedule noam --train.clip 0",
        "adam": "--train.optimiser adam --train.schedule linear",
        "leaky": "--model.activation leaky_relu --model.position none",
        "silu": "--model.activation silu --model.init_std 0.05",
        "gelu-tanh": "--model.activation gelu_tanh --model.windows windows --model.windows.radius 5",
        "words": "--data.tokenizer word",
        "byte-bpe": "--data.tokenizer byte-bpe --data.tokenizer.vocab 270",
    }.items():
        variant(rec, f"gpt-{name}", gpt, flags)


@group
def more_variants(rec: Recorder) -> None:
    """Recurrent, Universal, BERT and ViT variants: two steps of each."""
    rnn = (
        f"rnn-seq2seq {CORPUS} --train.batch_tokens 256 --model.width 8 --model.encoder.hidden 8 "
        "--model.decoder.hidden 8 --model.attention.width 8"
    )
    loop = f"universal-tiny {CORPUS} {PAIR} --model.halting.steps 3"
    bert = f"bert-base --data book.txt {BERT} --train.accumulate 1"
    vit = f"sl-vit --data photos --task.size 16 {VIT} --model.image 16"
    pair = f"transformer-tiny {CORPUS} {PAIR} {LAYERS} --data.tokenizer word"
    made = {f"rnn-{kind}": (rnn, f"--model.attention.kind {kind} --model.encoder.bidirectional false") for kind in
            ("identity", "multiplicative", "bilinear", "learned", "additive")}  # fmt: skip
    made |= {
        "rnn-plain": (rnn, "--model.attention none --model.context readout --model.reverse_source true"),
        "rnn-lstm": (rnn, "--model.encoder.cell lstm --model.decoder.cell lstm --model.decoder.layers 2"),
        "rnn-next-layer": (rnn, "--model.context next_layer --model.decoder.layers 2"),
        "rnn-hard": (rnn, "--model.attention.hard true"),
        "universal-transformed": (loop, "--model.halting.halted transformed"),
        "universal-accumulated": (loop, "--model.halting.mixture accumulated"),
        "universal-neighbours": (loop, "--model.neighbours 1"),
        "universal-window": (loop, "--model.window 2 --model.offsets offsets"),
        "universal-fixed": (loop, "--model.halting fixed --model.halting.steps 2"),
        "universal-dropout": (loop, "--model.dropout 0.1 --model.attention_dropout 0.1 --model.activation_dropout 0.1"),
        "pair-pre": (pair, "--model.place pre --model.activation gelu --train.label_smoothing 0.1"),
        "pair-untied": (pair, "--model.tied false --data.joint false --model.dropout 0.2"),
        "pair-bf16": (pair, "--train.precision bf16 --model.input_norm true"),
        "bert-alibi": (bert, "--model.bert.position alibi"),
        "bert-fraction": (bert, "--model.bert.position fraction"),
        "bert-t5": (bert, "--model.bert.position t5"),
        "bert-running": (bert, "--task.rows running --model.follows false"),
        "vit-mean": (vit, "--model.pool mean --model.local false"),
        "vit-patches": (vit, "--model.patches patches --task.augment none"),
        "vit-hybrid": (vit, "--model.patches hybrid --model.patches.widths 4,6"),
        "vit-reference": (vit, "--model.kernel reference"),
        "vit-short": (vit, "--model.kernel short --model.heads 1"),
        "vit-noisy": (vit, "--model.dropout 0.1 --model.stochastic_depth.growth linear --train.ema 0.9"),
    }
    for name, (words, flags) in made.items():
        variant(rec, name, words, flags)
        run = f"runs/{name}"
        if words in (rnn, loop, pair):
            rec.command(f"{name}/translate", ["translate", run, SOURCE, "--beam", "3", "--n-best", "2"])
        elif words == vit:
            rec.command(f"{name}/classify", ["classify", run, "photo.png", "--json"])
        else:
            rec.command(f"{name}/embed", ["embed", run, TEXT, "--json"])


# --- built-in data ---------------------------------------------------------------------------------------------------


@group
def builtin(rec: Recorder) -> None:
    """The built-in sets: their digests, and one step on each."""
    one = "--train.steps 1 --train.evaluate_every 1 --train.save_every 1 --train.device cpu --data.cache cache"
    vit = f"{VIT} --model.layers 1"
    pair = f"transformer-digits {PAIR} {LAYERS} --task.max_extra 2"
    made = {name: f"{pair} --data {name}" for name in
            ("reverse", "copy", "reverse-digits", "copy-digits", "reverse-long", "copy-long", "addition")}  # fmt: skip
    made |= {
        "phrases": f"transformer-tiny {PAIR} {LAYERS} --data phrases --data.tokenizer word --task.beam 1",
        "phrases-reversed": f"transformer-tiny {PAIR} {LAYERS} --data phrases --source fr --target en "
        "--data.tokenizer word --task.beam 1",
        "deck-sentences": f"gpt-char --data deck-sentences {GPT} --task.context 8 --model.context 8",
        "pydocs": f"gpt-char --data pydocs {GPT} --model.layers 1",
        "shapes": f"sl-vit-tiny {vit} --model.image 16 --task.size 16",
        "shape-captions": "captioner-rnn --model.image 16 --task.size 16 --model.widths 4,8 --model.width 8 "
        "--model.decoder.hidden 8 --model.attention.width 4 --train.batch_tokens 8",
        "tones": f"audio-vit {vit} --model.image 32 --model.patch 8 --task.size 32 --task.sound.rate 4000",
        "figures": f"pose {vit} --model.image 32 --task.size 32 --model.head.width 8",
    }
    for name, words in made.items():
        rec.command(f"{name}/train", f"train {words} {one} --out runs/{name}")
        for file in ("data.json", "config.yaml", "log.jsonl", "checkpoints/step-00000001/model.safetensors"):
            rec.file(f"{name}/{file}", f"runs/{name}/{file}")
        if Path(f"runs/{name}/tokenizer.json").exists():
            rec.file(f"{name}/tokenizer.json", f"runs/{name}/tokenizer.json")
