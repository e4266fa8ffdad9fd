"""The space of a search, as written by the user."""

import json
from typing import Any

import numpy as np
import pytest

import clew
from clew.core.errors import UserError
from clew.core.wording import on_command_line, worded
from clew.runs.settings.values import parse_value
from clew.studies.space import Choices, Range, Space, read_space, space_assignments


def space(*assignments: str) -> Space:
    return read_space("text-lstm", ["data.train=story.txt", *assignments])[0]


def test_the_type_of_the_field_decides_if_a_range_has_whole_numbers() -> None:
    dim, rate, warmup = space("model.dim=16..48", "training.learning_rate=1..5", "training.schedule.warmup=0..50").axes
    assert dim == Range("model.dim", 16, 48, None, True)
    assert rate == Range("training.learning_rate", 1, 5, None, False)
    assert warmup == Range("training.schedule.warmup", 0, 50, None, True)


@pytest.mark.parametrize(
    ("text", "is_log"), [("1e-4..1e-2", True), ("0.1..1", True), ("0.1..0.9", False), ("0.1..1:0.1", False)]
)
def test_ends_a_factor_of_ten_apart_give_a_log_scale(text: str, is_log: bool) -> None:
    [axis] = space(f"training.learning_rate={text}").axes
    assert isinstance(axis, Range) and axis.is_log == is_log


def test_every_axis_describes_its_scale() -> None:
    parsed = space(
        "model.dim=16..48:16", "training.learning_rate=1e-4..1e-2", "model.dropout=0..0.5", "model.cell=lstm,gru"
    )
    assert [axis.about for axis in parsed.axes] == [
        "model.dim: whole numbers from 16 to 48, in steps of 16",
        "training.learning_rate: numbers from 0.0001 to 0.01, log scale",
        "model.dropout: numbers from 0 to 0.5, linear scale",
        "model.cell: one of lstm, gru",
    ]
    assert parsed.fixed == ("data.train=story.txt",)


def test_sampled_numbers_have_four_digits_and_stay_in_range() -> None:
    axis = Range("training.learning_rate", 0.000123456, 0.1)
    assert axis.spelt(0.0123456) == "0.01235" and Range("x", 0.000123456, 0.1).spelt(0.000123401) == "0.000123456"
    assert (
        Range("model.dim", 8, 64, 8, True).spelt(16) == "16"
        and Range("x", 0, 0.5, 0.1).spelt(0.30000000000000004) == "0.3"
    )


def test_a_step_that_does_not_reach_the_end_stops_before_it() -> None:
    [axis] = space("model.dim=10..45:10").axes
    assert isinstance(axis, Range) and (axis.high, axis.count) == (40, 4)


def test_a_range_counts_both_ends_whatever_the_rounding_of_its_step() -> None:
    for text, count in (("0.1..0.3:0.1", 3), ("0..0.7:0.1", 8), ("0.1..0.35:0.1", 3)):
        assert space(f"model.dropout={text}").combinations == count


def test_a_space_survives_a_round_trip_through_json() -> None:
    parsed = space("model.dim=16..48:16", "training.learning_rate=1e-4..1e-2", "model.cell=lstm,gru")
    assert Space.from_json(json.loads(json.dumps(parsed.to_json()))) == parsed


def test_combinations_are_counted() -> None:
    assert space("model.dim=1..4", "model.cell=lstm,gru").combinations == 8
    assert space("model.dropout=0..0.5", "model.cell=lstm,gru").combinations == float("inf")


