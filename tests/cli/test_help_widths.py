"""Every help text fits the terminal, and its examples can be copied."""

import argparse
import re
import shlex

import pytest

from clew.cli.main import build_parser, verb_parser
from clew.cli.terminal.help import continued, folded
from clew.cli.verbs import VERBS


def parser_of(verb: str) -> argparse.ArgumentParser:
    return verb_parser(verb) if verb else build_parser()


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_eighty_columns(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in parser_of(verb).format_help().splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_exceeds_forty_columns_only_for_a_single_word(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for line in parser_of(verb).format_help().splitlines():
        words = (
            shlex.split(line.removesuffix("\\")) if "'" in line and line.startswith("  ") and len(line) > 40 else [line]
        )
        assert len(line) <= 40 or (len(words) == 1 and line.startswith("      ")), line


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("columns", ["40", "80"])
def test_examples_are_the_same_commands_at_any_width(verb: str, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def commands(width: str) -> list[list[str]]:
        monkeypatch.setenv("COLUMNS", width)
        text = re.sub(r" \\\n\s+", " ", verb_parser(verb).format_help().partition("see also:")[0])
        return [shlex.split(line) for line in text.splitlines() if re.match(r"  (clew|echo|printf) ", line)]

    assert commands(columns) == commands("200")


@pytest.mark.parametrize("verb", ["train", "runs", "tag", "compare"])
@pytest.mark.parametrize("columns", ["40", "80"])
def test_every_choice_is_named_at_any_width(verb: str, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    parser = verb_parser(verb)
    text = " ".join(parser.format_help().split())
    for action in parser._actions:
        assert all(str(choice) in text for choice in action.choices or ())


def test_lines_of_a_paragraph_are_joined_but_examples_are_not() -> None:
    text = "One sentence\nover two lines.\n\n  clew x 'a b' --option value\n\nAnother."
    assert folded(text, 80) == ["One sentence over two lines.", "", "  clew x 'a b' --option value", "", "Another."]
    assert continued("  clew x 'a b' --option value", 20) == ["  clew x 'a b' \\", "      --option \\", "      value"]
