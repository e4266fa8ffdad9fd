"""Rows and options read from plain values, as Python, the command line and the server pass them."""

from typing import Any

import pytest

import clew
from clew.core.errors import UserError
from clew.core.wording import on_command_line, worded
from clew.runs.asking import check_together, find_use, read_options, read_rows
from clew.tasks.tagging import SentenceRow
from clew.tasks.translation import TRANSLATE
from clew.tasks.use import PairRow, TextRow, TwoTexts
from tests.instruments.small_runs import small_run


def rows(kind: Any, *values: Any) -> list[tuple[Any, ...]]:
    return [tuple(value for _, value in row) for row in read_rows(kind, values, "runs/mine")]


def test_a_row_is_read_from_a_text_a_tuple_or_a_dict() -> None:
    assert rows(TextRow, "a", ("b",), {"text": "c"}, TextRow(text="d")) == [("a",), ("b",), ("c",), ("d",)]
    assert rows(PairRow, "a", ("b", "c"), {"text": "d", "second": "e"}) == [("a", None), ("b", "c"), ("d", "e")]
    assert rows(SentenceRow, "a b", ["a", "b"]) == [("a b",), (["a", "b"],)]


@pytest.mark.parametrize(
    ("kind", "values", "sentence"),
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
def test_invalid_rows_are_rejected(kind: Any, values: Any, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        read_rows(kind, values, "runs/mine")
    assert str(error.value).startswith(sentence)


def test_options_default_to_those_of_the_run() -> None:
    config = small_run("attentive").config
    own = read_options(TRANSLATE, config, {})
    assert own.seed == config.seed and own.max_new == config.decoding.max_new
    assert read_options(TRANSLATE, config, {"seed": None, "n_best": None}) == own
    assert read_options(TRANSLATE, config, {"beams": 3}).method == "beam"
    with pytest.raises(UserError, match="n_best takes a whole number, not 'x'"):
        read_options(TRANSLATE, config, {"n_best": "x"})


@pytest.mark.parametrize(
    ("name", "verb"), [("attentive", "translate"), ("classifier", "classify"), ("elmo", "evaluate")]
)
def test_a_verb_that_a_run_does_not_have_names_one_that_it_has(name: str, verb: str) -> None:
    run = small_run(name)
    with pytest.raises(UserError) as in_python:
        find_use(run, "fill")
    assert str(in_python.value).endswith(f"which cannot fill; use `run.{verb}(...)`")
    with worded(on_command_line), pytest.raises(UserError) as on_the_command_line:
        find_use(run, "fill")
    assert str(on_the_command_line.value).endswith(f"which cannot fill; use `clew {verb}`")


def test_runs_that_cannot_answer_together_are_rejected() -> None:
    run = small_run("classifier")
    with pytest.raises(UserError, match="several runs cannot classify together; give one of them"):
        check_together([run, run], "classify")
    with pytest.raises(UserError, match="there is no run to translate with; give at least one"):
        clew.translate([], "the walls")


def test_samples_in_python_are_separate_answers() -> None:
    run = small_run("lstm")
    answers = run.generate("the", samples=3, max_new=8)
    assert isinstance(answers, list) and len(answers) == 3 and len({each.text for each in answers}) > 1
    with pytest.raises(UserError, match="choices must be a list of texts"):
        run.choose("the", None)  # type: ignore[arg-type]
    assert run.choose("the", "walls,door").label in ("walls", "door")
    with pytest.raises(UserError, match="expected a string"):
        run.stream(5)  # type: ignore[arg-type]
