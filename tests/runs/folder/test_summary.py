import json
import os
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.core.wording import on_command_line, worded
from clew.recipes.resolving import config_of
from clew.runs.comparison import curve
from clew.runs.directory import append_metrics, write_config
from clew.runs.folder.lock import locked
from clew.runs.folder.records import Summary, find_runs, is_finished, measured_numbers, named_runs, natural
from clew.runs.folder.summary import summarise


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new_run(folder: str, *records: dict, settings: tuple[str, ...] = ()) -> Path:
    path = Path(folder)
    path.mkdir(parents=True)
    write_config(
        path, config_of("text-lstm", ["training.steps=100", "training.batch_size=4", "training.length=8", *settings])
    )
    for record in records:
        append_metrics(path, record)
    return path


VALID = [
    {"step": step, "valid.loss": loss, "valid.perplexity": 2**loss} for step, loss in ((20, 3.0), (40, 2.0), (60, 2.5))
]
END = {
    "step": 100,
    "best.step": 40,
    "best.valid.loss": 2.0,
    "best.valid.perplexity": 4.0,
    "best.test.loss": 2.1,
    "train.flops": 1e9,
}


def test_a_positive_label_does_not_change_the_default_measure(tmp_path: Path) -> None:
    records = [{"step": 1, "valid.loss": 1.0, "valid.accuracy": 50.0, "valid.f1": 70.0}]
    for settings, measure in (([], "accuracy"), (["task.best=f1"], "f1")):
        config = config_of("classify", ["task.positive=spam", *settings])
        assert Summary(tmp_path, config, records).measure == measure


def test_a_finished_run_has_the_scores_of_its_last_record() -> None:
    run = summarise(new_run("run", *VALID, END))
    assert run.best == {"valid.loss": 2.0, "valid.perplexity": 4.0, "test.loss": 2.1}
    assert (run.step, run.state, run.failure, run.averaged) == (100, "finished", None, [])


def test_an_unfinished_run_has_the_scores_of_its_best_evaluation() -> None:
    run = summarise(new_run("run", *VALID))
    assert run.best == {"valid.loss": 2.0, "valid.perplexity": 4.0}
    assert (run.step, run.state) == (60, "interrupted")


def test_a_run_without_records_has_no_scores() -> None:
    run = summarise(new_run("run"))
    assert (run.step, run.best, run.seconds, run.state) == (0, {}, None, "interrupted")


@pytest.mark.parametrize(
    ("recipe", "measured", "measure"),
    [
        ("tag", {"f1": 90.0, "precision": 80.0, "accuracy": 99.0}, "f1"),
        ("tag", {"accuracy": 99.0}, "accuracy"),
        ("classify", {"accuracy": 70.0, "macro_f1": 60.0}, "accuracy"),
        ("classify", {"micro_f1": 70.0, "macro_f1": 60.0, "accuracy": 90.0}, "micro_f1"),
        ("classify", {"pearson": 0.7, "spearman": 0.6}, "pearson"),
    ],
)
def test_the_measure_of_a_run_depends_on_its_task_and_scores(
    recipe: str, measured: dict[str, float], measure: str
) -> None:
    path = Path("run")
    path.mkdir()
    write_config(path, config_of(recipe, ["data.train=a.csv"]))
    for step, share, loss in ((20, 0.5, 1.0), (40, 1.0, 2.0)):
        append_metrics(
            path,
            {"step": step, "valid.loss": loss, **{f"valid.{name}": share * value for name, value in measured.items()}},
        )
    run = summarise(path)
    assert run.measure == measure and run.best[f"valid.{measure}"] == measured[measure]


@pytest.mark.parametrize(
    ("settings", "end", "finished"),
    [
        (["training.steps=100"], END, True),
        (["training.steps=50"], END, True),
        (["training.steps=200"], END, False),
        (["training.steps=200", "training.patience=1"], END, True),
        (["training.steps=200", "training.patience=2"], END, False),
        (["training.steps=200"], {**END, "stopped_by": "StopAt"}, True),
        (["training.steps=60"], None, False),
    ],
    ids=["reached", "passed", "asked for more", "lost patience", "not yet", "stopped by a callback", "no summary"],
)
def test_a_run_is_finished_at_its_last_step_or_without_patience(
    settings: list[str], end: dict | None, finished: bool
) -> None:
    """The best evaluation is at step 40; one later evaluation was worse."""
    training = config_of("text-lstm", settings).training
    assert is_finished([*VALID, *([end] if end else [])], training) is finished


def test_a_locked_run_is_running() -> None:
    folder = new_run("run", *VALID, END)
    with locked(folder):
        assert summarise(folder).state == "running"
    (folder / "lock").write_text("{}")  # the lock of a dead process
    assert summarise(folder).state == "finished"


def test_a_failure_counts_until_the_next_record() -> None:
    folder = new_run("run", VALID[0], {"step": 20, "failed": "no finite gradient"})
    assert (summarise(folder).state, summarise(folder).failure) == ("failed", "no finite gradient")
    append_metrics(folder, VALID[1])
    assert (summarise(folder).state, summarise(folder).failure) == ("interrupted", None)


