import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.synthetic.sequences import SYNTHETIC, right_place, synthetic_lines

ANSWERS = {
    "copy": lambda source: source,
    "reverse": lambda source: source[::-1],
    "sort": lambda source: " ".join(sorted(source.split())),
    "addition": lambda source: " ".join(str(sum(int(part.replace(" ", "")) for part in source.split("+")))),
    "recall": lambda source: dict(zip(source.split()[0:6:2], source.split()[1:6:2], strict=True))[source.split()[-1]],
}


@given(st.sampled_from(sorted(SYNTHETIC)), st.integers(0, 99), st.integers(1, 12))
def test_every_target_is_the_right_answer(name: str, seed: int, longest: int) -> None:
    for source, target in synthetic_lines(name, 5, seed, 1, longest):
        assert target == ANSWERS[name](source)


def test_lines_depend_only_on_name_and_seed() -> None:
    assert synthetic_lines("copy", 9, 1, 2, 5) == synthetic_lines("copy", 9, 1, 2, 5)
    assert synthetic_lines("copy", 9, 1, 2, 5) != synthetic_lines("copy", 9, 2, 2, 5)


def test_the_gap_of_recall_has_the_requested_length() -> None:
    (line,) = synthetic_lines("recall", 1, 1, 40, 40)
    assert line.source.split().count(".") == 40


@pytest.mark.parametrize(
    ("name", "places"), [("copy", [0, 1, 2]), ("reverse", [2, 1, 0]), ("sort", [1, 0, 2]), ("addition", [None] * 3)]
)
def test_right_place_is_the_source_position_of_a_symbol(name: str, places: list) -> None:
    assert [right_place(name, "b a c", step) for step in range(3)] == places
    assert right_place(name, "b a c", 3) is None


def test_invalid_settings_are_rejected() -> None:
    with pytest.raises(UserError, match="unknown synthetic corpus 'revers'; did you mean 'reverse'?"):
        synthetic_lines("revers", 1, 1, 1, 2)
    with pytest.raises(UserError, match=r"lengths go from data.shortest \(5\) to data.longest \(2\)"):
        synthetic_lines("copy", 1, 1, 5, 2)
