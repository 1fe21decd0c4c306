"""A run's model as a folder that transformers loads with no code of ours, proven before it appears."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError, VerificationError
from headway.interop.compare import Ours, Questions, as_ours, context_of, questions
from headway.interop.export_proof import Proof, compare, reload, texts_agree, versions, with_transformers
from headway.interop.families import nearest
from headway.interop.family import Family, Tokens, given
from headway.interop.onnx_export import GRAPH, OnnxProof, expect_onnx, prove_graph, traced, write_graph
from headway.interop.safetensors_writer import chunks_of
from headway.interop.tokenizer_export import AnyTask, Frame, frame_of, tokenizer_files
from headway.models import GptConfig, ModelConfig, VitConfig
from headway.storage.commit import StagedFolder, commit_folder, discard
from headway.tasks.image_classification import Classification
from headway.tasks.translation.training import Translation

WEIGHTS = "model.safetensors"
MOST_NEW = 256  # tokens of a translation, unless told otherwise there


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """How images become numbers: resized and cut, from 0 to 1, less the mean, by the deviation of each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def to_json(self, size: tuple[int, int]) -> dict[str, Any]:
        """A preprocessor_config.json; ViT's own processor would squeeze an image instead of cutting its centre out."""
        return {
            "image_processor_type": "CLIPImageProcessor",
            "do_convert_rgb": True,
            "do_resize": True,
            "size": {"shortest_edge": max(size)},
            "resample": 3,  # bicubic
            "do_center_crop": True,
            "crop_size": {"height": size[0], "width": size[1]},
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporting:
    """What is handed out: a model with its config, its task, and its tokenizers by the names of a run's files.

    What reads images has no tokenizers, and says how its pixels are scaled and what its classes are called.
    """

    model: nn.Module
    config: ModelConfig
    task: AnyTask | None
    tokenizers: Mapping[str, Tokenizer]
    pixels: Pixels | None = None
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: Any) -> Exporting:
        """All of a run."""
        task, config = run.config.task, run.config
        images = isinstance(task, Classification)
        return cls(
            model=run.model,
            config=config.model,
            task=None if images else task,
            tokenizers=run.tokenizers,
            pixels=Pixels(mean=task.mean, std=task.std) if images else None,
            classes=config.data.classes if images else (),
        )

    @property
    def source(self) -> Tokenizer:
        """The tokenizer of what the model reads."""
        return self.tokenizers.get("tokenizer-source.json") or self.tokenizers["tokenizer.json"]

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of what it writes."""
        return self.tokenizers.get("tokenizer-target.json") or self.tokenizers["tokenizer.json"]


def export(what: Exporting, out: Path, *, onnx: bool = False) -> Proof:
    """Write the folder, load it again, compare, and only then let it appear; `onnx` adds an encoder's graph.

    Raises ConfigError naming the part that has no equivalent there, or an `out` that is not empty; VerificationError
    where what was loaded again says something else.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists already and is not empty; --out goes elsewhere")
    ready = _ready(what)
    nbytes = sum(x.nbytes for x in ready.weights.values())
    if onnx:
        expect_onnx(what.config, nbytes)
    discard(out)
    with commit_folder(out, needs=nbytes * (2 if onnx else 1)) as draft:
        _fill(draft, what, ready)
        proof = prove(what, ready, draft.folder)
        if onnx:
            proof = replace(proof, onnx=_graph(draft, what, ready))
        draft.json("PROOF.json", proof.to_json())
        if not proof.holds:
            raise VerificationError(f"{out}: {_differs(proof)}; nothing was written")
    return proof


def _graph(draft: StagedFolder, what: Exporting, ready: _Ready) -> OnnxProof:
    """Add the graph, and run it."""
    asked = questions(what.config, ready.frame.tokens)
    made = traced(what.model, what.config, what.task)
    draft.write(GRAPH, lambda path: write_graph(path, made, asked))
    return prove_graph(draft.folder / GRAPH, what.model, what.config, what.task, asked)


def _differs(proof: Proof) -> str:
    if proof.onnx is not None and not proof.onnx.holds:
        graph = proof.onnx
        apart = f"{graph.largest_difference:.3g} (allowed: {graph.bound:.3g})"
        return f"the graph run by {graph.runtime} differs by {apart}"
    return (
        f"loaded again by {proof.reloaded_with} the model differs by {proof.largest_difference:.3g} "
        f"(allowed: {proof.bound:.3g}), tokens identical: {proof.tokens_identical}, "
        f"texts identical: {proof.texts_identical}"
    )


