"""Runs that read text: language, masked, translation, text classification, embedding."""

from __future__ import annotations

import json
from pathlib import Path

from golden_cases.common import (
    BERT,
    CORPUS,
    GPT,
    LAYERS,
    ONCE,
    PAIR,
    SHORT,
    SOURCE,
    TEXT,
    captured,
    export,
    group,
    look,
    resumed,
    train,
    verbs,
)
from golden_cases.recorder import Recorder


@group
def gpt(rec: Recorder) -> None:
    """A character model: every way to generate, to evaluate and to resume."""
    words = f"gpt-char --data book.txt {GPT}"
    run = train(rec, "gpt-char", words)
    verbs(rec, "gpt-char", run, text=TEXT, given=TEXT)
    resumed(rec, "gpt-char", words)
    rec.command("gpt-char/evaluate-lengths", f"evaluate {run} --lengths 16,32,64 --json")
    rec.command(
        "gpt-char/evaluate-lengths-report", f"evaluate {run} --lengths 16,128 --plot by-length.png", kind="report"
    )
    rec.file("gpt-char/by-length.png", "by-length.png")
    rec.command("gpt-char/evaluate-stride", f"evaluate {run} --stride 7 --split train --plot positions.png --json")
    rec.file("gpt-char/positions.png", "positions.png")
    rec.command("gpt-char/evaluate-other", f"evaluate {run} --data other.txt --json")
    rec.command("gpt-char/evaluate-average", f"evaluate {run} --average 2 --json")
    for precision in ("bf16", "int8", "auto"):
        rec.command(f"gpt-char/evaluate-{precision}", f"evaluate {run} --precision {precision} --json")
    ask = f"generate {run} --prompt 'The dog' --max-tokens 24"
    for name, flags in {
        "seed-0": "", "seed-1": "--seed 1", "top-k": "--top-k 5", "top-p": "--top-p 0.7", "min-p": "--min-p 0.05",
        "penalty": "--repetition-penalty 1.5 --seed 3", "num": "--num 3 --temperature 1.2",
        "stop": "--stop e --stop at --num 2", "int8": "--precision int8 --temperature 0",
        "bf16": "--precision bf16 --temperature 0", "long": "--max-tokens 90 --temperature 0",
    }.items():  # fmt: skip
        rec.command(f"gpt-char/generate-{name}", f"{ask} {flags}")
    rec.command("gpt-char/score-tokens", f"score {run} 'The dog runs.' 'The' --tokens")
    rec.command("gpt-char/score-stdin", f"score {run}", given="The dog runs.\nThe cat\n")
    rec.command("gpt-char/verify-text", f"verify {run} 'The dog runs.' 'The cat' --json")
    rec.command("gpt-char/verify-report", f"verify {run}", kind="report")
    rec.command("gpt-char/verify-input", f"verify {run} --input lines.txt --json")
    captured(rec, "gpt-char", run, lambda loaded: loaded.score(TEXT))
    rec.command("tensorboard/train", f"train {words} {ONCE} --tensorboard --out runs/events")
    events = len(list(Path("runs/events/tensorboard").glob("events.*")))
    rec.entry("tensorboard/files", "files", f"{events} event files")


@group
def language(rec: Recorder) -> None:
    """The other language models."""
    for run, words in {
        "rnn-lm": "rnn-lm --data book.txt --model.width 12 --model.recurrent.hidden 12 --train.batch_tokens 140",
        "llama": f"llama-tiny --data book.txt {GPT} --model.kv_heads 1 --model.inner 24 --model.context 64 "
        "--task.context 64 --data.tokenizer characters --train.accumulate 2 --train.precision fp32",
        "gpt2": f"gpt2 --data book.txt {GPT} --model.context 32 --task.context 32 --data.tokenizer.vocab 300 "
        "--train.accumulate 1",
        "longformer-char": f"longformer-char --data book.txt {GPT} --model.windows.radius 6 --model.windows.dilation 2",
    }.items():  # fmt: skip
        folder = train(rec, run, words)
        verbs(rec, run, folder, text=TEXT, given=TEXT)
        rec.command(
            f"{run}/generate-seeded", f"generate {folder} --prompt 'The dog' --max-tokens 12 --seed 2 --top-p 0.9"
        )
        rec.command(f"{run}/evaluate-lengths", f"evaluate {folder} --lengths 8,16,70 --json")
        captured(rec, run, folder, lambda loaded: loaded.score(TEXT))
    words = "rnn-lm --data book.txt --model.width 12 --model.recurrent.hidden 12 --train.batch_tokens 140"
    resumed(rec, "rnn-lm", words)
    train(rec, "rnn-scheduled", f"{words} --task.scheduled scheduled-sampling", settings=ONCE)


