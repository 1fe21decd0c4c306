"""Chat templates of Hugging Face folders, which are Jinja programs: the known ones as plain templates, and back.

No template is ever executed. Its text is brought into a canonical form (white space control applied, quotes, `.` and
`[]`, `+` and adjacent literals unified) and compared with the few shapes below; a plain template is read off one that
matches, and any other is not supported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.data.chat_template import AnyTemplate, Chatml, ChatTemplate, LlamaChat, RoleNames
from headway.data.chats import ASSISTANT, ROLES, SYSTEM, USER
from headway.errors import ConfigError

MAX_CHARACTERS = 20_000  # of a template that is compared; known ones have a tenth of that
KNOWN = "ChatML, Llama 3, Zephyr and those that headway writes"

_TAG = re.compile(r"(\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\})", re.DOTALL)
_TOKEN = re.compile(r"""\s*(?:('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|([A-Za-z_]\w*)|(\d+)|(==|!=|[^\s\w]))""", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}

ROLE, CONTENT, TRIMMED = "message['role']", "message['content']", "message['content']|trim"
_FOR = "for message in messages"
_FIRST = ("if loop['first']and messages[0]['role']!='system'", "if messages[0]['role']!='system'")


class _UnknownShapeError(Exception):
    """A template that has none of the known forms."""


@dataclass(frozen=True, slots=True)
class _Literal:
    """Text that is written as it is."""

    text: str


Part = _Literal | str  # of an output: a text, or a canonical expression
Step = tuple[Part, ...] | str  # of a program: an output, or a canonical statement


def plain_template(text: str, variables: Mapping[str, str], special: Sequence[str]) -> AnyTemplate | None:
    """The plain form of a Jinja template; None for one that is not known.

    `variables` are the texts of bos_token and eos_token, `special` the special tokens of the tokenizer.
    """
    try:
        found = _read(_program(text, variables))
        texts = "".join([found["begin"], *(found[role + side] for role in ROLES for side in ("_before", "_after"))])
        used = tuple(token for token in special if token in texts)
        made = ChatTemplate(
            begin=found["begin"],
            system_before=found["system_before"],
            system_after=found["system_after"],
            user_before=found["user_before"],
            user_after=found["user_after"],
            assistant_before=found["assistant_before"],
            assistant_after=found["assistant_after"],
            special=used,
            system=found.get("system", ""),
            trim=bool(found.get("trim")),
        )
    except (_UnknownShapeError, ConfigError):
        return None
    return named_template(made)


def named_template(template: ChatTemplate) -> AnyTemplate:
    """The same template as one of the named kinds, where it is one, up to its system message."""
    for kind in (Chatml, LlamaChat, RoleNames):
        own = kind(system=template.system)
        if own.fields == template.fields:
            return own
    return template


def jinja_template(template: ChatTemplate) -> str:
    """A plain template as a Jinja program that renders to the same text, for transformers."""
    content = TRIMMED if template.trim else CONTENT
    parts = [_written(template.begin)] if template.begin else []
    if template.system:
        whole = template.system_before + template.system + template.system_after
        parts.append(f"{{% if messages[0]['role'] != 'system' %}}{_written(whole)}{{% endif %}}")
    parts.append("{% for message in messages %}")
    for word, role in zip(("if", "elif", "elif"), (SYSTEM, USER, ASSISTANT), strict=True):
        parts.append(f"{{% {word} message['role'] == '{role}' %}}")
        parts.append(f"{{{{ {_quoted(template.before(role))} + {content} + {_quoted(template.after(role))} }}}}")
    parts.append("{% endif %}{% endfor %}")
    parts.append(f"{{% if add_generation_prompt %}}{_written(template.assistant_before)}{{% endif %}}")
    return "".join(parts)


def _written(text: str) -> str:
    return f"{{{{ {_quoted(text)} }}}}"


def _quoted(text: str) -> str:
    """A text as a literal of Jinja."""
    for char, code in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(char, code)
    return f"'{text}'"


# --- the canonical form ---------------------------------------------------------------------------------------------


def _program(text: str, variables: Mapping[str, str]) -> list[Step]:
    """The outputs and statements of a template, adjacent outputs joined. Raises _UnknownShapeError."""
    if len(text) > MAX_CHARACTERS:
        raise _UnknownShapeError
    steps: list[Step] = []
    for kind, body in _tags(text):
        if kind == "data":
            fresh: tuple[Part, ...] = (_Literal(body),)
        elif kind == "{{":
            fresh = _parts(_tokens(body, variables))
        else:
            steps.append(_joined(_tokens(body, variables)))
            continue
        before = steps.pop() if steps and isinstance(steps[-1], tuple) else ()
        steps.append(_merged([*before, *fresh]))
    return [step for step in steps if step]


def _tags(text: str) -> list[tuple[str, str]]:
    """Data and tags in order, white space removed as transformers' Jinja does (trim_blocks, lstrip_blocks, `-`)."""
    pieces = _TAG.split(text)
    found: list[tuple[str, str]] = []
    for n, piece in enumerate(pieces):
        if n % 2:
            if not piece.startswith("{#"):
                found.append((piece[:2], piece[2:-2].strip().strip("-+").strip()))
            continue
        before, after = pieces[n - 1] if n else "", pieces[n + 1] if n + 1 < len(pieces) else ""
        if before.endswith(("-}}", "-%}", "-#}")):
            piece = piece.lstrip()
        elif before.endswith(("%}", "#}")):
            piece = piece.removeprefix("\n")
        if after[2:3] == "-":
            piece = piece.rstrip()
        elif after.startswith(("{%", "{#")) and after[2:3] != "+":
            line = piece.rpartition("\n")[2]
            if not line.strip(" \t") and ("\n" in piece or not n or before.endswith(("%}", "#}"))):
                piece = piece[: len(piece) - len(line)]
        if n == len(pieces) - 1:
            piece = piece.removesuffix("\n")  # Jinja drops a final line break
        if piece:
            found.append(("data", piece))
    return found


def _tokens(body: str, variables: Mapping[str, str]) -> list[str]:
    """The tokens of an expression or statement: strings as "'…", names, numbers, operators; variables as strings."""
    found: list[str] = []
    at = 0
    while at < len(body.rstrip()):
        token = _TOKEN.match(body, at)
        if token is None:
            raise _UnknownShapeError
        at = token.end()
        plain = token[0].strip()
        text = variables.get(plain) if token[1] is None else _unquoted(token[1])
        found.append(plain if text is None else f"'{text}")
    return found


def _unquoted(literal: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPES:
            raise _UnknownShapeError
        return _ESCAPES[escape[1]]

    return re.sub(r"\\(.)", character, literal[1:-1], flags=re.DOTALL)


def _joined(tokens: Sequence[str]) -> str:
    """Tokens as one text in which `a.b` is `a['b']`; words are kept apart by a space."""
    found = ""
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        if token == "." and rest and rest[0].isidentifier():
            token = f"['{rest.pop(0)}']"
        elif token.startswith("'"):
            token = f"{token}'"
        space = found[-1:].isalnum() and (token[0].isalnum() or token[0] == "_")
        found += f" {token}" if space else token
    return found


def _parts(tokens: Sequence[str]) -> tuple[Part, ...]:
    """The operands of `a + b + c`, or `~`."""
    operands: list[list[str]] = [[]]
    for token in tokens:
        if token in ("+", "~"):
            operands.append([])
        else:
            operands[-1].append(token)
    found: list[Part] = []
    for operand in operands:
        if len(operand) == 1 and operand[0].startswith("'"):
            found.append(_Literal(operand[0][1:]))
        elif operand:
            found.append(_joined(operand))
        else:
            raise _UnknownShapeError
    return _merged(found)


def _merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    found: list[Part] = []
    for part in parts:
        if isinstance(part, _Literal) and found and isinstance(found[-1], _Literal):
            found[-1] = _Literal(found[-1].text + part.text)
        else:
            found.append(part)
    return tuple(part for part in found if not isinstance(part, _Literal) or part.text)


# --- the known shapes -----------------------------------------------------------------------------------------------


def _read(program: list[Step]) -> dict[str, str]:
    """The texts of a template. Raises _UnknownShapeError."""
    steps = _without_preamble(program)
    found = {"begin": ""}
    if steps and isinstance(steps[0], tuple):
        found["begin"] = _text(steps.pop(0))
    default = _default_system(steps)
    _take(steps, _FOR)
    default = default or _default_system(steps)
    if steps and isinstance(steps[0], str):
        found |= _branches(steps)
    else:
        found |= _one_line(steps)
    _generation_prompt(steps, found["assistant_before"])
    if steps:
        raise _UnknownShapeError
    if default is not None:
        before, after = found["system_before"], found["system_after"]
        if not (default.startswith(before) and default.endswith(after) and len(default) > len(before) + len(after)):
            raise _UnknownShapeError
        found["system"] = default[len(before) : len(default) - len(after)]
    return found


def _without_preamble(program: list[Step]) -> list[Step]:
    """The program without definitions that change nothing, and Llama 3's variables written out."""
    steps = list(program)
    preamble = ["if not add_generation_prompt is defined", "set add_generation_prompt=false", "endif"]
    if steps[:3] == preamble:
        steps = steps[3:]
    if steps[:2] == ["set loop_messages=messages", "for message in loop_messages"]:
        steps[:2] = [_FOR]
    return _llama(steps)


def _llama(steps: list[Step]) -> list[Step]:
    """Llama 3 joins a message in a variable, with bos_token before the first."""
    if len(steps) < 6 or steps[0] != _FOR or not isinstance(steps[1], str) or not steps[1].startswith("set content="):
        return steps
    first, begin, last, out = steps[2:6]
    prefix = "set content='"
    if (first, last, out) != ("if loop['index0']==0", "endif", ("content",)) or not isinstance(begin, str):
        return steps
    if not (begin.startswith(prefix) and begin.endswith("'+content")):
        return steps
    message = _parts(_tokens(steps[1].removeprefix("set content="), {}))
    return [(_Literal(begin.removeprefix(prefix).removesuffix("'+content")),), _FOR, message, *steps[6:]]


def _one_line(steps: list[Step]) -> dict[str, str]:
    """`{{ A + role + B + content + C }}` for every message."""
    parts = steps.pop(0) if steps else ()
    _take(steps, "endfor")
    texts = [part.text for part in parts if isinstance(part, _Literal)]
    if not isinstance(parts, tuple) or len(parts) != 5 or len(texts) != 3 or parts[1] != ROLE:
        raise _UnknownShapeError
    found = {"trim": _trims(parts[3])}
    for role in ROLES:
        found |= {f"{role}_before": f"{texts[0]}{role}{texts[1]}", f"{role}_after": texts[2]}
    return found


def _branches(steps: list[Step]) -> dict[str, str]:
    """A branch for each role."""
    found: dict[str, str] = {}
    trims = set()
    for number in range(3):
        word = steps.pop(0) if steps else ""
        role = next((role for role in ROLES if word == f"{'elif' if number else 'if'} message['role']=='{role}'"), None)
        if role is None and word == "else" and number == 2:
            role = next(role for role in ROLES if f"{role}_before" not in found)
        parts = steps.pop(0) if steps else ()
        if role is None or f"{role}_before" in found or not isinstance(parts, tuple) or not parts:
            raise _UnknownShapeError
        places = [n for n, part in enumerate(parts) if not isinstance(part, _Literal)]
        if len(places) != 1 or len(parts) > 3:
            raise _UnknownShapeError
        trims.add(_trims(parts[places[0]]))
        found |= {f"{role}_before": _text(parts[: places[0]]), f"{role}_after": _text(parts[places[0] + 1 :])}
    _take(steps, "endif")
    if len(trims) != 1:
        raise _UnknownShapeError
    if steps[:1] == ["if loop['last']and add_generation_prompt"]:  # Zephyr, within the loop
        moved = steps[:3]
        del steps[:3]
        _take(steps, "endfor")
        steps[:0] = ["if add_generation_prompt", *moved[1:]]
    else:
        _take(steps, "endfor")
    return {**found, "trim": trims.pop()}


def _trims(part: Part) -> str:
    """Whether the content of a message is trimmed: "yes" or "". Raises _UnknownShapeError for any other expression."""
    if part not in (CONTENT, TRIMMED):
        raise _UnknownShapeError
    return "yes" if part == TRIMMED else ""


def _default_system(steps: list[Step]) -> str | None:
    """What is written where the conversation has no system message, if the program has that here."""
    if not steps or steps[0] not in _FIRST:
        return None
    if len(steps) < 3 or not isinstance(steps[1], tuple) or steps[2] != "endif":
        raise _UnknownShapeError
    text = _text(steps[1])
    del steps[:3]
    return text


def _generation_prompt(steps: list[Step], wanted: str) -> None:
    """`{% if add_generation_prompt %}` with what stands before an answer."""
    if steps[:1] != ["if add_generation_prompt"] or len(steps) < 3 or not isinstance(steps[1], tuple):
        raise _UnknownShapeError
    if _text(steps[1]) != wanted or steps[2] != "endif":
        raise _UnknownShapeError
    del steps[:3]


def _take(steps: list[Step], wanted: str) -> None:
    if not steps or steps.pop(0) != wanted:
        raise _UnknownShapeError


def _text(parts: Step) -> str:
    """The text of an output that is only text."""
    if isinstance(parts, str) or any(not isinstance(part, _Literal) for part in parts):
        raise _UnknownShapeError
    return "".join(part.text for part in parts if isinstance(part, _Literal))
