import json
import signal
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.recipes.many import Planned, is_done, plan_grid, run_planned
from clew.recipes.resolving import changes, config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.lock import locked
from clew.runs.folder.run_files import CONFIG, read_metrics
from clew.runs.folder.summary import summarise
from clew.training.report import Silence
from clew.training.signals import Interrupted
from tests.runs.small import lstm_settings, write_text


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


class Stopper(Silence):
    """Interrupts training at a step."""

    def __init__(self, step: int):
        self.at = step

    def step(self, record, steps, tokens_per_second) -> None:
        if record.step == self.at:
            signal.raise_signal(signal.SIGINT)


def run_all(planned: list[Planned]) -> None:
    for each in planned:
        if not is_done(each):
            run_planned(each)


def names(planned: list[Planned]) -> list[str]:
    return [str(each.folder) for each in planned]


@pytest.mark.slow
def test_a_run_of_a_grid_is_bit_identical_to_a_single_run(tmp_path: Path) -> None:
    assignments = [*lstm_settings(tmp_path, steps=5), "model.dropout=0.2"]
    run_all(plan_grid("text-lstm", [*assignments, "model.cell=gru,lstm", "seed=1,2"]))
    run_recipe("text-lstm", [*assignments, "model.cell=lstm", "seed=2"], out=Path("alone"))
    expected, actual = (
        read_weights(folder / "model.safetensors")
        for folder in (Path("alone"), Path("runs/text-lstm-cell=lstm-seed=2"))
    )
    assert expected.keys() == actual.keys() and all(
        torch.equal(value, actual[name]) for name, value in expected.items()
    )
    settings = json.loads((Path("alone") / CONFIG).read_text())
    assert json.loads((Path("runs/text-lstm-cell=lstm-seed=2") / CONFIG).read_text()) == settings


def test_finished_runs_are_done_and_interrupted_ones_resume(tmp_path: Path) -> None:
    assignments = [*lstm_settings(tmp_path, steps=8), "seed=1,2"]
    first, second = plan_grid("text-lstm", assignments)
    run_planned(first)
    with pytest.raises(Interrupted):
        run_planned(second, report=Stopper(5))
    again = plan_grid("text-lstm", assignments)
    assert names(again) == names([first, second])
    assert [is_done(each) for each in again] == [True, False]
    assert [summarise(each.folder).state for each in again] == ["finished", "interrupted"]
    run_planned(again[1])
    assert is_done(again[1])
    run_recipe("text-lstm", [*assignments[:-1], "seed=2"], out=Path("straight"))
    measured = [
        [{**r, "tokens_per_second": 0, "seconds": 0} for r in read_metrics(folder)]
        for folder in (Path("straight"), second.folder)
    ]
    assert measured[0] == measured[1]


def test_more_steps_resume_a_run_and_fewer_start_another(tmp_path: Path) -> None:
    assignments = [*lstm_settings(tmp_path, steps=4), "seed=1,2"]
    run_all(plan_grid("text-lstm", assignments))
    longer = plan_grid("text-lstm", [*assignments, "training.steps=6"])
    assert names(longer) == ["runs/text-lstm-seed=1", "runs/text-lstm-seed=2"] and not is_done(longer[0])
    run_planned(longer[0])
    assert summarise(longer[0].folder).step == 6
    assert names(plan_grid("text-lstm", [*assignments, "training.steps=2"]))[0] == "runs/text-lstm-seed=1-2"


def test_a_run_out_of_patience_is_done(tmp_path: Path) -> None:
    assignments = [
        *lstm_settings(tmp_path, steps=40),
        "training.learning_rate=50.0",
        "training.patience=1",
        "training.evaluate_every=1",
        "seed=1,2",
    ]
    planned = plan_grid("text-lstm", assignments)
    run_planned(planned[0])
    assert summarise(planned[0].folder).step < 40
    assert is_done(planned[0])
    assert not is_done(plan_grid("text-lstm", [*assignments, "training.patience=30"])[0]), (
        "asked for more patience it goes on"
    )


def test_runs_of_other_settings_with_the_same_name_are_kept(tmp_path: Path) -> None:
    assignments = [*lstm_settings(tmp_path, steps=2), "seed=1,2"]
    run_all(plan_grid("text-lstm", assignments))
    other = plan_grid("text-lstm", [*assignments, "model.dim=12"])
    assert names(other) == ["runs/text-lstm-seed=1-2", "runs/text-lstm-seed=2-2"]
    Path("runs/text-lstm-seed=3").mkdir()
    assert names(plan_grid("text-lstm", [*assignments[:-1], "seed=3,4"])) == [
        "runs/text-lstm-seed=3-2",
        "runs/text-lstm-seed=4",
    ]


def test_a_run_with_other_code_is_another_run(tmp_path: Path) -> None:
    assignments = [*lstm_settings(tmp_path, steps=2), "seed=1,2"]
    code = write_text(tmp_path, "x = 1\n", "mine.py")
    for planned in plan_grid("text-lstm", assignments, code=code):
        run_planned(planned, code=code)
    assert all(map(is_done, plan_grid("text-lstm", assignments, code=code)))
    code.write_text("x = 2\n")
    assert names(plan_grid("text-lstm", assignments, code=code)) == [
        "runs/text-lstm-seed=1-2",
        "runs/text-lstm-seed=2-2",
    ]