def round_trip(run: Any) -> Callable[..., Any] | str:
    """A run's model, written and loaded again, to be called as it is with one row; or why there is none."""
    what = Exporting.of(run)
    try:
        ready = _ready(what)
    except ConfigError as error:
        return str(error)
    with tempfile.TemporaryDirectory() as folder:
        _fill(StagedFolder(Path(folder)), what, ready)
        side = reload(Path(folder))
    side.model.to(next(what.model.parameters()).device)
    return as_ours(side)


@dataclass(frozen=True, slots=True)
class _Ready:
    """All that is written, before anything is."""

    family: Family
    frame: Frame
    config: dict[str, Any]
    weights: dict[str, Tensor]


def _ready(what: Exporting) -> _Ready:
    family, frame = nearest(what.config), _frame(what)
    config = {"model_type": family.name, **family.write(what.config, frame.tokens), "dtype": "float32"}
    if what.classes:
        config["id2label"] = {str(number): name for number, name in enumerate(what.classes)}
        config["label2id"] = {name: number for number, name in enumerate(what.classes)}
    frame = replace(frame, tokens=replace(frame.tokens, pad=config.get("pad_token_id")))
    return _Ready(family, frame, config, given(family, what.config, what.model.state_dict()))


def _fill(draft: StagedFolder, what: Exporting, ready: _Ready) -> None:
    draft.json("config.json", ready.config)
    _write_weights(draft, ready.weights)
    _write_reading(draft, what, ready.frame)


def _frame(what: Exporting) -> Frame:
    """What stands around a source, and the ids that steer what is written."""
    if what.task is None:
        return Frame(tokens=Tokens())
    return replace(frame_of(what.source, what.task), tokens=frame_of(what.target, what.task).tokens)


def _write_reading(draft: StagedFolder, what: Exporting, frame: Frame) -> None:
    """How text or images become numbers, and how text is generated."""
    if isinstance(what.config, VitConfig) and what.pixels is not None:
        draft.json("preprocessor_config.json", what.pixels.to_json(what.config.size))
    if what.task is None:
        return
    draft.json("generation_config.json", generation_config(what, frame.tokens))
    for name, text in tokenizer_files(what.source, frame, what.task, context_of(what.config)).items():
        draft.text(name, text)
    if what.target is not what.source:
        draft.text("tokenizer-target.json", what.target.to_json())


def _write_weights(draft: StagedFolder, weights: Mapping[str, Tensor]) -> None:
    shapes = {name: tuple(x.shape) for name, x in weights.items()}
    chunks = chunks_of(shapes, torch.float32, lambda name: weights[name].detach().cpu(), metadata={"format": "pt"})
    draft.stream(WEIGHTS, chunks)


def generation_config(what: Exporting, tokens: Tokens) -> dict[str, Any]:
    """How the model generates there unless told otherwise; a GNMT length penalty has no equivalent and is left out."""
    found: dict[str, Any] = {"bos_token_id": None, "eos_token_id": tokens.written_stop, "pad_token_id": tokens.pad}
    if isinstance(what.task, Translation):
        found |= {"decoder_start_token_id": tokens.start, "num_beams": what.task.beam, "early_stopping": True}
        found |= {"max_new_tokens": min(MOST_NEW, context_of(what.config) - 1)}
        if what.task.penalty == "mean":
            found["length_penalty"] = what.task.length_penalty
    elif isinstance(what.config, GptConfig):
        found["bos_token_id"] = tokens.start
    if tokens.banned:
        found["bad_words_ids"] = [[index] for index in tokens.banned]
    return found


def prove(what: Exporting, ready: _Ready, folder: Path) -> Proof:
    """Load a folder again and ask both models the same."""
    family, frame = ready.family, ready.frame
    asked = questions(what.config, frame.tokens)
    ours, theirs = Ours(what.model), reload(folder)
    left_out = [name for name in what.model.state_dict() if name.startswith(family.left_out(what.config))]
    figures = compare(ours, theirs, asked, some_left_out=bool(left_out))
    around = (frame.before, frame.after)
    texts, identical = texts_agree(folder, what.source, around) if what.tokenizers else (0, None)
    known, own = versions(), {name for part in family.parts(what.config) for name in part.theirs}
    by = "transformers" if with_transformers() else "headway"
    return Proof(
        family=family.name,
        reloaded_with=f"{by} {known.get(by, '')}".strip(),
        versions=known,
        compared=_compared(asked),
        texts_compared=texts,
        texts_identical=identical,
        left_out=left_out,
        zeros=len(ready.weights.keys() - family.constants(what.config).keys() - own),
        **figures,
    )


def _compared(asked: Questions) -> str:
    if asked.images is not None:
        return f"the classifier on {len(asked.images)} images"
    return f"every head on a padded batch of lengths {asked.lengths.tolist()}; greedy tokens of full rows"
