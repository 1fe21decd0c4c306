"""From a run's config to its task with the data: what is checked, noted, and sized by the data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headway import config as configs
from headway.data.tokenizers import Tokenizer
from headway.errors import ConfigError, DataError
from headway.models import (
    ConvnetConfig,
    DecisionConfig,
    LongformerMaskedConfig,
    PoseConfig,
    VitConfig,
    WorldConfig,
)
from headway._compile import compiler_missing
from headway.tasks.captioning.training import Captioning, CaptioningTask, prepare_captioning
from headway.tasks.image_classification.training import Classification, ClassificationTask, prepare_classification
from headway.tasks.decision_transformer.training import Deciding, DecidingTask, prepare_deciding
from headway.tasks.sentence_embedding.embed import Embedding
from headway.tasks.world_model.prepare import prepare_world
from headway.tasks.language_modelling.training import Language, LanguageTask
from headway.tasks.masked_lm.training import Masked, MaskedTask
from headway.tasks.pose.training import PoseEstimation, PoseTask, prepare_pose
from headway.tasks.prepare import prepare_language, prepare_masked, prepare_translation
from headway.tasks.text_classification.training import TextClassification, TextClassificationTask, prepare_text_classification
from headway.tasks.translation.training import Translation, TranslationTask
from headway.tasks.world_model.training import WorldModel, WorldTask
from headway.training.devices import pick_device
from headway.runs.config import ONE, RunConfig
from headway.training.callbacks import Watcher

AnyTask = (
    LanguageTask
    | MaskedTask
    | TranslationTask
    | ClassificationTask
    | TextClassificationTask
    | CaptioningTask
    | PoseTask
    | WorldTask
    | DecidingTask
)
Prepared = tuple[RunConfig, AnyTask, dict[str, Tokenizer], dict[str, str]]


def prepare(
    config: RunConfig, tokenizers: dict[str, Tokenizer], expected: dict[str, str] | None, watcher: Watcher, folder: Path
) -> Prepared:
    """The config with the sizes its data gave, the task with its data, the tokenizers, the contents."""
    if isinstance(config.task, Classification):
        return _images(config, config.task, expected, watcher)
    if isinstance(config.task, Captioning):
        return _captions(config, config.task, tokenizers.get(ONE), expected, watcher)
    if isinstance(config.task, PoseEstimation):
        return _pose(config, config.task, expected, watcher)
    if isinstance(config.task, WorldModel):
        return _world(config, config.task, folder, watcher)
    if isinstance(config.task, Deciding):
        deciding, sized = decisions(config, config.task, folder)
        return replace(config, model=sized), deciding, {}, {}
    size, only = {"batch_tokens": config.train.batch_tokens, "seed": config.train.seed}, tokenizers.get(ONE)
    if isinstance(config.task, Language):
        language, tokenizer, found = prepare_language(config.task, config.data, only, expected=expected, **size)
        model = configs.override(config.model, {"vocab": tokenizer.size})
        return replace(config, model=model), language, {ONE: tokenizer}, found
    if isinstance(config.task, TextClassification):
        made, texts = prepare_text_classification(config.task, config.data, only, expected=expected, **size)
        classes, words = texts.classes, texts.tokenizer
        counts = ", ".join(f"{name} {len(each.labels):,}" for name, each in texts.splits.items())
        watcher.note(f"{words.size} tokens, {len(classes)} classes; texts: {counts}")
        model = configs.override(config.model, {"encoder.vocab": words.size, "classes": len(classes)})
        data = replace(config.data, classes=classes)
        return replace(config, model=model, data=data), made, {ONE: words}, texts.contents
    if isinstance(config.task, Masked):
        config.task.expect(config.model)
        masked, tokenizer, found = prepare_masked(config.task, config.data, only, expected=expected, **size)
        body = "longformer" if isinstance(config.model, LongformerMaskedConfig) else "bert"
        model = configs.override(config.model, {f"{body}.vocab": tokenizer.size})
        return replace(config, model=model), masked, {ONE: tokenizer}, found
    if isinstance(config.task, Embedding):
        raise ConfigError("task=embedding is what an imported encoder does: it is not trained here")
    translation, named, found = prepare_translation(config.task, config.data, tokenizers, expected=expected, **size)
    left_out = len(translation.splits["train"].source) - len(translation.kept)
    if left_out:
        watcher.note(f"{left_out:,} training pairs are longer than task.max_length={config.task.max_length}: left out")
    source, target = translation.source_tokenizer, translation.target_tokenizer
    sizes: dict[str, object] = {"vocab": target.size, "source_vocab": None if source is target else source.size}
    return replace(config, model=configs.override(config.model, sizes)), translation, named, found


def _images(config: RunConfig, task: Classification, expected: dict[str, str] | None, watcher: Watcher) -> Prepared:
    if isinstance(config.model, VitConfig) and config.model.size != (task.size, task.size):
        raise ConfigError(f"task.size={task.size}, model.image={config.model.image}: expected the same")
    if isinstance(config.model, VitConfig | ConvnetConfig) and config.model.channels != task.channels:
        kind = "images" if task.sound is None else "sounds"
        raise ConfigError(f"model.channels={config.model.channels}, allowed for {kind}: {task.channels}")
    made, images = prepare_classification(
        task,
        config.data,
        batch_tokens=config.train.batch_tokens,
        seed=config.train.seed,
        compiled=_compiled(config),
        expected=expected,
        progress=watcher.preparing,
    )
    counts = ", ".join(f"{name} {len(store):,}" for name, store in images.splits.items())
    watcher.note(f"{len(images.classes)} classes; images: {counts}")
    if images.left_out:
        watcher.note(f"{images.left_out:,} images cannot be read: left out")
    model = configs.override(config.model, {"classes": len(images.classes)})
    data = replace(config.data, classes=images.classes)
    return replace(config, model=model, data=data), made, {}, images.contents


def _captions(
    config: RunConfig, task: Captioning, tokenizer: Tokenizer | None, expected: dict[str, str] | None, watcher: Watcher
) -> Prepared:
    image = getattr(config.model, "image", None)
    if image not in (task.size, (task.size, task.size)):
        raise ConfigError(f"task.size={task.size}, model.image={image}: expected the same")
    made, tokenizer, captions = prepare_captioning(
        task,
        config.data,
        tokenizer,
        batch_tokens=config.train.batch_tokens,
        seed=config.train.seed,
        compiled=_compiled(config),
        expected=expected,
        progress=watcher.preparing,
    )
    counts = ", ".join(f"{name} {len(store):,}" for name, store in captions.splits.items())
    watcher.note(f"{tokenizer.size} tokens; images with captions: {counts}")
    if captions.left_out:
        watcher.note(f"{captions.left_out:,} images are missing or cannot be read: left out")
    model = configs.override(config.model, {"vocab": tokenizer.size})
    return replace(config, model=model), made, {ONE: tokenizer}, captions.contents


def _pose(config: RunConfig, task: PoseEstimation, expected: dict[str, str] | None, watcher: Watcher) -> Prepared:
    if not isinstance(config.model, PoseConfig) or config.model.size != task.image:
        image = getattr(config.model, "image", None)
        raise ConfigError(f"task.size={task.size}, model.image={image}: expected the same, in a pose model")
    rows, seed = config.train.batch_tokens, config.train.seed
    made, poses = prepare_pose(
        task, config.data, batch_tokens=rows, seed=seed, expected=expected, progress=watcher.preparing
    )
    counts = ", ".join(f"{name} {len(store):,}" for name, store in poses.splits.items())
    watcher.note(f"{config.model.keypoints} keypoints; people: {counts}")
    return config, made, {}, poses.contents


def _world(config: RunConfig, task: WorldModel, folder: Path, watcher: Watcher) -> Prepared:
    """Nothing is there yet but the environment: what is collected is kept in the run's folder, checked by itself."""
    if not isinstance(config.model, WorldConfig):
        raise ConfigError(f"model={configs.kind(type(config.model))}, allowed for a world: world")
    if config.train.accumulate != 1:
        raise ConfigError(f"train.accumulate={config.train.accumulate}, allowed for a world: 1")
    rows, seed = config.train.batch_tokens, config.train.seed
    made, model = prepare_world(
        task, config.model, config.data.spec, folder, batch_tokens=rows, seed=seed, note=watcher.note
    )
    return replace(config, model=model), made, {}, {}


