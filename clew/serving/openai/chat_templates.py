"""Chat templates, which turn the messages of a chat into one prompt. A template is data, not a program: no part of it
is executed.

    {"system": "{content}\\n\\n", "user": "User: {content}\\n", "assistant": "Assistant: {content}\\n",
     "answer": "Assistant:", "begin": "", "stop": ["\\nUser:"]}

Each message replaces {content} in the text of its role. `begin` precedes the first message, and `answer` follows the
last. An answer ends before any text of `stop`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError, few_of, shown
from clew.runs.settings.explaining import read_section

FILE = "chat_template.json"
"""The file's name in the folder of a run."""
CONTENT = "{content}"
LARGEST = 100_000
"""The maximum length of a file in characters."""


class ChatTemplate(Section):
    system: str | None = Field(
        "{content}\n\n", description="the text of a system message; null: system messages are refused"
    )
    user: str = Field("User: {content}\n", description="the text of a user message")
    assistant: str = Field("Assistant: {content}\n", description="the text of an earlier answer")
    begin: str = Field("", description="the text before the first message")
    answer: str = Field("Assistant:", description="the text after the last message")
    stop: list[str] = Field(["\nUser:"], description="texts that end an answer")

    def prompt(self, messages: list[tuple[str, str]]) -> str:
        """The prompt for pairs of a role and a message. Braces in a message are plain text."""
        parts = [self.begin]
        for number, (role, content) in enumerate(messages, start=1):
            before, _, after = self.of(role, number).partition(CONTENT)
            parts += [before, content, after]
        return "".join([*parts, self.answer])

    def of(self, role: str, number: int) -> str:
        texts = {"system": self.system, "developer": self.system, "user": self.user, "assistant": self.assistant}
        text = texts.get(role)
        if text is None:
            known = few_of([name for name, text in texts.items() if text is not None])
            raise UserError(
                f"message {number} has the role {shown(role)}, which this model's chat template does not have; known:"
                f" {known}"
            )
        return text


def read_template(path: Path) -> ChatTemplate:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a chat template: {error}") from None
    if len(text) > LARGEST:
        raise UserError(
            f"{path} has {len(text):,} characters, but a chat template must have at most {LARGEST:,}; shorten it"
        )
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        jinja = "; a Jinja template is a program, which is not run here" if "{%" in text or "{{" in text else ""
        raise UserError(
            f'{path} is not JSON; a chat template is a JSON object such as {{"user": "User: {{content}}\\n"}}{jinja}'
        ) from None
    return template_of(fields, str(path))


def template_of(fields: Any, name: str) -> ChatTemplate:
    if not isinstance(fields, Mapping):
        raise UserError(f"{name}: a chat template must be an object with fields, not {shown(fields)}")
    template = read_section(ChatTemplate, fields, name)
    for role in ("system", "user", "assistant"):
        if (text := getattr(template, role)) is not None and text.count(CONTENT) != 1:
            raise UserError(
                f"{name}: {role} has {CONTENT} {text.count(CONTENT)} times, but needs it once, where the message goes"
            )
    return template


def template_for(folder: Path, path: Path | None) -> ChatTemplate:
    """The template given by the user, else the one in the run's folder, else the default."""
    if path is not None:
        return read_template(path)
    return read_template(folder / FILE) if (folder / FILE).is_file() else ChatTemplate()
