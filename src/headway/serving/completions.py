"""`/v1/completions` and `/v1/chat/completions`: the fields of a request, and the shapes of what is answered."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from headway.data.chats import Message
from headway.errors import HeadwayError, one_line, shown
from headway.serving.api_errors import invalid
from headway.serving.fields import Fields, stop_strings, too_long
from headway.serving.limits import ServerLimits
from headway.serving.requests import Request, SamplingFields
from headway.serving.text_model import TextModel

SEEDS = 2**63
ROLES = ("system", "developer", "user", "assistant")
IGNORED_BY_CHAT = (
    "metadata", "store", "service_tier", "reasoning_effort", "verbosity", "parallel_tool_calls", "prompt_cache_key",
    "prompt_cache_retention", "safety_identifier",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A request to continue prompts, read and checked."""

    prompts: list[list[int]]
    texts: list[str]  # of the prompts, as given
    max_tokens: int
    n: int
    best_of: int
    stop: tuple[str, ...]
    seed: int
    stream: bool
    usage: bool  # in the last chunk of a stream
    echo: bool
    top: int | None
    sampling: SamplingFields
    stops: tuple[int, ...]
    seconds: float
    chat: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def requests(self, client: str, now: float) -> list[Request]:
        """One for each sequence: `best_of` for each prompt, in order."""
        ranked = self.best_of > self.n
        return [
            Request(
                id=f"{self.id}/{place * self.best_of + number}",
                client=client,
                prompt=tuple(prompt),
                max_tokens=self.max_tokens,
                sampling=self.sampling,
                seed=self.seed,
                number=number,
                stops=self.stops,
                top=0 if self.top is None and ranked else self.top,
                prompt_log_probs=self.echo and self.top is not None,
                deadline=now + self.seconds,
            )
            for place, prompt in enumerate(self.prompts)
            for number in range(self.best_of)
        ]


def read_completion(fields: Fields, model: TextModel, limits: ServerLimits) -> Completion:
    """The request of `/v1/completions`. Raises ApiError."""
    prompts, texts = _prompts(fields, model, limits)
    top = fields.optional_integer("logprobs", 0, limits.log_probs)
    max_tokens = fields.integer("max_tokens", 16, 0, 1 << 31)
    echo = fields.flag("echo")
    best_of = fields.optional_integer("best_of", 1, limits.choices)
    if fields.take("suffix") is not None:
        raise invalid("the field 'suffix' is not supported", "suffix", "unsupported_parameter")
    if not max_tokens and not echo:
        raise invalid("max_tokens is 0, allowed only with echo: there would be nothing to answer", "max_tokens")
    found = _common(fields, model, limits, prompts, texts, max_tokens, top, echo=echo, best_of=best_of)
    fields.ignore("user")
    fields.refuse_rest()
    return found


def _common(
    fields: Fields,
    model: TextModel,
    limits: ServerLimits,
    prompts: list[list[int]],
    texts: list[str],
    max_tokens: int,
    top: int | None,
    *,
    echo: bool = False,
    best_of: int | None = None,
    chat: bool = False,
) -> Completion:
    """The fields that both endpoints have, and checks on all of them together."""
    n = fields.integer("n", 1, 1, limits.choices)
    best_of = n if best_of is None else best_of
    if best_of < n:
        raise invalid(f"best_of is {best_of}, expected at least n, which is {n}", "best_of")
    if best_of * len(prompts) > limits.sequences:
        raise invalid(f"{len(prompts)} prompts times {best_of} are more than {limits.sequences} sequences", "n")
    stream = fields.flag("stream")
    if stream and best_of > n:
        raise invalid("best_of above n cannot be streamed: which sequences are best is known at the end", "best_of")
    options = fields.take("stream_options", {})
    if not isinstance(options, dict):
        raise invalid(f"stream_options is {shown(options)}, expected an object", "stream_options")
    longest = max(map(len, prompts)) + max_tokens
    if model.context is not None and longest > model.context:
        raise too_long(longest, model.context)
    milliseconds = fields.optional_integer("deadline_ms", 1, int(1000 * limits.request_seconds))
    ends = fields.flag("ignore_eos")
    chat_ends = tuple(model.chat.ids.values()) if chat and model.chat is not None else ()
    return Completion(
        prompts=prompts,
        texts=texts,
        max_tokens=max_tokens,
        n=n,
        best_of=best_of,
        stop=stop_strings(fields, limits.stops, limits.stop_length),
        seed=fields.integer("seed", secrets.randbelow(SEEDS), -SEEDS, SEEDS - 1),
        stream=stream,
        usage=bool(options.get("include_usage")),
        echo=echo,
        top=top,
        sampling=_sampling(fields, model),
        stops=() if ends else (*model.stops, *chat_ends),
        seconds=limits.request_seconds if milliseconds is None else milliseconds / 1000,
        chat=chat,
    )


