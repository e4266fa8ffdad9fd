"""Configs of earlier formats are read in the current format with their original meaning; the files are not changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.core.files import json_hash
from clew.recipes.opening import resumed
from clew.recipes.resolving import config_of
from clew.runs.directory import read_config, write_config
from clew.runs.embedding import BorrowedBody
from clew.runs.folder.run_files import FORMAT
from clew.runs.settings.upgrading import DATA_1, TASK_2, upgraded
from clew.tasks import TASKS
from clew.text.train import train_word
from clew.training.checkpoints import current_facts

SET = {"size": 7, "words": "form", "tags": 4, "label": "queue", "turns": 2, "directions": ["de-en"], "limit": 3}
"""Fields that only some kinds of data read."""
RECIPES = (
    "text-lstm",
    "text-elmo",
    "text-bert",
    "translate",
    "copy",
    "parse",
    "classify",
    "tag",
    "answer-facts",
    "classify-trees",
)


def old_settings(recipe: str, **data: Any) -> dict[str, Any]:
    """A recipe's settings as format 1 stored them."""
    settings = config_of(recipe).model_dump(mode="json")
    defaults: dict[str, Any] = dict.fromkeys(DATA_1)
    return {
        **settings,
        "data": {
            **defaults,
            "phrases": False,
            "size": 10_000,
            "shortest": 1,
            "longest": 20,
            **settings["data"],
            **data,
        },
    }


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_config_of_format_1_keeps_the_fields_its_task_reads(recipe: str) -> None:
    config = config_of(recipe)
    fields = type(config.data).model_fields
    assert upgraded(old_settings(recipe)) == config.model_dump(mode="json")
    kept = {name: value for name, value in SET.items() if name in fields}
    assert upgraded(old_settings(recipe, **SET))["data"] == {**config.data.model_dump(mode="json"), **kept}


def test_every_field_of_format_1_is_still_read_by_some_task() -> None:
    assert {name for entry in TASKS.values() for name in entry.section.model_fields} >= DATA_1


def test_unknown_fields_of_an_old_config_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, **old_settings("tag", wrods=1)}))
    with pytest.raises(UserError, match="config.json: unknown field 'wrods' of data; did you mean 'words'?"):
        read_config(tmp_path)


def test_reading_an_old_config_does_not_change_its_file(tmp_path: Path) -> None:
    content = {"format": 1, **old_settings("tag"), "files": {}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**content, "sha256": json_hash(content)}))
    before = path.read_bytes()
    assert read_config(tmp_path) == config_of("tag")
    assert path.read_bytes() == before
    write_config(tmp_path, read_config(tmp_path))
    assert json.loads(path.read_text())["format"] == FORMAT and read_config(tmp_path) == config_of("tag")


def test_a_current_config_with_fields_of_another_kind_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": FORMAT, **old_settings("tag")}))
    with pytest.raises(UserError, match="of data; it is read by the task"):
        read_config(tmp_path)


def test_a_borrowed_body_is_upgraded_but_keeps_its_stored_hash() -> None:
    stored = BorrowedBody(old_settings("text-elmo"), train_word(["a b"]), "elmo", "hash")
    loaded = BorrowedBody.from_json(stored.to_json())
    assert loaded.config == config_of("text-elmo")
    assert loaded.hash == stored.hash and json.loads(loaded.to_json())["config"] == old_settings("text-elmo")


def old_config(folder: Path, recipe: str, format: int, **sections: Any) -> Path:
    """Write a run's folder with a config of an earlier format, without later fields."""
    settings = config_of(recipe).model_dump(mode="json")
    settings["task"] = {name: value for name, value in settings["task"].items() if name not in TASK_2}
    for name, fields in sections.items():
        settings[name] = {**settings[name], **fields}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"format": format, **settings}))
    return folder


@pytest.mark.parametrize("format", [1, 2])
def test_the_sum_of_an_earlier_run_still_includes_the_embedding(tmp_path: Path, format: int) -> None:
    assert (
        read_config(old_config(tmp_path, "tag", format, embedding={"mix": "sum"})).embedding.mix == "sum_with_embedding"
    )
    assert read_config(old_config(tmp_path, "tag", format, embedding={"mix": "last"})).embedding.mix == "last"
    assert read_config(old_config(tmp_path, "tag", FORMAT, embedding={"mix": "sum"})).embedding.mix == "sum"


