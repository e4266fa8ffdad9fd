from pathlib import Path

import pytest

from clew.recipes.running import config_of
from clew.runs.overriding import override
from tests.runs.test_config import yaml_file


def test_a_family_resets_the_model_section_and_nothing_else() -> None:
    config = config_of("shakespeare-gpt", ["model.dim=32", "model.family=llama"])
    assert (config.model.family, config.model.dim, config.model.num_layers) == ("llama", 32, 6)
    assert config.training == config_of("shakespeare-gpt").training
    same = config_of("shakespeare-gpt", ["model.family=gpt"])
    assert same.model == config_of("shakespeare-gpt").model


def test_an_option_keeps_the_others_of_its_part() -> None:
    config = config_of("text-lstm", ["training.schedule.floor=0.5"])
    assert config.training.schedule == {"name": "cosine", "warmup": 0.05, "floor": 0.5}


def test_later_settings_win() -> None:
    assert config_of("text-lstm", ["seed=2", "seed=3"]).seed == 3


def test_a_yaml_file_is_laid_over_the_recipe_it_names(tmp_path: Path) -> None:
    text = (
        "recipe: shakespeare-gpt\nseed: 7\nmodel:\n  dim: 64\ntask: {name: language_model, tied: "
        "false}\ntraining: {schedule: {name: linear}}\n"
    )
    config = config_of(yaml_file(tmp_path, text), ["seed=8"])
    assert (config.recipe, config.seed, config.model.dim) == ("shakespeare-gpt", 8, 64)
    assert (config.model.num_layers, config.training.schedule) == (4, {"name": "linear"})
    assert (config.task.tied, config.task.bias) == (False, False), "the recipe's own bias stays"


def test_a_family_in_a_yaml_file_resets_the_section_wherever_it_stands(tmp_path: Path) -> None:
    text = "recipe: shakespeare-gpt\nmodel:\n  dim: 64\n  family: llama\n"
    assert config_of(yaml_file(tmp_path, text)).model.model_dump()["num_kv_heads"] is None
    assert config_of(yaml_file(tmp_path, text)).model.dim == 64


@pytest.mark.parametrize("line", ["model: 5", "model: [gpt]", "task: null"])
def test_a_family_set_over_a_section_that_is_none_resets_it(tmp_path: Path, line: str) -> None:
    path = yaml_file(tmp_path, f"recipe: text-lstm\n{line}\n")
    section, given = ("model", "model.family=gpt") if line.startswith("model") else ("task", "task.name=language_model")
    assert getattr(config_of(path, [given]), section) == getattr(config_of("text-lstm", ["model.family=gpt"]), section)


def test_overriding_leaves_the_settings_given_alone() -> None:
    settings = {"model": {"family": "gpt", "dim": 3}}
    assert override(settings, ["model.dim=4"]) == {"model": {"family": "gpt", "dim": 4}}
    assert settings == {"model": {"family": "gpt", "dim": 3}}
