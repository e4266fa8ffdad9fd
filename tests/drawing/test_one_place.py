"""Only `clew.drawing` escapes text, and lays out SVG and HTML."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "clew"
MARKUP = re.compile(
    r"</?(svg|g|path|rect|circle|text|table|tr|t[dh]|div|span|p|ul|ol|li|h[1-6]|section|progress)\b[ />]"
)
ESCAPING = ("html", "xml.sax.saxutils", "cgi")


def drawn(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of everything in a file that is markup, or escapes it."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        yield from ((node.lineno, f"import of {name}") for name in names if name in ESCAPING)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MARKUP.search(node.value):
            yield node.lineno, node.value


def test_only_the_package_drawing_draws() -> None:
    others = [path for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "drawing" not in path.parents]
    assert len(others) > 400
    misplaced = [f"{path.relative_to(PACKAGE)}:{line}: {text}" for path in others for line, text in drawn(path)]
    assert misplaced == [], "move it to clew/drawing"


@pytest.mark.parametrize(
    "line",
    [
        "from html import escape",
        "import html",
        "page = f'<td>{text}</td>'",
        "picture = '<svg width=\"1\"'",
        "rows = '<table>'",
    ],
)
def test_a_drawing_elsewhere_is_found(line: str, tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text(f'"""Text."""\n\nunknown = "<unk> a < b"\n{line}\n', encoding="utf-8")
    assert [at for at, _ in drawn(file)] and {at for at, _ in drawn(file)} == {4}
    file.write_text("from html.parser import HTMLParser\ncommand = 'import html; print(html)'\n", encoding="utf-8")
    assert list(drawn(file)) == []
