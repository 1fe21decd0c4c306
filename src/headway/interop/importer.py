"""Import a Hugging Face model folder: `inspect_folder` checks it and returns an `ImportPlan`, which writes the weights.

Nothing in the folder is trusted. The plan holds everything but the numbers, which are read when they are written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from headway.data.special_tokens import SpecialTokens
from headway.errors import BadModelError, ConfigError, HeadwayError, one_line, shown
from headway.interop.chat_import import with_chat_template
from headway.interop.conversion import without_head_advice
from headway.interop.families import FAMILIES, architectures_of, family_of
from headway.interop.family import Family, GenerationTokens, Imported, TensorMatch, WeightMapping, match
from headway.interop.generation_settings import with_generation_settings
from headway.interop.gguf_model import open_model
from headway.interop.image_processor import class_names, image_task
from headway.interop.model_folder import ModelFolder
from headway.interop.safetensors_header import DTYPES
from headway.interop.safetensors_writer import chunks_of, header_of
from headway.interop.sentence_transformers import sentence_task
from headway.interop.text_pairs import reads_pairs
from headway.interop.tokenizer_import import TokenizerFiles, read_tokenizer
from headway.interop.unsupported import why_unsupported
from headway.models import Model, ModelConfig, ModelInputs
from headway.storage.commit import StagedFolder
from headway.tasks.base import Task, article

MAX_NAMED = 10  # tensors an error names; the rest are counted
MAX_CONTEXT = 2**24  # positions
PROBE = 4  # tokens of the self-check
# How the names of architectures end whose heads cannot be imported.
HEADS = ("Classification", "ForQuestionAnswering", "ForMultipleChoice", "ForNextSentencePrediction")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ImportPlan:
    """A model folder that has been checked but for its numbers and its tokenizer, and the run it becomes."""

    folder: ModelFolder
    family: Family[Any]
    config: ModelConfig
    task: Task
    classes: tuple[str, ...]  # names of a classifier's classes
    pairs: bool  # a text classifier whose inputs are pairs of texts
    tokens: GenerationTokens
    encoder: bool  # reads a text as a whole, between special tokens
    mappings: dict[str, WeightMapping]  # by the name of headway's tensor
    match: TensorMatch
    dtype: torch.dtype  # of the weights that are written
    notes: list[str]  # what was ignored

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each of headway's tensors."""
        return {name: mapping.shape for name, mapping in self.mappings.items()}

    @property
    def parameters(self) -> int:
        """Numbers in all weights."""
        return sum(torch.Size(shape).numel() for shape in self.shapes.values())

    @cached_property
    def nbytes(self) -> int:
        """The size of the file that `write_weights` makes."""
        return len(header_of(self.shapes, self.dtype)) + self.parameters * self.dtype.itemsize

    def write_weights(
        self, draft: StagedFolder, name: str, on_bytes: Callable[[int], None] = lambda count: None
    ) -> None:
        """Stream the weights into a file, hashed on the way; `on_bytes` is called with the size of each chunk.

        Raises BadModelError for tied tensors that differ and for NaN or infinite weights.
        """
        self._check_copies()

        def counted() -> Iterator[memoryview]:
            for chunk in chunks_of(self.shapes, self.dtype, self._read):
                yield chunk
                on_bytes(len(chunk))

        draft.stream(name, counted())

    def read_tokenizers(self) -> ImportedTokenizers:
        """The folder's tokenizers; empty for a model without a vocabulary. Raises BadModelError."""
        sizes = self.config.text
        if sizes is None:
            return ImportedTokenizers()
        files = read_tokenizer(self.folder, sizes.vocab, sizes.source_vocab)
        if files is None:
            raise BadModelError(f"{self.folder.path}: no tokenizer (tokenizer.json, vocab.txt, vocab.json, *.spm …)")
        marks = self._special_tokens(files)
        for index in (*marks.before, *marks.after, *marks.between):
            if index >= sizes.vocab:
                raise BadModelError(f"{self.folder.path}: tokenizer: id {index}, allowed: 0 to {sizes.vocab - 1}")
        return ImportedTokenizers(files, marks)

    def chat(self, tokenizers: ImportedTokenizers) -> tuple[Task, list[str]]:
        """The task with the folder's chat template, if it has one that is known, and what to tell about it."""
        return with_chat_template(self.task, self.folder, tokenizers.files)

    def _special_tokens(self, files: TokenizerFiles) -> SpecialTokens:
        tokens, named = self.tokens, files.named
        start, stop = tokens.start, next(iter(tokens.stop), None)
        if self.encoder:
            start = next(iter(files.before), named.get("start"))
            stop = next(iter(files.after[-1:]), named.get("stop"))
        return SpecialTokens(
            pad=named.get("pad") if tokens.pad is None else tokens.pad,
            unk=named.get("unk"),
            start=start,
            stop=stop,
            stops=tokens.stop,
            mask=named.get("mask"),
            before=files.before,
            after=files.after,
            between=() if files.between == files.after else files.between,
            banned=tokens.banned,
        )

    def _read(self, name: str) -> Tensor:
        mapping = self.mappings[name]
        names = [self.match.found[each] for each in mapping.required]
        tensor = mapping.from_hf([self.folder.read(each) for each in names])
        if not bool(tensor.sum().isfinite()) and not bool(tensor.isfinite().all()):
            raise BadModelError(f"{self.folder.path}: tensor {shown(names[0])} is not finite")
        return tensor

    def _check_copies(self) -> None:
        """Raise BadModelError if two tensors that the config ties differ."""
        found = self.match.found
        duplicated = [
            (found[mapping.hf_names[0]], found[name])
            for mapping in self.mappings.values()
            for name in mapping.hf_names[1:]
            if mapping.duplicated and name in found
        ]
        for one, other in [*self.match.equal, *duplicated]:
            if one != other and not torch.equal(self.folder.read(one), self.folder.read(other)):
                raise BadModelError(f"{self.folder.path}: tensors {shown(one)} and {shown(other)} are tied and differ")


