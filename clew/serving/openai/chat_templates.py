"""How the messages of a chat become one prompt. A template is data and no program: nothing of it, and nothing of a message, is run.

    {"system": "{content}\\n\\n", "user": "User: {content}\\n", "assistant": "Assistant: {content}\\n", "answer": "Assistant:",
     "begin": "", "stop": ["\\nUser:"]}

Each message is put in the place of {content} in the text of its role; `begin` stands before the first of them, and `answer` behind the
last. An answer ends before a text of `stop`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError, few_of, shown
from clew.runs.explaining import read_section

FILE = "chat_template.json"
"""Its name in the folder of a run."""
CONTENT = "{content}"
LARGEST = 100_000
"""Characters of a file."""


class ChatTemplate(Section):
    system: str | None = Field("{content}\n\n", description="what a system's message becomes; null: it is refused")
    user: str = Field("User: {content}\n", description="what a user's message becomes")
    assistant: str = Field("Assistant: {content}\n", description="what an earlier answer becomes")
    begin: str = Field("", description="what stands before the first message")
    answer: str = Field("Assistant:", description="what stands behind the last message")
    stop: list[str] = Field(["\nUser:"], description="texts that end an answer")

    def prompt(self, messages: list[tuple[str, str]]) -> str:
        """Of pairs of a role and what was said. Braces in a message mean nothing."""
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
            raise UserError(f"message {number} has the role {shown(role)}, and this model's chat has none for it; known: {known}")
        return text


def read_template(path: Path) -> ChatTemplate:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a chat template: {error}") from None
    if len(text) > LARGEST:
        raise UserError(f"{path} has {len(text):,} characters; a chat template has at most {LARGEST:,}")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        jinja = "; a template of Jinja is a program, and is not run here" if "{%" in text or "{{" in text else ""
        raise UserError(f'{path} is not JSON, and a chat template is, such as {{"user": "User: {{content}}\\n"}}{jinja}') from None
    return template_of(fields, str(path))


def template_of(fields: Any, name: str) -> ChatTemplate:
    if not isinstance(fields, Mapping):
        raise UserError(f"{name}: a chat template is an object with fields, not {shown(fields)}")
    template = read_section(ChatTemplate, fields, name)
    for role in ("system", "user", "assistant"):
        if (text := getattr(template, role)) is not None and text.count(CONTENT) != 1:
            raise UserError(f"{name}: {role} has {CONTENT} {text.count(CONTENT)} times, and needs it once, where the message goes")
    return template


def template_for(folder: Path, given: Path | None) -> ChatTemplate:
    """The one that was given, else that of a run's folder, else a plain one."""
    if given is not None:
        return read_template(given)
    return read_template(folder / FILE) if (folder / FILE).is_file() else ChatTemplate()
