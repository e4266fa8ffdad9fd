import pytest

from clew.core.errors import UserError
from clew.instruments.looking import look
from tests.instruments.small_runs import small_run

CELL = "body.layers.layers.0.layer.cell"


def test_taps_are_listed_without_a_text_and_measured_with_one() -> None:
    listed = look(small_run("lstm"), "taps", {})
    assert [place["path"] for place in listed.facts["places"]] == [
        *(f"{CELL}.gates.{gate}" for gate in ("input", "forget", "candidate", "output")),
        f"{CELL}.cell_state",
        f"{CELL}.hidden",
    ]
    measured = look(small_run("lstm"), "taps", {"text": "she went"})
    path, shows, shape, least, mean, greatest = measured.parts[0].rows[1]
    assert (path, shows, shape) == (f"{CELL}.gates.forget", "a value inside its layer", "1 x 8 x 16")
    assert 0 < least < mean < greatest < 1


def test_a_pattern_lists_modules_too() -> None:
    places = look(small_run("gpt"), "taps", {"text": "she", "pattern": "body.layers.layers.0.layer.*"}).facts["places"]
    shapes = {place["path"].rsplit(".", 1)[1]: place["shapes"] for place in places}
    assert shapes["query"] == shapes["value"] == shapes["output"] == [[1, 3, 16]]
    assert shapes["weights"] == shapes["scores"] == [[1, 2, 3, 3]]


def test_rows_of_uncalled_modules_have_all_columns() -> None:
    rows = look(small_run("lstm"), "taps", {"text": "she", "pattern": "*"}).parts[0].rows
    assert {len(row) for row in rows} == {6} and any(row[2] == "not called" for row in rows)


def test_masked_scores_are_excluded_from_the_minimum() -> None:
    rows = {row[0]: row for row in look(small_run("gpt"), "taps", {"text": "she", "pattern": "*.scores"}).parts[0].rows}
    assert all(abs(row[3]) < 100 for row in rows.values())


def test_a_pattern_that_matches_nothing_names_the_nearest() -> None:
    with pytest.raises(UserError, match="nothing in the model matches 'body.layer'; did you mean 'body.layers'"):
        look(small_run("lstm"), "taps", {"pattern": "body.layer"})