def test_duration_is_recorded_or_computed_from_speed() -> None:
    """A step reads 4 x 8 tokens: 10 steps at 32 tokens per second take 10 seconds, and 30 steps at 64 take 15."""
    logged = [
        {"step": 10, "tokens_per_second": 32},
        {"step": 20, "valid.loss": 1.0},
        {"step": 40, "tokens_per_second": 64},
    ]
    assert summarise(new_run("speed", *logged)).seconds == pytest.approx(25.0)
    assert summarise(new_run("said", *logged, {**END, "seconds": 31.5})).seconds == 31.5
    under_way = [
        {"step": 10, "tokens_per_second": 32, "seconds": 2.5},
        {"step": 20, "tokens_per_second": 32, "seconds": 4.0},
    ]
    assert summarise(new_run("under way", *under_way)).seconds == 4.0


def test_scores_must_be_finite_numbers() -> None:
    records = [
        {"step": 1, "valid.loss": float("nan")},
        {"step": 2, "valid.loss": "low"},
        {"step": 3, "valid.loss": True},
    ]
    assert summarise(new_run("run", *records)).best == {}


def test_malformed_lines_of_metrics_are_skipped() -> None:
    folder = new_run("run", *VALID)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'3\n"text"\n[1]\n{"step": "many"}\n{"no step": 1}\n\xff\xfe\n{"step": 70, "valid.lo')
    assert summarise(folder).records == VALID


def test_a_folder_without_a_run_is_rejected() -> None:
    Path("empty").mkdir()
    with pytest.raises(
        UserError, match="empty has no config.json; it was copied incompletely, or is not a run directory"
    ):
        summarise(Path("empty"))
    Path("empty/config.json").write_text('{"format": 99}')
    with pytest.raises(UserError, match="empty/config.json is of format 99, but this clew reads formats 1 to 3"):
        summarise(Path("empty"))


def test_the_size_of_a_run_counts_every_file() -> None:
    folder = new_run("run")
    before = summarise(folder).size
    (folder / "checkpoints" / "step-1").mkdir(parents=True)
    (folder / "checkpoints" / "step-1" / "model.safetensors").write_bytes(b"x" * 1000)
    assert summarise(folder).size == before + 1000 and before == (folder / "config.json").stat().st_size


def test_runs_are_found_two_levels_deep_in_natural_order() -> None:
    for name in ("seed=10", "seed=2", "study/one", "study/deep/three", ".hidden"):
        new_run(f"runs/{name}")
    Path("runs/notes").mkdir()
    Path("runs/notes/a.txt").write_text("x")
    assert [path.as_posix() for path in find_runs(Path("runs"))] == ["runs/seed=2", "runs/seed=10", "runs/study/one"]
    assert find_runs(Path("runs/seed=2")) == [Path("runs/seed=2")], "the folder itself"


def test_runs_inside_runs_are_not_found_but_damaged_ones_are() -> None:
    new_run("runs/a/inside")
    write_config(Path("runs/a"), config_of("text-lstm"))
    Path("runs/b").mkdir()
    Path("runs/b/metrics.jsonl").touch()
    Path("runs/c/checkpoints").mkdir(parents=True)
    assert [path.name for path in find_runs(Path("runs"))] == ["a", "b", "c"]


def test_names_are_sorted_by_their_numbers() -> None:
    names = ["b-10", "b-9", "B-1", "a", "10", "9"]
    assert sorted(names, key=natural) == ["9", "10", "a", "B-1", "b-9", "b-10"]


def test_folders_parents_and_patterns_name_each_run_once() -> None:
    for name in ("x-seed=1", "x-seed=2", "y"):
        new_run(f"runs/{name}")
    assert named_runs(["runs/y", "runs/x-*", "runs", "runs/../runs/y"]) == [
        Path("runs/y"),
        Path("runs/x-seed=1"),
        Path("runs/x-seed=2"),
    ]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("runs/z-*", "no run matches runs/z-*; `clew runs` lists the runs"),
        ("runs/empty*", "no run matches runs/empty*; `clew runs` lists the runs"),
        ("runs/empty", "there is no run below runs/empty; `clew runs DIR` lists the runs below a folder"),
        ("runs/none", "runs/none is not a run directory (it has no config.json); runs here: runs/y"),
    ],
)
def test_names_without_a_run_are_rejected(word: str, sentence: str) -> None:
    new_run("runs/y")
    Path("runs/empty").mkdir()
    with worded(on_command_line), pytest.raises(UserError) as error:
        named_runs([word])
    assert str(error.value) == sentence.replace("/", os.sep if word == "runs/none" else "/")


def test_python_callers_are_shown_how_to_list_runs_in_python() -> None:
    Path("runs").mkdir()
    for word in ("runs/z-*", "runs"):
        with pytest.raises(UserError, match=r"; `clew\.runs\.folder\.records\.find_runs\(.*\)` lists the runs"):
            named_runs([word])


def test_an_averaged_run_has_its_own_state() -> None:
    sources = [{"weights": "a", "step": 1, "sha256": "0"}]
    run = summarise(new_run("run", {**END, "averaged": sources}))
    assert (run.state, run.averaged) == ("averaged", sources)
    assert json.dumps(run.best)


def test_numbers_larger_than_a_float_are_ignored() -> None:
    summary = summarise(
        new_run("huge", {"step": 1, "valid.loss": 10**400, "train.loss": 2.0}, {"step": 2, "valid.loss": 3.0})
    )
    assert summary.best["valid.loss"] == 3.0 and measured_numbers(summary.records[0]) == {"step": 1, "train.loss": 2.0}
    assert curve(summary, "valid.loss") == ((2,), (3.0,))