@pytest.mark.parametrize(
    ("assignments", "sentence"),
    [
        (["model.dim=512..64"], "model.dim=512..64 starts at its higher end; write model.dim=64..512"),
        (["model.dim=64..64"], "model.dim=64..64 is a range of one value; write model.dim=64, or another end"),
        (["model.dim=1..9:20"], "the step .20. must be above 0 and at most the width of the range .8."),
        (["model.dim=1..9:0.5"], "model.dim takes whole numbers, but a step of 0.5 leads to others; use a whole step"),
        (["model.dim=1.5..9"], "model.dim takes a whole number, not 1.5"),
        (
            ["model.cell=1..4"],
            "model.cell=1..4 is a range, but the values of model.cell are not numbers .it is 'lstm'.; write its values"
            " separated by commas",
        ),
        (["model.dmi=1..4"], "unknown field 'dmi' of model; did you mean 'dim'?"),
        (["model.cell=lstm,gur"], "unknown cell 'gur'; did you mean 'gru'?"),
        (["model.dropout=0..1"], "model.dropout must be below 1, not 1"),
        (
            ["model.dim=1..4", "model.dim=3"],
            "model.dim is set 2 times, and one of them is searched; set one range or one list of values",
        ),
        (
            ["model.dim=3"],
            "a search needs settings with a range or several values, but there are none; add some to the dict of the",
        ),
    ],
)
def test_mistakes_are_reported_before_the_first_trial(assignments: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        space(*assignments)


def test_an_empty_space_is_explained_in_the_callers_notation() -> None:
    with pytest.raises(UserError) as caught:
        clew.search("text-lstm", {}, "data.train=story.txt")
    assert str(caught.value).endswith(
        "; add some to the dict of the space, such as {'training.learning_rate': (1e-4, 1e-2), 'model.cell': ['lstm',"
        " 'gru']}"
    )
    with (
        worded(on_command_line),
        pytest.raises(UserError, match="add some, such as training.learning_rate=1e-4..1e-2 model.dim=64..512"),
    ):
        space("model.dim=3")


def test_a_range_in_a_message_is_a_pair_in_python() -> None:
    with pytest.raises(UserError, match=r"write model__dim=\(64, 512\)$"):
        clew.search("text-lstm", {"model.dim": (512, 64)}, "data.train=story.txt")


def test_a_search_takes_one_recipe() -> None:
    with pytest.raises(
        UserError, match="a search takes one recipe, and 'text-lstm,text-gpt' names several; start one search for each"
    ):
        read_space("text-lstm,text-gpt", ["model.dim=1..4"])


def test_python_values_become_command_line_settings() -> None:
    assignments = space_assignments(
        {
            "model.dim": (64, 512),
            "model.dropout": (0.0, 0.5, 0.1),
            "model.cell": ["lstm", "a,b", "1"],
            "model.x": [None, True, 2],
        }
    )
    assert assignments == [
        "model.dim=64..512",
        "model.dropout=0.0..0.5:0.1",
        'model.cell=lstm,"a,b","1"',
        "model.x=null,true,2",
    ]
    assert parse_value('"1"') == "1"
    [choices] = space(*space_assignments({"model.cell": ["lstm", {"name": "elman", "nonlinearity": "relu"}]})).axes
    assert choices == Choices("model.cell", ("lstm", '{"name": "elman", "nonlinearity": "relu"}'))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ((1, 2, 3, 4), r"a range must be \(low, high\) or \(low, high, step\), of finite numbers"),
        ((1, 2, 3, 4), r"of finite numbers, not \(1, 2, 3, 4\); for choices, pass a list"),
        (("a", "b"), r"a range must be \(low, high\) or \(low, high, step\), of finite numbers"),
        ((1, float("inf")), r"a range must be \(low, high\) or \(low, high, step\), of finite numbers"),
        (["lstm"], "a list of choices must have at least two, not .'lstm'.; pass one value as a setting"),
        (64, r"a search takes \(low, high\), a list of choices, or a string as on the command line, not 64"),
    ],
)
def test_invalid_python_values_are_rejected(value: object, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        space_assignments({"model.dim": value})


@pytest.mark.parametrize(
    "space", [{"model__dim": (8, 16)}, {"model": {"dim": (8, 16)}}, {"model.dim": (np.int64(8), np.int64(16))}]
)
def test_a_space_from_python_accepts_every_notation_of_fields(space: dict[str, object]) -> None:
    assert space_assignments(space) == ["model.dim=8..16"]


def test_numpy_numbers_are_accepted_in_a_space() -> None:
    rates = (np.float64(1e-3), np.float64(1e-2))
    assert space_assignments({"training.learning_rate": rates, "model.dim": list(np.array([8, 16]))}) == [
        "training.learning_rate=0.001..0.01",
        "model.dim=8,16",
    ]


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        (
            ["model.dim=8..16"],
            "the space of a search must be a dict of ranges and choices by field, such as .*, not .'model.dim=8..16'.",
        ),
        ({"dim": (8, 16)}, "unknown keyword 'dim'; did you mean model__dim"),
    ],
)
def test_invalid_spaces_are_rejected_in_one_sentence(space: object, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        space_assignments(space)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"trials": "3"}, "trials takes a whole number, not '3'; for example trials=2"),
        ({"jobs": 1.5}, "jobs takes a whole number, not 1.5; for example jobs=2"),
        ({"training__stesp": 6}, "unknown setting training__stesp; did you mean training__steps"),
    ],
)
def test_mistakes_in_arguments_are_reported_in_python_notation(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        clew.search("text-lstm", {"model__dim": (8, 16)}, "data.train=story.txt", **arguments)


def test_a_stream_from_python_cannot_be_read_by_several_jobs() -> None:
    sentence = "data= is a stream from Python, which the processes of 2 jobs cannot read; set jobs=1, or pass a list or"
    with pytest.raises(UserError, match=sentence):
        clew.search("text-lstm", {"model__dim": (8, 16)}, data=lambda: iter(["a text"]), trials=2, jobs=2)