@dataclass(frozen=True, slots=True)
class ImportedTokenizers:
    """The tokenizers of a folder and their special tokens."""

    files: TokenizerFiles = field(default_factory=lambda: TokenizerFiles({}))
    special: SpecialTokens | None = None


def inspect_folder(path: Path, *, pairs: bool | None = None) -> ImportPlan:
    """Check the configs and tensors of a model folder or a GGUF file, and plan the run it becomes.

    `pairs` says whether a text classifier reads pairs of texts; None: as far as config.json shows it.
    Raises BadModelError naming file and field, or every tensor that is missing, unknown or misshapen, and ConfigError
    for `pairs` of a model that classifies no texts.
    """
    folder = open_model(path)
    family = _family(folder)
    shapes = {name: entry.shape for name, entry in folder.tensors.items()}
    config, notes = with_generation_settings(folder)
    imported: Imported = _guarded(folder, lambda: family.read(config, shapes))
    model = imported.model
    _check_sizes(folder, model)
    mappings: list[WeightMapping] = _guarded(folder, lambda: family.mappings(model))
    matched = match(family, model, mappings, folder.tensors)
    _check_tensors(folder, mappings, matched)
    task, classes = _task(folder, family, imported)
    pairs, pair_notes = _pairs(folder, task, classes, pairs)
    return ImportPlan(
        folder=folder,
        family=family,
        config=model,
        task=task,
        classes=classes,
        pairs=pairs,
        tokens=imported.tokens,
        encoder=imported.encoder,
        mappings={mapping.name: mapping for mapping in mappings},
        match=matched,
        dtype=_dtype(folder, matched),
        notes=[*notes, *pair_notes],
    )


def _family(folder: ModelFolder) -> Family[Any]:
    where = folder.named("config.json")
    name = folder.config.get("model_type", "timm" if "architecture" in folder.config else None)
    if not isinstance(name, str):
        raise BadModelError(f"{where}: model_type {shown(name)}, there are {', '.join(FAMILIES)}")
    if name not in FAMILIES:
        raise BadModelError(f"{where}: model_type {shown(name)} {why_unsupported(name, FAMILIES)}")
    given, known = folder.config.get("architectures"), architectures_of(name)
    if given is not None and (not isinstance(given, list) or not given or given[0] not in known):
        advice = ""
        if isinstance(given, list) and given and isinstance(given[0], str) and given[0].endswith(HEADS):
            advice = f"; {without_head_advice(folder.path, folder.tokenizer_files)}"
        raise BadModelError(f"{where}: architectures {shown(given)}, there are {', '.join(known)}{advice}")
    return family_of(folder.config) or FAMILIES[name]


def _guarded(folder: ModelFolder, call: Callable[[], T]) -> T:
    """Call a family's function; any error it raises is an error in config.json, not a traceback."""
    origin = folder.named("config.json")
    try:
        return call()
    except BadModelError as error:
        raise BadModelError(one_line(error).replace("config.json", origin, 1)) from None
    except HeadwayError as error:
        raise BadModelError(f"{origin}: {one_line(error)}") from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise BadModelError(f"{origin}: cannot be read ({type(error).__name__}: {one_line(error)})") from None


