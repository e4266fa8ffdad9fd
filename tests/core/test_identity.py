"""Facts agree if they are equal wherever both sides have them."""

import pytest

from clew.core.identity import agree


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"tokens": 5}, {"tokens": 5}),
        ({"tokens": 5}, {"tokens": 5, "told since": 1}),
        ({"tokens": 5, "told no more": 1}, {"tokens": 5}),
        ({"model": {"dim": 8}}, {"model": {"dim": 8, "added": True}}),
        ({"layers": ["lstm", {"name": "attention"}]}, {"layers": ["lstm", {"name": "attention"}]}),
    ],
)
def test_facts_of_only_one_side_are_no_disagreement(before: dict, now: dict) -> None:
    assert agree(before, now)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"tokens": 5}, {"tokens": 6}),
        ({"model": {"dim": 8}}, {"model": {"dim": 9}}),
        ({"a": None}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": 1}),
    ],
)
def test_a_changed_fact_is_reported(before: dict, now: dict) -> None:
    assert not agree(before, now)
