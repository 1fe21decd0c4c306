"""The proof of an export: the folder is loaded again and its model compared with the original."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway import display
from headway.data.tokenizers import Tokenizer
from headway.documents import read_json
from headway.errors import DataError, VerificationError
from headway.interop.compare import ComparedModel, Continuation, HeadwayModel, HfModel, Probe
from headway.interop.families import family_of
from headway.interop.family import import_weights
from headway.interop.model_folder import ModelFolder
from headway.interop.onnx_export import OnnxProof
from headway.models import Model, ModelOutputs, build_model
from headway.storage.tensors import read_tensors, set_weights

RELATIVE = 1e-5  # of the largest logit, or of 1 if that is more: the largest difference that is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportProof:
    """What was compared, and how far apart both models are."""

    family: str
    reloaded_with: str
    versions: dict[str, str]
    compared: str
    largest_logit: float
    largest_difference: float
    bound: float
    tokens_generated: int
    tokens_identical: bool | None  # None: the model does not generate
    first_difference: str | None  # of the tokens, where rounding alone decides between two
    texts_compared: int
    texts_identical: bool | None  # None: transformers is not installed
    left_out: list[str] = field(default_factory=list)  # tensors that the family has no place for
    zeros: int = 0  # biases that the family has and the model lacks
    max_tokens: int | None = None  # that a decoder with learned positions has room for, prompt included
    onnx: OnnxProof | None = None  # None: no graph was requested

    @property
    def holds(self) -> bool:
        """Whether the two differ by rounding at most."""
        same_tokens = self.tokens_identical is not False or self.first_difference is not None
        graph = self.onnx is None or self.onnx.holds
        return self.largest_difference <= self.bound and same_tokens and self.texts_identical is not False and graph

    def _repr_html_(self) -> str:
        """For notebooks: the fields."""
        return display.facts(self.to_json(), "export")

    def to_json(self) -> dict[str, Any]:
        """The fields, and whether it holds."""
        fields = {key: value for key, value in asdict(self).items() if key != "onnx" or value is not None}
        return {"holds": self.holds, **fields}


def with_transformers() -> bool:
    """Whether transformers is installed."""
    return importlib.util.find_spec("transformers") is not None


def reload(folder: Path) -> HeadwayModel | HfModel:
    """The model of a folder: by transformers if it is installed, else by headway's importer."""
    if with_transformers():
        config = read_json(folder / "config.json")
        return load_hf_model(folder, auto_class(config["architectures"][0]))
    return HeadwayModel(read_back(folder))


def load_hf_model(folder: Path, name: str) -> HfModel:
    """The model of a folder or a GGUF file by a class of transformers, in float32; code in the folder is never run."""
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    settings: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True, "local_files_only": True}
    if folder.is_file():
        settings |= {"gguf_file": folder.name, "trust_remote_code": False}
        return HfModel(getattr(transformers, name).from_pretrained(folder.parent, **settings).eval())
    kind = read_json(folder / "config.json")["model_type"]
    if name == "AutoModel" and kind in ("bert", "longformer", "roberta") and not _has_pooler(folder):
        settings["add_pooling_layer"] = False  # or it would be initialised at random
    loader = getattr(transformers, name)
    return HfModel(loader.from_pretrained(folder, trust_remote_code=False, **settings).eval())


def auto_class(architecture: str) -> str:
    """The class of transformers that finds a model of this architecture by itself."""
    endings = {
        "LMHeadModel": "AutoModelForCausalLM",
        "ForCausalLM": "AutoModelForCausalLM",
        "MTModel": "AutoModelForSeq2SeqLM",
        "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
        "ForPreTraining": "AutoModelForPreTraining",
        "ForMaskedLM": "AutoModelForMaskedLM",
        "ForImageClassification": "AutoModelForImageClassification",
        "ForSequenceClassification": "AutoModelForSequenceClassification",
        "ForTokenClassification": "AutoModelForTokenClassification",
        "ForQuestionAnswering": "AutoModelForQuestionAnswering",
        "ForMultipleChoice": "AutoModelForMultipleChoice",
    }
    return next((name for ending, name in endings.items() if architecture.endswith(ending)), "AutoModel")


