"""Requests of clients of OpenAI's API, parsed strictly: an unsupported field that would change the answer is refused,
not ignored."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError, shown
from clew.runs.settings.explaining import read_section
from clew.serving.openai.chat_templates import ChatTemplate

MOST_STOPS = 4
COMPLETION_TOKENS = 16
"""The default length of a completion, as in OpenAI's API."""
HARMLESS = (
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
)
"""Fields that do not affect the answer."""
NEUTRAL: dict[str, tuple[tuple[Any, ...], str]] = {
    "best_of": ((1,), "set n, and choose among the texts"),
    "frequency_penalty": ((0,), "use repetition_penalty of clew's own route"),
    "presence_penalty": ((0,), "use repetition_penalty of clew's own route"),
    "logit_bias": (({},), "leave it out"),
    "suffix": (("",), "a language model reads from left to right; leave it out"),
    "tools": (([],), "these models call no tools"),
    "tool_choice": (("none", "auto"), "these models call no tools"),
    "functions": (([],), "these models call no functions"),
    "function_call": (("none", "auto"), "these models call no functions"),
    "parallel_tool_calls": ((True, False), "these models call no tools"),
    "response_format": (({"type": "text"},), "these models write plain text only"),
    "modalities": ((["text"],), "these models write plain text only"),
    "reasoning_effort": (("none",), "these models have no separate reasoning"),
    "dimensions": ((), "vectors have the width of the model; leave it out"),
}
"""Fields accepted only with values that have no effect, and what to do instead."""


class StreamOptions(Section):
    include_usage: bool = Field(False, description="add a last event with token counts")
    include_obfuscation: bool = Field(False, description="accepted and ignored")


class Writing(Section):
    """Fields of both kinds of generation."""

    model: str
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1, le=64)
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def stops(self) -> list[str]:
        stops = [self.stop] if isinstance(self.stop, str) else list(self.stop or ())
        if len(stops) > MOST_STOPS or not all(stops):
            raise UserError(f"stop takes one text, or a list of up to {MOST_STOPS}, none of them empty")
        return stops

    def options(self, most: int | None) -> dict[str, Any]:
        """The options of our own verb. Missing fields keep the run's own values; temperature 0 means greedy
        decoding."""
        greedy = self.temperature == 0
        if greedy and (self.n or 1) > 1:
            raise UserError(
                "n needs sampling, since with temperature 0 all texts are the same; ask for one, or raise the"
                " temperature"
            )
        if self.top_p == 0:
            raise UserError("top_p (0) leaves no token; set temperature to 0 for the most probable token at each step")
        chosen = {
            "method": "greedy" if greedy else "sample",
            "temperature": None if greedy else self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "max_new": most,
            "samples": self.n,
            "seed": self.seed,
        }
        # A run may have rules that look back at the whole text; they apply on our own routes only.
        plain = {"repetition_penalty": 1.0, "forced_end": False}
        return {**{name: value for name, value in chosen.items() if value is not None}, **plain}


class Completion(Writing):
    prompt: str | list[str] | list[int] | list[list[int]] = ""
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=5)

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each a text or a list of tokens."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if not self.prompt:
            raise UserError("prompt is an empty list; give at least one text, which may be empty")
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)


class Chat(Writing):
    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)

    @property
    def most(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    def prompt(self, template: ChatTemplate) -> str:
        if not self.messages:
            raise UserError("messages is empty; give at least one")
        return template.prompt([message_of(message, number) for number, message in enumerate(self.messages, start=1)])


class Embeddings(Section):
    model: str
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: str | None = None

    @property
    def is_base64(self) -> bool:
        if self.encoding_format not in (None, "float", "base64"):
            raise UserError(f"encoding_format must be float or base64, not {shown(self.encoding_format)}")
        return self.encoding_format == "base64"

    @property
    def inputs(self) -> list[str | list[int]]:
        if isinstance(self.input, str):
            return [self.input]
        if not self.input:
            raise UserError("input is empty; give at least one text")
        return [self.input] if isinstance(self.input[0], int) else list(self.input)


def read_request(kind: type[Any], body: Mapping[str, Any]) -> Any:
    """Parse a request of one kind; an unsupported field raises a UserError."""
    fields = {name: value for name, value in body.items() if name not in HARMLESS and value is not None}
    for name, (values, remedy) in NEUTRAL.items():
        if name in fields and name not in kind.model_fields and (value := fields.pop(name)) not in values:
            raise UserError(f"{name} ({shown(value)}) is not supported here: {remedy}")
    return read_section(kind, fields)


def message_of(message: Mapping[str, Any], number: int) -> tuple[str, str]:
    """The role and the text of a message. The text may be a list of text parts."""
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise UserError(f"message {number} has no role; give it one, such as user")
    for name, value in message.items():
        if name not in ("role", "content", "name") and value not in (None, [], ""):
            raise UserError(
                f"message {number} has {shown(name)}, which is not supported here; a message has only a role and"
                " content"
            )
    if isinstance(content, str):
        return role, content
    return role, "".join(text_of(part, number) for part in parts_of(content, number))


def parts_of(content: Any, number: int) -> Sequence[Any]:
    if not isinstance(content, list):
        raise UserError(f"message {number}: content must be a text or a list of parts, not {shown(content)}")
    return content


def text_of(part: Any, number: int) -> str:
    if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        raise UserError(f'message {number} has a part that is not text; use {{"type": "text", "text": ...}}')
    return str(part["text"])
