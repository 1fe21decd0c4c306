"""A tokenizer as the files of a PreTrainedTokenizerFast, which transformers loads without further code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import processors

from headway.data.chat_template import ChatTemplate
from headway.data.tokenizers import Tokenizer
from headway.data.vocabularies import PAD, START, STOP, UNK
from headway.errors import DataError
from headway.interop.chat_jinja import jinja_template
from headway.interop.family import GenerationTokens
from headway.tasks.export_request import Around


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTemplate:
    """The token ids around a text, and the special tokens."""

    tokens: GenerationTokens
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    between: tuple[int, ...] = ()  # between two texts; empty: as after a text
    unk: int | None = None
    mask: int | None = None


def text_template(tokenizer: Tokenizer, around: Around) -> TextTemplate:
    """An imported tokenizer's own special tokens, else headway's by their names, as many as `around` says."""
    marks = tokenizer.marks
    if marks is not None:
        tokens = GenerationTokens(start=marks.start, stop=marks.stops, pad=marks.pad, banned=marks.banned)
        return TextTemplate(
            before=marks.before,
            after=marks.after,
            between=marks.between,
            tokens=tokens,
            unk=marks.unk,
            mask=marks.mask,
        )
    named = {name: _find(tokenizer, name) for name in (PAD, UNK, START, STOP, "<mask>")}
    start, stop = named[START], named[STOP]
    ends = around != "none"
    return TextTemplate(
        before=(start,) if around == "start-stop" and start is not None else (),
        after=(stop,) if ends and stop is not None else (),
        tokens=GenerationTokens(
            start=start if ends else None, stop=() if stop is None or not ends else (stop,), pad=named[PAD]
        ),
        unk=named[UNK],
        mask=named["<mask>"],
    )


def _find(tokenizer: Tokenizer, name: str) -> int | None:
    try:
        return tokenizer.id(name)
    except DataError:
        return None


def tokenizer_files(
    tokenizer: Tokenizer,
    template: TextTemplate,
    around: Around,
    max_length: int,
    *,
    segments: int = 2,
    chat: ChatTemplate | None = None,
) -> dict[str, str]:
    """tokenizer.json, tokenizer_config.json and special_tokens_map.json by name.

    `segments` is how many kinds of segments the model has an embedding for; `chat` is written as a Jinja template.
    """
    whole = around == "start-stop"
    named = {"pad_token": template.tokens.pad, "unk_token": template.unk, "mask_token": template.mask}
    if whole:
        named |= {"cls_token": next(iter(template.before), None), "sep_token": next(iter(template.after[-1:]), None)}
    else:
        named |= {"bos_token": template.tokens.start, "eos_token": next(iter(template.tokens.stop), None)}
    special = {name: tokenizer.token(index) for name, index in named.items() if index is not None}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]
        if whole and segments
        else ["input_ids", "attention_mask"],
        **special,
    }
    # Text never becomes a special token, except that users of a masked model type its <mask>, and that transformers
    # encodes a conversation as one text with its special tokens in it.
    if chat is not None:
        config["chat_template"] = jinja_template(chat)
    elif tokenizer.marks is None and not whole:
        config["split_special_tokens"] = True
    return {
        "tokenizer.json": _with_template(tokenizer, template, segments),
        "tokenizer_config.json": json.dumps(config, indent=2) + "\n",
        "special_tokens_map.json": json.dumps(special, indent=2) + "\n",
    }


def _with_template(tokenizer: Tokenizer, template: TextTemplate, segments: int) -> str:
    """The tokenizer with the special tokens it puts around a text, or around two, as the run reads them."""
    library = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    if template.before or template.after:
        inner = template.between or template.after
        ids = dict.fromkeys((*template.before, *inner, *template.after))
        names = {index: tokenizer.token(index) for index in ids}
        before, middle, after = ([names[index] for index in part] for part in (template.before, inner, template.after))
        second = ["$B", *after] if segments < 2 else ["$B:1", *(f"{name}:1" for name in after)]
        library.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            pair=[*before, "$A", *middle, *second],
            special_tokens=[(name, index) for index, name in names.items()],
        )
    return library.to_str(pretty=True) + "\n"
