import pytest

from clew.data.records import Record, find_column, find_role
from tests.data.written import refusal


@pytest.mark.parametrize(("name", "column"), [("text", "text"), ("2", "text"), (2, "text"), (1, "label"), ("7", "7")])
def test_a_column_is_found_by_name_and_by_number(name, column):
    assert find_column(["label", "text", "7"], name, "text", "a.csv") == column


def test_a_missing_column_is_reported_with_the_existing_ones():
    columns = ["sentence", "label"]
    assert refusal(lambda: find_column(columns, "sentense", "text", "a.csv")) == (
        "a.csv: no column 'sentense' for data.text; did you mean 'sentence'? there are: sentence, label"
    )
    for number in (0, 3, "3", -1):
        assert refusal(lambda number=number: find_column(columns, number, "text", "a.csv")) == (
            f"a.csv: no column {number} for data.text; there are 2, counted from 1: sentence, label"
        )


def test_a_role_uses_the_column_of_its_name_or_asks_for_one():
    assert find_role(["label", "text"], None, "text", "a.csv") == "text"
    assert find_role(["1", "2"], None, "text", "a.csv", default="2") == "2"
    assert refusal(lambda: find_role(["a", "b"], None, "text", "a.csv")) == (
        "a.csv: no column 'text'; name it with data.text=NAME; there are: a, b"
    )


def test_only_some_of_many_columns_are_listed():
    columns = [f"c{i}" for i in range(25)]
    assert refusal(lambda: find_column(columns, "x", "text", "a.csv")).endswith("c18, c19 and 5 more")


def test_a_record_knows_its_place():
    assert Record({"text": "a"}, "folder/a.csv", 7).place == "folder/a.csv:7"
