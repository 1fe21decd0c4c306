"""Write a model as a Hugging Face folder that transformers loads without headway, and prove it before it appears."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.counts import counted
from headway.decoding.limits import positions_end
from headway.errors import DIVERGED, ConfigError, NonFiniteError, VerificationError
from headway.interop.compare import HeadwayModel, Probe, probe
from headway.interop.export_proof import ExportProof, compare, reload, texts_agree, versions, with_transformers
from headway.interop.families import export_config
from headway.interop.family import Family, GenerationTokens, export_weights
from headway.interop.onnx_export import GRAPH, GraphModel, OnnxProof, expect_onnx, prove_graph, write_graph
from headway.interop.safetensors_writer import chunks_of
from headway.interop.sentence_transformers import sentence_files
from headway.interop.text_pairs import pair_settings
from headway.interop.tokenizer_export import TextTemplate, text_template, tokenizer_files
from headway.models import ModelInputs, ModelOutputs
from headway.storage.commit import StagedFolder, commit_folder, discard, expect_new
from headway.storage.finite import first_non_finite
from headway.tasks.export_request import ExportRequest

WEIGHTS = "model.safetensors"
MAX_NEW_TOKENS = 256  # of a translation, unless the caller of transformers says otherwise


def export(request: ExportRequest, out: Path, *, onnx: bool = False) -> ExportProof:
    """Write the folder, load it again, compare, and only then let it appear; `onnx` adds an encoder's graph.

    Raises ConfigError naming the setting that has no equivalent in the family, or an `out` that is not empty;
    NonFiniteError for weights that are not finite; VerificationError if the model that was loaded again differs.
    """
    expect_new(out)
    plan = plan_export(request)
    bad = first_non_finite(plan.weights)
    if bad is not None:
        raise NonFiniteError(f"{out}: tensor {bad} is NaN or infinite; nothing was written; {DIVERGED}")
    nbytes = sum(x.nbytes for x in plan.weights.values())
    if onnx:
        expect_onnx(request.config, nbytes)
    discard(out)
    with commit_folder(out, needs=nbytes * (2 if onnx else 1)) as draft:
        _write(draft, request, plan)
        proof = prove(request, plan, draft.folder)
        if onnx:
            proof = replace(proof, onnx=_write_onnx(draft, request, plan))
        draft.json("PROOF.json", proof.to_json())
        if not proof.holds:
            raise VerificationError(f"{out}: {_difference(proof)}; nothing was written")
    return proof


def round_trip(request: ExportRequest) -> Callable[[ModelInputs], ModelOutputs] | str:
    """The `run` of a model that was exported and loaded again, for unpadded rows; or why it cannot be exported."""
    try:
        plan = plan_export(request)
    except ConfigError as error:
        return str(error)
    with tempfile.TemporaryDirectory() as folder:
        _write(StagedFolder(Path(folder)), request, plan)
        again = reload(Path(folder))
    again.model.to(next(request.model.parameters()).device)
    return again.run


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """Everything that is written, computed before anything is."""

    family: Family[Any]
    template: TextTemplate
    config: dict[str, Any]
    weights: dict[str, Tensor]

    def limit(self, request: ExportRequest) -> int | None:
        """How many tokens, prompt included, a decoder's learned positions have room for; None without such a limit."""
        decodes = self.family.generates and request.text is not None and request.text.beam is None
        return positions_end(request.model) if decodes else None

    def probe(self, request: ExportRequest) -> Probe:
        """Inputs to compare with."""
        return probe(self.family, request.config, request.model.reads, self.template.tokens)


def plan_export(request: ExportRequest) -> ExportPlan:
    """What is written of a model. Raises ConfigError naming the setting that has no equivalent in the family."""
    template = _template(request)
    family, config = export_config(request.config, template.tokens, head=request.head)
    config["dtype"] = "float32"
    if request.classes:
        config["id2label"] = {str(number): name for number, name in enumerate(request.classes)}
        config["label2id"] = {name: number for number, name in enumerate(request.classes)}
    if request.pairs:
        config |= pair_settings()
    if request.problem_type is not None:
        config["problem_type"] = request.problem_type
    template = replace(template, tokens=replace(template.tokens, pad=config.get("pad_token_id")))
    weights = export_weights(family, request.config, request.model.state_dict())
    return ExportPlan(family, template, config, weights)


def _template(request: ExportRequest) -> TextTemplate:
    """The special tokens around a source, and those that generation of the target uses."""
    text = request.text
    if text is None:
        return TextTemplate(tokens=GenerationTokens())
    tokens = text_template(text.target or text.tokenizer, text.around).tokens
    if text.chat is not None and text.chat.end is not None:  # an answer ends there, whatever else ends a text
        end = text.tokenizer.id(text.chat.end)
        tokens = replace(tokens, stop=tuple(dict.fromkeys((end, *tokens.stop))))
    return replace(text_template(text.tokenizer, text.around), tokens=tokens)


