import json
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.instruments.looking import look
from clew.runs.directory import write_config
from clew.runs.loaded import Run
from tests.instruments.small_runs import small_run


def run_in(folder: Path, losses: list[float]) -> Run:
    folder.mkdir()
    small = small_run("lstm")
    write_config(folder, small.config)
    records = [
        {"step": 10 * place, "train.loss": loss, "train.loss_count": 32, "note": "x"}
        for place, loss in enumerate(losses, start=1)
    ]
    records += [
        {"step": 10, "valid.loss": 3.0},
        {"step": 20, "valid.loss": 2.5},
        {"step": 20, "best.step": 20, "best.valid.loss": 2.5},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return Run(folder, small.config, small.vocabularies, small.task)


def test_runs_share_one_panel_per_measure_with_losses_first(tmp_path):
    runs = [run_in(tmp_path / "a", [4.0, 3.0]), run_in(tmp_path / "b", [4.5, 3.5, 3.0])]
    view = look(runs, "curves", {})
    first, second, table = view.parts
    assert (first.title, second.title) == ("train.loss", "valid.loss")
    assert [series.name for series in first.series] == [row[0] for row in table.rows] == ["a", "b"]
    assert [list(series.y) for series in first.series] == [[4.0, 3.0], [4.5, 3.5, 3.0]] and list(first.series[1].x) == [
        10,
        20,
        30,
    ]
    assert table.rows[0][-1] == 2.5 and view.facts[str(tmp_path / "b")]["curves"]["valid.loss"] == [
        [10, 20],
        [3.0, 2.5],
    ]
    assert [part.title for part in look(runs[0], "curves", {"measures": ["valid.loss"]}).parts[:-1]] == ["valid.loss"]


def test_a_measure_that_was_not_logged_is_rejected_with_the_logged_ones(tmp_path):
    with pytest.raises(
        UserError, match="no run has logged 'test.loss'; logged: train.loss, valid.loss, train.loss_count"
    ):
        look(run_in(tmp_path / "a", [4.0, 3.0]), "curves", {"measures": ["test.loss"]})
    with pytest.raises(UserError, match="has no curves"):
        look(small_run("lstm"), "curves", {})


def test_a_measure_of_only_one_run_is_shown_for_both_with_their_colours(tmp_path):
    first, second = run_in(tmp_path / "a", [4.0, 3.0]), run_in(tmp_path / "b", [4.5, 3.5])
    with (second.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        for step, accuracy in ((10, 50.0), (20, 60.0)):
            file.write(json.dumps({"step": step, "valid.accuracy": accuracy}) + "\n")
        file.write(
            json.dumps({"step": 20, "best.step": 20, "best.valid.loss": 2.5, "best.valid.accuracy": 60.0}) + "\n"
        )
    *panels, table = look([first, second], "curves", {"log": True}).parts
    (accuracy,) = (panel for panel in panels if panel.title == "valid.accuracy")
    assert [(series.name, list(series.y)) for series in accuracy.series] == [
        ("a (none)", []),
        ("b", [50.0, 60.0]),
    ] and accuracy.log_y
    assert table.header[3:] == ("valid.loss (nats)", "valid.accuracy (%)")
    assert [row[3:] for row in table.rows] == [(2.5, "none"), (2.5, 60.0)]
