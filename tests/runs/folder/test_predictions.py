from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.runs.folder.predictions import PREDICTIONS, read_prediction_records, read_predictions, write_predictions


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()


def test_predictions_survive_a_round_trip() -> None:
    scores = {"test-1": -1.5, "é\u2028\n": 0.0, "3": 1e-300}
    write_predictions(Path("run"), scores)
    assert read_predictions(Path("run")) == scores


def test_a_run_without_predictions_has_none() -> None:
    assert read_predictions(Path("run")) is None


def test_ids_may_be_whole_numbers_and_other_fields_are_ignored() -> None:
    Path("run", PREDICTIONS).write_text('{"id": 7, "score": 1, "text": "the ball"}\n\n{"id": "8", "score": 0.5}')
    assert read_predictions(Path("run")) == {"7": 1.0, "8": 0.5}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "run/predictions.jsonl has no predictions in it; evaluate the run again"),
        ('{"id": 1, "score": 2}\n{"id"', "run/predictions.jsonl:2: this is not JSON: "),
        (
            "[1]",
            (
                'run/predictions.jsonl:1: a prediction is an object with an "id" (a text or a whole number) and a'
                ' "score", not [1]'
            ),
        ),
        ('{"score": 2}', 'run/predictions.jsonl:1: a prediction is an object with an "id"'),
        ('{"id": true, "score": 2}', 'run/predictions.jsonl:1: a prediction is an object with an "id"'),
        ('{"id": 1}', 'run/predictions.jsonl:1: "score" takes a finite number, not None'),
        ('{"id": 1, "score": NaN}', 'run/predictions.jsonl:1: "score" takes a finite number, not nan'),
        ('{"id": 1, "score": true}', 'run/predictions.jsonl:1: "score" takes a finite number, not True'),
        (
            f'{{"id": 1, "score": 1{"0" * 400}}}',
            'run/predictions.jsonl:1: "score" takes a finite number, not a number of about 39',
        ),
        (f'{{"id": 1, "score": 1{"0" * 5000}}}', "run/predictions.jsonl:1: this is not JSON: Exceeds the limit"),
        (
            '{"id": 1, "score": 1, "gold_probability": "x"}',
            "run/predictions.jsonl:1: \"gold_probability\" takes a number from 0 to 1, not 'x'",
        ),
        (
            '{"id": 1, "score": 1, "wrong": 5}',
            'run/predictions.jsonl:1: "wrong" has one object per wrong word, with the number of the "word"',
        ),
        (
            '{"id": 1, "score": 1, "wrong": [{"word": 0, "gold": "A", "predicted": "B"}]}',
            'run/predictions.jsonl:1: "wrong" has one object',
        ),
        (
            f'{{"id": 1, "score": 1, "statistics": {{"f1": {{"f1": [1{"0" * 400}]}}}}}}',
            'run/predictions.jsonl:1: "statistics" has one object',
        ),
        (
            '{"id": 1, "score": 2}\n{"id": "1", "score": 3}',
            "run/predictions.jsonl:2: the id '1' appears on an earlier line; ids must be unique",
        ),
        (b"\xff", "run/predictions.jsonl: byte 0 is not UTF-8; evaluate the run again"),
    ],
)
def test_malformed_predictions_are_rejected(content: str | bytes, sentence: str) -> None:
    Path("run", PREDICTIONS).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as error:
        read_predictions(Path("run"))
    assert str(error.value).startswith(sentence)


def test_statistics_survive_a_round_trip_and_malformed_ones_are_rejected() -> None:
    Path("run").mkdir(exist_ok=True)
    rows = {"a": {"bleu": {"bleu": [1, 2]}, "macro_f1": {"macro_f1": {"good": [1, 0, 0]}}}}
    write_predictions(Path("run"), {"a": 1.0}, None, rows)
    (record,) = read_prediction_records(Path("run")) or []
    assert record["statistics"] == rows["a"]
    for broken in (
        "[1]",
        '{"bleu": [1]}',
        '{"bleu": {"bleu": ["x"]}}',
        '{"bleu": {"bleu": [NaN]}}',
        '{"bleu": {"a": [1], "b": [1]}}',
    ):
        Path("run/predictions.jsonl").write_text(f'{{"id": "a", "score": 1, "statistics": {broken}}}\n')
        with pytest.raises(
            UserError,
            match='run/predictions.jsonl:1: "statistics" has one object per measure, with the name of a formula'
            " and its numbers; evaluate the run again",
        ):
            read_prediction_records(Path("run"))
