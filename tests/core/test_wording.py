"""Arguments in messages, in the notation of the reader: command line, Python or JSON."""

import pytest

from clew.core.wording import argument, argument_name, call, in_json, in_python, on_command_line, worded


@pytest.mark.parametrize(
    ("wording", "with_value", "switched_on", "to_choose", "passed"),
    [
        (in_python, "format='onnx'", "resume=True", "out=...", "n_best"),
        (on_command_line, "--to onnx", "--resume", "--out", "--n-best"),
        (in_json, "format=onnx", "resume=True", "out", "n_best"),
    ],
)
def test_an_argument_has_the_notation_of_the_interface(
    wording, with_value: str, switched_on: str, to_choose: str, passed: str
) -> None:
    with worded(wording):
        assert argument("format", "onnx", option="to") == with_value
        assert argument("resume", True) == switched_on
        assert argument("out") == to_choose
        assert argument_name("n_best") == passed
    assert argument("out") == "out=..."


def test_a_value_is_quoted_for_the_shell() -> None:
    with worded(on_command_line):
        assert argument("code", "a file.py") == "--code 'a file.py'"


def test_a_call_is_written_for_python_or_for_the_command_line() -> None:
    assert call("run.parse(...)", "clew parse") == "`run.parse(...)`"
    for wording in (on_command_line, in_json):
        with worded(wording):
            assert call("run.parse(...)", "clew parse") == "`clew parse`"


def test_a_server_started_by_the_command_uses_json() -> None:
    with worded(on_command_line):
        with worded(in_json):
            assert argument_name("max_new") == "max_new"
        assert argument_name("max_new") == "--max-new"
