"""What people call a command in other programs, and the command that does it here.

An intent names command lines as they follow `headway`. Those that begin with a command there is are suggested; where
none does, the word is unknown like any other.
"""

from __future__ import annotations

import os
from collections.abc import Collection

TRAIN = ("train PRESET --data SPEC",)
RESUME = ("train --out RUN --resume",)
FINETUNE = ("train PRESET --init RUN --data SPEC",)
LIST = ("runs", "info RUN", "presets")
MODELS = ("presets",)
INFO = ("info RUN",)
EVALUATE = ("evaluate RUN",)
CHAT = ("chat RUN TEXT", "generate RUN TEXT")
GENERATE = ("generate RUN TEXT",)
PREDICT = ("classify RUN INPUT", "translate RUN TEXT", "generate RUN TEXT")
EXPORT = ("export RUN --out DIR",)
IMPORT = ("import DIR --out RUN",)
LOOK = ("look RUN INPUT",)
INT8 = ("translate RUN TEXT --precision int8",)
CLEAN = ("runs clean",)
INTENTS = {
    **dict.fromkeys(("fit", "learn", "pretrain", "run", "start", "new", "init", "create"), TRAIN),
    **dict.fromkeys(("resume", "continue", "restart"), RESUME),
    **dict.fromkeys(("finetune", "fine-tune", "tune", "adapt"), FINETUNE),
    **dict.fromkeys(("list", "ls", "dir"), LIST),
    **dict.fromkeys(("models", "preset", "zoo", "recipes"), MODELS),
    **dict.fromkeys(("show", "status", "summary", "describe", "stat"), INFO),
    **dict.fromkeys(("eval", "test", "validate", "metrics", "bleu"), EVALUATE),
    **dict.fromkeys(("sample", "complete", "prompt"), GENERATE),
    **dict.fromkeys(("ask", "talk", "converse"), CHAT),
    **dict.fromkeys(("predict", "infer", "inference", "apply", "use"), PREDICT),
    **dict.fromkeys(("perplexity", "logprob", "likelihood", "ppl"), ("score RUN TEXT",)),
    **dict.fromkeys(("encode", "embeddings", "embedding", "vectors", "vectorize"), ("embed RUN TEXT",)),
    **dict.fromkeys(("ner", "pos", "entities", "label", "annotate"), ("tag RUN TEXT",)),
    **dict.fromkeys(("question", "qa", "read", "squad"), ("answer RUN CONTEXT QUESTION",)),
    **dict.fromkeys(("find", "retrieve", "query", "index", "grep"), ("search RUN CORPUS QUERY",)),
    **dict.fromkeys(("convert", "save", "push", "publish", "upload"), EXPORT),
    **dict.fromkeys(("download", "pull", "load", "get", "fetch"), IMPORT),
    **dict.fromkeys(("visualize", "visualise", "view", "inspect", "explain", "attention", "page", "plot"), LOOK),
    **dict.fromkeys(("quantize", "quantise", "int8"), INT8),
    **dict.fromkeys(("check", "doctor"), ("verify RUN",)),
    **dict.fromkeys(("benchmark", "speed", "time"), ("bench",)),
    **dict.fromkeys(("compare", "diff"), ("runs compare A B", "evaluate RUN --compare RUN2")),
    **dict.fromkeys(("clean", "prune", "rm", "remove", "delete", "gc"), CLEAN),
    **dict.fromkeys(("config", "configs", "settings", "options", "keys"), ("train PRESET --help",)),
    **dict.fromkeys(("tensorboard", "logs"), ("train PRESET --data SPEC --tensorboard",)),
    **dict.fromkeys(("experiment", "experiments", "labs"), ("lab",)),
    **dict.fromkeys(("tutorial", "example", "examples", "quickstart"), ("demo",)),
    "onnx": ("export RUN --out DIR --onnx",),
    "version": ("--version",),
}


def meant(word: str, commands: Collection[str]) -> str:
    """The command lines that do what a word asks for, or nothing: `use headway A, or headway B`."""
    lines = [line for line in INTENTS.get(word.lower(), ()) if line.startswith("-") or line.split()[0] in commands]
    if not lines and os.path.isdir(word):
        lines = [f"info {word}"]
    return f"use {', or '.join(f'headway {line}' for line in lines[:3])}" if lines else ""
