import json
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.drawing.views import Table
from clew.instruments.looking import look
from clew.instruments.worst_errors import histogram
from clew.runs.loaded import Run
from tests.instruments.small_runs import small_run


def run_in(folder: Path, *records: dict) -> Run:
    small = small_run("classifier")
    (folder / "predictions.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in records), encoding="utf-8"
    )
    return Run(folder, small.config, small.vocabularies, small.task)


def test_the_worst_errors_come_first_without_correct_predictions(tmp_path):
    run = run_in(
        tmp_path,
        {"id": "1", "score": 0, "source": "fine <b>", "target": "good", "prediction": "bad", "gold_probability": 0.4},
        {"id": "2", "score": 100, "source": "great", "target": "good", "prediction": "good", "gold_probability": 0.9},
        {"id": "3", "score": 0, "source": "dull", "target": "bad", "prediction": "good", "gold_probability": 0.1},
        {"id": "4", "score": 0, "source": "poor", "target": "bad", "prediction": "good", "gold_probability": 0.3},
    )
    view = look(run, "errors", {"most": 2})
    assert [error["id"] for error in view.facts["errors"]] == ["3", "4"] and view.facts["wrong"] == 3
    first, confusions = (part for part in view.parts if isinstance(part, Table))
    assert list(first.header) == ["p of expected", "given", "expected", "found", "score", "where"]
    assert "worst first: those with the lowest probability of the expected output" in view.about
    assert confusions.rows[0] == ("bad", "good", 2)
    assert [error["id"] for error in look(run, "errors", {"containing": "<b>"}).facts["errors"]] == ["1"]


def test_wrong_tags_are_listed_with_their_words(tmp_path):
    wrong = [{"word": 2, "gold": "B-LOC", "predicted": "O"}]
    run = run_in(
        tmp_path,
        {"id": "1", "score": 50, "source": "in Paris", "target": "O B-LOC", "prediction": "O O", "wrong": wrong},
    )
    view = look(run, "errors", {})
    assert list(view.parts[0].header) == ["wrong words", "given", "score", "where"]
    assert view.parts[0].rows == [(1, "in Paris[expected B-LOC, found O]", 50.0, "1")]
    (error,) = view.facts["errors"]
    assert (
        error["source"] == "in Paris"
        and error["marked"] == "in Paris[expected B-LOC, found O]"
        and error["prediction"] == "O O"
    )


@pytest.mark.parametrize("field", ["gold_probability", "wrong", "score"])
def test_the_first_column_is_the_stated_measure_and_in_order(tmp_path, field):
    """Other measures may disagree: a high score with an improbable answer, or few wrong words in a short sentence."""
    values = {"gold_probability": [0.4, 0.1, 0.3], "wrong": [1, 3, 2], "score": [70.0, 40.0, 55.0]}[field]
    scores = values if field == "score" else [0.0, 60.0, 30.0]
    tags = (
        [[{"word": word + 1, "gold": "N", "predicted": "D"} for word in range(value)] for value in values]
        if field == "wrong"
        else values
    )
    common = {"source": "a b c", "target": "x", "prediction": "y"}
    records = [
        {"id": str(place), "score": score, **common, field: tag}
        for place, (score, tag) in enumerate(zip(scores, tags, strict=True))
    ]
    view = look(run_in(tmp_path, *records), "errors", {})
    assert [row[0] for row in view.parts[0].rows] == sorted(values, reverse=field == "wrong")
    assert [error["id"] for error in view.facts["errors"]] == ["1", "2", "0"]


def test_expected_and_predicted_are_both_named_even_without_a_label(tmp_path):
    run = run_in(
        tmp_path, {"id": "1", "score": 0, "source": "a", "target": "good", "prediction": "", "gold_probability": 0.2}
    )
    table, _, confusions = look(run, "errors", {}).parts
    assert table.rows[0][2:4] == ("good", "(none)") and confusions.rows == [("good", "(none)", 1)]


def test_a_missing_or_broken_predictions_file_is_reported(tmp_path):
    with pytest.raises(UserError, match="has no predictions.jsonl: it is written at the end of a run on examples"):
        look(small_run("classifier"), "errors", {})
    run = run_in(tmp_path, {"id": "1", "score": "high"})
    with pytest.raises(UserError, match='predictions.jsonl:1: "score" takes a finite number'):
        look(run, "errors", {})


def test_a_run_without_errors_is_reported_as_such(tmp_path):
    view = look(
        run_in(tmp_path, {"id": "1", "score": 100, "source": "a", "target": "b", "prediction": "b"}), "errors", {}
    )
    assert view.facts["wrong"] == 0 and "No prediction is wrong." in view.parts[0].text


@pytest.mark.parametrize(
    ("scores", "names"),
    [
        ([3.1, 12.0, 50.0, 100.00000000000001], ["0 to 10", "10 to 20", "90 to 100"]),
        ([0.0, 0.31, 0.92], ["0.0 to 0.1", "0.1 to 0.2", "0.9 to 1.0"]),
        ([100, 100], ["100.0 to 100.1"]),
    ],
)
def test_scores_are_binned_between_round_numbers(scores, names):
    bars = histogram(scores)
    assert [*bars.names[:2], bars.names[-1]][-len(names) :] == names and sum(bars.values) == len(scores)
