"""The proof of an export: what was written is loaded again, and both models are asked the same."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.interop.compare import Ours, Questions, Side, Theirs
from headway.interop.families import FAMILIES
from headway.interop.family import taken
from headway.interop.model_folder import ModelFolder
from headway.interop.onnx_export import OnnxProof
from headway.models import build_model
from headway.storage.tensors import read_tensors, set_weights

RELATIVE = 1e-5  # of the largest logit, or of 1 if that is more: what rounding may do


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was compared, and how far apart both sides are."""

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
    texts_identical: bool | None  # None: there was nothing to compare with
    left_out: list[str] = field(default_factory=list)  # tensors of ours that theirs has no place for
    zeros: int = 0  # tensors of theirs that ours does without
    onnx: OnnxProof | None = None  # None: no graph was asked for

    @property
    def holds(self) -> bool:
        """Whether the two differ by rounding at most."""
        told_alike = self.tokens_identical is not False or self.first_difference is not None
        graph = self.onnx is None or self.onnx.holds
        return self.largest_difference <= self.bound and told_alike and self.texts_identical is not False and graph

    def to_json(self) -> dict[str, Any]:
        """The fields, and whether it holds."""
        fields = {key: value for key, value in asdict(self).items() if key != "onnx" or value is not None}
        return {"holds": self.holds, **fields}


def with_transformers() -> bool:
    """Whether transformers is installed."""
    return importlib.util.find_spec("transformers") is not None


def reload(folder: Path) -> Ours | Theirs:
    """The model of a folder: by transformers if it is installed, else by our own importer."""
    if with_transformers():
        config = json.loads((folder / "config.json").read_text())
        return load_theirs(folder, auto_class(config["architectures"][0]))
    return Ours(read_back(folder))


def load_theirs(folder: Path, name: str) -> Theirs:
    """What a class of transformers makes of a folder, in float32; no code of the folder's is run."""
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    settings: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True, "local_files_only": True}
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    if name == "AutoModel" and kind in ("bert", "longformer") and not _has_pooler(folder):
        settings["add_pooling_layer"] = False  # or one is drawn at random
    loader = getattr(transformers, name)
    return Theirs(loader.from_pretrained(folder, trust_remote_code=False, **settings).eval())


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
    }
    return next((name for ending, name in endings.items() if architecture.endswith(ending)), "AutoModel")


def _has_pooler(folder: Path) -> bool:
    return any(name.endswith("pooler.dense.weight") for name in ModelFolder(folder).tensors)


def read_back(folder: Path) -> nn.Module:
    """The model of a folder, taken up by our own family."""
    config, tensors = json.loads((folder / "config.json").read_text()), read_tensors(folder / "model.safetensors")
    family = FAMILIES[config["model_type"]]
    imported = family.read(config, {name: tuple(x.shape) for name, x in tensors.items()})
    model = build_model(imported.model, device="meta")
    set_weights(model, taken(family, imported.model, tensors), str(folder))
    return model.eval()


def versions() -> dict[str, str]:
    """Of what took part."""
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
    """How many texts were tokenised on both sides, and whether all gave the same ids; None without transformers."""
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


def compare(ours: Ours, theirs: Side, asked: Questions, *, some_left_out: bool) -> dict[str, Any]:
    """The figures of a proof; where something was left out, theirs may have fewer heads."""
    mine, other = ours.logits(asked), theirs.logits(asked)
    mine = mine[: len(other)] if some_left_out else mine
    largest = max(float(x.abs().max()) for x in mine)
    apart = max(float((a.double() - b.double()).abs().max()) for a, b in zip(mine, other, strict=True))
    bound = RELATIVE * max(1.0, largest)
    said, heard = ours.words(asked), theirs.words(asked)
    identical = None if said is None or heard is None else torch.equal(said, heard)
    first = _rounding(ours.heard, said, heard, bound) if identical is False and said is not None else None
    return {
        "largest_logit": largest,
        "largest_difference": apart,
        "bound": bound,
        "tokens_generated": 0 if said is None else said.numel(),
        "tokens_identical": identical,
        "first_difference": first,
    }


def _rounding(heard: list[Tensor], said: Tensor, other: Tensor | None, bound: float) -> str | None:
    """Where two continuations part, if at every such place rounding alone decides; None if anything else did."""
    assert other is not None
    notes = []
    for row in range(len(said)):
        parted = (said[row] != other[row]).nonzero()
        if not len(parted):
            continue
        at = int(parted[0])
        gap = float(heard[at][row, said[row, at]] - heard[at][row, other[row, at]])
        if gap > 2 * bound:
            return None
        notes.append(f"row {row}, token {at + 1}: {gap:.1e} between the two best")
    return "; ".join(notes)
