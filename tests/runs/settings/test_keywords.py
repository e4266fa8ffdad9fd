"""Settings as keyword arguments in Python, and error messages in the same notation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from torch.utils.data import DataLoader

import clew
from clew.core.errors import UserError
from clew.recipes.resolving import config_of
from clew.runs.in_memory import keep
from clew.runs.settings.keywords import in_python, python_errors, settings_of


def test_strings_dicts_and_keywords_are_the_same_settings() -> None:
    written = config_of(
        "text-lstm",
        ["model.dim=64", "model.cell.name=elman", "model.cell.nonlinearity=relu", "training.steps=7", "seed=3"],
    )
    keywords = {"model__cell": "elman", "model__cell__nonlinearity": "relu", "training": {"steps": 7}, "seed": 3}
    assert config_of("text-lstm", settings_of(["model.dim=64"], keywords)) == written
    nested = {
        "model": {"dim": 64, "cell": {"name": "elman", "nonlinearity": "relu"}},
        "training__steps": 7,
        "seed": np.int64(3),
    }
    assert config_of("text-lstm", settings_of([], nested)) == written


def test_options_of_a_part_follow_the_part_in_any_order() -> None:
    assert settings_of([], {"model__cell__nonlinearity": "relu", "model__cell": "elman"})[0] == 'model.cell="elman"'


def test_paths_tuples_and_none_are_values() -> None:
    keywords = {"data__train": Path("a.txt"), "model__layers": ("lstm", "gru"), "data__corpus": None}
    assert settings_of([], keywords) == ['data.train="a.txt"', 'model.layers=["lstm", "gru"]', "data.corpus=null"]


def test_a_label_map_is_one_value_with_any_names() -> None:
    expected = ['data.label_map={"other thing": null, "v1.2": "x=y"}']
    names = {"other thing": None, "v1.2": "x=y"}
    assert settings_of([], {"data__label_map": names}) == settings_of([], {"data": {"label_map": names}}) == expected


def test_an_unknown_keyword_suggests_arguments_of_the_function_first() -> None:
    for wrong, meant in {"overwite": "overwrite", "callback": "callbacks"}.items():
        with pytest.raises(
            UserError, match=f"^unknown keyword '{wrong}'; did you mean {meant}\\? a setting is section__field=value"
        ):
            clew.train("text-lstm", **{wrong: True})
    with pytest.raises(UserError, match="^fit has no setting 'overwite'; did you mean 'overwrite'\\?"):
        clew.fit(nn.Linear(1, 1), DataLoader([1]), "fit", steps=1, overwite=True, quiet=True)  # type: ignore[call-arg, arg-type]


def test_the_last_of_several_strings_wins() -> None:
    assignments = ["seed=1", "model.cell=gru", "seed=2"]
    assert config_of("text-lstm", settings_of(assignments, {})) == config_of("text-lstm", assignments)


def test_a_string_is_not_converted_to_a_number() -> None:
    """`"1e-3"` is not a number here, unlike `1e-3` on the command line."""
    with pytest.raises(UserError, match="training__learning_rate takes a number, not '1e-3'"), python_errors():
        config_of("text-lstm", settings_of([], {"training__learning_rate": "1e-3"}))


@pytest.mark.parametrize(
    ("assignments", "keywords", "sentence"),
    [
        (
            ["model.dim=3"],
            {"model__dim": 4},
            "model__dim is set twice, by 'model.dim=3' and by model__dim; leave one of them out",
        ),
        (
            [],
            {"model": {"dim": 3}, "model__dim": 4},
            "model__dim is set twice, by model={...} and by model__dim; leave one of them out",
        ),
        (["seed=1", "seed=2"], {"seed": 3}, "seed is set twice, by 'seed=2' and by seed; leave one of them out"),
        (
            [],
            {"model__cell__nonlinearity": "relu", "model__cell": {"name": "elman"}},
            (
                "model__cell is set as a whole by model__cell={...}, and model__cell__nonlinearity by"
                " model__cell__nonlinearity; leave one"
            ),
        ),
        ([], {"steps": 3}, "unknown keyword 'steps'; did you mean training__steps? a setting is section__field=value"),
        ([], {"lr": 0.1}, "unknown keyword 'lr'; did you mean training__learning_rate?"),
        ([], {"mdoel__dim": 3}, "unknown keyword 'mdoel__dim'; did you mean model__dim?"),
        ([], {"model": {3: 4}}, "model={...}: the name of a setting is a text such as 'dim', not 3"),
        (
            [],
            {"model__dim": {1, 2}},
            "model__dim takes a number, a text, True, False, None, a list or a dict, not {1, 2}",
        ),
        ([3], {}, "a setting is a text such as 'training.steps=500', or a keyword such as training__steps=500, not 3"),
    ],
)
def test_mistakes_are_reported(assignments: list[Any], keywords: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        settings_of(assignments, keywords)
    assert str(caught.value).startswith(sentence) and len(str(caught.value)) <= 400


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "unknown field 'dimm' of model; did you mean 'dim'? known: dim",
            "unknown setting model__dimm; did you mean model__dim? known: dim",
        ),
        (
            "unknown field 'lr'; did you mean 'training.learning_rate'?",
            "unknown setting lr; did you mean training__learning_rate?",
        ),
        (
            "set training.compile=false training.parallel=ddp, or",
            "set training__compile=False training__parallel='ddp', or",
        ),
        (
            'data.label_map={"other thing": null} leaves such examples out',
            "data__label_map={'other thing': None} leaves such examples out",
        ),
        ("name a file with data.train=FILE", "name a file with data__train=FILE"),
        ("data.train.csv:3: it is bad", "data.train.csv:3: it is bad"),
        ("in /home/data.train it is", "in /home/data.train it is"),
        (
            "e.g. `clew train classify data.train=my.csv data.text=body`",
            "e.g. `clew.train('classify', data__train='my.csv', data__text='body')`",
        ),
    ],
)
def test_messages_of_the_command_line_are_translated_to_python(sentence: str, expected: str) -> None:
    assert in_python(sentence) == expected


def test_examples_passed_from_python_are_named_by_their_argument() -> None:
    examples = keep([{"a": 1}])
    assert in_python(f"{examples}:1: no column 'text'; name it with data.text=NAME; there are: a") == (
        "data=, example 1: no column 'text'; name it with data__text=NAME; there are: a"
    )
    assert in_python(f"{examples}: no label") == "data=: no label"
    others = keep([{"a": 2}])
    assert in_python(f"data.train: '{examples}' -> '{others}'; leave") == "data__train: other examples in data=; leave"


def test_settings_of_fit_have_no_section() -> None:
    assert (
        in_python("lower training.learning_rate or set training.clip_norm", "training")
        == "lower learning_rate or set clip_norm"
    )
