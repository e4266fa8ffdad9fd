"""Transcripts of sounds with times, against the task's own posteriors."""

from pathlib import Path

import numpy as np
import pytest
import torch

import clew
from clew.core.errors import UserError
from clew.data.files.file_bytes import FileBytes
from clew.drawing.views import Note, Spelled, Table
from clew.tasks.offers import ModelInput
from tests.instruments.small_runs import small_run
from tests.runs.frozen.inputs import SAID, spoken

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "format-3"


@pytest.mark.parametrize("letters", [text for text in SAID if len(set(text)) == len(text)])
def test_letters_are_aligned_with_their_tones(letters: str) -> None:
    """Each letter is a tone of a twentieth of a second, after as much silence."""
    run = clew.load(FROZEN / "transcription" / "run", device="cpu")
    view = clew.look(run, "transcript", text=FileBytes(f"{letters}.wav", spoken(letters)))
    picture, table = view.parts
    assert isinstance(picture, Spelled) and isinstance(table, Table)
    assert view.facts["text"] == letters and "".join(picture.letters) == letters and f"{letters}.wav" in view.about
    assert picture.length == pytest.approx(0.1 * len(letters)) and picture.unit == "seconds"
    seconds = np.linspace(0, picture.length, picture.weights.shape[1] + 1)
    for number, row in enumerate(picture.weights):
        assert 0.1 * number - 0.06 <= seconds[int(row.argmax())] <= 0.1 * (number + 1)
    assert [row[0] for row in table.rows] == list(letters)


def test_weights_are_the_posteriors_of_the_task() -> None:
    run = clew.load(FROZEN / "transcription" / "run", device="cpu")
    file = str(FROZEN / "transcription" / "3.wav")
    view = clew.look(run, "transcript", text=file)
    attention = run.task.spells(ModelInput(file)).attention
    assert attention is not None and np.allclose(view.parts[0].weights, attention.weights.numpy())
    assert view.facts["letters"] == list(attention.letters)


def test_a_sound_without_letters_is_reported() -> None:
    run = clew.load(FROZEN / "transcription" / "run", device="cpu")
    with torch.no_grad():
        run.task.output.bias[run.task.blank] += 100
    view = clew.look(run, "transcript", text=str(FROZEN / "transcription" / "3.wav"))
    assert [type(part) for part in view.parts] == [Note] and view.facts["letters"] == []


def test_missing_sounds_and_unsuitable_runs_are_reported() -> None:
    with pytest.raises(UserError, match="there is no sound to read; name a file"):
        clew.look(clew.load(FROZEN / "transcription" / "run", device="cpu"), "transcript")
    with pytest.raises(UserError, match="does not transcribe sounds or handwriting"):
        clew.look(small_run("gpt"), "transcript", text="the")
