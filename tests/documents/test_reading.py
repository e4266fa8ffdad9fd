"""Shell lines of documents are parsed like a shell does, none is missed, and no exception is out of date."""

import re

import pytest

from tests.documents.prepared import EXCEPTIONS, REJECTED
from tests.documents.reading import DOCUMENTS, ROOT, SHELL, Line, fenced_blocks, name_of, parse_line, steps_of

CALLS = re.compile(r"(?:.*\| )?(?:\w+=\S+ )*(?:\S*clew|\S*python\S*|torchrun) \w")


def test_every_line_that_calls_clew_is_run_or_an_exception() -> None:
    """A line that is not recognised as a command would never be run."""
    missed = []
    for document in DOCUMENTS:
        parsed = " ".join(step.text for step in steps_of(document) if isinstance(step, Line))
        for language, block in fenced_blocks(document):
            lines = block.replace("\\\n", " ").splitlines() if language in SHELL else []
            missed += [
                line for line in lines if CALLS.match(line) and line.strip().removeprefix(".venv/bin/") not in parsed
            ]
    assert missed == []


@pytest.mark.parametrize("table", [EXCEPTIONS, REJECTED], ids=["exceptions", "refused"])
def test_every_exception_matches_a_command_and_has_a_reason(table: dict[str, dict[str, str]]) -> None:
    for name, exceptions in table.items():
        lines = [step.text for step in steps_of(ROOT / name) if isinstance(step, Line)]
        for start, reason in exceptions.items():
            assert reason and any(line.startswith(start) for line in lines), f"{name} has no line {start}"


def test_no_two_documents_write_the_same_folder() -> None:
    """Otherwise a reader who follows both in one folder would get an error."""
    written: dict[str, set[str]] = {}
    for document in DOCUMENTS:
        for step in steps_of(document):
            for folder in re.findall(r"""(?:--out |out=["'])(runs/[\w-]+)""", step.text):
                written.setdefault(folder, set()).add(name_of(document))
    assert {folder: names for folder, names in written.items() if len(names) > 1} == {}


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("echo 'a b' | clew tag RUN", [("echo", "a b"), ("clew", "tag", "RUN")]),
        ("CLEW_DATA=... clew train x y=1  # why", [("clew", "train", "x", "y=1")]),
        ("clew look x 'boxes=[[4,2],[1,1]]'", [("clew", "look", "x", "boxes=[[4,2],[1,1]]")]),
    ],
)
def test_a_line_is_parsed_as_by_a_shell(line: str, commands: list[tuple[str, ...]]) -> None:
    assert [command.words for command in parse_line(line).commands] == commands


def test_redirections_are_not_arguments() -> None:
    (command,) = parse_line("clew translate RUN < a.de > a.en").commands
    assert (command.words, command.source, command.target) == (("clew", "translate", "RUN"), "a.de", "a.en")
