"""The tokenizer of a model folder, from any of the file formats, as one of the `tokenizers` library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from headway.data.tokenizer_checks import check_tokenizer, library_error, quiet_panics, try_tokenizer
from headway.documents import parse_json
from headway.errors import BadModelError, shown
from headway.interop.gguf_model import GgufModel
from headway.interop.gguf_tokenizer import PREFIX as GGUF_PREFIX
from headway.interop.gguf_tokenizer import read_gguf_tokenizer
from headway.interop.model_folder import MAX_TOKENIZER_BYTES, ModelFolder
from headway.interop.sentencepiece_model import PLAIN, SPACE, apart, read_model, to_tokenizer
from headway.limits import expect_within

ONE, SOURCE, TARGET = "tokenizer.json", "tokenizer-source.json", "tokenizer-target.json"
MAX_AROUND = 1_000  # special tokens before or after a text
SENTENCEPIECE = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
BYTE_PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
LEADS = ("", "a ", SPACE)  # what may stand before a text that spells a special token
NAMES = {"unk": "unk_token", "pad": "pad_token", "mask": "mask_token", "start": "cls_token", "stop": "sep_token"}


@dataclass(slots=True)
class TokenizerFiles:
    """A folder's tokenizers by their file names in a run, and its special tokens."""

    libraries: dict[str, Tokenizer]
    before: tuple[int, ...] = ()  # special tokens around a text, from the tokenizer's post-processor
    after: tuple[int, ...] = ()
    named: dict[str, int] = field(default_factory=dict)  # the ids of pad, unk, mask, start, stop
    notes: list[str] = field(default_factory=list)
    between: tuple[int, ...] = ()  # between two texts; empty: as after a text, or not known


def read_tokenizer(folder: ModelFolder, vocab: int, source_vocab: int | None = None) -> TokenizerFiles | None:
    """The tokenizer, None if the folder has none; a vocabulary smaller than the model's is filled up.

    A model with different source and target vocabularies has two. Text that spells a special token stays text.
    Raises BadModelError naming the file.
    """
    reader = _reader(folder)
    if reader is None:
        return None
    for size in (vocab, source_vocab or 0):
        expect_within("vocabulary", size, f"{folder.path}: vocab_size", BadModelError)
    try:
        with quiet_panics():
            return _read(folder, reader, vocab, source_vocab)
    except BaseException as error:  # the library panics on some files
        raise library_error(error, f"{folder.path}: its tokenizer is not usable", BadModelError) from None


def _read(
    folder: ModelFolder, reader: Callable[[ModelFolder], TokenizerFiles], vocab: int, source_vocab: int | None
) -> TokenizerFiles:
    found = reader(folder)
    for name, library in found.libraries.items():  # before any text is encoded
        check_tokenizer(json.loads(library.to_str()), folder.named(name), BadModelError)
    config = folder.settings("tokenizer_config.json") or {}
    found.named = {**_named(folder, next(iter(found.libraries.values())), config), **found.named}
    for name, library in found.libraries.items():
        try_tokenizer(library, json.loads(library.to_str()), folder.named(name), BadModelError)
        _fill(library, vocab if source_vocab is None or name == TARGET else source_vocab, folder.named(name))
        found.libraries[name] = _guarded(library, folder.named(name))
    return found


def _reader(folder: ModelFolder) -> Callable[[ModelFolder], TokenizerFiles] | None:
    if isinstance(folder, GgufModel):
        gguf = folder
        return (lambda _: _from_gguf(gguf)) if f"{GGUF_PREFIX}tokens" in gguf.gguf.metadata else None
    if folder.has("tokenizer.json"):
        return _from_json
    if folder.has("source.spm") or folder.has("target.spm"):
        return _from_marian
    for vocab, merges in BYTE_PAIRS:
        if folder.has(vocab) and folder.has(merges):
            return lambda folder: _from_byte_pairs(folder, vocab, merges)
    if folder.has("vocab.txt"):
        return _from_word_pieces
    for name in SENTENCEPIECE:
        if folder.has(name):
            return lambda folder: _from_sentencepiece(folder, name)
    return None


def _from_gguf(folder: GgufModel) -> TokenizerFiles:
    found = read_gguf_tokenizer(folder.gguf.metadata, folder.named(ONE))
    return TokenizerFiles({ONE: found.library}, found.before, found.after, found.named)


