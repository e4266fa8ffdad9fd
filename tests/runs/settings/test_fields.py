from pathlib import Path

import pytest
import yaml

from clew.recipes import RECIPES
from clew.recipes.resolving import config_of
from clew.runs.config import resolve
from clew.runs.settings.fields import commented_yaml, differences


def test_differences_name_the_fields_that_differ() -> None:
    first = config_of("text-lstm", ["data.train=a.txt"])
    second = config_of("text-lstm", ["data.train=b.txt", "task.bias=false", "training.schedule=constant"])
    assert differences(first, second) == [
        "data.train: 'a.txt' -> 'b.txt'",
        "task.bias: True -> False",
        "training.schedule: {'name': 'cosine', 'warmup': 0.05, 'floor': 0.02} -> 'constant'",
    ]
    assert differences(first, first) == []


def test_a_warmup_in_steps_equals_the_same_warmup_as_a_share() -> None:
    """Earlier runs store a number of warm-up steps; recipes now give a share of the steps."""
    share = config_of("text-lstm")
    steps = config_of("text-lstm", ["training.schedule.warmup=100"])
    assert differences(share, steps) == differences(steps, share) == []
    longer = config_of("text-lstm", ["training.steps=4000"])
    assert differences(steps, longer) == ["training.steps: 2000 -> 4000"]
    other = config_of("text-lstm", ["training.schedule.warmup=99"])
    assert [line.partition(":")[0] for line in differences(share, other)] == ["training.schedule"]
    floor = config_of("text-lstm", ["training.schedule.warmup=100", "training.schedule.floor=0.1"])
    assert [line.partition(":")[0] for line in differences(share, floor)] == ["training.schedule"]


@pytest.mark.parametrize("name", RECIPES)
def test_the_commented_yaml_of_a_recipe_reads_back_as_the_same_config(name: str, tmp_path: Path) -> None:
    config = config_of(name)
    text = commented_yaml(config)
    assert resolve(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))) == config
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert config_of(str(path)) == config


def test_the_commented_yaml_explains_its_fields() -> None:
    lines = commented_yaml(config_of("text-lstm", ['data.train="a: b # c.txt"'])).splitlines()
    assert "  dim: 512  # width of the hidden state" in lines
    assert yaml.safe_load("\n".join(lines))["data"]["train"] == "a: b # c.txt"
