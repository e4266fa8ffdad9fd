"""The lines of documents are read as a shell reads them, none is passed over, and no exception is out of date."""

import re

import pytest

from tests.documents.prepared import EXCEPTIONS, REFUSED
from tests.documents.reading import DOCUMENTS, ROOT, SHELL, Line, fenced_blocks, name_of, parse_line, steps_of

CALLS = re.compile(r"(?:.*\| )?(?:\w+=\S+ )*(?:\S*clew|\S*python\S*|torchrun) \w")


def test_every_line_that_calls_clew_is_typed_or_an_exception() -> None:
    """A block's line that no reader of documents takes for a command would never be run."""
    missed = []
    for document in DOCUMENTS:
        typed = " ".join(step.text for step in steps_of(document) if isinstance(step, Line))
        for language, block in fenced_blocks(document):
            lines = block.replace("\\\n", " ").splitlines() if language in SHELL else []
            missed += [
                line for line in lines if CALLS.match(line) and line.strip().removeprefix(".venv/bin/") not in typed
            ]
    assert missed == []


@pytest.mark.parametrize("table", [EXCEPTIONS, REFUSED], ids=["exceptions", "refused"])
def test_every_exception_is_of_a_command_that_is_there_and_has_its_reason(table: dict[str, dict[str, str]]) -> None:
    for name, exceptions in table.items():
        lines = [step.text for step in steps_of(ROOT / name) if isinstance(step, Line)]
        for start, reason in exceptions.items():
            assert reason and any(line.startswith(start) for line in lines), f"{name} has no line {start}"


def test_no_two_documents_write_the_same_folder() -> None:
    """A reader who follows both in one place would be refused."""
    written: dict[str, set[str]] = {}
    for document in DOCUMENTS:
        for step in steps_of(document):
            for place in re.findall(r"""(?:--out |out=["'])(runs/[\w-]+)""", step.text):
                written.setdefault(place, set()).add(name_of(document))
    assert {place: names for place, names in written.items() if len(names) > 1} == {}


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("echo 'a b' | clew tag RUN", [("echo", "a b"), ("clew", "tag", "RUN")]),
        ("CLEW_DATA=... clew train x y=1  # why", [("clew", "train", "x", "y=1")]),
        ("clew look x 'boxes=[[4,2],[1,1]]'", [("clew", "look", "x", "boxes=[[4,2],[1,1]]")]),
    ],
)
def test_a_line_is_read_as_a_shell_reads_it(line: str, commands: list[tuple[str, ...]]) -> None:
    assert [command.words for command in parse_line(line).commands] == commands


def test_files_that_a_shell_connects_are_no_words() -> None:
    (command,) = parse_line("clew translate RUN < a.de > a.en").commands
    assert (command.words, command.source, command.target) == (("clew", "translate", "RUN"), "a.de", "a.en")
