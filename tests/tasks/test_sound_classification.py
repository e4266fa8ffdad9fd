"""Sound classification: a folder per class is memorised; tables and lists give the same examples; digits are
classified."""

import json
from pathlib import Path

import pytest
import torch

from clew.cli.main import main
from clew.core.errors import UserError
from clew.data.kinds.labelled_sounds import LABELLED_SOUNDS, LabelledSoundsData
from clew.data.labelled_inputs import read_labelled_inputs
from clew.data.notes import Notes
from clew.data.sounds.sound_readers import SOUND_FILES
from clew.recipes.running import run_recipe
from tests.tasks.test_transcription import tones, write_wav

SMALL = [
    "model.dim=16",
    "model.dropout=0",
    "task.dropout=0",
    "task.input.time_masks=0",
    "task.input.frequency_masks=0",
    "device=cpu",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Low and high tones, eight of each, and a file that is not sound."""
    for name, letter in (("low", "a"), ("high", "c")):
        (tmp_path / "tones" / name).mkdir(parents=True)
        for number in range(8):
            write_wav(tmp_path / "tones" / name / f"{number}.wav", tones(letter * (1 + number % 3), number))
    (tmp_path / "tones" / "low" / "about.txt").write_text("tones\n", encoding="utf-8")
    return tmp_path


def test_tones_in_a_folder_per_class_are_classified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = [f"data.train={folder}/tones", f"data.valid={folder}/tones", "task.input.vocal_tract=0"]
    steps = ["training.steps=40", "training.batch_size=8", "training.evaluate_every=20", "training.learning_rate=0.01"]
    result = run_recipe("classify-sounds", [*SMALL, *data, *steps], out=folder / "run")
    assert result.valid.measures["accuracy"] == 100
    high, low = (str(folder / "tones" / name / "1.wav") for name in ("high", "low"))
    assert main(["predict", str(folder / "run"), high, low]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(label, name) for label, _, name in lines] == [("high", high), ("low", low)]
    assert main(["predict", str(folder / "run"), high, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert answers["label"] == "high" and sum(answers["probabilities"].values()) == pytest.approx(1)
    assert main(["predict", str(folder / "run"), str(folder / "tones" / "low" / "about.txt")]) == 2
    assert "about.txt: this is not a sound file in a known format" in capsys.readouterr().err


def test_tables_and_lists_label_sounds_like_folders(folder: Path) -> None:
    notes = Notes()
    examples = list(read_labelled_inputs(folder / "tones", SOUND_FILES, notes=notes))
    assert len(examples) == 16 and notes.report() == [
        f"skipped 1 x file without a sound's extension (first: {folder / 'tones/low/about.txt'})"
    ]
    rows = [(str(Path(each.input).relative_to(folder)), each.label) for each in examples]
    table = folder / "table.csv"
    table.write_text("file,label\n" + "".join(f"{path},{label}\n" for path, label in rows), encoding="utf-8")
    assert [(each.input, each.labels) for each in read_labelled_inputs(table, SOUND_FILES)] == [
        (each.input, each.labels) for each in examples
    ]
    lines = folder / "lines.jsonl"
    listed = list(
        LABELLED_SOUNDS.rows([(each.input, each.label) for each in examples], Notes()) if LABELLED_SOUNDS.rows else ()
    )
    lines.write_text("".join(json.dumps(row) + "\n" for row in listed), encoding="utf-8")
    assert [(each.input, each.labels) for each in read_labelled_inputs(lines, SOUND_FILES)] == [
        (each.input, each.labels) for each in examples
    ]


def test_missing_sounds_are_named(folder: Path) -> None:
    (folder / "none.csv").write_text("sound,label\nnone.wav,low\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=f"none.csv:2: there is no file {folder}/none.wav; paths are relative to {folder}"
    ):
        list(read_labelled_inputs(folder / "none.csv", SOUND_FILES))
    (folder / "empty").mkdir()
    with pytest.raises(
        UserError,
        match=f"{folder}/empty: no sound in this folder; expected one folder per class, as in class/sound.wav; ",
    ):
        list(read_labelled_inputs(folder / "empty", SOUND_FILES))
    with pytest.raises(UserError, match="names sounds by path: a Tensor has no path; save it as a sound file first"):
        list(LABELLED_SOUNDS.rows([(torch.zeros(3), "low")], Notes()) if LABELLED_SOUNDS.rows else ())
    with pytest.raises(
        UserError,
        match=(
            "there is no training data; name your sounds with data.train, e.g. data.train=recordings, a folder"
            " with one for each class in it"
        ),
    ):
        LABELLED_SOUNDS.read(LabelledSoundsData(), seed=1)


def test_the_test_speaker_of_the_embedded_digits_is_in_no_other_part() -> None:
    parts = LABELLED_SOUNDS.read(LabelledSoundsData(corpus="digits-sample"), seed=1)
    speakers = {part: {example.input.speaker for example in examples} for part, examples in parts.items()}
    assert not speakers["test"] & (speakers["train"] | speakers["valid"])
    assert all(example.label == example.input.text for examples in parts.values() for example in examples)
