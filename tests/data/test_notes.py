import pytest

from clew.core.errors import UserError
from clew.data.notes import Notes


def test_a_fault_is_rejected_with_its_place_and_remedy():
    with pytest.raises(UserError) as caught:
        Notes().fault("bad JSON", "a.jsonl:3", "this is not JSON")
    assert str(caught.value) == "a.jsonl:3: this is not JSON; fix it, or skip such records with data.faults=skip"


def test_skipped_records_are_counted_by_reason_with_the_first_place():
    notes = Notes(faults="skip")
    notes.skip("empty line", "a:2")
    for line in range(4, 13):
        notes.fault("bad JSON", f"a:{line}", "this is not JSON")
    notes.skip("empty line", "a:99")
    assert notes.skipped == {"empty line": 2, "bad JSON": 9}
    assert str(notes) == "skipped 9 x bad JSON (first: a:4)\nskipped 2 x empty line (first: a:2)"
    assert notes.num_faults == 9
    assert notes.sentences == [f"a:{line}: this is not JSON" for line in range(4, 9)]


def test_nothing_is_reported_when_nothing_was_skipped():
    assert str(Notes()) == ""


def test_an_unknown_policy_is_refused():
    with pytest.raises(
        UserError, match="unknown value for data.faults 'skp'; did you mean 'skip'\\? known: refuse, skip"
    ):
        Notes(faults="skp")  # type: ignore[arg-type]