@group
def masked(rec: Recorder) -> None:
    """Masked models, which also embed."""
    long = (
        "--model.longformer.width 16 --model.longformer.layers 1 --model.longformer.heads 2 "
        "--model.longformer.inner 32 --model.longformer.context 64 --model.longformer.windows.radius 4 "
        "--task.length 48 --train.accumulate 1 --train.batch_tokens 256 --data.tokenizer.vocab 300"
    )
    loop = (
        "--model.bert.width 16 --model.bert.inner 32 --model.bert.heads 2 --model.bert.halting.steps 3 "
        "--task.length 32 --train.accumulate 1 --train.batch_tokens 256 --data.tokenizer.vocab 60"
    )
    for run, words in {
        "bert": f"bert-base --data book.txt {BERT}",
        "roformer": f"roformer --data book.txt {BERT}",
        "longformer": f"longformer --data book.txt {long} --train.precision fp32",
        "universal-bert": f"universal-bert --data book.txt {loop}",
    }.items():
        folder = train(rec, run, words)
        verbs(rec, run, folder, text=TEXT, given=TEXT)
        rec.command(f"{run}/evaluate-lengths", f"evaluate {folder} --lengths 16,24 --plot {run}.png --json")
        rec.file(f"{run}/by-length.png", f"{run}.png")
        captured(rec, run, folder, lambda loaded: loaded.embed([TEXT, "The bird"]))
    rec.command("bert/embed-lines", "embed runs/bert", given="The cat\nThe old dog runs\n")
    rec.command("bert/embed-out", "embed runs/bert 'The cat' --out vectors.npy")
    rec.file("bert/vectors.npy", "vectors.npy")
    resumed(rec, "bert", f"bert-base --data book.txt {BERT}")
    train(rec, "longformer-bf16", f"longformer --data book.txt {long}", settings=ONCE)
    train(rec, "deck", f"deck --data book.txt {ONCE}", settings="")
    export(rec, "bert/export-onnx", "runs/bert", "--onnx")


