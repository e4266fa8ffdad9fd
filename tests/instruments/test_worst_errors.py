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
    (folder / "predictions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return Run(folder, small.config, small.vocabularies, small.task)


def test_the_worst_come_first_and_what_is_right_does_not_come(tmp_path):
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
    assert list(first.header) == ["score", "given", "expected", "found", "p of expected", "where"]
    assert confusions.rows[0] == ("bad", "good", 2)
    assert [error["id"] for error in look(run, "errors", {"containing": "<b>"}).facts["errors"]] == ["1"]


def test_wrong_tags_stand_with_their_words(tmp_path):
    wrong = [{"word": 2, "gold": "B-LOC", "predicted": "O"}]
    run = run_in(tmp_path, {"id": "1", "score": 50, "source": "in Paris", "target": "O B-LOC", "prediction": "O O", "wrong": wrong})
    view = look(run, "errors", {})
    assert view.parts[0].rows == [(50.0, "in Paris[B-LOC not O]", "1")]
    (error,) = view.facts["errors"]
    assert error["source"] == "in Paris" and error["marked"] == "in Paris[B-LOC not O]" and error["prediction"] == "O O"


def test_a_run_without_predictions_and_a_broken_file_are_told_of(tmp_path):
    with pytest.raises(UserError, match="has no predictions.jsonl: it is written when a run on examples ends"):
        look(small_run("classifier"), "errors", {})
    run = run_in(tmp_path, {"id": "1", "score": "high"})
    with pytest.raises(UserError, match='predictions.jsonl:1: "score" takes a finite number'):
        look(run, "errors", {})


def test_no_mistake_is_said_to_be_none(tmp_path):
    view = look(run_in(tmp_path, {"id": "1", "score": 100, "source": "a", "target": "b", "prediction": "b"}), "errors", {})
    assert view.facts["wrong"] == 0 and "None is wrong." in view.parts[0].text


@pytest.mark.parametrize(
    ("scores", "names"),
    [
        ([3.1, 12.0, 50.0, 100.00000000000001], ["0 to 10", "10 to 20", "90 to 100"]),
        ([0.0, 0.31, 0.92], ["0.0 to 0.1", "0.1 to 0.2", "0.9 to 1.0"]),
        ([100, 100], ["100.0 to 100.1"]),
    ],
)
def test_scores_are_counted_between_round_numbers(scores, names):
    bars = histogram(scores)
    assert [*bars.names[:2], bars.names[-1]][-len(names) :] == names and sum(bars.values) == len(scores)
