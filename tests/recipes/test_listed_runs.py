"""Runs read by their files alone are listed as the whole library lists them."""

import json
from pathlib import Path

import pytest

from clew.cli.options.forms import all_resolved, generated
from clew.recipes.listed_runs import glance, packed, read_resolved
from clew.recipes.resolving import changes, config_of
from clew.runs.directory import write_config
from clew.runs.folder.summary import summarise
from tests.runs.pretrained import save_pretrained

FROZEN = sorted(path.parent for path in (Path(__file__).parents[1] / "runs" / "frozen").glob("format-3/**/config.json"))


def test_what_listing_verbs_read_is_what_it_is_made_of() -> None:
    for path, content in generated().items():
        assert json.loads(Path(path).read_text(encoding="utf-8")) == json.loads(json.dumps(content)), (
            f"run python -m clew.cli.options.forms: {path}"
        )


def test_the_fields_of_a_recipe_come_back_from_the_table() -> None:
    assert read_resolved() == json.loads(json.dumps(all_resolved()))
    assert len(json.dumps(packed(all_resolved()))) < 80_000


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("shakespeare-lstm", []),
        ("shakespeare-lstm", ["model.cell=gru", "training.steps=7", "model.dim=32"]),
        ("classify", ["data.train=a.csv", "training.epochs=2"]),
        ("tatoeba-transformer", ["training.schedule=constant", "decoding.beams=9"]),
    ],
)
def test_a_run_departs_from_its_recipe_in_the_same_fields_by_either_way(
    recipe: str, settings: list[str], tmp_path: Path
) -> None:
    config = config_of(recipe, settings)
    write_config(tmp_path, config)
    listed = glance(tmp_path, read_resolved())
    assert listed is not None
    assert listed.changes == changes(config)
    whole = summarise(tmp_path)
    assert (listed.run.state, listed.run.measure, listed.run.step) == (whole.state, whole.measure, whole.step)


@pytest.mark.parametrize("folder", FROZEN, ids=lambda path: "-".join(path.parts[-2:]))
def test_a_frozen_run_is_listed_alike_or_by_the_whole_library(folder: Path) -> None:
    listed = glance(folder, read_resolved())
    if listed is not None:
        whole = summarise(folder)
        assert listed.changes == changes(whole.config, folder)
        assert (listed.run.best, listed.run.state, listed.run.seconds) == (whole.best, whole.state, whole.seconds)


def test_runs_that_their_files_do_not_tell_all_of_are_left_to_the_whole_library(tmp_path: Path) -> None:
    save_pretrained(tmp_path / "bert")  # of no recipe here
    assert glance(tmp_path / "bert", read_resolved()) is None
    config = config_of("shakespeare-lstm", ["model.family=gpt", "model.dim=32"])  # fields that the recipe has not
    (tmp_path / "gpt").mkdir()
    write_config(tmp_path / "gpt", config)
    assert glance(tmp_path / "gpt", read_resolved()) is None
