"""Sets of vectors as a task: targets as class numbers or standardised numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headway.config import plain
from headway.data.config import DataConfig
from headway.data.datasets import load_vectors
from headway.data.digests import check_digests
from headway.data.files import listed
from headway.data.vector_files import Columns, VectorSets, classes_of, numbers_of, one_target
from headway.data.vectors import VectorData
from headway.errors import DataError, shown
from headway.models import ModelConfig
from headway.models.vector_transformer import standardisation
from headway.tasks.base import DataRequest, Prepared
from headway.tasks.vectors.config import Vectors
from headway.tasks.vectors.training import SetClassification, SetRegression, VectorTraining

MOST_CLASSES = 1_000  # beyond which a target is taken for a number
SHOWN = 10  # classes in a message


@dataclass(frozen=True, slots=True)
class VectorTargets:
    """Targets of each split: class numbers (int64), or numbers (float64)."""

    classes: tuple[str, ...]
    splits: Mapping[str, NDArray[Any]]


def prepare(config: Vectors, request: DataRequest) -> Prepared:
    """Sets with their targets, and the standardisation of features and numbers by the training split."""
    data = request.data
    columns = Columns(group=data.group, features=data.features, target=data.label)
    found = _joined(config, load_vectors(data.spec, columns, errors=data.errors))
    check_digests(found.contents, request.expected)
    if found.drawn:
        request.note("a tenth of the sets, drawn at random, is held out for validation")
    train = found.splits["train"]
    targets = _targets(config, found, data.classes)
    overrides: dict[str, object] = {
        "features": plain(standardisation(train.features, torch.from_numpy(train.rows))),
        "outputs": max(len(targets.classes), 1),
    }
    facts = {
        "sets": ", ".join(f"{name} {len(each):,}" for name, each in found.splits.items()),
        "elements": f"{train.lengths.min():,} to {train.lengths.max():,} of {len(train.features)} numbers: "
        f"{listed(train.features, most=SHOWN)}",
    }
    if config.predicts == "number":
        numbers = targets.splits["train"]
        overrides |= {"mean": float(numbers.mean()), "deviation": float(numbers.std()) or 1.0}
        facts["numbers"] = f"{numbers.min():.4g} to {numbers.max():.4g}, standard deviation {numbers.std():.4g}"
    else:
        overrides |= {"mean": 0.0, "deviation": 1.0}  # with --init the model may be one of numbers
        facts["classes"] = f"{len(targets.classes)}: {listed(targets.classes, most=SHOWN)}"
    return Prepared(
        training=_training(config, found, targets, request),
        model_overrides=overrides,
        classes=targets.classes,
        digests=found.contents,
        facts=facts,
    )


def read(config: Vectors, request: DataRequest) -> VectorTraining:
    """The data of a finished run, of the same splits as in training; of other data all."""
    data, features = request.data, feature_names(request.model)
    columns = Columns(group=data.group, features=features, target=data.label)
    if request.own_data:
        columns = replace(columns, features=data.features)
    loaded = load_vectors(data.spec, columns, errors=data.errors, whole=not request.own_data)
    found = _joined(config, loaded)
    return _training(config, found, _targets(config, found, data.classes), request)


def feature_names(model: ModelConfig) -> tuple[str, ...]:
    """The features that a model reads, in their order."""
    features: Any = getattr(model, "features", None)
    names: tuple[str, ...] = features.names
    return names


def columns_of(data: DataConfig, model: ModelConfig) -> Columns:
    """The columns that a finished run reads."""
    return Columns(group=data.group, features=feature_names(model), target=data.label)


def _joined(config: Vectors, data: VectorData) -> VectorData:
    """The data with one target a set, or of each element, as the task predicts."""
    if config.predicts != "elements":
        return replace(data, splits={name: one_target(sets) for name, sets in data.splits.items()})
    for sets in data.splits.values():
        if not sets.by_element:
            raise DataError(f"{sets.where}: one target a set, task.predicts=elements expects one of each element")
    return data


def _targets(config: Vectors, data: VectorData, known: tuple[str, ...]) -> VectorTargets:
    """Targets as numbers of classes or as numbers. Raises DataError for a class that train does not have."""
    if config.predicts == "number":
        return VectorTargets((), {name: numbers_of(sets) for name, sets in data.splits.items()})
    names = {name: _class_names(sets) for name, sets in data.splits.items()}
    classes = known or _ordered(names["train"])
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"{data.name}: {len(classes):,} different targets, allowed: up to {MOST_CLASSES:,} classes; "
            "--task.predicts number predicts a number"
        )
    numbers = {name: number for number, name in enumerate(classes)}
    found = {}
    for split, each in names.items():
        if unknown := sorted(set(each.tolist()) - set(classes)):
            raise DataError(f"{data.name}: class {shown(unknown[0])} of split {split} is not in train")
        found[split] = np.asarray([numbers[name] for name in each.tolist()], np.int64)
    return VectorTargets(classes, found)


def _class_names(sets: VectorSets) -> NDArray[Any]:
    assert sets.targets is not None
    if sets.targets.dtype.kind == "f" and (sets.targets != np.round(sets.targets)).any():
        wrong = sets.targets[sets.targets != np.round(sets.targets)][0]
        raise DataError(f"{sets.where}: target {wrong} is not a class; --task.predicts number predicts a number")
    return classes_of(sets.targets)


def _ordered(names: NDArray[Any]) -> tuple[str, ...]:
    """The classes, whole numbers by value and others by name."""
    found = sorted(set(names.tolist()))
    if all(name.removeprefix("-").isdecimal() and len(name) < 19 for name in found):
        found.sort(key=int)
    return tuple(found)


def _training(config: Vectors, data: VectorData, targets: VectorTargets, request: DataRequest) -> VectorTraining:
    rows, seed = request.batch_tokens, request.seed
    if config.predicts == "number":
        return SetRegression(data.splits, targets.splits, batch_tokens=rows, seed=seed)
    unit = "elements" if config.predicts == "elements" else "sets"
    return SetClassification(data.splits, targets.splits, targets.classes, unit, batch_tokens=rows, seed=seed)