def _from_json(folder: ModelFolder) -> TokenizerFiles:
    library, before, after, inner = _library(folder, ONE)
    if not folder.has(TARGET):
        return TokenizerFiles({ONE: library}, before, after, between=inner)
    return TokenizerFiles({SOURCE: library, TARGET: _library(folder, TARGET)[0]}, before, after)


def _library(folder: ModelFolder, name: str) -> tuple[Tokenizer, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A tokenizer, and what its post-processor puts before and after a text, and between two."""
    data = folder.data(name, MAX_TOKENIZER_BYTES)
    content = parse_json(data, folder.named(name), error=BadModelError, large_integers=True)
    if not isinstance(content, dict):
        raise BadModelError(f"{folder.named(name)}: expected an object, got {type(content).__name__}")
    before, after = around(content.get("post_processor"), folder.named(name))
    inner = between(content.get("post_processor"), before, after)
    library = Tokenizer.from_str(data.decode())
    library.no_truncation()
    library.no_padding()
    library.post_processor = None
    return library, before, after, inner


def around(processor: Any, origin: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids a tokenizer's post-processor, as JSON, puts before and after a text. Raises BadModelError."""
    kind = processor.get("type") if isinstance(processor, dict) else None
    try:
        if processor is None or kind == "ByteLevel":
            return (), ()
        if kind in ("BertProcessing", "RobertaProcessing"):
            return (_id(processor["cls"][1]),), (_id(processor["sep"][1]),)
        if kind == "Sequence":
            found = [around(each, origin) for each in processor["processors"]]
            return _joined((b for b, _ in reversed(found)), origin), _joined((a for _, a in found), origin)
        if kind == "TemplateProcessing":
            ids = {name: tuple(map(_id, each["ids"])) for name, each in processor["special_tokens"].items()}
            parts = [
                ids[each["SpecialToken"]["id"]] if "SpecialToken" in each else None for each in processor["single"]
            ]
            if parts.count(None) == 1:
                text = parts.index(None)
                return _joined(filter(None, parts[:text]), origin), _joined(filter(None, parts[text + 1 :]), origin)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise BadModelError(f"{origin}: post_processor cannot be read ({type(error).__name__})") from None
    raise BadModelError(f"{origin}: post_processor {shown(kind)} has no equivalent here")


def between(processor: Any, before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """The ids a post-processor, as JSON, puts between the two texts of a pair; empty where it says nothing usable.

    Usable is a pair whose first text comes first and which begins and ends as a single text does.
    """
    kind = processor.get("type") if isinstance(processor, dict) else None
    try:
        if kind == "BertProcessing":
            return (_id(processor["sep"][1]),)
        if kind == "RobertaProcessing":
            return (_id(processor["sep"][1]),) * 2
        if kind == "Sequence":
            return next((found for each in processor["processors"] if (found := between(each, before, after))), ())
        if kind == "TemplateProcessing":
            ids = {name: tuple(map(_id, each["ids"])) for name, each in processor["special_tokens"].items()}
            parts: list[list[int]] = [[]]
            order = []
            for each in processor["pair"]:
                if "SpecialToken" in each:
                    parts[-1] += ids[each["SpecialToken"]["id"]]
                else:
                    order.append(each["Sequence"]["id"])
                    parts.append([])
            if order == ["A", "B"] and (tuple(parts[0]), tuple(parts[2])) == (before, after):
                return tuple(parts[1]) if len(parts[1]) <= MAX_AROUND else ()
    except (KeyError, TypeError, IndexError, AttributeError, ValueError):
        return ()
    return ()


def _joined(parts: Iterable[tuple[int, ...]], origin: str) -> tuple[int, ...]:
    """The ids of all parts in turn. Raises BadModelError for more than any model has."""
    joined: list[int] = []
    for part in parts:
        joined += part
        if len(joined) > MAX_AROUND:
            raise BadModelError(f"{origin}: post_processor adds more than {MAX_AROUND} tokens to a text")
    return tuple(joined)


def _id(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _from_byte_pairs(folder: ModelFolder, vocab_name: str, merges_name: str) -> TokenizerFiles:
    """GPT-2's bytes: a vocabulary and the merges that make it."""
    vocab = _vocabulary(folder, vocab_name)
    lines = _lines(folder, merges_name)
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        raise BadModelError(f"{folder.named(merges_name)}: {shown(' '.join(wrong))}, expected two tokens a line")
    library = Tokenizer(models.BPE(vocab, pairs))  # type: ignore[arg-type]
    prefix = (folder.settings("tokenizer_config.json") or {}).get("add_prefix_space", False)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix is True)
    library.decoder = decoders.ByteLevel()
    alphabet, made = set(pre_tokenizers.ByteLevel.alphabet()), {left + right for left, right in pairs}
    library.add_special_tokens([token for token in vocab if token not in made and token not in alphabet])
    if not vocab.keys() >= set(_ROBERTA.values()):
        return TokenizerFiles({ONE: library})
    named = {name: vocab[token] for name, token in _ROBERTA.items()}
    return TokenizerFiles({ONE: library}, (named["start"],), (named["stop"],), named, between=(named["stop"],) * 2)


# The special tokens of RoBERTa, Longformer and BART, of which the first and last stand around every text.
_ROBERTA = {"start": "<s>", "stop": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}


def _from_word_pieces(folder: ModelFolder) -> TokenizerFiles:
    """BERT's word pieces, one a line."""
    lines = _lines(folder, "vocab.txt")
    while lines and not lines[-1]:
        lines.pop()
    vocab = {line: index for index, line in enumerate(lines)}
    if len(vocab) != len(lines):
        raise BadModelError(f"{folder.named('vocab.txt')}: duplicate word piece")
    config = folder.settings("tokenizer_config.json") or {}
    names = {key: _token(config.get(key), default) for key, default in _BERT.items()}
    lost = next((token for token in names.values() if token not in vocab), None)
    if lost is not None:
        raise BadModelError(f"{folder.named('vocab.txt')}: no {shown(lost)} in it")
    library = Tokenizer(models.WordPiece(vocab, unk_token=names["unk_token"], max_input_chars_per_word=100))
    accents = config.get("strip_accents")
    library.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.get("tokenize_chinese_chars", True) is True,
        strip_accents=accents if isinstance(accents, bool) else None,
        lowercase=config.get("do_lower_case", True) is True,
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    library.add_special_tokens(list(names.values()))
    named = {name: vocab[names[key]] for name, key in NAMES.items()}
    return TokenizerFiles({ONE: library}, (named["start"],), (named["stop"],), named)


_BERT = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
}  # fmt: skip


def _from_sentencepiece(folder: ModelFolder, name: str) -> TokenizerFiles:
    model = read_model(folder.data(name, MAX_TOKENIZER_BYTES), folder.named(name))
    library = to_tokenizer(model, folder.named(name))
    stop = library.token_to_id("</s>") if "</s>" in model.pieces else None
    start = library.token_to_id("<s>") if "<s>" in model.pieces else None
    config = folder.settings("tokenizer_config.json") or {}
    # The defaults of transformers' classes: T5 appends an end token, LLaMA prepends a start token.
    begun = config.get("add_bos_token", name == "tokenizer.model") is True and start is not None
    ended = config.get("add_eos_token", name != "tokenizer.model") is True and stop is not None
    before, after = ((start,) if begun else ()), ((stop,) if ended else ())
    return TokenizerFiles({ONE: library}, before, after)  # type: ignore[arg-type]


def _from_marian(folder: ModelFolder) -> TokenizerFiles:
    """Marian's: a model for either side, ids in a vocabulary that both share."""
    vocab = _vocabulary(folder, "vocab.json")
    ids = sorted(vocab, key=vocab.__getitem__)
    found = TokenizerFiles({})
    for name, file in ((SOURCE, "source.spm"), (TARGET, "target.spm")):
        model = read_model(folder.data(file, MAX_TOKENIZER_BYTES), folder.named(file))
        lost = sum(model.pieces[index] not in vocab for index in model.of_kind(PLAIN))
        if lost:
            found.notes.append(f"{file}: {lost:,} pieces are not in vocab.json; text that has them is divided finer")
        found.libraries[name] = to_tokenizer(model, folder.named(file), ids, ("</s>", "<pad>"))
    found.after = (vocab["</s>"],) if "</s>" in vocab else ()
    return found


def _vocabulary(folder: ModelFolder, name: str) -> dict[str, int]:
    """A JSON object of tokens and their ids, 0 to n - 1."""
    vocab = folder.json(name, MAX_TOKENIZER_BYTES)
    if not isinstance(vocab, dict) or not vocab or sorted(map(_number, vocab.values())) != list(range(len(vocab))):
        raise BadModelError(f"{folder.named(name)}: expected tokens with ids from 0 on, each id once")
    return vocab


def _number(value: Any) -> int:
    return value if type(value) is int else -1


def _lines(folder: ModelFolder, name: str) -> list[str]:
    try:
        text = folder.data(name, MAX_TOKENIZER_BYTES).decode()
    except UnicodeDecodeError as error:
        raise BadModelError(f"{folder.named(name)}: invalid UTF-8 at byte {error.start + 1}") from None
    return [line.removesuffix("\r") for line in text.split("\n")]


def _named(folder: ModelFolder, library: Tokenizer, config: Mapping[str, Any]) -> dict[str, int]:
    """The ids of the special tokens of tokenizer_config.json or special_tokens_map.json, added to the tokenizer."""
    more = folder.settings("special_tokens_map.json") or {}
    found = {}
    for name, key in NAMES.items():
        token = _token(config.get(key), _token(more.get(key), ""))
        index = library.token_to_id(token) if token else None
        if index is not None:
            found[name] = index
            library.add_special_tokens([AddedToken(token, special=True, normalized=False)])
    return found


def _token(value: Any, default: str) -> str:
    """A token as those files write it: a string, or an object with its content."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) and value else default


def _fill(library: Tokenizer, vocab: int, origin: str) -> None:
    """Give every id of the model a token. Raises BadModelError for ids beyond the model's, or missing ones."""
    size = library.get_vocab_size()
    lost = next((index for index in range(size) if library.id_to_token(index) is None), None)
    if lost is not None:
        raise BadModelError(f"{origin}: {size:,} tokens and none with id {lost:,}, expected 0 to {size - 1:,}")
    if size > vocab:
        raise BadModelError(f"{origin}: {size:,} tokens, the model (vocab_size) has {vocab:,}")
    library.add_special_tokens([f"<|unused-{index}|>" for index in range(size, vocab)])
    if library.get_vocab_size() != vocab:
        raise BadModelError(f"{origin}: {library.get_vocab_size():,} tokens, the model (vocab_size) has {vocab:,}")


def _guarded(library: Tokenizer, origin: str) -> Tokenizer:
    """A tokenizer that never makes a special token of text that spells one. Raises BadModelError if it cannot be."""
    library.encode_special_tokens = True
    added = library.get_added_tokens_decoder()
    special = {index: token.content for index, token in added.items() if token.special}
    special = {index: text for index, text in special.items() if library.model.token_to_id(text) is not None}
    unknown = _unknown(library)
    for _ in range(2):
        spelt = [text for index, text in _spelt(library, special) if index != unknown]
        if not spelt:
            return library
        before = library.pre_tokenizer
        steps = [apart(spelt)] if before is None else [before, apart(spelt)]
        library.pre_tokenizer = pre_tokenizers.Sequence(steps)
    raise BadModelError(f"{origin}: the text {shown(spelt[0])} would become a special token")


def _spelt(library: Tokenizer, special: Mapping[int, str]) -> list[tuple[int, str]]:
    """The special tokens that text which spells them becomes, at the beginning, after a word or after a space."""
    texts = [f"{lead}{text}" for text in special.values() for lead in LEADS]
    encoded = iter(library.encode_batch_fast(texts, add_special_tokens=False))
    each = {index: [next(encoded).ids for _ in LEADS] for index in special}
    return [(index, special[index]) for index, found in each.items() if any(index in ids for ids in found)]


def _unknown(library: Tokenizer) -> int | None:
    """The id of text that is not in the vocabulary, which may be a special token."""
    if isinstance(library.model, models.Unigram):
        found: int | None = json.loads(library.to_str())["model"]["unk_id"]
        return found
    token = library.model.unk_token
    return library.token_to_id(token) if isinstance(token, str) else None
