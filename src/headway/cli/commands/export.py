"""`headway export`."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from headway.interop.export_proof import ExportProof
from headway.interop.export_requests import export_request
from headway.interop.exporter import export
from headway.interop.onnx_export import GRAPH
from headway.runs import load


def run(arguments: Namespace) -> None:
    """Hand a run out as a model folder; what was compared goes to stderr, the folder's name to stdout."""
    found = load(arguments.run, device="cpu", average=arguments.average)
    proof = export(export_request(found), Path(arguments.out), onnx=arguments.onnx)
    for name in proof.left_out:
        print(f"headway: note: {name} has no place in {proof.family} and is left out", file=sys.stderr)
    if proof.zeros:
        print(f"headway: note: {proof.zeros} biases this run does without are zeros there", file=sys.stderr)
    print(
        f"headway: {proof.family}; loaded again by {proof.reloaded_with}: largest difference "
        f"{proof.largest_difference:.2g} of logits up to {proof.largest_logit:.3g} (allowed: {proof.bound:.2g})"
        f"{_texts(proof)}",
        file=sys.stderr,
    )
    if proof.onnx is not None:
        print(
            f"headway: {GRAPH} ({', '.join(proof.onnx.inputs)} -> {', '.join(proof.onnx.outputs)}); run by "
            f"{proof.onnx.runtime}: largest difference {proof.onnx.largest_difference:.2g} "
            f"(allowed: {proof.onnx.bound:.2g})",
            file=sys.stderr,
        )
    print(arguments.out)


def _texts(proof: ExportProof) -> str:
    """What was compared of words; nothing where a model has none."""
    said = f", {proof.tokens_generated} tokens generated alike" if proof.tokens_generated else ""
    return said + (f", {proof.texts_compared} texts tokenised alike" if proof.texts_compared else "")