@pytest.mark.parametrize("format", [1, 2])
def test_an_earlier_run_keeps_its_sentence_pairing(tmp_path: Path, format: int) -> None:
    assert read_config(old_config(tmp_path, "text-bert", format)).task.pairing == "released"  # type: ignore[attr-defined]
    assert config_of("text-bert").task.pairing == "half"  # type: ignore[attr-defined]


GEOMETRIC = {"name": "alibi", "slopes": "geometric"}
LEARNED = {"name": "content", "learned": True}


@pytest.mark.parametrize(
    ("model", "upgraded_model"),
    [
        ({"family": "gpt", "num_heads": 6, "position": "alibi"}, {"position": GEOMETRIC}),
        ({"family": "gpt", "num_heads": 8, "position": "alibi"}, {"position": "alibi"}),
        ({"family": "gpt", "num_heads": 6, "position": "learned"}, {"position": "learned"}),
        ({"family": "transformer", "num_heads": 6, "position": {"name": "alibi"}}, {"position": GEOMETRIC}),
        ({"family": "seq2seq", "score": "content"}, {"score": LEARNED}),
        (
            {"family": "seq2seq", "score": {"name": "content", "sharpness": 5.0}},
            {"score": {**LEARNED, "sharpness": 5.0}},
        ),
        ({"family": "seq2seq", "score": "general"}, {"score": "general"}),
        (
            {"family": "mixed", "layers": ["lstm", {"name": "attention", "score": "content"}]},
            {"layers": ["lstm", {"name": "attention", "score": LEARNED}]},
        ),
        (
            {"family": "mixed", "layers": ["lstm", {"name": "attention", "num_heads": 3, "position": "alibi"}]},
            {"layers": ["lstm", {"name": "attention", "num_heads": 3, "position": GEOMETRIC}]},
        ),
    ],
)
def test_an_earlier_run_keeps_its_slopes_and_learnt_sharpness(
    model: dict[str, Any], upgraded_model: dict[str, Any]
) -> None:
    for format in (1, 2):
        assert upgraded({"model": model}, format)["model"] == {**model, **upgraded_model}
    assert upgraded({"model": model}, FORMAT)["model"] == model
    assert upgraded(upgraded({"model": model}, 2), 2) == upgraded({"model": model}, 2)


def test_a_body_borrowed_earlier_keeps_its_slopes_and_hash() -> None:
    settings = config_of("text-gpt", ["model.num_heads=6", "model.dim=12", "model.position=alibi"]).model_dump(
        mode="json"
    )
    before = BorrowedBody.from_json(BorrowedBody(settings, train_word(["a b"]), "gpt", "hash").to_json())
    now = BorrowedBody.from_json(BorrowedBody(settings, train_word(["a b"]), "gpt", "hash", FORMAT).to_json())
    assert before.config.model.position == GEOMETRIC and now.config.model.position == "alibi"  # type: ignore[attr-defined]
    assert "format" not in json.loads(before.to_json()) and before.hash != now.hash


def test_settings_of_an_earlier_checkpoint_are_upgraded_before_comparison() -> None:
    facts = {
        "parameters": 7,
        "settings": {"family": "gpt", "num_heads": 6, "position": "alibi"},
        "task": {"name": "language_model"},
    }
    assert current_facts(facts, 2)["settings"]["position"] == GEOMETRIC
    assert current_facts(facts, FORMAT) == facts
    assert current_facts({"hash": "x"}, 2) == {"hash": "x"}


@pytest.mark.parametrize("words", [(), ("model.num_heads=3", "model.position=alibi")])
def test_an_earlier_run_is_resumed_by_its_original_command(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = old_config(tmp_path / "run", "text-gpt", 2, model={"num_heads": 3, "dim": 12, "position": "alibi"})
    (folder / "metrics.jsonl").write_text("")
    _, config = resumed("text-gpt", words, config_of("text-gpt"), folder)
    assert config.model.position == GEOMETRIC  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="a resumed run keeps its settings, but these changed: model.position"):
        resumed("text-gpt", ["model.position=learned"], config_of("text-gpt"), folder)


def test_an_earlier_run_is_found_by_its_settings_and_keeps_its_pairing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    folder = old_config(Path("runs/text-bert"), "text-bert", 2, model={"num_layers": 3})
    (folder / "metrics.jsonl").write_text("")
    words = ["model.num_layers=3"]
    resumed_folder, config = resumed("text-bert", words, config_of("text-bert", words), None)
    assert resumed_folder == folder and config.task.pairing == "released"  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="these changed: task.pairing: 'released' -> 'half'"):
        resumed("text-bert", ["task.pairing=half"], config_of("text-bert"), folder)