def decisions(config: RunConfig, task: Deciding, folder: Path) -> tuple[DecidingTask, DecisionConfig]:
    """A decision transformer's task with its log, and the config its environment sizes."""
    if not isinstance(config.model, DecisionConfig):
        raise ConfigError(f"model={configs.kind(type(config.model))}, allowed for deciding: decision")
    rows, seed = config.train.batch_tokens, config.train.seed
    return prepare_deciding(task, config.model, config.data.spec, folder, batch_tokens=rows, seed=seed)


def read_again(
    config: RunConfig, spec: str, tokenizers: dict[str, Tokenizer], folder: Path, *, to_train: bool
) -> AnyTask:
    """A trained run's task with data, its own `to_train`; of other data all is to be judged."""
    data, task = replace(config.data, spec=spec), config.task
    rows, seed = config.train.batch_tokens, config.train.seed
    size = {"batch_tokens": rows, "seed": seed}
    if isinstance(task, WorldModel):
        return world_again(config, spec, folder)
    if isinstance(task, Deciding):
        return decisions(config, task, folder)[0]
    if isinstance(task, PoseEstimation):
        return prepare_pose(task, data, batch_tokens=rows, seed=seed)[0]
    if isinstance(task, Language):
        return prepare_language(task, data, tokenizers[ONE], expected=None, **size)[0]
    if isinstance(task, TextClassification):
        return prepare_text_classification(task, data, tokenizers[ONE], expected=None, **size)[0]
    if isinstance(task, Masked):
        return prepare_masked(task, data, tokenizers[ONE], expected=None, **size)[0]
    if isinstance(task, Embedding):
        raise ConfigError(f"{folder} is a sentence encoder: it has no metric here; `headway embed` uses it")
    if isinstance(task, Translation):
        return prepare_translation(task, data, tokenizers, expected=None, **size)[0]
    whole = data if to_train else replace(data, val="")
    if isinstance(task, Captioning):
        only = tokenizers[ONE]
        return prepare_captioning(task, whole, only, batch_tokens=rows, seed=seed, to_train=to_train)[0]
    return prepare_classification(task, whole, batch_tokens=rows, seed=seed, to_train=to_train)[0]


def world_again(config: RunConfig, spec: str, folder: Path) -> WorldTask:
    """A world model's task with the episodes it was learned from. Raises ConfigError for other runs and other data."""
    if not isinstance(config.task, WorldModel):
        raise ConfigError(f"{folder} does not act: it is no world model")
    if spec != config.data.spec:
        raise ConfigError(f"--data {spec}: {folder} knows {config.data.spec} alone")
    rows, seed = config.train.batch_tokens, config.train.seed
    made = WorldTask(config.task, spec, folder, batch_tokens=rows, seed=seed)
    if not made.collected:
        raise DataError(f"{folder}: the episodes it was learned from are gone")
    return made


def _compiled(config: RunConfig) -> bool:
    return config.train.compile and compiler_missing(pick_device(config.train.device).type) is None
