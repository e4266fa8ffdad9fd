import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.recipes.grid import LONGEST_NAME, Combination, expand, plain, short_names, spelt, split_values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", [""]),
        ("1", ["1"]),
        ("1,2,3", ["1", "2", "3"]),
        ("a,", ["a", ""]),
        ("[lstm, gru]", ["[lstm, gru]"]),
        ("[lstm, gru],[gru, [a, b]]", ["[lstm, gru]", "[gru, [a, b]]"]),
        ("{name: gru, bias: false},lstm", ["{name: gru, bias: false}", "lstm"]),
        ('"here, there.txt"', ['"here, there.txt"']),
        ('"a \\" , b",c', ['"a \\" , b"', "c"]),
        ("it's,hers", ["it's", "hers"]),
        ("[it's, x],y", ["[it's, x]", "y"]),
        ("['a],b', x],y", ["['a],b', x]", "y"]),
        ('{name: "]", x: 1},y', ['{name: "]", x: 1}', "y"]),
        ("[never closed,1", ["[never closed,1"]),
        ("a],b", ["a]", "b"]),
    ],
)
def test_commas_separate_values_outside_brackets_and_quotes(text: str, values: list[str]) -> None:
    assert split_values(text) == values


@given(st.lists(st.text(alphabet=st.characters(exclude_characters=",[]{}\"'\\")), min_size=1))
def test_joined_plain_values_are_split_again(values: list[str]) -> None:
    assert split_values(",".join(values)) == values


def test_every_combination_occurs_once_and_the_last_field_changes_fastest() -> None:
    combinations = expand("a,b", ["model.cell=lstm,gru", "training.steps=5", "seed=1,2"])
    assert [(c.recipe, *c.assignments) for c in combinations] == [
        (recipe, f"model.cell={cell}", "training.steps=5", f"seed={seed}")
        for recipe in ("a", "b")
        for cell in ("lstm", "gru")
        for seed in (1, 2)
    ]
    assert combinations[0].chosen == (("cell", "lstm"), ("seed", "1"))


def test_settings_without_commas_form_one_combination() -> None:
    words = (
        "model.layers=[lstm, gru]",
        " training.optimiser ={name: adamw, beta2: 0.9}",
        "nonsense",
        "=",
        'data.train="a, b.txt"',
    )
    assert expand("text-lstm", words) == [Combination("text-lstm", words, ())]


def test_equal_values_count_once_in_any_notation() -> None:
    assert [c.assignments for c in expand("a", ["seed=1,1,2, 1"])] == [("seed=1",), ("seed=2",)]
    assert [c.assignments for c in expand("a", ['model.cell=gru,"gru"', "training.learning_rate=1e-3,0.001"])] == [
        ("model.cell=gru", "training.learning_rate=1e-3")
    ]
    assert [c.recipe for c in expand("a,a,b", [])] == ["a", "b"]


def test_a_recipe_file_with_a_comma_can_be_quoted() -> None:
    assert [c.recipe for c in expand('"one, two.yaml"', [])] == ["one, two.yaml"]


@pytest.mark.parametrize("word", ["seed=1,,2", "seed=1,", "seed=,", "seed=1, ,2"])
def test_a_comma_without_a_value_is_rejected(word: str) -> None:
    with pytest.raises(UserError) as error:
        expand("a", [word])
    assert str(error.value) == (
        f"{word!r} has an empty value beside a comma; delete the comma, or put a value that contains commas into"
        " double quotes"
    )
    with pytest.raises(UserError, match="'a,,b' has an empty value beside a comma"):
        expand("a,,b", [])


def test_a_field_with_several_values_is_given_only_once() -> None:
    with pytest.raises(
        UserError,
        match="seed is given 2 times, once with several values; give them all in one place, separated by commas",
    ):
        expand("a", ["seed=1,2", "seed=3"])
    assert len(expand("a", ["seed=1", "seed=3"])) == 1, "the last one counts, as ever"


def test_folders_are_named_by_recipe_and_grid_values() -> None:
    combinations = expand("ptb-lstm-small", ["model.cell=elman,gru", "training.steps=9", "seed=1,2"])
    assert [c.name for c in combinations] == [
        f"ptb-lstm-small-cell={cell}-seed={seed}" for cell in ("elman", "gru") for seed in (1, 2)
    ]
    assert [c.name for c in expand("a,settings/mine.yaml", [])] == ["a", "mine"]
    assert expand("a", ["training.learning_rate=1e-3,2e-3"])[0].name == "a-learning_rate=0.001"


def test_fields_with_the_same_last_name_are_named_in_full() -> None:
    assert short_names(["model.dropout", "task.dropout", "seed"]) == {
        "model.dropout": "model.dropout",
        "task.dropout": "task.dropout",
        "seed": "seed",
    }


def test_names_use_only_characters_valid_in_every_file_system() -> None:
    values = [
        "[lstm, gru]",
        "[lstm gru]",
        "a/b",
        "a\\b",
        "A.txt",
        "a.txt",
        "con:",
        "x.",
        "ü",
        "-1",
        "+1",
        "*",
        "nul\x00",
        "long " * 40,
    ]
    names = [plain(value) for value in values]
    assert len({name.lower() for name in names}) == len(values), "told apart where upper and lower case are one"
    for name in names:
        assert (
            name
            and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._+-")
            and not name.endswith(".")
            and len(name) < 50
        )
    assert [plain(value) for value in ("gru", "0.001", "-1", "a.txt")] == ["gru", "0.001", "-1", "a.txt"]


def test_long_names_are_shortened_and_stay_distinct() -> None:
    fields = [f"model.a_long_field_name_{i}={v}" for i in range(8) for v in ["1,2"]]
    names = [c.name for c in expand("shakespeare-lstm", fields)]
    assert len(set(names)) == 2**8 and max(map(len, names)) <= LONGEST_NAME


def test_equal_values_have_one_spelling() -> None:
    assert [spelt(v) for v in ("1e-3", "true", "null", '"gru"', "gru", "[a,b]")] == [
        "0.001",
        "true",
        "null",
        "gru",
        "gru",
        '["a", "b"]',
    ]
