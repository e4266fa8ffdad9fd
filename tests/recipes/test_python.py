"""What a notebook does: clew.train, clew.load, and the methods of what they give back."""

from pathlib import Path

import pytest

import clew
from clew.core.errors import UserError
from tests.runs.small import gpt_settings, lstm_settings


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def test_a_run_is_trained_and_used_and_loaded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_quiet_run_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clew.train("text-gpt", *gpt_settings(tmp_path, steps=2), out=tmp_path / "run", quiet=True)
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "")


def test_a_second_run_of_other_settings_gets_its_own_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = lstm_settings(tmp_path, steps=2)
    clew.train("text-lstm", *given, quiet=True)
    second = clew.train("text-lstm", *given, "seed=2")
    assert second.folder == Path("runs/text-lstm-2")
    assert capsys.readouterr().err.count("there is another run of text-lstm; this one differs in seed: 1 -> 2") == 1
    with pytest.raises(UserError, match="none.txt"):
        clew.train("text-lstm", *given, "data.train=none.txt")
    assert "another run" not in capsys.readouterr().err
    assert clew.train("text-lstm", *given, resume=True, quiet=True).folder == Path("runs/text-lstm")
    assert clew.train("text-lstm", resume=True, quiet=True).folder == Path("runs/text-lstm-2")


def test_the_same_call_again_trains_in_a_new_folder(tmp_path: Path) -> None:
    """As when a notebook's cell is run twice."""
    folders = [clew.train("text-lstm", *lstm_settings(tmp_path, steps=1), quiet=True).folder for _ in range(2)]
    assert folders == [Path("runs/text-lstm"), Path("runs/text-lstm-2")]


def test_what_is_offered_is_listed() -> None:
    assert {"train", "load", "translate", "record", "intervene", "Recording"} <= {*dir(clew)}


def test_nothing_to_resume_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="below runs/ there is no run of text-lstm to resume; leave resume=True out to start one"
    ):
        clew.train("text-lstm", resume=True)
    with pytest.raises(UserError, match="below runs/ there is no run of text-lstm with these settings to resume"):
        clew.train("text-lstm", "seed=4", resume=True)


def test_another_recipes_run_is_not_resumed(tmp_path: Path) -> None:
    clew.train("text-lstm", *lstm_settings(tmp_path, steps=2), out="run", quiet=True)
    with pytest.raises(
        UserError, match="run is a run of text-lstm, not of text-gpt; name that recipe, or another folder"
    ):
        clew.train("text-gpt", out="run", resume=True)


def test_a_folder_with_something_in_it_is_not_written_over(tmp_path: Path) -> None:
    Path("full").mkdir()
    Path("full/letter.txt").write_text("dear reader")
    with pytest.raises(UserError, match="full exists and is not an empty folder; choose another with out=..."):
        clew.train("text-lstm", *lstm_settings(tmp_path), out="full")


def test_the_gates_of_a_run_can_be_watched(tmp_path: Path) -> None:
    run = clew.train("text-lstm", *lstm_settings(tmp_path, steps=2), quiet=True)
    with clew.record(run, "*.gates.forget") as seen:
        run.score("the door")
    assert seen["*.gates.forget"].shape == (1, 7, 16)


def test_an_attribute_that_clew_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'clew' has no attribute 'recrod'"):
        clew.recrod  # noqa: B018
