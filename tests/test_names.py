"""No code branches on the name of a task, the verb of a run or a kind of data: a task describes itself by its entry and
its methods."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import clew
from clew.tasks import TASKS

ROOT = Path(clew.__file__).parent
VERBS = {"generate", "translate", "parse", "tag", "classify", "fill", "answer", "embed", "evaluate"}
KINDS = {"text", "documents", "pairs", "trees", "tagged", "labelled", "questions", "labelled_trees", "nothing"}
KINDS |= {entry.learning.reads for entry in TASKS.values() if entry.learning is not None}
ALLOWED = {"recipes"}
"""Packages whose files are about tasks by name."""
PENDING: set[str] = set()
"""Files that still branch on names. Remove a file from the list when it no longer does."""


def own_names(path: Path) -> set[str]:
    """The tasks whose entry is in this file: it may contain their names."""
    return {name for name, entry in TASKS.items() if inspect.getfile(entry.config) == str(path)}


def literals(node: ast.AST) -> set[str]:
    """The strings of a literal: a string, or a tuple, list or set of strings."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def key(node: ast.AST) -> str | None:
    """The name of a variable, of an attribute `a.name` or of an item `a["name"]`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    return node.id if isinstance(node, ast.Name) else None


def is_verb(node: ast.AST) -> bool:
    return key(node) == "verb"


def is_task_name(node: ast.AST) -> bool:
    return key(node) == "name" and isinstance(node, (ast.Attribute, ast.Subscript)) and key(node.value) == "task"


def decides(one: ast.AST, other: ast.AST, names: set[str]) -> bool:
    """Whether a comparison of these two branches on a name."""
    strings = literals(one) | literals(other)
    if strings & names:
        return True
    for side, against in ((one, other), (other, one)):
        if is_verb(side) and (isinstance(side, ast.Attribute) or literals(against)):
            return True
        if is_task_name(side) and (
            literals(against) or (isinstance(against, ast.Name) and against.id.isupper() and against.id != "TASKS")
        ):
            return True
        if key(side) in ("kind", "data") and literals(against) & KINDS:
            return True
        if (
            key(side) == "kind"
            and isinstance(against, ast.Attribute)
            and key(against) == "kind"
            and (key(against.value) or "a")[0].isupper()
        ):
            return True  # the attribute of a class, such as Trees.kind
    return False


def decisions(source: str, names: set[str]) -> Iterator[int]:
    """The lines of Python code that compare a verb, the name of a task or a kind of data."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for operator, one, other in zip(node.ops, sides, sides[1:], strict=False):
                if isinstance(operator, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) and decides(one, other, names):
                    yield node.lineno
        if isinstance(node, ast.Match):
            cases = [
                part.value for case in node.cases for part in ast.walk(case.pattern) if isinstance(part, ast.MatchValue)
            ]
            if any(decides(node.subject, value, names) for value in cases):
                yield node.lineno


def decisions_of_script(source: str, names: set[str]) -> Iterator[int]:
    """The lines of JavaScript that compare a string with a verb or the name of a task."""
    word = rf"""["'`](?:{"|".join(sorted(names | VERBS))})["'`]"""
    pattern = rf"[=!]==?\s*{word}|{word}\s*[=!]==?|\bcase\s+{word}|\[[^\]]*{word}[^\]]*\]\s*\.(?:includes|indexOf)\("
    for match in re.finditer(pattern, source):
        yield source.count("\n", 0, match.start()) + 1


@cache
def branching_lines() -> dict[str, list[int]]:
    """The files that branch on names, with line numbers."""
    lines: dict[str, list[int]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if Path(name).parts[0] not in ALLOWED:
            lines[name] = sorted(set(decisions(path.read_text(encoding="utf-8"), set(TASKS) - own_names(path))))
    for path in sorted((ROOT / "serving" / "static").glob("*.js")):
        lines[str(path.relative_to(ROOT))] = sorted(
            set(decisions_of_script(path.read_text(encoding="utf-8"), set(TASKS)))
        )
    return {name: where for name, where in lines.items() if where}


def test_no_file_branches_on_the_name_of_a_task_a_verb_or_a_kind_of_data() -> None:
    more = {name: where for name, where in branching_lines().items() if name not in PENDING}
    assert not more, "\n".join(f"clew/{name}: lines {', '.join(map(str, where))}" for name, where in more.items())


def test_pending_files_still_branch_on_names() -> None:
    assert PENDING - set(branching_lines()) == set()


@pytest.mark.parametrize(
    "line",
    [
        "run.verb == 'generate'",
        "run.verb not in WRITING",
        "'fill' != verb",
        "verb in ('tag', 'classify')",
        "run.config.task.name == 'stars'",
        "run.config.task.name in WRITERS",
        "settings['task']['name'] != 'stars'",
        "name == 'translation'",
        "name in {'translation', 'stars'}",
        "TASKS[name].data == 'text'",
        "kind in ('text', 'documents')",
        "corpus.content.kind == Trees.kind",
        "match run.verb:\n    case 'tag':\n        pass",
        "match name:\n    case 'parsing' | 'stars':\n        pass",
    ],
)
def test_branching_on_a_name_is_detected(line: str) -> None:
    assert list(decisions(line, set(TASKS)))


@pytest.mark.parametrize(
    "line",
    [
        "verb not in VERBS",
        "run.config.task.name not in TASKS",
        "theirs.task.name != mine.task.name",
        "HEADS[run.config.task.name]",
        "tokenizer.kind == 'word'",
        "corpus.content.kind == kind",
        "hasattr(run.task, 'programs')",
        "format == 'trees'",
    ],
)
def test_a_lookup_is_not_taken_for_branching(line: str) -> None:
    assert not list(decisions(line, set(TASKS)))


def test_branching_on_a_name_in_a_script_is_detected() -> None:
    for line in (
        'run.verb === "generate"',
        '"tag" !== verb',
        'switch (x) { case "fill": }',
        '["parse", "x"].includes(verb)',
    ):
        assert list(decisions_of_script(line, set(TASKS))), line
    for line in ('name === "write"', 'post("/generate")', "views.includes(name)"):
        assert not list(decisions_of_script(line, set(TASKS))), line
