"""The chat template of a model folder: where it is, and the task of a model that has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.config import kind
from headway.data.chat_template import ChatEncoder
from headway.data.tokenizers import SpecialTokens, Tokenizer
from headway.errors import BadModelError, ConfigError
from headway.interop.chat_jinja import KNOWN, plain_template
from headway.interop.model_folder import MAX_CONFIG_BYTES, ModelFolder
from headway.interop.tokenizer_import import ONE, TokenizerFiles
from headway.tasks.base import Task

CONFIG, FILE = "tokenizer_config.json", "chat_template.jinja"


def with_chat_template(task: Task, folder: ModelFolder, files: TokenizerFiles) -> tuple[Task, list[str]]:
    """The task with the folder's chat template in plain form, and what to tell about it.

    A template that is not known, or whose special tokens a message could spell, leaves the task as it is.
    """
    found, library = _template(folder), files.libraries.get(ONE)
    if found is None or library is None:
        return task, []
    name, text = found
    added = library.get_added_tokens_decoder()
    special = [token.content for _, token in sorted(added.items()) if token.special]
    template = plain_template(text, _variables(folder), special)
    where = folder.named(name)
    without = "the run cannot chat; it is imported as a language model"
    if template is None:
        return task, [f"{where}: a chat template that is not one of {KNOWN}; none is ever executed: {without}"]
    chat = task.with_template(template)
    if chat is task:
        return task, []
    try:
        ChatEncoder(template, Tokenizer.from_json(library.to_str(), SpecialTokens(), where=folder.named(ONE)))
    except ConfigError as error:
        return task, [f"{where}: {error}: {without}"]
    return chat, [f"{where}: chat template {kind(type(template))}"]


def _template(folder: ModelFolder) -> tuple[str, str] | None:
    """The name of the file and the text of the template; a file of its own comes before tokenizer_config.json."""
    if folder.has(FILE):
        try:
            return FILE, folder.data(FILE, MAX_CONFIG_BYTES).decode()
        except UnicodeDecodeError as error:
            raise BadModelError(f"{folder.named(FILE)}: invalid UTF-8 at byte {error.start + 1}") from None
    value: Any = (folder.settings(CONFIG) or {}).get("chat_template")
    if isinstance(value, list):  # several by name
        named = {each.get("name"): each.get("template") for each in value if isinstance(each, dict)}
        value = named.get("default")
    return (CONFIG, value) if isinstance(value, str) else None


def _variables(folder: ModelFolder) -> Mapping[str, str]:
    """The texts of bos_token and eos_token, where the folder says them."""
    config = folder.settings(CONFIG) or {}
    found = {}
    for name in ("bos_token", "eos_token"):
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            found[name] = value
    return found
