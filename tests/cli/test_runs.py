import json
from pathlib import Path

import pytest

from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import append_metrics, write_config
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused
from tests.runs.small import lstm_settings


def new_run(folder: str, *settings: str, **measured: float) -> Path:
    path = Path(folder)
    path.mkdir(parents=True)
    config = config_of("shakespeare-lstm", settings)
    write_config(path, config)
    if measured:
        scores = {f"best.{name.replace('_', '.')}": value for name, value in measured.items()}
        append_metrics(path, {"step": config.training.steps, "best.step": 500, **scores})
    return path


@pytest.fixture
def three_runs(clew: Clew) -> None:
    new_run("runs/b", "model.cell=gru", valid_loss=1.5, valid_perplexity=4.48, test_perplexity=4.6, test_loss=1.53)
    new_run("runs/a", "seed=2", "training.steps=200", valid_loss=1.7, valid_perplexity=5.47)
    new_run("runs/study/c")


@pytest.mark.usefixtures("three_runs")
def test_the_list_shows_recipe_progress_scores_and_changes(clew: Clew) -> None:
    result = clew("runs")
    assert (result.status, result.err) == (0, "")
    header, *lines = result.out.splitlines()
    assert header.split() == [
        "run",
        "recipe",
        "steps",
        "valid",
        "loss",
        "perplexity",
        "test",
        "perplexity",
        "state",
        "size",
        "changed",
    ]
    assert [line.split()[0] for line in lines] == ["runs/a", "runs/b", "runs/study/c"]
    assert lines[0].split()[:5] == ["runs/a", "shakespeare-lstm", "200/200", "1.7000", "5.47"]
    assert "finished" in lines[0] and lines[0].endswith("seed=2 training.steps=200")
    assert "4.60" in lines[1] and lines[1].endswith("model.cell=gru")
    assert "0/1500" in lines[2] and "interrupted" in lines[2]


@pytest.mark.usefixtures("three_runs")
def test_settings_changed_in_all_runs_are_shown_once(clew: Clew) -> None:
    result = clew("runs", "runs/study")
    assert "all of them" not in result.out
    for name in ("d", "e"):
        new_run(f"runs/alike/{name}", "model.dim=64", f"seed={ord(name)}")
    lines = clew("runs", "runs/alike").out.splitlines()
    assert lines[-1] == "changed in all runs: model.dim=64"
    assert [line.split()[-1] for line in lines[1:3]] == ["seed=100", "seed=101"]


@pytest.mark.usefixtures("three_runs")
@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("name", "a b c"),
        ("valid", "b a c"),
        ("test", "b a c"),
        ("steps", "b a c"),
        ("size", None),
        ("time", None),
        ("newest", None),
    ],
)
def test_runs_are_sorted_by_the_chosen_key(clew: Clew, sort: str, order: str | None) -> None:
    def names(*arguments: str) -> list[str]:
        return [line.split()[0][-1] for line in clew("runs", "--sort", sort, *arguments).out.splitlines()[1:]]

    sorted_names = names()
    assert sorted(sorted_names) == ["a", "b", "c"]
    assert order is None or sorted_names == order.split()
    if sort == "name":
        assert names("--reverse") == sorted_names[::-1]


@pytest.mark.usefixtures("three_runs")
def test_json_has_every_fact_of_a_run(clew: Clew) -> None:
    Path("runs/broken").mkdir()
    Path("runs/broken/config.json").write_text("{")
    rows = [json.loads(line) for line in clew("runs", "--json").out.splitlines()]
    assert [row["folder"] for row in rows] == ["runs/a", "runs/b", "runs/study/c", "runs/broken"]
    first = {
        key: rows[1][key]
        for key in ("recipe", "changes", "seed", "step", "steps", "state", "failure", "averaged", "seconds")
    }
    assert first == {
        "recipe": "shakespeare-lstm",
        "changes": {"model.cell": "gru"},
        "seed": 1,
        "step": 1500,
        "steps": 1500,
        "state": "finished",
        "failure": None,
        "averaged": None,
        "seconds": None,
    }
    assert (rows[1]["valid.loss"], rows[1]["test.perplexity"]) == (1.5, 4.6) and rows[1]["bytes"] > 0
    assert rows[3]["fault"].startswith("runs/broken/config.json is not JSON")


