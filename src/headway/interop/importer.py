"""From a model folder of Hugging Face's kind to the parts of a run: config, tokenizers, weights tensor by tensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from headway.data.special_tokens import SpecialTokens
from headway.errors import BadModelError, HeadwayError
from headway.interop.families import FAMILIES
from headway.interop.family import Imported, match
from headway.interop.image_processor import class_names, image_task
from headway.interop.model_folder import ModelFolder
from headway.interop.safetensors_header import DTYPES
from headway.interop.safetensors_writer import chunks_of, header_of
from headway.interop.sentence_transformers import sentence_task
from headway.interop.tokenizer_import import TokenizerFiles, read_tokenizer
from headway.interop.untrusted_json import one_line, shown
from headway.models import ModelConfig, VitConfig
from headway.storage.commit import StagedFolder
from headway.tasks.image_classification import Classification
from headway.tasks.language_modelling.training import Language
from headway.tasks.masked_lm.training import Masked
from headway.tasks.sentence_embedding.embed import Embedding
from headway.tasks.translation.training import Translation

NAMED = 10  # tensors an error names; the rest are counted
LONGEST = 2**24  # positions
# What a generation_config.json may say in place of config.json.
STEERING = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "bad_words_ids")
T = TypeVar("T")
Told = Callable[[int], None]  # so many bytes more are written


class Import:
    """A model folder that has been checked from end to end, but for the numbers: those are read when it is written.

    Raises BadModelError naming file and field, or every tensor that is missing, unknown or misshapen.
    """

    def __init__(self, path: Path) -> None:
        self.folder = ModelFolder(path)
        family = self.folder.config.get("model_type", "timm" if "architecture" in self.folder.config else None)
        if not isinstance(family, str) or family not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise BadModelError(f"{self.folder.named('config.json')}: model_type {shown(family)}, there are {known}")
        self.family = FAMILIES[family]
        self._expect_architecture()
        shapes = {name: entry.shape for name, entry in self.folder.tensors.items()}
        config = self.folder.config | self._steering()
        imported = self._guarded(lambda: self.family.read(config, shapes))
        self.model = imported.model
        self._expect_possible(imported.model)
        parts = self._guarded(lambda: self.family.parts(imported.model))
        self.parts = {part.ours: part for part in parts}
        # The parts are at hand: to find them once more would build the model once more.
        prepared = dataclasses.replace(self.family, parts=lambda model: parts)
        self.match = match(prepared, imported.model, self.folder.tensors)
        self._expect_tensors()
        self.dtype = self._dtype()
        self.task, self.classes = self._task(imported)
        # Reading a tokenizer takes as long as hashing a hundred megabytes: it is done while the weights are written.
        with_tokenizer = ThreadPoolExecutor(1)
        self._reading = with_tokenizer.submit(self._tokenizers, imported)
        with_tokenizer.shutdown(wait=False)

    @cached_property
    def nbytes(self) -> int:
        """Of the weights file that `write` makes."""
        header = len(header_of(self._shapes, self.dtype))
        return header + sum(torch.Size(shape).numel() for shape in self._shapes.values()) * self.dtype.itemsize

    @property
    def tokenizers(self) -> TokenizerFiles | None:
        """The tokenizers, None for a model of something else than text. Raises BadModelError."""
        return self._reading.result()[0]

    @property
    def marks(self) -> SpecialTokens | None:
        """The special tokens of the text. Raises BadModelError."""
        return self._reading.result()[1]

    @property
    def notes(self) -> list[str]:
        """What a user should know."""
        return [] if self.tokenizers is None else self.tokenizers.notes

    def write(self, draft: StagedFolder, name: str, told: Told = lambda count: None) -> None:
        """Stream the weights into a file, hashed on the way. Raises BadModelError for numbers that are none."""
        self._expect_copies()

        def counted() -> Iterator[memoryview]:
            for chunk in chunks_of(self._shapes, self.dtype, self._tensor):
                if self._reading.done():
                    self._reading.result()  # a bad tokenizer is not told after gigabytes
                yield chunk
                told(len(chunk))

        draft.stream(name, counted())

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: part.shape for name, part in self.parts.items()}

    def _tensor(self, ours: str) -> Tensor:
        part = self.parts[ours]
        names = [self.match.found[name] for name in part.needed]
        found = part.assemble([self.folder.read(name) for name in names])
        if not bool(found.sum().isfinite()) and not bool(found.isfinite().all()):
            raise BadModelError(f"{self.folder.path}: tensor {shown(names[0])} is not finite")
        return found

    def _guarded(self, call: Callable[[], T]) -> T:
        """What a family makes of the config; what it did not expect there is the config's fault, not a traceback."""
        origin = self.folder.named("config.json")
        try:
            return call()
        except BadModelError as error:
            raise BadModelError(one_line(error).replace("config.json", origin, 1)) from None
        except HeadwayError as error:
            raise BadModelError(f"{origin}: {one_line(error)}") from None
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise BadModelError(f"{origin}: cannot be read ({type(error).__name__}: {one_line(error)})") from None

    def _expect_architecture(self) -> None:
        given, known = self.folder.config.get("architectures"), self.family.architectures
        if given is None:
            return
        if not isinstance(given, list) or not given or given[0] not in known:
            where = self.folder.named("config.json")
            raise BadModelError(f"{where}: architectures {shown(given)}, there are {', '.join(known)}")

    def _expect_possible(self, model: ModelConfig) -> None:
        """Refuse sizes no file of this many tensors has, before a module is built for each layer."""
        for name, value in _numbers(model):
            most = len(self.folder.tensors) if name.endswith("layers") else LONGEST if name == "context" else None
            if most is not None and value > most:
                where = self.folder.named("config.json")
                raise BadModelError(f"{where}: {name}={value}, at most {most} with these weights")

    def _steering(self) -> dict[str, Any]:
        given = self.folder.settings("generation_config.json") or {}
        return {key: given[key] for key in STEERING if given.get(key) is not None}

    def _expect_tensors(self) -> None:
        """Raise BadModelError naming every tensor that is missing, unknown, misshapen or no float."""
        found, tensors = self.match.found, self.folder.tensors
        wrong = [f"{name} is missing" for name in self.match.missing]
        wrong += [f"{shown(name)} is not part of the model" for name in self.match.extra]
        for part in self.parts.values():
            for usual, shape in zip(part.theirs, part.shapes, strict=True):
                if usual in found and (entry := tensors[found[usual]]).shape != tuple(shape):
                    wrong.append(f"{shown(found[usual])} has shape {shown(entry.shape)}, expected {tuple(shape)}")
        wrong += [
            f"{shown(name)} is {tensors[name].dtype}, expected floats"
            for name in dict.fromkeys(found.values())
            if not DTYPES[tensors[name].dtype].is_floating_point
        ]
        if wrong:
            more = f"; and {len(wrong) - NAMED:,} more" if len(wrong) > NAMED else ""
            raise BadModelError(f"{self.folder.path}: {len(wrong):,} wrong: {'; '.join(wrong[:NAMED])}{more}")

    def _expect_copies(self) -> None:
        """Raise BadModelError where two tensors that the config makes one differ."""
        found = self.match.found
        repeated = [
            (found[part.theirs[0]], found[name])
            for part in self.parts.values()
            for name in part.theirs[1:]
            if part.repeated and name in found
        ]
        for one, other in [*self.match.equal, *repeated]:
            if one != other and not torch.equal(self.folder.read(one), self.folder.read(other)):
                raise BadModelError(f"{self.folder.path}: tensors {shown(one)} and {shown(other)} are tied and differ")

    def _dtype(self) -> torch.dtype:
        """Half precision is kept where every tensor has the same; anything else becomes float32."""
        found = {self.folder.tensors[name].dtype for name in self.match.found.values()}
        return DTYPES[found.pop()] if len(found) == 1 and found <= {"F32", "F16", "BF16"} else torch.float32

    def _task(
        self, imported: Imported
    ) -> tuple[Language | Masked | Translation | Embedding | Classification, tuple[str, ...]]:
        """What the model is for, and the names of the classes of an image model."""
        model = imported.model
        if isinstance(model, VitConfig):
            return image_task(self.folder, model), class_names(self.folder, model.classes)
        return imported.task or sentence_task(self.folder, _context(model)), ()

    def _tokenizers(self, imported: Imported) -> tuple[TokenizerFiles | None, SpecialTokens | None]:
        vocab = _vocab(imported.model)
        if vocab is None:
            return None, None  # a model of something else than text
        found = read_tokenizer(self.folder, vocab, getattr(imported.model, "source_vocab", None))
        if found is None:
            raise BadModelError(f"{self.folder.path}: no tokenizer (tokenizer.json, vocab.txt, vocab.json, *.spm …)")
        tokens, named = imported.tokens, found.named
        whole = isinstance(self.task, Masked | Embedding)  # reads a text as a whole, between its marks
        start = next(iter(found.before), named.get("start")) if whole else tokens.start
        stop = next(iter(found.after[-1:]), named.get("stop")) if whole else next(iter(tokens.stop), None)
        marks = SpecialTokens(
            pad=named.get("pad") if tokens.pad is None else tokens.pad,
            unk=named.get("unk"),
            start=start,
            stop=stop,
            stops=tokens.stop,
            mask=named.get("mask"),
            before=found.before,
            after=found.after,
            banned=tokens.banned,
        )
        self._expect_ids(marks, vocab)
        return found, marks

    def _expect_ids(self, marks: SpecialTokens, vocab: int) -> None:
        for key in ("before", "after"):
            wrong = next((index for index in getattr(marks, key) if index >= vocab), None)
            if wrong is not None:
                raise BadModelError(f"{self.folder.path}: tokenizer: id {wrong}, allowed: 0 to {vocab - 1}")


def _numbers(config: Any) -> Iterator[tuple[str, int]]:
    """Every whole number of a config with its name, of nested ones as well."""
    for each in dataclasses.fields(config):
        value = getattr(config, each.name)
        if dataclasses.is_dataclass(value):
            yield from _numbers(value)
        elif type(value) is int:
            yield each.name, value


def _vocab(model: ModelConfig) -> int | None:
    return next((value for name, value in _numbers(model) if name == "vocab"), None)


def _context(model: ModelConfig) -> int | None:
    return next((value for name, value in _numbers(model) if name == "context"), None)
