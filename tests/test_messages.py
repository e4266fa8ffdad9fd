"""Every sentence that a user can meet is quoted by a test: a run of its words stands in a test file. If the sentence
has a remedy, which is what follows its last semicolon, the run has words of it.

Only literal sentences are read, f-strings included. A sentence that a helper builds is tested with the helper.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = 5
"""The length of a run of words that identifies a sentence."""
SHORTEST = 12
"""Shorter runs of words may stand anywhere, and identify nothing."""
SENTENCES = {"UserError": 0, "unknown": 0, "Faulty": 1, "HeadFault": 1, "fault": 2, "skip": 0}
"""The argument that is the sentence, the kind of an unknown name, or why a record is skipped."""
METHODS = {"fault": "notes", "skip": "notes"}
"""Methods, which other classes may have too, and the name of their object."""


def sentences(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The line of each sentence of a file, and its parts between the values."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and (sentence := sentence_of(node)) is not None:
            literals = tuple(str(part.value) for part in parts_of(sentence) if isinstance(part, ast.Constant))
            if any(literals):
                before = "unknown " if name_of(node.func) == "unknown" else ""
                yield node.lineno, (before + literals[0], *literals[1:])


def sentence_of(call: ast.Call) -> ast.expr | None:
    """The argument of a call that a user can read."""
    name = name_of(call.func)
    if name not in SENTENCES or len(call.args) <= SENTENCES[name]:
        return None
    if name in METHODS and not (isinstance(call.func, ast.Attribute) and name_of(call.func.value) == METHODS[name]):
        return None
    return call.args[SENTENCES[name]]


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def parts_of(sentence: ast.expr) -> list[ast.expr]:
    return sentence.values if isinstance(sentence, ast.JoinedStr) else [sentence]


def quotations(parts: tuple[str, ...]) -> list[str]:
    """The runs of words within a part, or shorter parts as a whole, that quote a sentence: those with words of its
    remedy, if they are long enough to identify it, and otherwise all."""
    rows = [part.replace("\\", "").split() for part in parts]
    ends = [(part, place) for part, row in enumerate(rows) for place, word in enumerate(row) if word.endswith(";")]
    runs = [
        (" ".join(row[start : start + WORDS]), (part, min(start + WORDS, len(row)) - 1))
        for part, row in enumerate(rows)
        for start in range(max(len(row) - WORDS, 0) + 1)
    ]
    long = [(run, last) for run, last in runs if len(run) >= SHORTEST]
    remedies = [run for run, last in long if ends and last > ends[-1]]
    return remedies or [run for run, _ in long] or ([" ".join(rows[0])] if len(parts) == 1 else [])


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
        if (runs := quotations(parts)) and not any(run in quoted for run in runs)
    ]


def test_every_message_is_quoted_by_a_test() -> None:
    tests = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)]
    missing = unquoted(sorted((ROOT / "clew").rglob("*.py")), tests)
    assert not missing, "write a test of these messages, with what they say to do:\n" + "\n".join(missing)


def test_a_message_without_a_test_is_found(tmp_path: Path) -> None:
    source, test = tmp_path / "source.py", tmp_path / "test_source.py"
    source.write_text('raise UserError(f"{path} has no thread in it; wind one up first")\nraise UserError(sentence)\n')
    test.write_text('match="has no thread in it; wind"\n')
    assert unquoted([source], [test]) == []
    for without_remedy in ("has no thread", "has no thread in it;"):
        test.write_text(f'match="{without_remedy}"\n')
        assert unquoted([source], [test]) == [f"{source}:1:  has no thread in it; wind one up first"]


@pytest.mark.parametrize(
    "call, quotation",
    [
        ('Faulty("bad", f"the thread of {name} is torn")', "the thread of"),
        ('HeadFault(word, f"the heads of {name} are torn")', "the heads of"),
        ('notes.fault("bad", place, "this thread is torn into two")', "thread is torn into two"),
        ('notes.skip("torn", place)', "torn"),
        ('unknown("thread", name, known)', "unknown thread"),
        ('UserError(f"no {thread}; wind one up: {name}")', "; wind one up:"),
        ('UserError(f"there is none of {thread}; use {name}")', "there is none of"),
    ],
)
def test_sentences_of_every_kind_are_read(call: str, quotation: str, tmp_path: Path) -> None:
    source, test = tmp_path / "source.py", tmp_path / "test_source.py"
    source.write_text(f"raise {call}\nself.fault('a', 'b', 'another sentence, of a tape')\n")
    test.write_text("")
    assert len(unquoted([source], [test])) == 1
    test.write_text(f'match="{quotation}"\n')
    assert unquoted([source], [test]) == []
