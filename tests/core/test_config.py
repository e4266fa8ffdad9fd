from typing import Annotated

import pytest
from pydantic import ValidationError

from clew.core.config import Part, Section, build_part, check_part, one_of, options_of, part_name, part_options
from clew.core.errors import UserError


class Square:
    def __init__(
        self, side: int, *, colour: str = "red", holes: int = 0, scale: float = 1.0, filled: bool = True, note=None
    ):
        self.side, self.colour, self.holes = side, colour, holes


class Circle:
    def __init__(self, radius: int):
        self.radius = radius


SHAPES = {"square": Square, "circle": Circle}


class Drawing(Section):
    shape: Annotated[Part, one_of("shape", SHAPES)] = "square"
    size: int = 1


def test_a_part_is_built_from_its_name_and_options():
    square = build_part("shape", {"name": "square", "colour": "blue"}, SHAPES, 3, holes=2)
    assert (square.side, square.colour, square.holes) == (3, "blue", 2)
    assert build_part("shape", "circle", SHAPES, 4).radius == 4


def test_user_options_override_the_callers():
    assert build_part("shape", {"name": "square", "holes": 5}, SHAPES, 3, holes=2).holes == 5


def test_a_parts_name_and_options_are_separated():
    assert (part_name("gru"), part_options("gru")) == ("gru", {})
    assert (part_name({"name": "gru", "bias": False}), part_options({"name": "gru", "bias": False})) == (
        "gru",
        {"bias": False},
    )


def test_options_are_the_keyword_only_arguments():
    assert list(options_of(Square)) == ["colour", "holes", "scale", "filled", "note"]
    assert list(options_of(Circle)) == []


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("squar", r"unknown shape 'squar'; did you mean 'square'\? known: circle, square"),
        ("zzz", "unknown shape 'zzz'; known: circle, square"),
        (
            {"name": "square", "color": "x"},
            r"shape 'square' has no option 'color'; did you mean 'colour'\? its options: colour, holes",
        ),
        ({"name": "circle", "radius": 1}, "shape 'circle' has no option 'radius'; its options: none"),
        ({"name": "square", "holes": True}, "shape option 'square.holes' takes a whole number, not True"),
        ({"name": "square", "holes": 1.5}, "shape option 'square.holes' takes a whole number, not 1.5"),
        ({"name": "square", "scale": "x"}, "shape option 'square.scale' takes a number, not 'x'"),
        ({"name": "square", "filled": 1}, "shape option 'square.filled' takes true or false, not 1"),
        ({"name": "square", "colour": 3}, "shape option 'square.colour' takes a text, not 3"),
        ({"name": "square", "scale": float("nan")}, "shape option 'square.scale' takes a number, not nan"),
        (
            {"name": "square", "scale": 10**400},
            r"shape option 'square.scale' takes a number between -2\^63 and 2\^63, not a number of about",
        ),
        (
            {"name": "square", "scale": -1e300},
            r"shape option 'square.scale' takes a number between -1e38 and 1e38, not -1e\+300",
        ),
        ({"name": "square", "x" * 999: 1}, "shape 'square' has no option 'xxxxx"),
        (3, r"shape takes a name, or a name with options \(\{name: ..., option: ...\}\), not 3"),
        ({"colour": "red"}, "shape takes a name, or a name with options"),
    ],
)
def test_a_wrong_part_is_rejected_with_a_sentence(part, sentence):
    with pytest.raises(UserError, match=sentence):
        check_part("shape", part, SHAPES)


def test_a_float_option_accepts_integers():
    assert check_part("shape", {"name": "square", "scale": 2}, SHAPES) == {"name": "square", "scale": 2}


def test_a_field_accepts_entries_added_later():
    with pytest.raises(ValidationError, match="unknown shape 'line'; known: circle, square"):
        Drawing(shape="line")
    SHAPES["line"] = Circle
    try:
        assert Drawing(shape="line").shape == "line"
    finally:
        del SHAPES["line"]


def test_a_section_is_frozen_and_strict_about_fields_and_types():
    with pytest.raises(ValidationError, match="frozen"):
        Drawing().size = 2
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Drawing(sice=2)
    for wrong in ("2", True, 2.0):
        with pytest.raises(ValidationError, match="valid integer"):
            Drawing(size=wrong)
    with pytest.raises(ValidationError, match=r"takes a number between -2\^63 and 2\^63"):
        Drawing(size=2**63)


def test_long_errors_of_a_constructor_are_shortened():
    def burst(*, holes: int = 0):
        raise RuntimeError("no\n" * 999)

    with pytest.raises(UserError) as error:
        build_part("shape", {"name": "burst", "holes": 3}, {"burst": burst})
    assert str(error.value).startswith("shape 'burst' cannot be built with {'holes': 3}: no no no")
    assert len(str(error.value)) < 200
