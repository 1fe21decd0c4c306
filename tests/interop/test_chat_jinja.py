from __future__ import annotations

import itertools

import jinja2
import jinja2.sandbox
import pytest

from headway.data.chat_template import AnyTemplate, Chatml, ChatTemplate, LlamaChat, RoleNames
from headway.interop.chat_jinja import jinja_template, plain_template

VARIABLES = {"bos_token": "<|begin_of_text|>", "eos_token": "</s>"}
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
SPECIALS = (*SPECIAL, "</s>")

CHATML_SHORT = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CHATML_DEFINED = "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" + (
    CHATML_SHORT.replace("message['role']", "message.role").replace("'<|im_end|>' + '\\n'", '"<|im_end|>\\n"')
)
CHATML_LINES = """{# written over several lines #}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' -}}
    {{ message.content }}
    {{- "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
CHATML_SYSTEM = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LLAMA_3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
OWN = ChatTemplate(
    begin="<|begin_of_text|>",
    system_before="It's \\ said:\n",
    system_after="\t\n",
    user_before="«user»\n",
    user_after="<|im_end|>",
    assistant_before="'quoted'\n",
    assistant_after="<|im_end|>\r\n",
    special=("<|begin_of_text|>", "<|im_end|>"),
    system="be 'brief'",
    trim=True,
)
KNOWN: dict[str, tuple[str, AnyTemplate]] = {
    "chatml": (CHATML_SHORT, Chatml()),
    "chatml, defined": (CHATML_DEFINED, Chatml()),
    "chatml over lines": (CHATML_LINES, Chatml()),
    "chatml with a system message": (CHATML_SYSTEM, Chatml(system="You are a helpful assistant.")),
    "llama 3": (LLAMA_3, LlamaChat()),
    "own chatml": (jinja_template(Chatml(system="hello")), Chatml(system="hello")),
    "own llama": (jinja_template(LlamaChat()), LlamaChat()),
    "own roles": (jinja_template(RoleNames()), RoleNames()),
    "own": (jinja_template(OWN), OWN),
}
CONVERSATIONS = [
    [("user", "Hi")],
    [("system", "Be brief."), ("user", " a\n"), ("assistant", "b\n\nc "), ("user", "it's \\n {{ 1 }}")],
    [("user", "x"), ("assistant", "y")],
]


def rendered(text: str, messages: list[tuple[str, str]], *, answer: bool) -> str:
    """What transformers renders: its Jinja settings, in a sandbox."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    listed = [{"role": role, "content": content} for role, content in messages]
    return environment.from_string(text).render(messages=listed, add_generation_prompt=answer, **VARIABLES)


def written(template: ChatTemplate, messages: list[tuple[str, str]], *, answer: bool) -> str:
    """A plain template by hand."""
    if template.system and messages[0][0] != "system":
        messages = [("system", template.system), *messages]
    texts = [
        f"{template.before(role)}{content.strip() if template.trim else content}{template.after(role)}"
        for role, content in messages
    ]
    return template.begin + "".join(texts) + (template.assistant_before if answer else "")


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_template_is_read_as_what_it_renders(name):
    text, expected = KNOWN[name]
    found = plain_template(text, VARIABLES, SPECIALS)
    assert found is not None
    assert (type(found), found.fields) == (type(expected), expected.fields)
    for messages, answer in itertools.product(CONVERSATIONS, (False, True)):
        assert written(found, messages, answer=answer) == rendered(text, messages, answer=answer)


def test_zephyrs_template_has_one_special_token():
    found = plain_template(ZEPHYR, VARIABLES, SPECIALS)
    assert found is not None
    assert found.special == ("</s>",)
    assert found.user_before == "<|user|>\n"
    for messages in CONVERSATIONS:
        assert written(found, messages, answer=False) == rendered(ZEPHYR, messages, answer=False)
        if messages[-1][0] == "user":
            assert written(found, messages, answer=True) == rendered(ZEPHYR, messages, answer=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% for message in messages %}{{ message['content'] }}{% endfor %}",
        CHATML_SHORT + "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        CHATML_SHORT.replace("message['content']", "message['content'] | upper"),
        CHATML_SHORT.replace("message['content']", "message['content'].__class__"),
        CHATML_SHORT.replace("{% endfor %}", "{% if tools %}{{ tools }}{% endif %}{% endfor %}"),
        CHATML_SHORT.replace("assistant\\n", "assistant\\n<think>\\n"),
        CHATML_SHORT.replace("{% if add_generation_prompt %}", "{% if not add_generation_prompt %}"),
        CHATML_SHORT.replace("for message in messages", "for message in messages[1:]"),
        CHATML_SYSTEM.replace("<|im_start|>system\\nYou", "You"),
        CHATML_SHORT.replace("\\n", "\\x0a"),
        "{{ 'unclosed ",
        "{% for message in messages %}" * 3000,
    ],
)
def test_any_other_template_is_not_supported_and_never_executed(text):
    assert plain_template(text, VARIABLES, SPECIALS) is None


def test_an_answer_must_end_with_a_special_token_of_the_tokenizer():
    assert plain_template(CHATML_SHORT, VARIABLES, ()) is None
    assert plain_template(CHATML_SHORT, VARIABLES, ("<|im_start|>",)) is None


def test_a_variable_without_a_text_is_not_guessed():
    assert plain_template(LLAMA_3, {}, SPECIALS) is None
    assert plain_template(ZEPHYR, {"bos_token": "<s>"}, SPECIALS) is None
