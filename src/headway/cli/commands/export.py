"""`headway export`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.terminal import tell
from headway.counts import counted

if TYPE_CHECKING:
    from headway.interop.export_proof import ExportProof

HELP = "a run as a Hugging Face model folder, loaded again and compared before it appears"
EXAMPLES = (
    "headway export runs/en-de --out en-de",
    "headway export runs/minilm --out minilm --onnx    an encoder's graph as well",
    "headway export runs/adapted --adapter --out adapter    only what train.lora trained, as PEFT reads it",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which run, and what to make of it."""
    options.add_run(parser, device=False)
    parser.add_argument("--out", metavar="DIR", required=True, help="the model folder to make")
    parser.add_argument("--onnx", action="store_true", help="write model.onnx as well, of an encoder or a ViT")
    parser.add_argument(
        "--adapter",
        action="store_true",
        help="write only the adapters of train.lora, for PEFT and `load(RUN, adapter=DIR)`",
    )
    options.add_average(parser)


def execute(arguments: Namespace) -> None:
    """Write a run as a model folder; what was compared goes to stderr, the folder's name to stdout."""
    from headway.cli.outputs import expect_folder
    from headway.interop.onnx_export import GRAPH
    from headway.runs import load

    expect_folder(arguments.out)
    run = load(arguments.run, device="cpu", average=arguments.average)
    proof = run.export(arguments.out, onnx=arguments.onnx, adapter=arguments.adapter)
    for name in proof.left_out:
        tell(f"note: {name} has no place in {proof.family} and is left out")
    if proof.zeros:
        tell(f"note: written as zeros: {counted(proof.zeros, 'bias', 'biases')} that this run lacks; they add nothing")
    tell(
        f"{proof.family}; loaded again by {proof.reloaded_with}: largest difference "
        f"{proof.largest_difference:.2g} of logits up to {proof.largest_logit:.3g} (allowed: {proof.bound:.2g})"
        f"{_texts(proof)}"
    )
    if proof.max_tokens is not None:
        tell(
            f"note: transformers generates at most {counted(proof.max_tokens, 'token')} with it, prompt included: "
            "it has no positions beyond; generation_config.json sets max_length"
        )
    if proof.onnx is not None:
        tell(
            f"{GRAPH} ({', '.join(proof.onnx.inputs)} -> {', '.join(proof.onnx.outputs)}); run by "
            f"{proof.onnx.runtime}: largest difference {proof.onnx.largest_difference:.2g} "
            f"(allowed: {proof.onnx.bound:.2g})"
        )
    print(arguments.out)


def _texts(proof: ExportProof) -> str:
    """How much text was compared; empty for a model without text."""
    said = f", {counted(proof.tokens_generated, 'token')} generated alike" if proof.tokens_generated else ""
    return said + (f", {counted(proof.texts_compared, 'text')} tokenised alike" if proof.texts_compared else "")
