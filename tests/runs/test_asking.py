"""Rows and options from plain values, as Python, the command line and the server have them."""

from typing import Any

import pytest

import clew
from clew.core.errors import UserError
from clew.runs.asking import check_together, read_options, read_rows
from clew.tasks.tagging import SentenceRow
from clew.tasks.translation import TRANSLATE
from clew.tasks.use import PairRow, TextRow, TwoTexts
from tests.instruments.small_runs import small_run


def rows(kind: Any, *given: Any) -> list[tuple[Any, ...]]:
    return [tuple(value for _, value in row) for row in read_rows(kind, given, "runs/mine")]


def test_a_row_is_a_text_several_fields_in_a_tuple_or_an_object() -> None:
    assert rows(TextRow, "a", ("b",), {"text": "c"}, TextRow(text="d")) == [("a",), ("b",), ("c",), ("d",)]
    assert rows(PairRow, "a", ("b", "c"), {"text": "d", "second": "e"}) == [("a", None), ("b", "c"), ("d", "e")]
    assert rows(SentenceRow, "a b", ["a", "b"]) == [("a b",), (["a", "b"],)]


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (TwoTexts, ["a"], "text 1: runs/mine takes text and second together; give them in a tuple"),
        (TwoTexts, [("a", "b"), ("a", "b", "c")], "text 2: runs/mine takes text and second together"),
        (TextRow, [("a", "b")], "text 1: runs/mine takes one text; give it as a string"),
        (TextRow, ["a", 5], "text 2: expected a string, or several in a list or tuple, found 5"),
        (TextRow, [{"text": "a", "txt": "b"}], "text 1: unknown field 'txt'; did you mean 'text'?"),
        (TextRow, None, "expected a text, or a list of texts, found None"),
        (TextRow, {"text": "a"}, "expected a text, or a list of texts, found {'text': 'a'}"),
        (TextRow, b"abc", "expected a text, or a list of texts, found b'abc'"),
    ],
)
def test_what_is_no_row_is_refused(kind: Any, given: Any, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        read_rows(kind, given, "runs/mine")
    assert str(error.value).startswith(sentence)


def test_options_are_the_runs_own_where_they_are_not_given_or_nothing() -> None:
    config = small_run("attentive").config
    own = read_options(TRANSLATE, config, {})
    assert own.seed == config.seed and own.max_new == config.decoding.max_new
    assert read_options(TRANSLATE, config, {"seed": None, "n_best": None}) == own
    assert read_options(TRANSLATE, config, {"beams": 3}).method == "beam"
    with pytest.raises(UserError, match="n_best takes a whole number, not 'x'"):
        read_options(TRANSLATE, config, {"n_best": "x"})


def test_runs_that_cannot_answer_together_are_refused() -> None:
    run = small_run("classifier")
    with pytest.raises(UserError, match="several runs cannot classify together; give one of them"):
        check_together([run, run], "classify")
    with pytest.raises(UserError, match="there is no run to translate with; give at least one"):
        clew.translate([], "the walls")


def test_samples_are_answers_of_their_own_in_python_too() -> None:
    run = small_run("lstm")
    found = run.generate("the", samples=3, max_new=8)
    assert isinstance(found, list) and len(found) == 3 and len({each.text for each in found}) > 1
    with pytest.raises(UserError, match="choices must be a list of texts"):
        run.choose("the", None)  # type: ignore[arg-type]
    assert run.choose("the", "walls,door").label in ("walls", "door")
    with pytest.raises(UserError, match="expected a string"):
        run.stream(5)  # type: ignore[arg-type]