def test_several_recipes_are_planned_in_a_chosen_folder(tmp_path: Path) -> None:
    planned = plan_grid("shakespeare-lstm,shakespeare-gru", ["seed=1,2"], parent=Path("cells"))
    assert [Path(name).as_posix() for name in names(planned)] == [
        f"cells/shakespeare-{cell}-seed={seed}" for cell in ("lstm", "gru") for seed in (1, 2)
    ]
    assert names(plan_grid("shakespeare-lstm,shakespeare-gru", [])) == ["runs/shakespeare-lstm", "runs/shakespeare-gru"]
    assert not Path("cells").exists(), "planning writes nothing"


def test_combinations_with_the_same_name_get_separate_folders() -> None:
    Path("one").mkdir()
    Path("two").mkdir()
    for folder, dim in (("one", 8), ("two", 12)):
        Path(folder, "mine.yaml").write_text(f"recipe: text-lstm\nmodel: {{dim: {dim}}}\n")
    assert names(plan_grid("one/mine.yaml,two/mine.yaml", [])) == ["runs/mine", "runs/mine-2"]


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        ("text-lstm,text-lsmt", [], "unknown recipe 'text-lsmt'; did you mean 'text-lstm'?"),
        ("text-lstm", ["model.cell=gru,lsmt"], "model.cell: unknown cell 'lsmt'; did you mean 'lstm'?"),
        ("text-lstm", ["training.optimiser=adam,sdg"], "unknown optimiser 'sdg'; did you mean 'sgd'?"),
        ("text-lstm", ["sead=1,2"], "unknown field 'sead'; did you mean 'seed'?"),
    ],
)
def test_a_mistake_in_any_combination_is_reported_before_the_first_run(
    recipe: str, settings: list[str], sentence: str
) -> None:
    with pytest.raises(UserError) as error:
        plan_grid(recipe, settings)
    assert str(error.value).startswith(sentence)
    assert not Path("runs").exists()


def test_a_file_name_with_a_comma_must_be_quoted(tmp_path: Path) -> None:
    write_text(tmp_path, name="here, there.txt")
    with pytest.raises(UserError) as error:
        plan_grid("text-lstm", ["data.train=here, there.txt"])
    quoted = "data.train='\"here, there.txt\"'"
    assert (
        str(error.value) == f"commas separate the runs of a grid, and here, there.txt is one file; write it as {quoted}"
    )
    assert config_of("text-lstm", ['data.train="here, there.txt"']).data.train == "here, there.txt"


def test_a_grid_cannot_be_placed_inside_a_run_or_a_file(tmp_path: Path) -> None:
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=1), out=Path("run"))
    with pytest.raises(
        UserError,
        match="run is a run, so it cannot hold the runs of a grid; choose another folder with out=...",
    ):
        plan_grid("text-lstm", ["seed=1,2"], parent=Path("run"))
    with pytest.raises(
        UserError, match="story.txt is not a folder, so it cannot hold the runs of a grid; choose one with out=..."
    ):
        plan_grid("text-lstm", ["seed=1,2"], parent=Path("story.txt"))


def test_the_reason_of_a_failure_is_stored_in_the_metrics(tmp_path: Path) -> None:
    assignments = [
        *lstm_settings(tmp_path, steps=40),
        "training.learning_rate=1e38,1e-3",
        "training.clip_norm=null",
        "training.optimiser=sgd",
    ]
    diverging, fine = plan_grid("text-lstm", assignments)
    with pytest.raises(UserError, match="10 steps in a row had no finite gradient"):
        run_planned(diverging)
    run_planned(fine)
    summary = summarise(diverging.folder)
    assert (
        summary.state == "failed"
        and summary.failure is not None
        and summary.failure.startswith("10 steps in a row had no finite gradient")
    )
    assert is_done(fine) and not is_done(diverging)


def test_a_run_written_by_another_process_is_not_touched(tmp_path: Path) -> None:
    planned = plan_grid("text-lstm", [*lstm_settings(tmp_path, steps=2), "seed=1,2"])[0]
    run_planned(planned)
    before = (planned.folder / "metrics.jsonl").read_text()
    message = "runs/text-lstm-seed=1 is being written by another process; wait for it, or stop it first"
    with locked(planned.folder), pytest.raises(UserError, match=message):
        run_planned(planned)
    assert (planned.folder / "metrics.jsonl").read_text() == before


def test_resume_finds_a_run_of_a_grid_by_its_settings(tmp_path: Path) -> None:
    assignments = lstm_settings(tmp_path, steps=2)
    run_all(plan_grid("text-lstm", [*assignments, "seed=1,2"]))
    assert run_recipe("text-lstm", [*assignments, "seed=2", "training.steps=3"], resume=True).run.folder == Path(
        "runs/text-lstm-seed=2"
    )
    with pytest.raises(UserError, match="there is no run of text-lstm with these settings to resume"):
        run_recipe("text-lstm", [*assignments, "seed=3"], resume=True)


def test_changes_to_a_recipe_are_listed() -> None:
    assert changes(config_of("shakespeare-lstm"), Path("run")) == {}
    changed = changes(
        config_of("shakespeare-lstm", ["model.cell=gru", "seed=2", "training.schedule.warmup=5"]), Path("run")
    )
    schedule = {"name": "cosine", "warmup": 5, "floor": 0.02}
    assert changed == {"model.cell": "gru", "seed": 2, "training.schedule": schedule}
    assert changes(config_of("shakespeare-lstm").model_copy(update={"recipe": "mine"}), Path("run")) is None