def test_broken_folders_are_named_and_skipped(clew: Clew) -> None:
    new_run("runs/fine", valid_loss=1.5)
    for name, content in (("json", "{"), ("format", '{"format": 99}'), ("list", "[1]"), ("bytes", "\udcff")):
        Path(f"runs/{name}").mkdir()
        Path(f"runs/{name}/config.json").write_text(content, errors="surrogateescape")
    Path("runs/copied").mkdir()
    Path("runs/copied/metrics.jsonl").touch()
    result = clew("runs")
    assert result.status == 0
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == ["runs/fine"]
    assert [line.split(" is ")[0].split(" has ")[0] for line in result.err.splitlines()] == [
        "cannot be read: runs/bytes/config.json",
        "cannot be read: runs/copied",
        "cannot be read: runs/format/config.json",
        "cannot be read: runs/json/config.json",
        "cannot be read: runs/list/config.json",
    ]


def test_fits_are_listed_by_their_metrics(clew: Clew) -> None:
    for name, steps in (("fit", 20), ("part", 7)):
        Path(f"runs/{name}").mkdir(parents=True)
        Path(f"runs/{name}/environment.json").write_text("{}")
        append_metrics(Path(f"runs/{name}"), {"step": steps, "valid.loss": 0.75, "seconds": 2.0})
    append_metrics(Path("runs/fit"), {"step": 20, "best.step": 10, "best.valid.loss": 0.5, "seconds": 3.0})
    result = clew("runs")
    assert (result.status, result.err) == (0, "")
    whole, part = (line.split() for line in result.out.splitlines()[1:])
    assert whole[:4] == ["runs/fit", "clew.fit", "20/20", "0.5000"] and "finished" in whole
    assert part[:4] == ["runs/part", "clew.fit", "7", "0.7500"] and "interrupted" in part
    rows = [json.loads(line) for line in clew("runs", "--json").out.splitlines()]
    assert [(row["recipe"], row["step"], row["steps"], row["seed"]) for row in rows] == [
        ("clew.fit", 20, 20, None),
        ("clew.fit", 7, None, None),
    ]


def test_a_run_with_a_users_code_needs_that_file(clew: Clew) -> None:
    folder = new_run("runs/own")
    config = json.loads((folder / "config.json").read_text())
    del config["sha256"]
    (folder / "config.json").write_text(json.dumps({**config, "task": {"name": "mine"}}))
    (folder / "code.py").write_text("x = 1\n")
    result = clew("runs")
    assert result.err == (
        "cannot be read: runs/own was trained with a user's code, and needs --code FILE; the run's copy is"
        " runs/own/code.py\n"
    )
    assert "unknown task 'mine'" in clew("runs", "--code", "runs/own/code.py").err


def test_fields_that_another_family_lacks_are_no_changes(clew: Clew) -> None:
    new_run("runs/lstm")
    new_run("runs/gpt", "model={family: gpt}")
    changed = clew("runs").out.splitlines()[1]
    assert "model.family=gpt" in changed and "null" not in changed


def test_checkpoints_of_other_programs_are_skipped(clew: Clew) -> None:
    new_run("runs/fine", valid_loss=1.5)
    for name, content in (("bert", '{"model_type": "bert"}'), ("page", '{"title": "mine"}')):
        Path(f"runs/{name}/checkpoints").mkdir(parents=True)
        Path(f"runs/{name}/config.json").write_text(content)
    result = clew("runs")
    assert result.err == "" and [line.split()[0] for line in result.out.splitlines()[1:]] == ["runs/fine"]
    assert (
        "runs/bert is a Hugging Face checkpoint; `clew import runs/bert` converts it to a run"
        in clew("compare", "runs/bert").err
    )


def test_folders_without_runs_are_reported(clew: Clew) -> None:
    nothing = "there is no run in {}; train one first, e.g. `clew train shakespeare-lstm`\n"
    assert clew("runs") == (0, "", nothing.format("runs"))
    Path("empty").mkdir()
    assert clew("runs", "empty") == (0, "", nothing.format("empty"))
    assert clew("runs", "empty", "--json") == (0, "", nothing.format("empty"))
    assert_refused(clew("runs", "nowhere"), "no such folder: nowhere; give the folder that contains your runs")


def test_an_unknown_recipe_is_marked(clew: Clew) -> None:
    new_run("runs/mine")
    config = json.loads(Path("runs/mine/config.json").read_text())
    del config["sha256"]
    Path("runs/mine/config.json").write_text(json.dumps({**config, "recipe": "of-my-own"}))
    assert clew("runs").out.splitlines()[1].endswith("(recipe unknown here)")


def test_a_trained_run_is_listed_with_its_duration(clew: Clew, tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=4))
    (row,) = [json.loads(line) for line in clew("runs", "--json").out.splitlines()]
    assert row["seconds"] > 0 and row["state"] == "finished" and row["valid.bits_per_character"] > 0
