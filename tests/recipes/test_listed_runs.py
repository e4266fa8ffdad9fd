"""Runs listed from their files alone look the same as runs listed by the full library."""

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


def test_generated_tables_are_up_to_date() -> None:
    for path, content in generated().items():
        assert json.loads(Path(path).read_text(encoding="utf-8")) == json.loads(json.dumps(content)), (
            f"run python -m clew.cli.options.forms: {path}"
        )


def test_fields_of_recipes_survive_packing() -> None:
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
def test_both_ways_find_the_same_changes_to_a_recipe(recipe: str, settings: list[str], tmp_path: Path) -> None:
    config = config_of(recipe, settings)
    write_config(tmp_path, config)
    listed = glance(tmp_path, read_resolved())
    assert listed is not None
    assert listed.changes == changes(config)
    summary = summarise(tmp_path)
    assert (listed.run.state, listed.run.measure, listed.run.step) == (summary.state, summary.measure, summary.step)


@pytest.mark.parametrize("folder", FROZEN, ids=lambda path: "-".join(path.parts[-2:]))
def test_frozen_runs_look_the_same_both_ways(folder: Path) -> None:
    listed = glance(folder, read_resolved())
    if listed is not None:
        summary = summarise(folder)
        assert listed.changes == changes(summary.config, folder)
        assert (listed.run.best, listed.run.state, listed.run.seconds) == (summary.best, summary.state, summary.seconds)


def test_runs_without_complete_files_are_left_to_the_full_library(tmp_path: Path) -> None:
    save_pretrained(tmp_path / "bert")  # its recipe is unknown
    assert glance(tmp_path / "bert", read_resolved()) is None
    config = config_of("shakespeare-lstm", ["model.family=gpt", "model.dim=32"])  # has fields that the recipe lacks
    (tmp_path / "gpt").mkdir()
    write_config(tmp_path / "gpt", config)
    assert glance(tmp_path / "gpt", read_resolved()) is None
