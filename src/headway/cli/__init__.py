"""The command line. Nothing here imports torch before a command needs it."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from headway import __version__
from headway.errors import AdviceWarning, ConfigError, HeadwayError, StorageError

EPILOG = """examples:
  headway demo                                        the main job on built-in data, in minutes
  headway train gpt-char --data book.txt              a character model of your own text, into runs/gpt-char
  headway train transformer-tiny --data corpus --source en --target de --out runs/en-de
  headway evaluate runs/en-de --split test            BLEU with its signature, chrF, intervals
  echo "a cute puppy" | headway translate runs/en-de
  headway translate runs/en-de "a cute puppy" --trace beam.jsonl
  headway trace beam.jsonl                            what the beam kept, what it let go, and why
  headway generate runs/gpt-char --prompt "ROMEO:"
  headway lab sentences                               deck 002's three-sentence language model
  headway presets gpt2                                source, size, departures from the paper
"""


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="headway", description="The transformer family as one working system.", epilog=EPILOG, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"headway {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, help: str, *examples: str) -> argparse.ArgumentParser:
        title = "examples" if len(examples) > 1 else "example"
        epilog = "\n  ".join([f"{title}:", *examples]) if examples else None
        return commands.add_parser(name, help=help, description=help, epilog=epilog, formatter_class=raw)

    demo = command("demo", "the main job on built-in data: train an English-French transformer and use it")
    demo.add_argument("--out", metavar="DIR", default="runs/demo", help="the run folder (default: runs/demo)")
    demo.add_argument("--steps", type=_positive, help="of training (default: the recipe's)")

    train = command(
        "train",
        "train a preset on your data; any config key can be set by --KEY.SUB VALUE",
        "headway train gpt-char --data book.txt --train.steps 500 --model.position rotary",
    )
    train.add_argument("preset", metavar="PRESET", help="`headway presets` lists them")
    train.add_argument("--data", metavar="SPEC", help="a built-in name, a file or a folder")
    train.add_argument("--source", metavar="LANG", help="parallel text: the source files' ending, or column")
    train.add_argument("--target", metavar="LANG", help="parallel text: the target files' ending, or column")
    train.add_argument("--errors", choices=("strict", "replace"), help="what to do with bytes that are no UTF-8")
    train.add_argument("--out", metavar="DIR", help="the run folder (default: runs/PRESET)")
    train.add_argument("--config", metavar="FILE", help="YAML with keys to set, below those given here")
    train.add_argument("--init", metavar="RUN", help="fine-tune this run's vision transformer by the preset's recipe")
    train.add_argument("--resume", action="store_true", help="go on from the newest sound checkpoint")
    train.add_argument("--tensorboard", action="store_true", help="event files as well, into DIR/tensorboard")
    train.add_argument("--print_config", action="store_true", help="show the resolved config and stop")

    evaluate = command(
        "evaluate",
        "the metrics of the run's task on a split",
        "headway evaluate runs/en-de                                BLEU, chrF, by length, by position, samples",
        "headway evaluate runs/en-de --split val --beam 1 --json    one flat object for machines",
        "headway evaluate runs/en-de --compare runs/other           is the other one really better?",
        "headway evaluate runs/en-de --out said.txt --plot gap.png",
        "headway evaluate runs/gpt-char --data book.txt --stride 1  each token after a full context",
        "headway evaluate runs/gpt-char --lengths 32,64,128,256     loss by length, beyond training too",
    )
    _run(evaluate)
    evaluate.add_argument("--data", metavar="SPEC", help="other data than the run's own")
    evaluate.add_argument("--split", metavar="NAME", help="default: test if there is one, else val")
    evaluate.add_argument("--beam", type=_positive, help="of translations or captions (default: the recipe's)")
    _precision(evaluate)
    evaluate.add_argument("--average", type=int, metavar="N", help="use the mean of the last N checkpoints")
    evaluate.add_argument(
        "--lengths", metavar="A,B,…", help="loss in windows of so many tokens, beyond those of training too"
    )
    evaluate.add_argument(
        "--stride",
        type=_positive,
        metavar="N",
        help="of a language model's sliding windows (default: half a window)",
    )
    evaluate.add_argument("--compare", metavar="RUN2", help="paired bootstrap with another translation run")
    evaluate.add_argument("--out", metavar="FILE", help="write the translations, classes or captions, one a line")
    evaluate.add_argument(
        "--plot", metavar="FILE.png", help="accuracy by position, loss by length, or the confusion matrix"
    )
    evaluate.add_argument("--json", action="store_true", help="for machines: one flat object on stdout")

    translate = command(
        "translate", "one output line for each input line", "headway translate runs/demo 'a cute puppy'"
    )
    _run(translate)
    translate.add_argument("text", nargs="*", metavar="TEXT", help="without it, lines are read from stdin")
    translate.add_argument("--beam", type=_positive, help="default: the recipe's")
    translate.add_argument("--length-penalty", type=float, metavar="A", help="default: the recipe's")
    translate.add_argument("--n-best", type=_positive, default=1, metavar="N", help="best N with their scores")
    translate.add_argument("--stop-rule", choices=("first", "best"), default="first", help="when a search ends")
    translate.add_argument("--groups", type=_positive, default=1, metavar="N", help="diverse beams side by side")
    translate.add_argument("--diversity", type=float, default=0.5, metavar="D", help="between groups (default: 0.5)")
    translate.add_argument("--prefix", default="", metavar="TEXT", help="translations begin with this")
    translate.add_argument("--must", action="append", default=[], metavar="TEXT", help="and hold this (repeatable)")
    translate.add_argument("--ban", action="append", default=[], metavar="TEXT", help="and not this (repeatable)")
    translate.add_argument("--no-repeat", type=int, default=0, metavar="N", help="no run of N tokens twice")
    translate.add_argument("--ensemble", metavar="RUN2,RUN3", help="the mean of this run and others")
    translate.add_argument("--max-extra", type=int, metavar="N", help="tokens beyond the source's (default: recipe's)")
    _precision(translate)
    translate.add_argument("--trace", metavar="FILE", help="keep each step of the search for `headway trace`")

    trace = command(
        "trace",
        "a search that `translate --trace` kept: its lines, its tree, another length penalty; no model needed",
        "headway trace beam.jsonl                              winner, finished lines, each step's words",
        "headway trace beam.jsonl --length-penalty 1.5         the same lines, ranked anew",
        "headway trace beam.jsonl --plot beam.png              the tree and the alignment as a picture",
    )
    trace.add_argument("file", metavar="FILE", help="what `headway translate --trace FILE` wrote")
    trace.add_argument("--line", type=_positive, default=1, metavar="N", help="which input line (default: 1)")
    trace.add_argument("--length-penalty", type=float, metavar="A", help="rank the finished lines with it instead")
    trace.add_argument("--plot", metavar="FILE.png", help="draw the tree and the alignment, as .png or .svg")
    trace.add_argument("--json", action="store_true", help="for machines: lines, nodes and attention in one object")

    generate = command("generate", "go on from a prompt", "headway generate runs/gpt-char --prompt 'ROMEO:' --seed 1")
    _run(generate)
    generate.add_argument("--prompt", default="\n", metavar="TEXT", help="default: a line break")
    generate.add_argument("--max-tokens", type=_positive, default=200, metavar="N", help="default: 200")
    generate.add_argument("--temperature", type=float, default=0.8, metavar="T", help="0 is greedy (default: 0.8)")
    generate.add_argument("--top-k", type=_positive, metavar="K", help="draw from the K likeliest tokens")
    generate.add_argument("--top-p", type=float, default=1.0, metavar="P", help="from the likeliest that hold P")
    generate.add_argument(
        "--min-p", type=float, default=0.0, metavar="P", help="from those at least P as likely as the best"
    )
    generate.add_argument(
        "--repetition-penalty", type=float, default=1.0, metavar="R", help="of tokens in the context (1: none)"
    )
    generate.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before TEXT (repeatable)")
    generate.add_argument(
        "--num", type=_positive, default=1, metavar="N", help="texts, a line --- between (default: 1)"
    )
    generate.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    _precision(generate)

    score = command("score", "the log-probability of each text", "headway score runs/gpt-char 'to be or not to be'")
    _run(score)
    score.add_argument("text", nargs="*", metavar="TEXT", help="translation models: SOURCE<tab>TARGET; default: stdin")
    score.add_argument("--tokens", action="store_true", help="each token's share as well")

    classify = command(
        "classify",
        "the likeliest classes of each image, sound or text",
        "headway classify runs/shapes photo.png --top 3 --out said.png",
    )
    _run(classify)
    classify.add_argument(
        "input", nargs="*", metavar="INPUT",
        help="image files that Pillow reads (PNG, JPEG, …), WAV files, or texts; without any, texts are read from stdin",
    )  # fmt: skip
    classify.add_argument("--top", type=_positive, default=5, metavar="K", help="classes of each (default: 5)")
    _precision(classify)
    classify.add_argument("--out", metavar="FILE.png", help="the images with their classes drawn below")
    classify.add_argument("--patches", metavar="FILE.png", help="the first image as the patches the model reads")
    classify.add_argument("--json", action="store_true", help="for machines: one object on stdout")

    caption = command(
        "caption",
        "a sentence about each image",
        "headway caption runs/captioner-rnn photo.png --out said.png",
    )
    _run(caption)
    caption.add_argument("image", nargs="+", metavar="IMAGE", help="files that Pillow reads: PNG, JPEG, WebP, …")
    caption.add_argument("--beam", type=_positive, metavar="N", help="default: the recipe's")
    _precision(caption)
    caption.add_argument("--out", metavar="FILE.png", help="the images with their captions drawn below")
    caption.add_argument("--attention", metavar="FILE.png", help="where each word looked, drawn over the images")
    caption.add_argument("--json", action="store_true", help="for machines: one object on stdout")

    pose = command(
        "pose",
        "the keypoints of the person in each image",
        "headway pose runs/pose figure.png --out skeleton.png",
    )
    _run(pose)
    pose.add_argument("image", nargs="+", metavar="IMAGE", help="files that Pillow reads: PNG, JPEG, WebP, …")
    _precision(pose)
    pose.add_argument("--out", metavar="FILE.png", help="the images with their skeletons drawn on them")
    pose.add_argument("--json", action="store_true", help="for machines: one object on stdout")

    play = command(
        "play",
        "act in the real environment with a policy learned in a world model's imagination",
        "headway play runs/world-cartpole --episodes 100",
        "headway play runs/world-cartpole --render both.gif    the real episode beside the imagined one",
    )
    _run(play)
    play.add_argument("--episodes", type=_positive, default=100, metavar="N", help="with fresh seeds (default: 100)")
    play.add_argument("--seed", type=int, default=0, metavar="N", help="of those seeds (default: 0)")
    play.add_argument("--render", metavar="FILE.gif", help="the first real episode beside its dream, .gif or .png")
    play.add_argument("--json", action="store_true", help="for machines: one flat object on stdout")

    embed = command("embed", "sentence vectors from an encoder", "headway embed runs/minilm 'a cute puppy'")
    _run(embed)
    embed.add_argument("text", nargs="*", metavar="TEXT", help="without it, lines are read from stdin")
    embed.add_argument("--out", metavar="FILE.npy", help="write the vectors as a numpy array")
    embed.add_argument("--json", action="store_true", help="for machines: one object with the vectors")

    importing = command(
        "import",
        "a Hugging Face model folder (config.json, safetensors, tokenizer) as a run",
        "headway import gpt2 --out runs/gpt2",
        "headway import gpt2 --out runs/checked --reference     and keep what transformers says, for `headway verify`",
    )
    importing.add_argument("folder", metavar="DIR", help="the model folder; nothing in it is run")
    importing.add_argument("--out", metavar="RUN", required=True, help="the run folder to make")
    importing.add_argument(
        "--reference", action="store_true", help="keep logits of transformers' own model for `headway verify`"
    )

    exporting = command(
        "export",
        "a run as a Hugging Face model folder, loaded again and compared before it appears",
        "headway export runs/en-de --out en-de",
        "headway export runs/minilm --out minilm --onnx    an encoder's graph as well",
    )
    exporting.add_argument("run", metavar="RUN", help="a run folder, as `headway train` writes it")
    exporting.add_argument("--out", metavar="DIR", required=True, help="the model folder to make")
    exporting.add_argument("--onnx", action="store_true", help="a model.onnx as well, of an encoder or a ViT")
    exporting.add_argument("--average", type=int, metavar="N", help="use the mean of the last N checkpoints")

    verify = command(
        "verify",
        "whether cache, batch, padding, kernels, precisions and export agree on this checkpoint; exit 0 or 3",
        "headway verify runs/en-de                              a verdict for each: rounding, or a bug",
        "headway verify runs/gpt-char 'to be or not to be'      on a line of your own",
    )
    _run(verify)
    verify.add_argument(
        "text", nargs="*", metavar="TEXT", help="inputs, or image files (default: made up, and some of val)"
    )
    verify.add_argument("--input", metavar="FILE", help="inputs, one a line; a translation's may be SOURCE<tab>TARGET")
    verify.add_argument("--compiled", action="store_true", help="what torch.compile makes of it as well: a minute more")
    verify.add_argument("--json", action="store_true", help="for machines: one flat object on stdout")

    look = command(
        "look",
        "one offline HTML file: what the model did with this input",
        "headway look runs/demo 'a cute puppy' -o page.html",
    )
    _run(look)
    look.add_argument("input", metavar="INPUT", help="a text, or an image file for a run that reads images")
    look.add_argument("-o", "--out", metavar="FILE.html", default="page.html", help="default: page.html")

    lab = command(
        "lab",
        "the decks' experiments, to run and change",
        "headway lab sentences",
        "headway lab positions --data book.txt --seeds 3    takes --KEY.SUB VALUE, as `headway train` does",
    )
    lab.add_argument("name", nargs="?", metavar="NAME", help="without it, which there are")
    lab.add_argument("--seed", type=int, default=0, help="of the weights and the samples (default: 0)")
    lab.add_argument("--steps", type=_positive, help="of training (default: the lab's)")
    lab.add_argument("--data", metavar="SPEC", help="positions: a text (default: pydocs)")
    lab.add_argument("--out", metavar="DIR", help="positions: the folder of its runs (default: runs/positions)")
    lab.add_argument(
        "--kinds", metavar="A,B,…", default="learned,sinusoidal,rotary,alibi,none", help="positions: which to compare"
    )
    lab.add_argument("--seeds", type=_positive, default=1, metavar="N", help="positions: so many of each (default: 1)")
    lab.add_argument("--plot", metavar="FILE.png", help="pondering: the ponder map")

    presets = command("presets", "the models there are, their size, source and departures")
    presets.add_argument("name", nargs="?", metavar="NAME", help="show this one in full")
    presets.add_argument("--json", action="store_true", help="for machines")

    bench = command("bench", "headway beside its peers, in one run")
    bench.add_argument("name", nargs="?", metavar="NAME", help="which comparison; without it, what there is")
    bench.add_argument("--data", metavar="SPEC", help="parallel text to take batches of (default: generated, as long)")
    bench.add_argument("--source", metavar="LANG", default="en", help="default: en")
    bench.add_argument("--target", metavar="LANG", default="de", help="default: de")
    bench.add_argument("--json", action="store_true", help="for machines")
    return parser


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run folder, as `headway train` writes it")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: auto")


def _precision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16", "int8"),
        default="fp32",
        help="auto: the fastest here, int8 on most CPUs, bf16 on a GPU (default: fp32)",
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit codes are in docs/commands.md."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command is None or (rest and arguments.command not in ("train", "lab")):
        if rest:
            parser.error(f"unknown arguments: {' '.join(rest)}")
        parser.print_help()
        return 0
    arguments.overrides = rest
    warnings.showwarning = _one_line
    try:
        name = "import_" if arguments.command == "import" else arguments.command  # a word of Python's own
        with _checked_ahead(arguments):
            _command(name).run(arguments)
        sys.stdout.flush()  # here, where what goes wrong with it can still be told
    except HeadwayError as error:
        if arguments.debug:
            raise
        print(f"headway: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("headway: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `headway presets | head`: the reader has seen enough
        _drop_output()
    except OSError as error:
        if arguments.debug or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop_output()
        print(f"headway: {error.filename or 'standard output'}: could not be written (no space left)", file=sys.stderr)
        return StorageError.exit_code
    return 0


def _checked_ahead(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Check the 8-bit copy of a run, if it will be used, while torch is being imported."""
    if getattr(arguments, "precision", None) not in ("int8", "auto"):
        return contextlib.nullcontext()
    from headway.storage.manifest import INT8, ahead  # whose threads `headway --help` can do without

    return ahead(Path(arguments.run) / INT8)


def _command(name: str) -> Any:
    """A command's module. What it brings along stays: to look there for garbage takes a tenth of a second each time."""
    gc.disable()
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # other makers' devices: not ours, and slow to look for
    try:
        return importlib.import_module(f"headway.cli.commands.{name}")
    finally:
        gc.freeze()
        gc.enable()


def _drop_output() -> None:
    """Nobody takes what is left to print: let it go, or Python stumbles over it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def overrides_of(words: Sequence[str]) -> dict[str, str]:
    """`--a.b VALUE` and `--a.b=VALUE` as {"a.b": "VALUE"}. Raises ConfigError for anything else."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            raise ConfigError(f"unexpected argument {word!r}: settings are written --KEY.SUB VALUE")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise ConfigError(f"--{key} needs a value")
            value = rest.pop(0)
        found[key] = value
    return found


def _one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    name = "note" if issubclass(category, AdviceWarning) else category.__name__
    print(f"headway: {name}: {message}", file=sys.stderr)
