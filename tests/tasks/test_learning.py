"""Every task's Learning: its statements about a task are true, and a task on an existing kind of data is one line."""

from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.core.wording import on_command_line, worded
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
def test_a_section_has_the_fields_of_all_kinds(name: str) -> None:
    assert issubclass(TASKS[name].section, DataSection)
    with pytest.raises(UserError, match="there is no training data; name your"):
        TASKS[name].learns.read(TASKS[name].section(), 1, Notes())


def test_a_task_without_learning_names_the_recipe_to_fine_tune_it_with() -> None:
    with pytest.raises(UserError) as in_python:
        _ = TASKS["representation"].learns
    assert str(in_python.value).endswith("`clew.train('finetune-classify', transfer__from=RUN, data__train=FILE)`")
    with worded(on_command_line), pytest.raises(UserError) as on_the_command_line:
        _ = TASKS["representation"].learns
    assert str(on_the_command_line.value).endswith("`clew train finetune-classify transfer.from=RUN data.train=FILE`")


@pytest.mark.parametrize("name", LEARNING)
def test_every_field_of_a_section_has_a_description(name: str) -> None:
    assert [
        field for field, info in TASKS[name].section.model_fields.items() if not info.description and field != "test"
    ] == []


def test_only_language_models_learn_from_running_text() -> None:
    assert [name for name, entry in TASKS.items() if entry.is_running] == [
        "language_model",
        "bidirectional_language_model",
    ]


def test_a_recipe_is_printed_with_only_the_fields_in_use() -> None:
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


def test_the_digest_depends_on_contents_of_examples_not_on_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.data.examples import Labelled

    first = [Labelled("a", ("x",), id="file:1")]
    assert examples_digest(first) == examples_digest([Labelled("a", ("x",), id="other:7")])
    assert examples_digest(first) != examples_digest([Labelled("a", ("y",))])
    assert examples_digest(first) != examples_digest([Labelled("a", ("x",), "b")])


def test_a_new_field_with_its_default_does_not_change_the_digest() -> None:
    from typing import NamedTuple

    from clew.data.examples import Labelled

    Longer = NamedTuple("Labelled", [*((name, object) for name in Labelled._fields), ("weight", float)])  # type: ignore[misc]
    Longer.__new__.__defaults__ = (1.0,)
    Longer._field_defaults = {**Labelled._field_defaults, "weight": 1.0}
    default, changed = (Longer("a", ("x",), None, "1", weight) for weight in (1.0, 2.0))
    assert examples_digest([default]) == examples_digest([Labelled("a", ("x",))]) != examples_digest([changed])
