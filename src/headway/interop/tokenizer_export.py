"""A run's tokenizer as the files from which transformers makes a fast one, with no code of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import processors

from headway.data.tokenizers import Tokenizer
from headway.data.vocabularies import PAD, START, STOP, UNK
from headway.errors import DataError
from headway.interop.family import Tokens
from headway.tasks.language_modelling.training import Language
from headway.tasks.masked_lm.training import Masked
from headway.tasks.sentence_embedding.embed import Embedding
from headway.tasks.translation.training import Translation

AnyTask = Language | Masked | Translation | Embedding


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The ids around a text, and those with a meaning, as the run's task uses them."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    tokens: Tokens
    unk: int | None = None
    mask: int | None = None


def frame_of(tokenizer: Tokenizer, task: AnyTask) -> Frame:
    """What stands around a text of this task: the marks of an imported model, else headway's own names."""
    marks = tokenizer.marks
    if marks is not None:
        tokens = Tokens(start=marks.start, stop=marks.stops, pad=marks.pad, banned=marks.banned)
        return Frame(before=marks.before, after=marks.after, tokens=tokens, unk=marks.unk, mask=marks.mask)
    named = {name: _find(tokenizer, name) for name in (PAD, UNK, START, STOP, "<mask>")}
    start, stop = named[START], named[STOP]
    whole, ends = isinstance(task, Masked | Embedding), not isinstance(task, Language)
    tokens = Tokens(start=start if ends else None, stop=() if stop is None or not ends else (stop,), pad=named[PAD])
    return Frame(
        before=(start,) if whole and start is not None else (),
        after=(stop,) if ends and stop is not None else (),
        tokens=tokens,
        unk=named[UNK],
        mask=named["<mask>"],
    )


def _find(tokenizer: Tokenizer, name: str) -> int | None:
    try:
        return tokenizer.id(name)
    except DataError:
        return None


def tokenizer_files(tokenizer: Tokenizer, frame: Frame, task: AnyTask, longest: int) -> dict[str, str]:
    """tokenizer.json, tokenizer_config.json and special_tokens_map.json by name."""
    whole = isinstance(task, Masked | Embedding)
    named = {"pad_token": frame.tokens.pad, "unk_token": frame.unk, "mask_token": frame.mask}
    if whole:
        named |= {"cls_token": next(iter(frame.before), None), "sep_token": next(iter(frame.after[-1:]), None)}
    else:
        named |= {"bos_token": frame.tokens.start, "eos_token": next(iter(frame.tokens.stop), None)}
    special = {name: tokenizer.token(index) for name, index in named.items() if index is not None}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]
        if whole
        else ["input_ids", "attention_mask"],
        **special,
    }
    if tokenizer.marks is None and not whole:  # text never becomes a special token; a masked model's `<mask>` is typed
        config["split_special_tokens"] = True
    return {
        "tokenizer.json": _framed(tokenizer, frame),
        "tokenizer_config.json": json.dumps(config, indent=2) + "\n",
        "special_tokens_map.json": json.dumps(special, indent=2) + "\n",
    }


def _framed(tokenizer: Tokenizer, frame: Frame) -> str:
    """The tokenizer with what it puts around a text, or around two."""
    library = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    if frame.before or frame.after:
        ids = dict.fromkeys((*frame.before, *frame.after))
        names = {index: tokenizer.token(index) for index in ids}
        before, after = ([names[index] for index in part] for part in (frame.before, frame.after))
        second = ["$B:1", *(f"{name}:1" for name in after)]
        library.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after],
            pair=[*before, "$A", *after, *second],
            special_tokens=[(name, index) for index, name in names.items()],
        )
    return library.to_str(pretty=True) + "\n"
