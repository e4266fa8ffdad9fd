"""The calls of a typical notebook: clew.train, clew.load, and the methods of the run they return."""

from pathlib import Path

import pytest

import clew
from clew.core.errors import UserError
from tests.runs.small import gpt_settings, lstm_settings


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def test_a_run_is_trained_used_and_loaded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = clew.train("text-lstm", *lstm_settings(tmp_path, steps=4))
    assert run.folder == Path("runs/text-lstm")
    assert "validation: loss" in capsys.readouterr().err
    sample = run.generate("the thread", max_new=20, seed=1)
    assert str(sample).startswith("the thread") and len(sample.text) == 20
    assert "".join(run.stream("the thread", max_new=20, seed=1)) == sample.text
    again = clew.load("runs/text-lstm", device="cpu")
    assert again.generate("the thread", max_new=20, seed=1) == sample
    assert again.score("the thread").log_probs == run.score("the thread").log_probs
    assert repr(again) == repr(run)


def test_quiet_training_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clew.train("text-gpt", *gpt_settings(tmp_path, steps=2), out=tmp_path / "run", quiet=True)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_second_run_of_other_settings_gets_its_own_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = lstm_settings(tmp_path, steps=2)
    clew.train("text-lstm", *settings, quiet=True)
    second = clew.train("text-lstm", *settings, "seed=2")
    assert second.folder == Path("runs/text-lstm-2")
    assert capsys.readouterr().err.count("there is another run of text-lstm; this one differs in seed: 1 -> 2") == 1
    with pytest.raises(UserError, match="none.txt"):
        clew.train("text-lstm", *settings, "data.train=none.txt")
    assert "another run" not in capsys.readouterr().err
    assert clew.train("text-lstm", *settings, resume=True, quiet=True).folder == Path("runs/text-lstm")
    assert clew.train("text-lstm", resume=True, quiet=True).folder == Path("runs/text-lstm-2")


def test_repeating_a_call_trains_in_a_new_folder(tmp_path: Path) -> None:
    """For example when a cell of a notebook is run twice."""
    folders = [clew.train("text-lstm", *lstm_settings(tmp_path, steps=1), quiet=True).folder for _ in range(2)]
    assert folders == [Path("runs/text-lstm"), Path("runs/text-lstm-2")]


def test_dir_lists_the_public_names() -> None:
    assert {"train", "load", "translate", "record", "intervene", "Recording"} <= {*dir(clew)}


def test_resuming_without_a_run_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="below runs/ there is no run of text-lstm to resume; leave resume=True out to start one"
    ):
        clew.train("text-lstm", resume=True)
    with pytest.raises(UserError, match="below runs/ there is no run of text-lstm with these settings to resume"):
        clew.train("text-lstm", "seed=4", resume=True)


def test_a_run_of_another_recipe_is_not_resumed(tmp_path: Path) -> None:
    clew.train("text-lstm", *lstm_settings(tmp_path, steps=2), out="run", quiet=True)
    with pytest.raises(
        UserError, match="run is a run of text-lstm, not of text-gpt; name that recipe, or another folder"
    ):
        clew.train("text-gpt", out="run", resume=True)


def test_a_folder_with_other_files_is_not_used(tmp_path: Path) -> None:
    Path("full").mkdir()
    Path("full/letter.txt").write_text("dear reader")
    with pytest.raises(UserError, match="full exists and is not an empty folder; choose another with out=..."):
        clew.train("text-lstm", *lstm_settings(tmp_path), out="full")


def test_gates_of_a_run_can_be_recorded(tmp_path: Path) -> None:
    run = clew.train("text-lstm", *lstm_settings(tmp_path, steps=2), quiet=True)
    with clew.record(run, "*.gates.forget") as recording:
        run.score("the door")
    assert recording["*.gates.forget"].shape == (1, 7, 16)


def test_an_unknown_attribute_of_clew_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'clew' has no attribute 'recrod'"):
        clew.recrod  # noqa: B018