def _check_sizes(folder: ModelFolder, model: ModelConfig) -> None:
    """Reject sizes that this number of tensors cannot have, before a module is built for each layer."""
    for name, value in _integers(model):
        most = len(folder.tensors) if name.endswith("layers") else MAX_CONTEXT if name == "context" else None
        if most is not None and value > most:
            where = folder.named("config.json")
            raise BadModelError(f"{where}: {name}={value}, at most {most} with these weights")


def _integers(config: Any) -> Iterator[tuple[str, int]]:
    """Every integer of a config with its name, those of nested configs too."""
    for each in dataclasses.fields(config):
        value = getattr(config, each.name)
        if dataclasses.is_dataclass(value):
            yield from _integers(value)
        elif type(value) is int:
            yield each.name, value


def _check_tensors(folder: ModelFolder, mappings: list[WeightMapping], matched: TensorMatch) -> None:
    """Raise BadModelError naming every tensor that is missing, unknown, misshapen or not of floats."""
    found, tensors = matched.found, folder.tensors
    wrong = [f"{name} is missing" for name in matched.missing]
    wrong += [f"{shown(name)} is not part of the model" for name in matched.extra]
    for mapping in mappings:
        for usual, shape in zip(mapping.hf_names, mapping.hf_shapes, strict=True):
            if usual in found and (entry := tensors[found[usual]]).shape != tuple(shape):
                wrong.append(f"{shown(found[usual])} has shape {shown(entry.shape)}, expected {tuple(shape)}")
    wrong += [
        f"{shown(name)} is {tensors[name].dtype}, expected floats"
        for name in dict.fromkeys(found.values())
        if not DTYPES[tensors[name].dtype].is_floating_point
    ]
    if wrong:
        more = f"; and {len(wrong) - MAX_NAMED:,} more" if len(wrong) > MAX_NAMED else ""
        raise BadModelError(f"{folder.path}: {len(wrong):,} wrong: {'; '.join(wrong[:MAX_NAMED])}{more}")


def _dtype(folder: ModelFolder, matched: TensorMatch) -> torch.dtype:
    """Half precision is kept if every tensor has the same; anything else becomes float32."""
    found = {folder.tensors[name].dtype for name in matched.found.values()}
    return DTYPES[found.pop()] if len(found) == 1 and found <= {"F32", "F16", "BF16"} else torch.float32


def _task(folder: ModelFolder, family: Family[Any], imported: Imported) -> tuple[Task, tuple[str, ...]]:
    """The task of the model, and the names of a classifier's classes."""
    if family.image_shape is not None and imported.classes is not None:
        task = image_task(folder, family.image_shape(imported.model))
        return task, class_names(folder, imported.classes)
    if imported.task is not None and imported.classes is not None:
        return imported.task, class_names(folder, imported.classes)
    sizes = imported.model.text
    return imported.task or sentence_task(folder, None if sizes is None else sizes.context), ()


def _pairs(folder: ModelFolder, task: Task, classes: Sequence[str], given: bool | None) -> tuple[bool, list[str]]:
    """Whether pairs of texts are classified, and what to say of a guess. Raises ConfigError."""
    if not task.takes_pairs:
        if given is not None:
            raise ConfigError(f"--pairs is for classifiers of texts; {folder.path} is {article(task.title)}")
        return False, []
    if given is not None:
        return given, []
    if reads_pairs(folder.config, classes):
        return True, ["reads pairs of texts, as its config shows; if it reads one text, import it with --no-pairs"]
    return False, ["reads one text at a time; if it was trained on pairs of texts, import it with --pairs"]


@torch.inference_mode()
def self_check(model: Model, plan: ImportPlan) -> float:
    """Run an imported model on a few tokens or a blank image, and return the largest magnitude of its outputs.

    Raises BadModelError if that is NaN or infinite.
    """
    if plan.family.image_shape is not None:
        shape = plan.family.image_shape(plan.config)
        inputs = ModelInputs(images=torch.zeros(1, *shape, dtype=next(model.parameters()).dtype))
    else:
        sizes = plan.config.text
        assert sizes is not None
        tokens = torch.arange(PROBE).remainder(sizes.vocab).unsqueeze(0)
        two = "source" in model.reads
        inputs = ModelInputs(tokens=tokens[:, :1] if two else tokens, source=tokens if two else None)
    outputs = dataclasses.replace(model.eval().run(inputs), pooled=None)  # a tanh, never above 1
    largest = max(float(output.abs().max()) for output in outputs.present.values())
    if not largest < float("inf"):
        raise BadModelError(f"{plan.folder.path}: the model gives {largest} on a few tokens, expected finite numbers")
    return largest