@group
def translation(rec: Recorder) -> None:
    """The encoder-decoder: every way to search."""
    words = f"transformer-tiny {CORPUS} {PAIR} {LAYERS} --data.tokenizer word"
    run = train(rec, "transformer", words)
    verbs(rec, "transformer", run)
    resumed(rec, "transformer", words)
    # One that has learned to end its lines: what a search does with those that end is seen with it alone.
    taught = "--train.seed 1 --train.steps 120 --train.learning_rate 0.01 --train.schedule constant "
    taught += "--train.evaluate_every 60 --train.save_every 60"
    other = train(rec, "transformer-taught", words, settings=f"{SHORT} {taught}")
    lines = "'the old dog runs under the tree' 'the bird eats'"
    for name, flags in {
        "greedy": "--beam 1", "beam": "--beam 4", "n-best": "--beam 4 --n-best 3", "penalty": "--length-penalty 1.2",
        "stop-rule": "--beam 3 --stop-rule best", "groups": "--beam 4 --groups 2 --diversity 0.8 --n-best 4",
        "prefix": "--prefix 'le vieux'", "must": "--must maison --beam 3", "ban": "--ban le --beam 3",
        "no-repeat": "--no-repeat 2", "max-extra": "--max-extra 3 --beam 2", "ensemble": f"--ensemble {run} --beam 2",
        "int8": "--precision int8", "int8-again": "--precision int8 --beam 4 --n-best 2", "bf16": "--precision bf16",
        "auto": "--precision auto --beam 1",
    }.items():  # fmt: skip
        rec.command(f"transformer-taught/translate-{name}", f"translate {other} {lines} {flags}")
    rec.folder("transformer-taught/folder-after-int8", other)
    rec.command("transformer/translate-beam", f"translate {run} {lines} --beam 4 --n-best 3")
    rec.command("transformer/translate-stdin", f"translate {run}", given=Path("lines.txt").read_text())
    rec.command("transformer/translate-bad-bytes", f"translate {run}", given=Path("bad-bytes.txt").read_bytes())
    rec.command("transformer/translate-long", ["translate", run, " ".join(["the old dog runs"] * 90)])
    traces(rec, "transformer", run)
    traces(rec, "transformer-taught", other)
    rec.command("transformer-taught/evaluate", f"evaluate {other} --json")
    rec.command("transformer-taught/verify", f"verify {other} --json")
    look(rec, "transformer-taught/look", other, SOURCE)
    pair = "the bird eats\tl'oiseau mange"
    rec.command("transformer/score-pair", ["score", run, pair, "the cat\tle chat", "--tokens"])
    rec.command("transformer/score-stdin", ["score", run], given=f"{pair}\n")
    rec.command("transformer/evaluate-compare", f"evaluate {run} --compare {other} --json")
    rec.command("transformer/evaluate-compare-report", f"evaluate {run} --compare {other}", kind="report")
    rec.command(
        "transformer/evaluate-beam", f"evaluate {run} --split val --beam 2 --out said.txt --plot gap.png --json"
    )
    rec.file("transformer/said.txt", "said.txt")
    rec.file("transformer/gap.png", "gap.png")
    for precision in ("int8", "bf16"):
        rec.command(f"transformer/evaluate-{precision}", f"evaluate {run} --precision {precision} --json")
    rec.command("transformer/evaluate-average", f"evaluate {run} --average 1 --json")
    rec.command("transformer/verify-report", f"verify {run}", kind="report")
    rec.command("transformer/verify-pair", ["verify", run, pair, "the cat\tle chat", "--json"])
    captured(rec, "transformer", run, lambda loaded: loaded.translate([SOURCE, "the cat"], beam=3))
    rec.python("transformer/python-translate", "stdout", lambda: _translated(run))
    rec.command("transformer/import-reference", "import exported/transformer-export --out runs/reference --reference")
    rec.command("transformer/verify-reference", "verify runs/reference --json")


def traces(rec: Recorder, name: str, run: str) -> None:
    """Searches that are kept, and what `trace` makes of them."""
    lines = "'the old dog runs under the tree' 'the bird eats'"
    for beam in (1, 4):
        rec.command(
            f"{name}/translate-trace-{beam}",
            f"translate {run} {lines} --beam {beam} --n-best {beam} --trace {name}-{beam}.jsonl",
        )
        rec.file(f"{name}/trace-{beam}.jsonl", f"{name}-{beam}.jsonl", kind="trace")
    file = f"{name}-4.jsonl"
    rec.command(f"{name}/trace", f"trace {file} --json")
    rec.command(f"{name}/trace-report", f"trace {file}", kind="report")
    rec.command(f"{name}/trace-line", f"trace {file} --line 2 --json")
    rec.command(f"{name}/trace-penalty", f"trace {file} --length-penalty 1.5 --json")
    rec.command(f"{name}/trace-penalty-report", f"trace {file} --length-penalty 1.5", kind="report")
    for ending in ("png", "svg"):
        rec.command(f"{name}/trace-{ending}", f"trace {file} --plot {name}.{ending} --json")
        rec.file(f"{name}/trace-plot.{ending}", f"{name}.{ending}")


def _translated(run: str) -> str:
    import headway

    loaded = headway.load(run, device="cpu")
    return json.dumps([loaded.translate([SOURCE]), loaded.translate([SOURCE], beam=3, n_best=2, length_penalty=0.5)])


