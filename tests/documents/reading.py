"""The commands and snippets of a document: its fenced blocks in order, with shell lines split into commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")), ROOT / "docs" / "course.md"]
SHELL = ("", "bash", "sh", "console")
PROGRAMS = ("clew", "python", "python3", "torchrun", "curl", "echo", "hf", "pip", "docker", "conda", "jupyter", "srun")
"""A line of a block is a command if it starts with one of these; other lines are output or data."""


class Command(NamedTuple):
    """A program with its arguments, and the files of its redirections."""

    words: tuple[str, ...]
    source: str | None = None
    target: str | None = None


class Line(NamedTuple):
    """A line of a shell block: commands connected by pipes."""

    text: str
    commands: tuple[Command, ...]


class Snippet(NamedTuple):
    """A block of Python."""

    text: str


def name_of(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def steps_of(document: Path) -> list[Line | Snippet]:
    """All shell lines and snippets, in order."""
    steps: list[Line | Snippet] = []
    for language, block in fenced_blocks(document):
        if language == "python":
            steps.append(Snippet(block))
        elif language in SHELL:
            steps += shell_lines(block)
    return steps


def fenced_blocks(document: Path) -> list[tuple[str, str]]:
    """The language and the text of each block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def inline_commands(document: Path) -> list[Line]:
    """The commands with arguments that stand between backquotes in the text."""
    return [parse_line(text) for text in re.findall(r"`(clew \w+ [^`]+)`", document.read_text(encoding="utf-8"))]


def shell_lines(block: str) -> Iterator[Line]:
    """The shell commands of a block."""
    for line in block.replace("\\\n", " ").splitlines():
        line = line.removeprefix("$ ").strip().removeprefix(".venv/bin/")
        program = re.sub(r"^(?:\w+=\S+ )+", "", line).partition(" ")[0]
        if program in PROGRAMS:
            yield parse_line(line)


def parse_line(line: str) -> Line:
    """Parse the commands of a line. `$(base64 -w 0 FILE)` is replaced later, when the line is run."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>&;")
    lexer.whitespace_split = True
    commands: list[Command] = []
    words: list[str] = []
    ends: dict[str, str] = {}
    tokens = iter([*lexer, "|"])
    for token in tokens:
        if token in "<>":
            ends[token] = next(tokens)
        elif token in ("|", "&&"):
            commands.append(Command(tuple(words), ends.get("<"), ends.get(">")))
            words, ends = [], {}
        # An assignment before a command sets an environment variable.
        elif words or not re.fullmatch(r"\w+=\S*", token):
            words.append(token)
    return Line(line, tuple(commands))
