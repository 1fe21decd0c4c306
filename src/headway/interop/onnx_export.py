"""An encoder as an ONNX graph: written beside a model folder's weights, run by onnxruntime, compared with ours."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import ConfigError, VerificationError
from headway.interop.compare import Questions, pooled_by
from headway.models import (
    BertConfig,
    BertPretrainingConfig,
    LongformerConfig,
    LongformerMaskedConfig,
    ModelConfig,
    VitConfig,
    build_model,
)
from headway.models.bert import PretrainingLogits
from headway.tasks.sentence_embedding.embed import Embedding, pooled

GRAPH = "model.onnx"
RELATIVE = 1e-4  # of the largest logit, or of 1 if that is more: other kernels add in another order
LARGEST = 2**31 - 2**24  # bytes of weights: a graph is one protobuf message, which ends at 2 GiB
NEEDED = ("onnx", "onnxscript", "onnxruntime")
TEXT, IMAGES = ("input_ids", "attention_mask", "token_type_ids"), ("pixel_values",)
ENCODERS = (BertConfig, BertPretrainingConfig, LongformerConfig, LongformerMaskedConfig, VitConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxProof:
    """What onnxruntime made of the graph, and how far that is from ours."""

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
    """Raise ConfigError for a model that is no encoder, one too large for a graph, or a missing package."""
    if not isinstance(config, ENCODERS):
        kind = type(config).__name__.removesuffix("Config")
        known = ", ".join(each.__name__.removesuffix("Config") for each in ENCODERS)
        raise ConfigError(f"--onnx takes encoders ({known}); a model of kind {kind} generates, and keeps a cache")
    if nbytes > LARGEST:
        raise ConfigError(f"--onnx: {nbytes:,} bytes of weights, allowed: {LARGEST:,}, what one graph can hold")
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            raise ConfigError(f"--onnx needs {name}: pip install 'headway[onnx]'") from None


class Traced(nn.Module):
    """A model as its graph is called: padded rows and their mask, or pixels -> a tensor for each name of `outputs`."""

    def __init__(self, model: nn.Module, config: ModelConfig, task: object) -> None:
        super().__init__()
        self.model, self.images = model, isinstance(config, VitConfig)
        self.pooler = pooled_by(model)
        self.embedding = task if isinstance(task, Embedding) else None
        self.outputs = self._outputs(config)

    def _outputs(self, config: ModelConfig) -> tuple[str, ...]:
        if isinstance(config, BertPretrainingConfig) and config.follows:
            return "prediction_logits", "seq_relationship_logits"
        if not isinstance(config, BertConfig | LongformerConfig):
            return ("logits",)
        more = (("pooler_output", self.pooler), ("sentence_embedding", self.embedding))
        return "last_hidden_state", *(name for name, there in more if there is not None)

    def forward(self, first: Tensor, mask_BT: Tensor | None = None, segments_BT: Tensor | None = None) -> Any:
        """Token ids, mask and segments, each (B, T), or images (B, C, height, width); padding stands on the right."""
        if self.images:
            return (self.model(first),)
        assert mask_BT is not None
        lengths_B = mask_BT.sum(1)
        found = self.model(first, lengths_B, segments_BT=segments_BT)
        if isinstance(found, PretrainingLogits):
            return tuple(each for each in found if each is not None)
        made = [found]
        if "pooler_output" in self.outputs and self.pooler is not None:
            made.append(self.pooler(found))
        if "sentence_embedding" in self.outputs and self.embedding is not None:
            made.append(pooled(found, lengths_B, self.embedding))
        return tuple(made)


def traced(model: nn.Module, config: ModelConfig, task: object) -> Traced:
    """The model with the one kernel that a graph has, on its own weights; windows become a mask there."""
    inner = next((name for name in ("bert", "longformer") if hasattr(config, name)), None)
    plain: Any = config
    sized = replace(plain if inner is None else getattr(plain, inner), kernel="sdpa")
    copy = build_model(sized if inner is None else replace(plain, **{inner: sized}), device="meta")
    copy.load_state_dict(model.state_dict(), assign=True)
    for name, buffer in model.named_buffers():  # those that a checkpoint leaves out
        part, _, last = name.rpartition(".")
        setattr(copy.get_submodule(part), last, buffer)
    return Traced(copy.eval(), config, task).eval()


def inputs_of(asked: Questions) -> dict[str, Tensor]:
    """Both sides' questions by the names of the graph's inputs."""
    if asked.images is not None:
        return dict(zip(IMAGES, (asked.images,), strict=True))
    return dict(zip(TEXT, (asked.source, asked.real.long(), asked.segments), strict=True))


@torch.no_grad()
def write_graph(path: Path, model: Traced, asked: Questions) -> None:
    """The graph of a model, for any number of rows of any length."""
    inputs = inputs_of(asked)
    free = {0: "batch"} if model.images else {0: "batch", 1: "length"}
    try:
        with _quiet():
            made = torch.onnx.export(
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
    assert made is not None
    made.save(path, external_data=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter reports on packages nobody asked for and on its own passes."""
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
def prove_graph(path: Path, model: nn.Module, config: ModelConfig, task: object, asked: Questions) -> OnnxProof:
    """Run the graph on the padded batch, and on each row alone without its padding; ours with its own kernel."""
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    ours = Traced(model, config, task).eval()
    inputs, apart, largest = inputs_of(asked), 0.0, 0.0
    for rows, length in _batches(asked):
        given = {name: x[rows] if asked.images is not None else x[rows, :length] for name, x in inputs.items()}
        said = ours(*given.values())
        heard = session.run(None, {name: x.contiguous().numpy() for name, x in given.items()})
        for name, mine, theirs in zip(ours.outputs, said, map(torch.from_numpy, heard), strict=True):
            by_token = asked.images is None and mine.ndim == 3
            real = given["attention_mask"].bool() if by_token else torch.ones(len(mine), dtype=torch.bool)
            if mine.shape != theirs.shape:
                raise VerificationError(
                    f"--onnx: {name} has shape {tuple(theirs.shape)} there, {tuple(mine.shape)} here"
                )
            apart = max(apart, float((mine[real].double() - theirs[real].double()).abs().max()))
            largest = max(largest, float(mine[real].abs().max()))
    count = len(asked.lengths)
    return OnnxProof(
        runtime=f"onnxruntime {runtime.__version__}",
        inputs=tuple(inputs),
        outputs=ours.outputs,
        compared=f"{count} images together and alone"
        if asked.images is not None
        else f"a padded batch of lengths {asked.lengths.tolist()}, and each row alone",
        largest_difference=apart,
        bound=RELATIVE * max(1.0, largest),
    )


def _batches(asked: Questions) -> Iterator[tuple[slice, int]]:
    yield slice(None), asked.source.shape[1]
    for row, length in enumerate(asked.lengths.tolist()):
        yield slice(row, row + 1), length
