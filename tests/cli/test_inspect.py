"""Mistakes in `clew inspect`. tests/serving/test_page_browser.py shows that it serves a page and ends."""

import socket
from pathlib import Path

import pytest

from tests.cli.conftest import Clew


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["nowhere"], "nowhere is not a run directory"),
        (["{run}", "--port", "99999"], "a port must be between 0 and 65535, not 99999"),
        (["{run}", "--allow-host", "http://hub"], "--allow-host takes a name such as hub.example.org"),
        (["{run}", "--port", "{taken}"], "is in use; choose another with --port, or leave it out"),
        ([], "the following arguments are required: RUN"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, lstm: Path, arguments: list[str], sentence: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = clew("inspect", *(each.format(run=lstm, taken=taken.getsockname()[1]) for each in arguments))
    assert result.status == 2 and result.out == ""
    assert sentence in result.err and result.err.count("\n") == 1
