import json
import os
import shlex
import signal
from pathlib import Path

import pytest
import torch

from clew.baselines.word_vectors import WordVectors
from clew.baselines.words import Words
from clew.cli import neighbours, vectors
from clew.data.vectors import read_vectors
from tests.cli.conftest import Clew

TEXT = "The king, old and grey, rules.\nthe queen, old and grey, rules.\na dog barks , a cat sleeps\n" * 6


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("method", vectors.METHODS)
def test_vectors_are_written_reproducibly_and_can_be_read(clew: Clew, method: str) -> None:
    Path("book.txt").write_text(TEXT, encoding="utf-8")
    settings = ("vectors", "book.txt", "--method", method, "--split", "--lowercase", "--dim", 8, "--seed", 3)
    result = clew(*settings)
    assert result.status == 0 and result.out == ""
    assert result.err.startswith("vectors.txt: 14 words, vectors of 8\nnext:  clew vectors neighbours vectors.txt ")
    assert read_vectors("vectors.txt", ["king", ",", "King"], dim=8).found.tolist() == [True, True, True]
    clew(*settings, "--out", "again.txt")
    assert Path("again.txt").read_bytes() == Path("vectors.txt").read_bytes()


def test_words_are_separated_by_white_space_by_default(clew: Clew) -> None:
    Path("book.txt").write_text(TEXT, encoding="utf-8")
    clew("vectors", "book.txt", "--method", "pmi", "--dim", 4)
    assert read_vectors("vectors.txt", ["king,", "king", "The"], lowercase=False).found.tolist() == [True, False, True]


def test_fewer_dimensions_than_requested_are_reported(clew: Clew) -> None:
    Path("book.txt").write_text(TEXT, encoding="utf-8")
    result = clew("vectors", "book.txt", "--method", "pmi", "--split", "--lowercase", "--dim", 5000)
    assert result.status == 0
    assert "14 words allow only 14 dimensions, not 5,000\n" in result.err


