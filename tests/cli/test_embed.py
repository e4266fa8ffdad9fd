"""`clew embed`: vectors in files and on standard output, and search."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew as library
from clew.core.errors import UserError
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

LINES = ["the ball of thread", "", "she tied one end to the door and went in there", "the walls were tall"]


@pytest.fixture
def lines() -> Path:
    path = Path("lines.txt")
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_a_file_of_vectors_has_one_row_per_line(clew: Clew, gpt: Path, lines: Path) -> None:
    result = clew("embed", gpt, "--file", lines, "--out", "x.npy")
    assert result.status == 0 and result.out == ""
    assert "1 text without tokens: each has the zero vector" in result.err
    assert "1 text of more than 32 tokens: read in windows and pooled over all of them" in result.err
    array = np.load("x.npy")
    assert array.dtype == np.float32 and array.shape == (4, 16) and not array[1].any()
    np.testing.assert_allclose(array, library.load(gpt).embed(LINES), atol=1e-6)
    objects = [json.loads(line) for line in clew("embed", gpt, stdin="\n".join(LINES)).out.splitlines()]
    assert [each["line"] for each in objects] == [1, 2, 3, 4]
    np.testing.assert_allclose([each["vector"] for each in objects], array, atol=1e-6)
    assert not [path for path in Path().iterdir() if "partial" in path.name]


def test_token_vectors_come_with_an_index(clew: Clew, lstm: Path, lines: Path) -> None:
    assert clew("embed", lstm, "--file", lines, "--tokens", "--layer", "0", "--out", "t.npy").status == 0
    array = np.load("t.npy")
    index = [json.loads(line) for line in Path("t.index.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(each["tokens"] for each in index) == len(array)
    assert [each["row"] for each in index] == np.cumsum([0, *(each["tokens"] for each in index)])[:-1].tolist()
    (first, *_), run = library.load(lstm).embed(LINES[:1], layer=0, tokens=True), library.load(lstm)
    np.testing.assert_allclose(array[: index[0]["tokens"]], first, atol=1e-6)
    (fields,) = map(json.loads, clew("embed", lstm, "the end", "--tokens").out.splitlines())
    assert [token["token"] for token in fields["tokens"]] == [*"the", "", *"end"]
    assert run.embed("the end").shape == (16,) and run.embed("the end", tokens=True).shape == (7, 16)


def test_search_ranks_the_same_line_first_with_and_without_an_index(clew: Clew, gpt: Path, lines: Path) -> None:
    clew("embed", gpt, "--file", lines, "--out", "x.npy")
    hits = [
        json.loads(line)
        for line in clew("embed", gpt, "--search", LINES[3], "--file", lines, "--json").out.splitlines()
    ]
    assert hits[0] == {"query": LINES[3], "rank": 1, "line": 4, "cosine": pytest.approx(1, abs=1e-5), "text": LINES[3]}
    assert [each["line"] for each in hits][1:] in ([1, 3], [3, 1])
    indexed = clew("embed", gpt, "--search", LINES[3], "--index", "x.npy", "--file", lines, "--json").out.splitlines()
    assert [json.loads(line)["text"] for line in indexed] == [each["text"] for each in hits]
    table = clew(
        "embed", gpt, "--search", LINES[0], "--search", LINES[2], "--index", "x.npy", "--top", "1"
    ).out.splitlines()
    assert table == [LINES[0], "cosine  line", " 1.000     1", "", LINES[2], "cosine  line", " 1.000     3"]
    lines.write_text("one line\n", encoding="utf-8")
    assert_refused(
        clew("embed", gpt, "--search", "a", "--index", "x.npy", "--file", lines),
        "x.npy has 4 vectors, but lines.txt has 1 lines; embed the file again",
    )


def test_mistakes_are_reported_in_one_line(clew: Clew, lstm: Path, lines: Path) -> None:
    assert_refused(clew("embed", lstm, "a", "--layer", "7"), "there is no layer 7; this model has 0 (the embedding) to")
    assert_refused(clew("embed", lstm, "a", "--out", "x.txt"), "--out must end in .npy or .jsonl, not x.txt")
    assert_refused(
        clew("embed", lstm, "a", "--tokens", "--pooling", "max"),
        "--pooling makes one vector per text, but --tokens asks",
    )
    assert_refused(clew("embed", lstm, "a", "--search", " "), "--search is empty")
    assert_refused(
        clew("embed", lstm, "--search", "a", "--index", lines),
        "lines.txt: not a complete .npy file of numbers; make one with `clew embed RUN --file FILE --out X.npy`",
    )
    assert_refused(
        clew("embed", lstm, "--search", "a", "--index", "no.npy"),
        "no such file: no.npy; write it with `clew embed RUN --file FILE --out no.npy`",
    )
    np.save("wide.npy", np.ones((2, 3), dtype="f4"))
    assert_refused(
        clew("embed", lstm, "--search", "a", "--index", "wide.npy"),
        "vectors of 3 numbers cannot be compared with vectors of 16",
    )
    assert_refused(
        clew("embed", lstm, "--search", "a", stdin=""),
        "there is no text to search; give lines with --file or on standard input",
    )
    assert_refused(
        clew("embed", lstm, "a", "--index", "x.npy"),
        "--index is only for --search; add --search QUERY, or leave --index out",
    )
    assert_refused(
        clew("embed", lstm, "a", "--search", "b", "--index", "x.npy"),
        "--index replaces the texts to search; leave the texts out, and give their file with --file if you have it",
    )
    for option in (["--tokens"], ["--out", "x.npy"]):
        assert_refused(
            clew("embed", lstm, "a", "--search", "b", *option),
            "--search compares whole texts and prints the results; leave --tokens and --out out",
        )
    with pytest.raises(UserError, match="a text must be a string, not"):
        library.load(lstm).embed([["a", "b"]])  # type: ignore[list-item]


def test_the_code_of_the_guide_runs(clew: Clew, gpt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(gpt, "runs/shakespeare-gpt")
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "embeddings.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", guide, re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    assert names["vectors"].shape == (2, 16)
    np.testing.assert_allclose(np.diag(names["cosine"] @ names["cosine"].T), 1, atol=1e-5)
    assert "(6, 16)" in capsys.readouterr().out