def _has_pooler(folder: Path) -> bool:
    return any(name.endswith("pooler.dense.weight") for name in ModelFolder(folder).tensors)


def read_back(folder: Path) -> Model:
    """The model of a folder, imported by headway's own family."""
    config, tensors = read_json(folder / "config.json"), read_tensors(folder / "model.safetensors")
    family = family_of(config)
    assert family is not None
    imported = family.read(config, {name: tuple(x.shape) for name, x in tensors.items()})
    model = build_model(imported.model, device="meta")
    set_weights(model, import_weights(family, imported.model, tensors), str(folder))
    return model.eval()


def versions() -> dict[str, str]:
    """Of the libraries involved."""
    names = ("headway", "torch", "transformers", "tokenizers", "safetensors")
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def texts_agree(
    folder: Path, tokenizer: Tokenizer, around: tuple[Sequence[int], Sequence[int]]
) -> tuple[int, bool | None]:
    """How many texts both tokenizers encoded, and whether all ids are the same; None without transformers."""
    if not with_transformers():
        return 0, None
    theirs = importlib.import_module("transformers").AutoTokenizer.from_pretrained(folder)
    random = torch.Generator().manual_seed(0)
    texts = [tokenizer.decode(torch.randint(tokenizer.size, (20,), generator=random).tolist()) for _ in range(8)]
    known = []
    for text in texts:
        try:
            known.append((text, [*around[0], *tokenizer.encode(text), *around[1]]))
        except DataError:  # half a character, or one that is not in the vocabulary
            continue
    return len(known), all(theirs(text)["input_ids"] == ids for text, ids in known)


def compare(ours: HeadwayModel, theirs: ComparedModel, probe: Probe, *, some_left_out: bool) -> dict[str, Any]:
    """The figures of a proof; where weights were left out, `theirs` may have fewer outputs.

    Raises VerificationError where the models have different outputs.
    """
    mine, other = (_unpadded(model.run(probe.inputs), probe) for model in (ours, theirs))
    mine = {name: x for name, x in mine.items() if name in other} if some_left_out else mine
    if mine.keys() != other.keys():
        raise VerificationError(f"the model gives {', '.join(mine)}; loaded again, {', '.join(other)}")
    largest = max(float(x.abs().max()) for x in mine.values())
    apart = max(float((x.double() - other[name].double()).abs().max()) for name, x in mine.items())
    bound = RELATIVE * max(1.0, largest)
    written, again = ours.generate(probe), theirs.generate(probe)
    identical = None if written is None or again is None else torch.equal(written.tokens, again.tokens)
    first = _rounding(written, again, bound) if written and again and identical is False else None
    return {
        "largest_logit": largest,
        "largest_difference": apart,
        "bound": bound,
        "tokens_generated": 0 if written is None else written.tokens.numel(),
        "tokens_identical": identical,
        "first_difference": first,
    }


def _unpadded(outputs: ModelOutputs, probe: Probe) -> dict[str, Tensor]:
    """The outputs by name, those of padding removed."""
    per_token = ("tokens", "vectors")
    return {name: x[probe.real] if name in per_token else x for name, x in outputs.present.items()}


def _rounding(written: Continuation, again: Continuation, bound: float) -> str | None:
    """Where two continuations diverge, if rounding alone decides at each such place; None if anything else did."""
    notes = []
    for row in range(len(written.tokens)):
        differing = (written.tokens[row] != again.tokens[row]).nonzero()
        if not len(differing):
            continue
        at = int(differing[0])
        one, other = written.tokens[row, at], again.tokens[row, at]
        gap = float(written.logits[at][row, one] - written.logits[at][row, other])
        if gap > 2 * bound:
            return None
        notes.append(f"row {row}, token {at + 1}: {gap:.1e} between the two best")
    return "; ".join(notes)