@group
def seq2seq(rec: Recorder) -> None:
    """Recurrent and Universal translators, two vocabularies, other tokenizers."""
    rnn = (
        f"rnn-seq2seq {CORPUS} --train.batch_tokens 256 --model.width 8 --model.encoder.hidden 8 "
        "--model.decoder.hidden 8 --model.attention.width 8"
    )
    loop = f"universal-tiny {CORPUS} {PAIR} --model.halting.steps 3"
    for run, words in {
        "rnn-seq2seq": rnn,
        "universal": loop,
        "transformer-bpe": f"transformer-tiny {CORPUS} {PAIR} {LAYERS} --data.tokenizer.vocab 60",
        "transformer-two": f"transformer-tiny {CORPUS} {PAIR} {LAYERS} --data.tokenizer unigram "
        "--data.tokenizer.vocab 30 --data.joint false",
    }.items():
        folder = train(rec, run, words)
        verbs(rec, run, folder)
        rec.command(f"{run}/translate-beam", f"translate {folder} '{SOURCE}' --beam 4 --n-best 3")
        rec.command(f"{run}/translate-int8", f"translate {folder} '{SOURCE}' --precision int8")
        rec.command(f"{run}/score-pair", ["score", folder, "the cat\tle chat", "--tokens"])
        captured(rec, run, folder, lambda loaded: loaded.translate([SOURCE], beam=2))
    traces(rec, "rnn-seq2seq", "runs/rnn-seq2seq")
    traces(rec, "universal", "runs/universal")
    resumed(rec, "universal", loop)
    train(
        rec, "rnn-scheduled", f"{rnn} --task.scheduled scheduled-sampling --task.scheduled.passes steps", settings=ONCE
    )
    rec.python("universal/ponder", "stdout", _pondered)


def _pondered() -> str:
    import headway

    (found,) = headway.load("runs/universal", device="cpu").ponder([SOURCE], ["le chat"])
    return f"{found.source} {found.target} {found.source_steps} {found.target_steps}"


@group
def texts(rec: Recorder) -> None:
    """Text classification, on the built-in documents and on a table."""
    sizes = (
        "--model.encoder.width 16 --model.encoder.inner 16 --model.encoder.heads 2 --model.encoder.layers 1 "
        "--model.encoder.windows.radius 4"
    )
    for run, words in {
        "needle": f"longformer-needle {sizes} --task.length 128 --model.encoder.context 128 --train.batch_tokens 512",
        "reviews": f"longformer-needle --data reviews.tsv {sizes} --task.length 16 --model.encoder.context 16 "
        "--train.batch_tokens 128",
    }.items():
        folder = train(rec, run, words)
        verbs(rec, run, folder, text="a fine film", given="a fine film")
        rec.command(f"{run}/evaluate-files", f"evaluate {folder} --split val --out {run}.txt --plot {run}.png --json")
        rec.file(f"{run}/said.txt", f"{run}.txt")
        rec.file(f"{run}/confusion.png", f"{run}.png")


@group
def embedding(rec: Recorder) -> None:
    """Imported models: a sentence encoder and GPT-2."""
    for run, folder in (("encoder", "encoder"), ("gpt2", "gpt2")):
        for name, flags in (("", ""), ("-reference", " --reference")):
            rec.command(f"{run}/import{name}", f"import {folder} --out runs/{run}{name}{flags}")
            rec.folder(f"{run}/imported{name}", f"runs/{run}{name}")
            rec.command(f"{run}/verify{name}-imported", f"verify runs/{run}{name} --json")
    rec.keep("runs/encoder")
    rec.keep("runs/gpt2")
    verbs(rec, "encoder", "runs/encoder")
    verbs(rec, "gpt2", "runs/gpt2", text=TEXT, given=TEXT)
    rec.command("encoder/embed-lines", "embed runs/encoder", given=Path("lines.txt").read_text())
    rec.command("encoder/embed-out", f"embed runs/encoder '{SOURCE}' 'the dog' --out vectors.npy --json")
    rec.file("encoder/vectors.npy", "vectors.npy")
    captured(rec, "encoder", "runs/encoder", lambda loaded: loaded.embed([SOURCE, "the dog"]))
    rec.command("gpt2/evaluate-data", "evaluate runs/gpt2 --data book.txt --json")
    rec.command("gpt2/generate-seeded", "generate runs/gpt2 --prompt The --max-tokens 12 --seed 4")
    export(rec, "encoder/export-onnx", "runs/encoder", "--onnx")