def _write(draft: StagedFolder, request: ExportRequest, plan: ExportPlan) -> None:
    draft.json("config.json", plan.config)
    _write_weights(draft, plan.weights)
    if request.images is not None and plan.family.image_shape is not None:
        _, height, width = plan.family.image_shape(request.config)
        draft.json("preprocessor_config.json", request.images.to_json((height, width)))
    text = request.text
    if text is None:
        return
    draft.json("generation_config.json", generation_config(request, plan.template.tokens, plan.limit(request)))
    sizes = request.config.text
    segments = sizes.segments if sizes is not None and "segments" in request.model.reads else 0
    files = tokenizer_files(
        text.tokenizer, plan.template, text.around, _context(request), segments=segments, chat=text.chat
    )
    for name, content in files.items():
        draft.text(name, content)
    if text.sentence is not None:
        width = int(plan.config.get("hidden_size") or plan.config["dim"])  # DistilBERT's name for it
        for name, value in sentence_files(text.sentence, width).items():
            draft.json(name, value)
    if (limit := plan.limit(request)) is not None:
        draft.text("README.md", _readme(plan.family.name, limit))
    if text.target is not None:
        draft.text("tokenizer-target.json", text.target.to_json())


def _readme(family: str, limit: int) -> str:
    """The model card: how long texts may be."""
    return f"""---
library_name: transformers
---
A language model in the format of {family}, written by `headway export`. PROOF.json says how it was compared.

It has {limit} learned positions: a prompt and what is generated after it are at most {limit} tokens together.
`generation_config.json` has `max_length` {limit}; with a larger `max_length`, or `max_new_tokens` beyond it, the
method `generate` of transformers fails with an IndexError.
`headway generate` of the run goes on beyond {limit} tokens, since it moves the window of what the model reads.
"""


def _write_weights(draft: StagedFolder, weights: Mapping[str, Tensor]) -> None:
    shapes = {name: tuple(x.shape) for name, x in weights.items()}
    chunks = chunks_of(shapes, torch.float32, lambda name: weights[name].detach().cpu(), metadata={"format": "pt"})
    draft.stream(WEIGHTS, chunks)


def _context(request: ExportRequest) -> int:
    """The longest text the model is made for."""
    sizes = request.config.text
    return 1 if sizes is None or sizes.context is None else sizes.context


def generation_config(request: ExportRequest, tokens: GenerationTokens, limit: int | None = None) -> dict[str, Any]:
    """The defaults of transformers' generate; GNMT's length penalty has no equivalent there and is left out.

    `limit`: how many tokens, prompt included, a decoder has positions for. Beyond them transformers' generate fails
    with an IndexError, where headway moves its window on.
    """
    found: dict[str, Any] = {"bos_token_id": None, "eos_token_id": tokens.eos_token_id, "pad_token_id": tokens.pad}
    text = request.text
    if text is not None and text.beam is not None:
        found |= {"decoder_start_token_id": tokens.start, "num_beams": text.beam.beam, "early_stopping": True}
        found |= {"max_new_tokens": min(MAX_NEW_TOKENS, _context(request) - 1)}
        if text.beam.length_penalty is not None:
            found["length_penalty"] = text.beam.length_penalty
    elif text is not None and text.starts:
        found["bos_token_id"] = tokens.start
    if text is not None and text.beam is None and limit is not None:
        found["max_length"] = limit
    if tokens.banned:
        found["bad_words_ids"] = [[index] for index in tokens.banned]
    return found


def prove(request: ExportRequest, plan: ExportPlan, folder: Path) -> ExportProof:
    """Load a folder again and compare its model and tokenizer with the originals."""
    family, template, inputs = plan.family, plan.template, plan.probe(request)
    left_out = [name for name in request.model.state_dict() if name.startswith(family.left_out(request.config))]
    figures = compare(HeadwayModel(request.model), reload(folder), inputs, some_left_out=bool(left_out))
    texts, identical = 0, None
    if request.text is not None:
        texts, identical = texts_agree(folder, request.text.tokenizer, (template.before, template.after))
    known, own = versions(), {name for each in family.mappings(request.config) for name in each.hf_names}
    by = "transformers" if with_transformers() else "headway"
    return ExportProof(
        family=family.name,
        reloaded_with=f"{by} {known.get(by, '')}".strip(),
        versions=known,
        compared=_compared(inputs),
        texts_compared=texts,
        texts_identical=identical,
        left_out=left_out,
        max_tokens=plan.limit(request),
        zeros=len(plan.weights.keys() - family.constants(request.config).keys() - own),
        **figures,
    )


def _compared(inputs: Probe) -> str:
    if inputs.inputs.images is not None:
        return f"the classifier on {counted(len(inputs.inputs.images), 'image')}"
    lengths = inputs.inputs.need("lengths").tolist()
    return f"every head on a padded batch of lengths {lengths}; greedy tokens of full rows"


def _write_onnx(draft: StagedFolder, request: ExportRequest, plan: ExportPlan) -> OnnxProof:
    """Add the graph, and run it."""
    inputs = plan.probe(request)
    model = GraphModel(request.model, inputs, None if request.text is None else request.text.pool).eval()
    draft.write(GRAPH, lambda path: write_graph(path, model, inputs))
    return prove_graph(draft.folder / GRAPH, model, inputs)


def _difference(proof: ExportProof) -> str:
    if proof.onnx is not None and not proof.onnx.holds:
        graph = proof.onnx
        apart = f"{graph.largest_difference:.3g} (allowed: {graph.bound:.3g})"
        return f"the graph run by {graph.runtime} differs by {apart}"
    return (
        f"loaded again by {proof.reloaded_with} the model differs by {proof.largest_difference:.3g} "
        f"(allowed: {proof.bound:.3g}), tokens identical: {proof.tokens_identical}, "
        f"texts identical: {proof.texts_identical}"
    )
