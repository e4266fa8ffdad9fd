"""Every task's Learning: what an entry says of it holds, and a task on an existing kind of data is one line."""

from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.data.kinds.section import DataSection
from clew.data.kinds.tagged import TAGGED
from clew.data.notes import Notes
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.config import readers_of
from clew.runs.settings.fields import commented_yaml
from clew.tasks import TASKS
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, examples_digest
from clew.tasks.tagging import TAGGING, Tagger, TaggingConfig, build_tagger, train_tagging_vocabularies

LEARNING = [name for name, entry in TASKS.items() if entry.learning is not None]


@pytest.mark.parametrize("name", LEARNING)
def test_a_section_has_what_all_kinds_share(name: str) -> None:
    assert issubclass(TASKS[name].section, DataSection)
    with pytest.raises(UserError, match="there is no training data; name your"):
        TASKS[name].learns.read(TASKS[name].section(), 1, Notes())


@pytest.mark.parametrize("name", LEARNING)
def test_every_field_of_a_section_says_what_it_is(name: str) -> None:
    assert [
        field for field, info in TASKS[name].section.model_fields.items() if not info.description and field != "test"
    ] == []


def test_only_a_language_models_body_learns_from_running_text() -> None:
    assert [name for name, entry in TASKS.items() if entry.is_running] == [
        "language_model",
        "bidirectional_language_model",
    ]


def test_a_recipe_is_printed_with_the_fields_that_count_alone() -> None:
    lines = commented_yaml(config_of("tag"))
    assert "\n  tags: null" in lines and "\n  size: 10000" not in lines and "\n  directions" not in lines
    assert readers_of("directions") == ["translation", "sequence"]


class ShoutingConfig(TaggingConfig):
    name: str = "shouting"  # type: ignore[assignment]


def test_a_task_on_tagged_words_is_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = TaskEntry(
        config=ShoutingConfig,
        build=build_tagger,
        vocabularies=TAGGING.vocabularies,
        learning=Examples(TAGGED, train_tagging_vocabularies),
    )
    monkeypatch.setitem(TASKS, "shouting", entry)
    monkeypatch.chdir(tmp_path)
    Path("words.conll").write_text("".join(f"a{n} DT\nCAT NN\n\n" for n in range(30)))
    settings = [
        "task=shouting",
        "data.train=words.conll",
        "model.dim=8",
        "training.steps=2",
        "training.schedule=constant",
        "device=cpu",
    ]
    result = run_recipe("tag", settings, out=Path("run"))
    assert isinstance(result.run.task, Tagger) and result.run.config.task.name == "shouting"
    assert set(result.valid.measures) >= {"loss", "accuracy"} and not any(
        "baseline" in name for name in result.valid.measures
    )


def test_examples_are_told_apart_by_what_they_say_and_not_by_where_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.data.examples import Labelled

    first = [Labelled("a", ("x",), id="file:1")]
    assert examples_digest(first) == examples_digest([Labelled("a", ("x",), id="other:7")])
    assert examples_digest(first) != examples_digest([Labelled("a", ("y",))])
    assert examples_digest(first) != examples_digest([Labelled("a", ("x",), "b")])


def test_a_field_that_examples_get_later_changes_no_hash_while_it_holds_its_default() -> None:
    from typing import NamedTuple

    from clew.data.examples import Labelled

    Longer = NamedTuple("Labelled", [*((name, object) for name in Labelled._fields), ("weight", float)])  # type: ignore[misc]
    Longer.__new__.__defaults__ = (1.0,)
    Longer._field_defaults = {**Labelled._field_defaults, "weight": 1.0}
    same, other = (Longer("a", ("x",), None, "1", weight) for weight in (1.0, 2.0))
    assert examples_digest([same]) == examples_digest([Labelled("a", ("x",))]) != examples_digest([other])