def _sampling(fields: Fields, model: TextModel) -> SamplingFields:
    bias = fields.take("logit_bias", {})
    if not isinstance(bias, dict) or len(bias) > 1024:
        raise invalid("logit_bias: expected an object of at most 1024 token ids and numbers", "logit_bias")
    pairs = []
    for key, value in bias.items():
        known = key.isascii() and key.isdigit() and len(key) < 12 and int(key) < model.vocab
        if not known or isinstance(value, bool) or not isinstance(value, int | float) or not -100 <= value <= 100:
            raise invalid(f"logit_bias has {shown(key)}: {shown(value)}, expected an id and -100 to 100", "logit_bias")
        pairs.append((int(key), float(value)))
    temperature = fields.number("temperature", 1.0, 0.0, 100.0)
    return SamplingFields(
        temperature=temperature if temperature >= 1e-5 else 0.0,
        top_k=fields.optional_integer("top_k", 1, 1 << 31),
        top_p=max(fields.number("top_p", 1.0, 0.0, 1.0), 1e-9),  # 0: the likeliest token, which always stays
        min_p=fields.number("min_p", 0.0, 0.0, 1.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0, 0.01, 100.0),
        frequency_penalty=fields.number("frequency_penalty", 0.0, -2.0, 2.0),
        presence_penalty=fields.number("presence_penalty", 0.0, -2.0, 2.0),
        logit_bias=tuple(pairs),
    )


def _prompts(fields: Fields, model: TextModel, limits: ServerLimits) -> tuple[list[list[int]], list[str]]:
    """The field `prompt`: a string, token ids, or several of either."""
    given = fields.take("prompt", "")
    if isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int)):
        given = [given]
    if not isinstance(given, list) or not given or len(given) > limits.prompts:
        raise invalid(f"prompt: expected a string, token ids, or up to {limits.prompts} of them", "prompt")
    prompts, texts = [], []
    for each in given:
        if isinstance(each, str):
            prompts.append(model.encode(each, "prompt", limits))
            texts.append(each)
        elif isinstance(each, list):
            prompts.append(model.check(each))
            texts.append(model.tokenizer.decode(each))
        else:
            raise invalid(f"prompt has {shown(each)}, expected a string or token ids", "prompt")
        if not prompts[-1]:
            raise invalid("the prompt is empty: a language model needs at least one token to go on from", "prompt")
    return prompts, texts


def read_chat(fields: Fields, model: TextModel, limits: ServerLimits) -> Completion:
    """The request of `/v1/chat/completions`. Raises ApiError."""
    prompt = read_messages(fields, model, limits)
    wants = fields.flag("logprobs")
    top = fields.optional_integer("top_logprobs", 0, limits.log_probs)
    if top and not wants:
        raise invalid("top_logprobs is set without logprobs: true", "top_logprobs")
    room = 1 << 31 if model.context is None else max(model.context - len(prompt), 1)
    given = [fields.optional_integer(name, 1, 1 << 31) for name in ("max_completion_tokens", "max_tokens")]
    if None not in given and given[0] != given[1]:
        raise invalid("max_tokens and max_completion_tokens differ", "max_tokens")
    max_tokens = next((each for each in given if each is not None), min(room, 256))
    if fields.take("response_format", {"type": "text"}) != {"type": "text"}:
        raise invalid("response_format: only {'type': 'text'} is supported", "response_format", "unsupported_parameter")
    if fields.take("modalities", ["text"]) != ["text"]:
        raise invalid("modalities: only ['text'] is supported", "modalities", "unsupported_parameter")
    if fields.take("tool_choice", "none") not in ("none", "auto"):
        raise invalid("tool_choice: tools are not supported", "tool_choice", "unsupported_parameter")
    shown_top = (top or 0) if wants else None
    found = _common(fields, model, limits, [prompt], [""], max_tokens, shown_top, chat=True)
    fields.ignore("user", *IGNORED_BY_CHAT)
    fields.refuse_rest()
    return found


def read_messages(fields: Fields, model: TextModel, limits: ServerLimits) -> list[int]:
    """The prompt that the messages become, by the template of the run or a plain one. Raises ApiError."""
    messages = _messages(fields, limits)
    if model.chat is None:
        plain = "".join(f"{each.role}: {each.content}\n" for each in messages)
        return model.encode(f"{plain}assistant:", "messages", limits)
    try:
        return model.chat.prompt(messages)
    except HeadwayError as error:
        raise invalid(one_line(error), "messages") from None


def _messages(fields: Fields, limits: ServerLimits) -> list[Message]:
    given = fields.take("messages")
    if not isinstance(given, list) or not given or len(given) > limits.messages:
        raise invalid(f"messages: expected an array of 1 to {limits.messages} messages", "messages")
    found = []
    for each in given:
        role = each.get("role") if isinstance(each, dict) else None
        if role not in ROLES:
            raise invalid(f"messages: role is {shown(role)}, expected one of {', '.join(ROLES)}", "messages")
        content = each.get("content")
        if isinstance(content, list):
            parts = [
                part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content
            ]
            content = "".join(parts) if all(isinstance(part, str) for part in parts) else None  # type: ignore[arg-type]
        if not isinstance(content, str):
            raise invalid("messages: content is a string or an array of parts of type 'text'", "messages")
        found.append(Message("system" if role == "developer" else role, content))
    return found
