"""An encoder as an ONNX graph: written beside a model folder's weights, run by onnxruntime, compared with the model."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from headway.errors import ConfigError, VerificationError
from headway.extras import EXTRAS, import_extra
from headway.interop.compare import Probe
from headway.interop.families import FAMILIES, export_families
from headway.models import Model, ModelConfig, ModelInputs
from headway.models.kernels import attention_kernel

GRAPH = "model.onnx"
RELATIVE = 1e-4  # of the largest logit, or of 1 if that is more: other kernels add in another order
MAX_BYTES = 2**31 - 2**24  # of weights: a graph is one protobuf message, which ends at 2 GiB
TEXT, IMAGES = ("input_ids", "attention_mask", "token_type_ids"), ("pixel_values",)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxProof:
    """How far the outputs of onnxruntime are from the model's."""

    runtime: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    compared: str
    largest_difference: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the two differ by rounding at most."""
        return self.largest_difference <= self.bound


def expect_onnx(config: ModelConfig, nbytes: int) -> None:
    """Raise ConfigError for a model that generates, one too large for a graph, or a missing package."""
    if export_families(config)[0].generates:
        kind = type(config).__name__.removesuffix("Config")
        encoders = [family for family in FAMILIES.values() if not family.generates]
        known = ", ".join(dict.fromkeys(each.__name__.removesuffix("Config") for f in encoders for each in f.configs))
        raise ConfigError(f"--onnx takes encoders ({known}); a model of kind {kind} generates, and keeps a cache")
    if nbytes > MAX_BYTES:
        raise ConfigError(f"--onnx: {nbytes:,} bytes of weights, allowed: {MAX_BYTES:,}, the most one graph can hold")
    for name in EXTRAS["onnx"]:
        import_extra(name, "onnx", "--onnx")


class GraphModel(nn.Module):
    """A model as its graph is called: padded rows and their mask, or pixels -> a tensor for each name of `outputs`.

    `pool` makes sentence vectors (B, D) of token vectors (B, T, D) and lengths (B,).
    """

    def __init__(self, model: Model, probe: Probe, pool: Callable[[Tensor, Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.model = model.eval()
        self.images = probe.inputs.images is not None
        with torch.no_grad():
            present = model.run(probe.inputs).present
        self.pool = pool if "vectors" in present else None
        names = {
            "tokens": "prediction_logits" if "next_sentence" in present else "logits",
            "vectors": "last_hidden_state",
            "pooled": "pooler_output",
            "next_sentence": "seq_relationship_logits",
            "classes": "logits",
        }
        more = () if self.pool is None else ("sentence_embedding",)
        self.outputs = (*(names[each] for each in present), *more)

    def forward(
        self, first: Tensor, mask_BT: Tensor | None = None, segments_BT: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Token ids, mask and segments, each (B, T), or images (B, C, height, width); padding is on the right."""
        if self.images:
            return tuple(self.model.run(ModelInputs(images=first)).present.values())
        assert mask_BT is not None
        lengths_B = mask_BT.sum(1)
        found = self.model.run(ModelInputs(tokens=first, lengths=lengths_B, segments=segments_BT))
        more = () if self.pool is None or found.vectors is None else (self.pool(found.vectors, lengths_B),)
        return (*found.present.values(), *more)


def graph_inputs(probe: Probe) -> dict[str, Tensor]:
    """A probe's inputs by the names of the graph's inputs."""
    if probe.inputs.images is not None:
        return dict(zip(IMAGES, (probe.inputs.images,), strict=True))
    tensors = (probe.inputs.need("tokens"), probe.real.long(), probe.inputs.segments)
    return {name: tensor for name, tensor in zip(TEXT, tensors, strict=True) if tensor is not None}


@torch.no_grad()
def write_graph(path: Path, model: GraphModel, probe: Probe) -> None:
    """Write the graph of a model, for any number of rows of any length."""
    inputs = graph_inputs(probe)
    free = {0: "batch"} if model.images else {0: "batch", 1: "length"}
    try:
        # A graph has one kernel; sliding windows become a mask in it.
        with _quiet(), attention_kernel(model, "sdpa"):
            graph = torch.onnx.export(
                model,
                tuple(inputs.values()),
                input_names=list(inputs),
                output_names=list(model.outputs),
                dynamic_shapes=(free,) * len(inputs),
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        cause = error.__cause__ or error
        reason = next(iter(str(cause).strip().splitlines()), "")
        raise ConfigError(f"--onnx: torch cannot trace this model ({type(cause).__name__}: {reason})") from error
    assert graph is not None
    graph.save(path, external_data=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's reports on its own passes and on packages that are not used."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@torch.no_grad()
def prove_graph(path: Path, model: GraphModel, probe: Probe) -> OnnxProof:
    """Run the graph on the padded batch, and on each row alone without its padding; the model with its own kernel.

    Raises VerificationError for outputs of different shapes.
    """
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs, apart, largest = graph_inputs(probe), 0.0, 0.0
    for rows, length in _batches(probe):
        given = {name: x[rows] if model.images else x[rows, :length] for name, x in inputs.items()}
        expected = model(*given.values())
        found = session.run(None, {name: x.contiguous().numpy() for name, x in given.items()})
        for name, ours, theirs in zip(model.outputs, expected, map(torch.from_numpy, found), strict=True):
            by_token = not model.images and ours.ndim == 3
            real = given["attention_mask"].bool() if by_token else torch.ones(len(ours), dtype=torch.bool)
            if ours.shape != theirs.shape:
                shapes = f"{tuple(theirs.shape)} in the graph, {tuple(ours.shape)} in the model"
                raise VerificationError(f"--onnx: {name} has shape {shapes}")
            apart = max(apart, float((ours[real].double() - theirs[real].double()).abs().max()))
            largest = max(largest, float(ours[real].abs().max()))
    return OnnxProof(
        runtime=f"onnxruntime {runtime.__version__}",
        inputs=tuple(inputs),
        outputs=model.outputs,
        compared=_compared(probe),
        largest_difference=apart,
        bound=RELATIVE * max(1.0, largest),
    )


def _compared(probe: Probe) -> str:
    if probe.inputs.images is not None:
        return f"{len(probe.inputs.images)} images together and alone"
    return f"a padded batch of lengths {probe.inputs.need('lengths').tolist()}, and each row alone"


def _batches(probe: Probe) -> Iterator[tuple[slice, int]]:
    """All rows, then each one with its length; an image has none."""
    inputs = probe.inputs
    if inputs.images is not None:
        lengths, longest = [1] * len(inputs.images), 1
    else:
        lengths, longest = inputs.need("lengths").tolist(), inputs.need("tokens").shape[1]
    yield slice(None), longest
    for row, length in enumerate(lengths):
        yield slice(row, row + 1), length
