"""Model folders with a chat template: imported in plain form, exported as Jinja, the same ids as transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers

import headway
from headway.data.chat_template import Chatml, LlamaChat
from headway.data.chats import Message
from headway.data.tokenizers import ByteBpe, Tokenizer
from headway.interop.chat_jinja import KNOWN, jinja_template
from headway.reliability.runs import TINY, make
from headway.runs.import_folder import import_folder
from tests.interop.test_chat_jinja import CHATML_SHORT, CHATML_SYSTEM, LLAMA_3, ZEPHYR

TEXT = ["What is it? It is a small dog.", "user assistant system", "You are a helpful assistant."]
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
CONVERSATION = [
    {"role": "system", "content": "It is"},
    {"role": "user", "content": "What is it?\n"},
    {"role": "assistant", "content": "a small dog"},
    {"role": "user", "content": " You are?"},
]


def write_folder(folder: Path, template: str | list[object] | None, *, special: bool = True) -> Path:
    """A tiny Llama as transformers saves it, with a tokenizer that has the special tokens."""
    library = Tokenizer.train(ByteBpe(vocab=300, fit=True), TEXT, specials=(*SPECIAL, "</s>")).to_json()
    tokens = json.loads(library)
    for token in tokens["added_tokens"]:
        token["special"] = special
    config = transformers.LlamaConfig(
        vocab_size=len(tokens["model"]["vocab"]), hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=128, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>",
        "bos_token": "<|begin_of_text|>",
        **({} if template is None else {"chat_template": template}),
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [(CHATML_SHORT, Chatml()), (CHATML_SYSTEM, Chatml(system="You are a helpful assistant.")), (LLAMA_3, LlamaChat())],
)
def test_a_known_template_makes_a_chat_model_with_the_same_ids(tmp_path, text, expected):
    folder = write_folder(tmp_path / "model", text)
    report = import_folder(folder, tmp_path / "run")
    assert report.notes[-1] == f"{folder}/tokenizer_config.json: chat template {expected.name}"
    run = headway.load(tmp_path / "run", device="cpu")
    assert run.task.template.fields == expected.fields
    assert {"chat", "generate", "score"} <= set(run.can())
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for messages in (CONVERSATION, CONVERSATION[1:], CONVERSATION[1:2]):
        ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        own = [Message(each["role"], each["content"]) for each in messages]
        assert run.pipeline.encoder.prompt(own) == list(ids)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    prompt = torch.tensor(
        [list(theirs.apply_chat_template(CONVERSATION, add_generation_prompt=True, return_dict=False))]
    )
    with torch.no_grad():
        written = model.generate(prompt, do_sample=False, max_new_tokens=6, eos_token_id=None, pad_token_id=0)
    drawn = [int(index) for index in written[0, prompt.shape[1] :]]
    stops = set(run.pipeline.encoder.ids.values()) | {1}
    cut = next((n for n, index in enumerate(drawn) if index in stops), len(drawn))
    expected_text = run.tokenizer.decode(drawn[:cut]).rstrip("\ufffd")  # half a character at the end is not shown
    assert "".join(run.chat(CONVERSATION, max_tokens=6, temperature=0)) == expected_text


def test_a_file_of_its_own_and_a_list_of_templates_are_read(tmp_path):
    folder = write_folder(tmp_path / "file", None)
    (folder / "chat_template.jinja").write_text(ZEPHYR)
    import_folder(folder, tmp_path / "zephyr")
    assert headway.load(tmp_path / "zephyr", device="cpu").task.template.special == ("</s>",)
    several = [{"name": "tools", "template": "{{ tools }}"}, {"name": "default", "template": CHATML_SHORT}]
    import_folder(write_folder(tmp_path / "several", several), tmp_path / "chatml")
    assert headway.load(tmp_path / "chatml", device="cpu").task.template == Chatml()


@pytest.mark.parametrize(
    "text", ["{{ ''.__class__.__mro__ }}", CHATML_SHORT.replace("message['content']", "message['content'] | upper")]
)
def test_an_unknown_template_is_a_language_model_that_says_so(tmp_path, text):
    folder = write_folder(tmp_path / "model", text)
    report = import_folder(folder, tmp_path / "run")
    told = f"a chat template that is not one of {KNOWN}; none is ever executed"
    assert report.notes[-1].startswith(f"{folder}/tokenizer_config.json: {told}: the run cannot chat")
    assert "chat" not in headway.load(tmp_path / "run", device="cpu").can()


def test_a_template_whose_tokens_a_message_can_spell_is_refused(tmp_path):
    """Tokens that are added but not special: a text that spells one becomes it."""
    report = import_folder(write_folder(tmp_path / "model", CHATML_SHORT, special=False), tmp_path / "run")
    assert "the run cannot chat" in report.notes[-1]
    assert "chat" not in headway.load(tmp_path / "run", device="cpu").can()


def test_without_a_template_nothing_changes(tmp_path):
    assert import_folder(write_folder(tmp_path / "model", None), tmp_path / "run").notes == []
    assert headway.load(tmp_path / "run", device="cpu").task.name == "language"


def test_an_export_renders_to_the_same_ids_and_comes_back(tmp_path):
    with TINY["chat"].short():
        run = headway.load(make(TINY["chat"], tmp_path / "run", tmp_path / "cache"), device="cpu")
    run.export(tmp_path / "folder")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert theirs.chat_template == jinja_template(Chatml())
    assert theirs.eos_token == "<|im_end|>"
    messages = [
        {"role": "system", "content": "Answer briefly."}, {"role": "user", "content": "What is 2 + 3?"},
        {"role": "assistant", "content": "5"}, {"role": "user", "content": "And 3 more?"},
    ]  # fmt: skip
    own = [Message(each["role"], each["content"]) for each in messages]
    encoder = run.pipeline.encoder
    ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert list(ids) == encoder.prompt(own)
    assert list(theirs.apply_chat_template(messages[:3], return_dict=False)) == encoder.encode(own[:3]).ids
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "folder").eval()
    assert model.generation_config.eos_token_id == encoder.end
    import_folder(tmp_path / "folder", tmp_path / "again")
    again = headway.load(tmp_path / "again", device="cpu")
    assert again.task.template == Chatml()
    settings = {"max_tokens": 6, "temperature": 0}
    assert "".join(again.chat(messages, **settings)) == "".join(run.chat(messages, **settings))
