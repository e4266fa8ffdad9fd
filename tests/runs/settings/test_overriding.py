from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.data.kinds.tagged import TaggedData
from clew.recipes.resolving import config_of
from clew.runs.settings.overriding import override
from clew.tasks import TASKS
from tests.runs.test_config import yaml_file


def test_a_family_resets_the_model_section_and_nothing_else() -> None:
    config = config_of("shakespeare-gpt", ["model.dim=32", "model.family=llama"])
    assert (config.model.family, config.model.dim, config.model.num_layers) == ("llama", 32, 6)
    assert config.training == config_of("shakespeare-gpt").training
    same = config_of("shakespeare-gpt", ["model.family=gpt"])
    assert same.model == config_of("shakespeare-gpt").model


def test_another_task_resets_the_batching_of_the_recipe(tmp_path: Path) -> None:
    assert config_of("text-lstm").training.batching == "streams"
    config = config_of("text-lstm", ["task=classification", "data.train=x.csv"])
    assert config.training.batching == "windows" and config.training.length == config_of("text-lstm").training.length
    assert config_of("text-lstm", ["training.batching=streams", "task=language_model"]).training.batching == "streams"
    file = yaml_file(tmp_path, "recipe: text-lstm\ntraining: {batching: streams}\n")
    assert config_of(str(file), ["task=classification"]).training.batching == "streams"


def test_an_empty_section_changes_nothing() -> None:
    assert config_of("text-lstm", ["task={}", "model={}", "training={}"]) == config_of("text-lstm")


def test_an_option_keeps_the_other_options_of_its_part() -> None:
    config = config_of("text-lstm", ["training.schedule.floor=0.5"])
    assert config.training.schedule == {"name": "cosine", "warmup": 0.05, "floor": 0.5}


def test_later_settings_win() -> None:
    assert config_of("text-lstm", ["seed=2", "seed=3"]).seed == 3


def test_a_yaml_file_overrides_the_recipe_it_names(tmp_path: Path) -> None:
    text = (
        "recipe: shakespeare-gpt\nseed: 7\nmodel:\n  dim: 64\ntask: {name: language_model, tied: "
        "false}\ntraining: {schedule: {name: linear}}\n"
    )
    config = config_of(yaml_file(tmp_path, text), ["seed=8"])
    assert (config.recipe, config.seed, config.model.dim) == ("shakespeare-gpt", 8, 64)
    assert (config.model.num_layers, config.training.schedule) == (4, {"name": "linear"})
    assert (config.task.tied, config.task.bias) == (False, False), "the recipe's own bias stays"


def test_a_family_in_a_yaml_file_resets_the_section_in_any_order(tmp_path: Path) -> None:
    text = "recipe: shakespeare-gpt\nmodel:\n  dim: 64\n  family: llama\n"
    assert config_of(yaml_file(tmp_path, text)).model.model_dump()["num_kv_heads"] is None
    assert config_of(yaml_file(tmp_path, text)).model.dim == 64


@pytest.mark.parametrize("line", ["model: 5", "model: [gpt]", "task: null"])
def test_a_family_replaces_an_invalid_section(tmp_path: Path, line: str) -> None:
    path = yaml_file(tmp_path, f"recipe: text-lstm\n{line}\n")
    section, assignment = (
        ("model", "model.family=gpt") if line.startswith("model") else ("task", "task.name=language_model")
    )
    assert getattr(config_of(path, [assignment]), section) == getattr(
        config_of("text-lstm", ["model.family=gpt"]), section
    )


def test_overriding_does_not_modify_its_argument() -> None:
    settings = {"model": {"family": "gpt", "dim": 3}}
    assert override(settings, ["model.dim=4"]) == {"model": {"family": "gpt", "dim": 4}}
    assert settings == {"model": {"family": "gpt", "dim": 3}}


def test_a_task_resets_its_own_section_and_the_data() -> None:
    config = config_of("sentiment-lstm", ["data.train=words.conll", "task=tagging", "data.tags=2"])
    assert config.task == TASKS["tagging"].config()
    assert config.data == TaggedData(train="words.conll", tags=2)
    assert config.model == config_of("sentiment-lstm").model
    again = config_of("tag", ["task=tagging", "data.valid_fraction=0.3"])
    assert again.data == TaggedData(valid_fraction=0.3) and again.task == TASKS["tagging"].config()


def test_a_task_keeps_the_shared_data_fields_of_a_yaml_file(tmp_path: Path) -> None:
    text = "recipe: classify\ndata:\n  train: mine.conll\n  valid_fraction: 0.2\n  label: queue\n"
    config = config_of(yaml_file(tmp_path, text), ["task=tagging"])
    assert config.data == TaggedData(train="mine.conll", valid_fraction=0.2)
    named = config_of(yaml_file(tmp_path, "recipe: classify\ntask: tagging\ndata: {train: mine.conll}\n"))
    assert named.data == TaggedData(train="mine.conll") and named.task == TASKS["tagging"].config()


def test_another_task_name_keeps_the_shared_data_fields() -> None:
    config = config_of("sentiment-lstm", ["task.name=tagging"])
    assert config.data == TaggedData(corpus="sentiment-sample") and config.task == TASKS["tagging"].config()


def test_an_unknown_task_is_rejected() -> None:
    with pytest.raises(UserError, match="unknown task 'taging'; did you mean 'tagging'?"):
        config_of("classify", ["task=taging"])
