from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.core.wording import on_command_line, worded
from clew.layers.cells import CELLS, GRU
from clew.recipes.resolving import config_of
from clew.runs.settings.values import parse_value


def test_an_unknown_recipe_suggests_a_similar_name() -> None:
    with pytest.raises(UserError, match="unknown recipe 'shakespear-lstm'; did you mean 'shakespeare-lstm'"):
        config_of("shakespear-lstm")


def test_a_part_is_given_by_name_or_by_name_with_options() -> None:
    for assignments in (
        ["model.cell={name: elman, nonlinearity: relu}"],
        ['model.cell={"name": "elman", "nonlinearity": "relu"}'],
        ["model.cell=elman", "model.cell.nonlinearity=relu"],
    ):
        assert config_of("text-lstm", assignments).model.cell == {"name": "elman", "nonlinearity": "relu"}
    assert config_of("text-lstm", ["model.cell.forget_bias=1", "model.cell=gru"]).model.cell == "gru"


def test_a_user_defined_entry_works_like_a_built_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CELLS, "mine", GRU)
    assert config_of("text-lstm", ["model.cell=mine", "model.cell.weight_drop=0.5"]).model.cell == {
        "name": "mine",
        "weight_drop": 0.5,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("5.0", 5.0),
        ("true", True),
        ("null", None),
        ("abc", "abc"),
        ('"5"', "5"),
        ("", ""),
        ("[a, 1]", ["a", 1]),
        ("a=b", "a=b"),
    ],
)
def test_values_are_json_or_lists_or_strings(text: str, value) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def yaml_file(folder: Path, text: str) -> str:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("recipe: [", "run.yaml:1: this is not valid YAML"),
        (
            "recipe: text-lstm\nseed: !!python/object/apply:os.system ['touch obeyed']\n",
            "run.yaml:2: this is not valid YAML: could not determine a constructor",
        ),
        (
            "- recipe\n",
            (
                "run.yaml: a run's YAML file needs a line `recipe: NAME` and sections below it; `clew recipes NAME`"
                " prints one"
            ),
        ),
        ("seed: 3\n", "run.yaml: a run's YAML file needs a line `recipe: NAME`"),
        ("", "run.yaml: a run's YAML file needs a line `recipe: NAME`"),
        ("recipe: 3\n", "run.yaml: a run's YAML file needs a line `recipe: NAME`"),
        ("recipe: text-lstm\n5: 3\n", "run.yaml:2: this is not valid YAML: a name is a text, not 5"),
        ("recipe: text-lstn\n", "unknown recipe 'text-lstn'; did you mean 'text-lstm'?"),
        ("recipe: text-lstm\nmodel: {dimm: 3}\n", "unknown field 'dimm' of model; did you mean 'dim'?"),
        ("recipe: text-lstm\nmodel: {dim: '3'}\n", "model.dim takes a whole number, not '3'"),
        ("recipe: text-lstm\nseed: 2020-01-01\n", "seed takes a whole number, not '2020-01-01'"),
        (
            "recipe: text-lstm\ntraining: {learning_rate: .nan}\n",
            "training.learning_rate takes a finite number, not nan",
        ),
        ("recipe: text-lstm\nmodel:\n", "model: model family takes fields, not None"),
    ],
)
def test_mistakes_in_a_yaml_file_are_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    yaml_file(tmp_path, text)
    with pytest.raises(UserError) as error:
        config_of("run.yaml")
    assert str(error.value).startswith(sentence)
    assert not (tmp_path / "obeyed").exists()


def test_a_missing_yaml_file_is_reported() -> None:
    with pytest.raises(
        UserError, match=r"no such file: nowhere.yaml; a recipe is a name from `clew\.recipes\.RECIPES` or a YAML file"
    ):
        config_of("nowhere.yaml")
    with worded(on_command_line), pytest.raises(UserError, match="a name from `clew recipes` or a YAML file"):
        config_of("nowhere.yaml")
    with pytest.raises(UserError, match=r"no such file: x{60}\.\.\.x{55}.yaml; a recipe is a name"):
        config_of("x" * 5000 + ".yaml")


def test_a_yaml_file_that_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("recipe: text-lstm # café".encode("latin1"))
    with pytest.raises(UserError, match="latin.yaml: this is not valid YAML"):
        config_of(str(path))