def test_a_corpus_is_read_by_name(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.data.corpora.find_corpus", lambda name: type("Files", (), {"train": Path(f"{name}.txt")}))
    Path("tinyshakespeare.txt").write_text(TEXT, encoding="utf-8")
    assert clew("vectors", "--corpus", "tinyshakespeare", "--method", "pmi").status == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give either a text file or --corpus NAME, e.g. `clew vectors book.txt`"),
        (["book.txt", "--corpus", "ptb"], "give either a text file or --corpus NAME"),
        (
            ["--corpus", "sentiment-sample"],
            "the corpus sentiment-sample holds labelled texts; this task reads running text, such as",
        ),
        (["none.txt"], "no such file: none.txt"),
        (["book.txt", "--out", "none/v.txt"], "no such folder for --out: none; create it first"),
        (["book.txt", "--out", "."], ". is a folder; --out takes a file"),
        (["book.txt", "--dim", "0"], "dim (0) must be at least 1"),
        (["book.txt", "--min-count", "99"], "no word occurs 99 times; give more text or a smaller min_count"),
        (
            ["book.txt", "--method", "pmi", "--epochs", "2"],
            "--epochs is for skip-gram and cbow, but pmi reads the text once; leave it out",
        ),
        (["book.txt", "--method", "glove"], "argument --method: invalid choice: 'glove'"),
        (["book.txt", "--seed", "-1"], "--seed (-1) must be at least 0"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, arguments: list[str], sentence: str) -> None:
    Path("book.txt").write_text(TEXT, encoding="utf-8")
    result = clew("vectors", *arguments)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith(f"clew: {sentence}")
    assert not list(Path().glob("vectors*"))


def test_progress_is_shown_and_ctrl_c_leaves_nothing_behind(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("book.txt").write_text(TEXT * 50, encoding="utf-8")
    monkeypatch.setattr(vectors, "EVERY", 0.0)
    monkeypatch.setattr(vectors, "say", lambda text: (print(text), os.kill(os.getpid(), signal.SIGINT)))
    result = clew("vectors", "book.txt", "--dim", 4)
    assert result.status == 130
    assert result.out.startswith("reading: ") and " left\n" in result.out
    assert result.err == "clew: interrupted; vectors.txt was not written\n"
    assert [path.name for path in Path().iterdir()] == ["book.txt"]


VECTORS = "king 2 2 0\nqueen 0 2 2\nman 2 0 0\nwoman 0 0 2\nroyal 0 9 0\n"


def test_neighbours_are_sorted_by_cosine(clew: Clew) -> None:
    Path("v.txt").write_text(VECTORS, encoding="utf-8")
    result = clew("neighbours", "v.txt", "king", "royal", "--n", 2)
    assert result == (
        0,
        "king   cosine\nman     0.707\nroyal   0.707\n\nroyal  cosine\nking    0.707\nqueen   0.707\n",
        "",
    )
    assert clew("neighbours", "v.txt", "--n", 2, stdin="king\n\nroyal\n") == result


def test_a_failed_question_does_not_stop_the_next_one(clew: Clew) -> None:
    Path("v.txt").write_text(VECTORS, encoding="utf-8")
    result = clew("neighbours", "v.txt", "--n", 1, "--json", stdin="king\nkings\nking -\nroyal\n")
    assert result.status == 2
    assert [row["question"] for row in lines(result.out)] == ["king", "royal"]
    errors = result.err.splitlines()
    assert (
        len(errors) == 2
        and errors[0].startswith("clew: no vector for 'kings'")
        and errors[1].startswith("clew: a word is missing after the -")
    )


def test_words_of_a_question_are_spelt_as_in_the_vectors() -> None:
    vectors = WordVectors(Words(["london", " Rome"]), torch.eye(2))
    question = neighbours.Query("London + Rome", ("London", "Rome"), ())
    assert neighbours.find_words(vectors, question, str.lower).plus == ("london", " Rome")


def test_words_joined_by_signs_form_one_question(clew: Clew) -> None:
    Path("v.txt").write_text(VECTORS, encoding="utf-8")
    answers = lines(clew("neighbours", "v.txt", "king", "-", "man", "+", "woman", "royal", "--n", 1, "--json").out)
    assert [(row["question"], row["rank"], row["word"]) for row in answers] == [
        ("king - man + woman", 1, "queen"),
        ("royal", 1, "king"),
    ]
    # The cosine is (1/2 + sqrt(1/2)) / |(sqrt(1/2) - 1, sqrt(1/2), 1)|.
    assert answers[0]["cosine"] == pytest.approx(0.9586, abs=1e-4)
    assert lines(clew("neighbours", "v.txt", "king - man + woman", "--n", 1, "--json").out) == answers[:1]
    assert lines(clew("neighbours", "v.txt", "-", "man", "--json").out)[-1]["word"] == "king"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["v.txt", "kings"], "no vector for 'kings'; did you mean 'king'? 5 words have one"),
        (["v.txt", "queen", "kings"], "no vector for 'kings'"),
        (["v.txt", "king", "-"], "a word is missing after the -; write it as king - man + woman"),
        (["v.txt", "king", "-", "+", "man"], "a word is missing before the +"),
        (["v.txt", "king", "--n", "0"], "--n (0) must be at least 1"),
        (["v.txt", "king", "--first", "0"], "--first (0) must be at least 1"),
        (["v.txt", "queen", "--first", "1"], "no vector for 'queen'"),
        (["w.txt", "king"], "no such file: w.txt; near it there is v.txt"),
        ([".", "king"], ". is not a run directory"),
    ],
)
def test_mistakes_in_a_question_are_reported_in_one_line(clew: Clew, arguments: list[str], sentence: str) -> None:
    Path("v.txt").write_text(VECTORS, encoding="utf-8")
    result = clew("neighbours", *arguments)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith(f"clew: {sentence}")


def test_neighbours_are_found_in_the_embedding_of_a_run(clew: Clew, lstm: Path, translators: dict[str, Path]) -> None:
    characters = lines(clew("neighbours", lstm, "t", "--json", "--n", 99).out)
    assert {"\n", " ", "a"} <= {row["word"] for row in characters} and "t" not in {row["word"] for row in characters}
    assert "\\n" in clew("neighbours", lstm, "t", "--n", 99).out
    words = lines(clew("neighbours", translators["lstm"], "red", "--json").out)
    assert "blue" in {row["word"] for row in words}
    pieces = lines(clew("neighbours", translators["transformer"], "red", "--json").out)
    assert len(pieces) == 10
    refused = clew("neighbours", lstm, "t", "--first", 3)
    assert (refused.status, refused.err) == (
        2,
        f"clew: --first is for a file of vectors, but {lstm} is a folder; leave it out\n",
    )


def test_words_in_the_suggested_command_are_quoted(clew: Clew) -> None:
    Path("book.txt").write_text("$(id) $(id) --out=x --out=x ;w ;w\n" * 6, encoding="utf-8")
    result = clew("vectors", "book.txt", "--method", "pmi", "--dim", 2, "--out", "my vectors.txt")
    suggested = result.err.splitlines()[-1].removeprefix("next:  ")
    assert shlex.split(suggested)[:4] == ["clew", "vectors", "neighbours", "my vectors.txt"]
    assert shlex.split(suggested)[4] in ("$(id)", ";w") and "'" in suggested.split("my vectors.txt")[1]
