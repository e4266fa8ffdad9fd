"""Every sentence that a user can meet is quoted by a test: a run of its words stands in a test file.

Only literal sentences are read, f-strings included. A sentence that a helper builds is tested with the helper.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = 5
"""The length of a run of words that identifies a sentence."""
SHORTEST = 12
"""Shorter runs of words may stand anywhere, and identify nothing."""


def sentences(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The line of each `UserError("...")` of a file, and the parts of its sentence between the values."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "UserError(" in text else ():
        if isinstance(node, ast.Call) and name_of(node.func) == "UserError" and node.args:
            literals = [part.value for part in parts_of(node.args[0]) if isinstance(part, ast.Constant)]
            if any(literals):
                yield node.lineno, tuple(map(str, literals))


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def parts_of(sentence: ast.expr) -> list[ast.expr]:
    return sentence.values if isinstance(sentence, ast.JoinedStr) else [sentence]


def fragments(parts: tuple[str, ...]) -> list[str]:
    """Every run of words within a part; a shorter part as a whole."""
    rows = [part.replace("\\", "").split() for part in parts]
    runs = [" ".join(row[start : start + WORDS]) for row in rows for start in range(max(len(row) - WORDS, 0) + 1)]
    return [run for run in runs if len(run) >= SHORTEST]


def joined(source: str) -> str:
    """The text of a test file on one line, without the ends of strings within a sentence or escapes of patterns."""
    return re.sub(r"""["'] [rf]*["']""", "", re.sub(r"\s+", " ", source)).replace("\\", "")


def unquoted(sources: list[Path], tests: list[Path]) -> list[str]:
    """`file:line: sentence` of each sentence of the sources that the tests do not quote."""
    quoted = "\n".join(joined(path.read_text(encoding="utf-8")) for path in tests)
    return [
        f"{path}:{line}: {'...'.join(parts)}"
        for path in sources
        for line, parts in sentences(path)
        if (runs := fragments(parts)) and not any(run in quoted for run in runs)
    ]


def test_every_message_is_quoted_by_a_test() -> None:
    tests = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)]
    found = unquoted(sorted((ROOT / "clew").rglob("*.py")), tests)
    assert not found, "write a test of these messages, with what they say to do:\n" + "\n".join(found)


def test_a_message_without_a_test_is_found(tmp_path: Path) -> None:
    source, test = tmp_path / "source.py", tmp_path / "test_source.py"
    source.write_text('raise UserError(f"{path} has no thread in it; wind one up first")\nraise UserError(sentence)\n')
    test.write_text('match="has no thread in it; wind"\n')
    assert unquoted([source], [test]) == []
    test.write_text('match="has no thread"\n')
    assert unquoted([source], [test]) == [f"{source}:1:  has no thread in it; wind one up first"]
