"""Configs of format 1, whose section `data` had the fields of every kind, are read as those of format 2; what is read stays as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.recipes.running import config_of
from clew.runs.directory import json_hash, read_config, write_config
from clew.runs.embedding import Source
from clew.runs.upgrading import DATA_1, FORMAT, upgraded
from clew.tasks import TASKS
from clew.text.train import train_word

SET = {"size": 7, "words": "form", "tags": 4, "label": "queue", "turns": 2, "directions": ["de-en"], "limit": 3}
"""Fields that some kinds read and others never did."""
RECIPES = ("text-lstm", "text-elmo", "text-bert", "translate", "copy", "parse", "classify", "tag", "answer-facts", "classify-trees")


def old_settings(recipe: str, **data: Any) -> dict[str, Any]:
    """A recipe's settings as format 1 had them."""
    settings = config_of(recipe).model_dump(mode="json")
    defaults: dict[str, Any] = dict.fromkeys(DATA_1)
    return {**settings, "data": {**defaults, "phrases": False, "size": 10_000, "shortest": 1, "longest": 20, **settings["data"], **data}}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_config_of_format_1_has_what_its_task_reads(recipe: str) -> None:
    config = config_of(recipe)
    fields = type(config.data).model_fields
    assert upgraded(old_settings(recipe)) == config.model_dump(mode="json")
    kept = {name: value for name, value in SET.items() if name in fields}
    assert upgraded(old_settings(recipe, **SET))["data"] == {**config.data.model_dump(mode="json"), **kept}


def test_every_field_of_format_1_is_still_read_by_some_task() -> None:
    assert {name for entry in TASKS.values() for name in entry.section.model_fields} >= DATA_1


def test_what_was_never_a_field_is_refused_as_ever(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, **old_settings("tag", wrods=1)}))
    with pytest.raises(UserError, match="config.json: unknown field 'wrods' of data; did you mean 'words'?"):
        read_config(tmp_path)


def test_reading_an_old_config_leaves_its_file_alone(tmp_path: Path) -> None:
    content = {"format": 1, **old_settings("tag"), "files": {}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**content, "sha256": json_hash(content)}))
    before = path.read_bytes()
    assert read_config(tmp_path) == config_of("tag")
    assert path.read_bytes() == before
    write_config(tmp_path, read_config(tmp_path))
    assert json.loads(path.read_text())["format"] == FORMAT and read_config(tmp_path) == config_of("tag")


def test_a_config_of_this_format_has_no_field_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": FORMAT, **old_settings("tag")}))
    with pytest.raises(UserError, match="of data; it is read by the task"):
        read_config(tmp_path)


def test_a_run_that_another_keeps_is_upgraded_when_it_is_asked_and_hashed_as_it_was_kept() -> None:
    kept = Source(old_settings("text-elmo"), train_word(["a b"]), "elmo", "hash")
    again = Source.from_json(kept.to_json())
    assert again.config == config_of("text-elmo")
    assert again.hash == kept.hash and json.loads(again.to_json())["config"] == old_settings("text-elmo")
