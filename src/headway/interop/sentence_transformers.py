"""The pooling of a sentence-transformers folder, read and written."""

from __future__ import annotations

from typing import Any

from headway.errors import BadModelError, ConfigError, shown
from headway.interop.model_folder import ModelFolder
from headway.tasks.export_request import SentencePooling
from headway.tasks.sentence_embedding.config import Embedding, Pooling

MODULES = "modules.json"
POOLINGS: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max",
}  # fmt: skip


def sentence_task(folder: ModelFolder, context: int | None) -> Embedding:
    """The task that modules.json describes; without one, the mean of the token vectors. Raises BadModelError."""
    if not folder.has(MODULES):
        return Embedding(max_length=min(context or 512, 512))
    modules = folder.json(MODULES)
    if not isinstance(modules, list) or not all(isinstance(each, dict) for each in modules):
        raise BadModelError(f"{folder.named(MODULES)}: expected a list of modules")
    kinds = [_kind(each, folder) for each in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise BadModelError(f"{folder.named(MODULES)}: {shown(kinds)}, allowed: Transformer, Pooling and Normalize")
    if modules[0].get("path", "") != "":
        raise BadModelError(f"{folder.named(MODULES)}: the Transformer's path {shown(modules[0]['path'])}, expected ''")
    sizes = folder.settings("sentence_bert_config.json") or {}
    length = sizes.get("max_seq_length") or context or 512
    if type(length) is not int or (context is not None and length > context):
        where = folder.named("sentence_bert_config.json")
        raise BadModelError(f"{where}: max_seq_length {shown(length)}, allowed: up to {context}")
    if sizes.get("do_lower_case"):
        raise BadModelError(f"{folder.named('sentence_bert_config.json')}: do_lower_case has no equivalent here")
    try:
        return Embedding(pooling=_pooling(folder, modules[1]), normalise=len(kinds) == 3, max_length=length)
    except ConfigError as error:
        raise BadModelError(f"{folder.named('sentence_bert_config.json')}: {error}") from None


def sentence_files(pooling: SentencePooling, width: int) -> dict[str, Any]:
    """The JSON files by which sentence-transformers finds the pooling of a folder, by their names in it."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if pooling.normalise else [])]
    modules = [
        {
            "idx": n,
            "name": str(n),
            "path": f"{n}_{kind}" if n else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for n, kind in enumerate(kinds)
    ]
    return {
        MODULES: modules,
        "sentence_bert_config.json": {"max_seq_length": pooling.max_length, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            **{key: mode == pooling.mode for key, mode in POOLINGS.items()},
        },
    }


def _kind(module: dict[str, Any], folder: ModelFolder) -> str:
    """The last word of a module's type, which is never imported."""
    kind = module.get("type")
    if not isinstance(kind, str) or not kind.startswith("sentence_transformers."):
        raise BadModelError(f"{folder.named(MODULES)}: type {shown(kind)} asks for code, which is never run")
    return kind.rpartition(".")[2]


def _pooling(folder: ModelFolder, module: dict[str, Any]) -> Pooling:
    path = module.get("path")
    if not isinstance(path, str) or not path or set(path) & set("/\\:\0") or path.startswith("."):
        raise BadModelError(f"{folder.named(MODULES)}: path {shown(path)}, allowed: a folder of this one")
    name = f"{path}/config.json"
    config = folder.settings(name)
    if config is None:
        raise BadModelError(f"{folder.named(name)}: missing")
    if config.get("pooling_mode") in POOLINGS.values():  # as newer versions write it
        return config["pooling_mode"]  # type: ignore[no-any-return]
    chosen = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise BadModelError(f"{folder.named(name)}: {shown(chosen)}, allowed: one of {', '.join(POOLINGS)}")
    return POOLINGS[chosen[0]]
