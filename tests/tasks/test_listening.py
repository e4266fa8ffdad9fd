"""Transcription by attention: sounds of a few tones are memorised with a pyramid, transcribed, and drawn."""

import json
from pathlib import Path

import pytest
import torch

import clew
from clew.cli.main import main
from clew.core.errors import UserError
from clew.laws.samples import transcribed
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.build import build_task
from clew.runs.tokenizers import RunTokenizers
from clew.tasks import TASKS
from clew.tasks.offers import ModelInput
from tests.tasks.test_transcription import TEXTS, tones, write_wav

SMALL = [
    *[
        "model.dim=24",
        "model.embedding_dim=16",
        "model.dropout=0",
        "task.input.time_masks=0",
        "task.input.frequency_masks=0",
    ],
    *["task.input.num_mels=20", "device=cpu"],
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    for number, text in enumerate(TEXTS):
        write_wav(folder / f"{number}.wav", tones(text, number))
    (folder / "train.csv").write_text(
        "sound,text\n" + "".join(f"{number}.wav,{text}\n" for number, text in enumerate(TEXTS)), encoding="utf-8"
    )
    data = [f"data.train={folder}/train.csv", f"data.valid={folder}/train.csv"]
    steps = [
        "training.steps=120",
        "training.batch_size=8",
        "training.learning_rate=0.02",
        "training.evaluate_every=120",
    ]
    run_recipe("listen", [*SMALL, *data, *steps], out=folder / "run")
    return folder


def test_eight_sounds_are_memorised_and_transcribed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(run / f"{number}.wav") for number in range(len(TEXTS))]
    assert main(["transcribe", str(run / "run"), *files]) == 0
    assert capsys.readouterr().out == "".join(f"{file}\t{text}\n" for file, text in zip(files, TEXTS, strict=True))
    assert main(["transcribe", str(run / "run"), files[3], "--n-best", "2", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (
        first["text"] == TEXTS[3]
        and (first["rank"], second["rank"]) == (1, 2)
        and first["log_prob"] > second["log_prob"]
    )


def test_every_letter_attends_to_the_frames_read_by_the_pyramid(run: Path) -> None:
    task = clew.load(run / "run").task
    path = str(run / "5.wav")
    length = task.reader.measured(path).length
    alignment = task.aligns(ModelInput(path, target=TEXTS[5]))
    assert len(alignment.source.texts) == length == alignment.weights.shape[1]
    torch.testing.assert_close(alignment.weights.sum(1), torch.ones(len(TEXTS[5]) + 1))
    assert torch.equal(alignment.weights[:, 0], alignment.weights[:, 1])  # a pair shares its weight
    reading = task.reads(ModelInput(path, target=TEXTS[5]))
    assert {len(level) for level in task.levels(reading)[0].values} == {length}


def test_the_attention_is_drawn_over_the_spectrogram(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run / "looked.json"
    assert main(["transcribe", str(run / "run"), str(run / "3.wav"), "--attention", str(out)]) == 0
    assert capsys.readouterr().out == "cab\n"
    (part,) = json.loads(out.read_text(encoding="utf-8"))["parts"]
    assert (
        part["letters"] == ["c", "a", "b", "<eos>"]
        and part["unit"] == "seconds"
        and part["length"] == pytest.approx(0.6)
    )
    assert len(part["shown"]) == 20 and [sum(row) for row in part["weights"]] == pytest.approx([1.0] * 4)
    assert main(["transcribe", str(run / "run"), str(run / "3.wav"), "--attention", str(run / "looked.svg")]) == 0
    assert (run / "looked.svg").read_text(encoding="utf-8").startswith("<svg")
    assert main(["transcribe", str(run / "run"), str(run / "3.wav"), "--attention", "looked.gif"]) == 2
    assert "--attention (looked.gif) must end in .png, .svg, .pdf, .html or .json" in capsys.readouterr().err


def test_the_instrument_shows_letters_with_their_attention(run: Path) -> None:
    loaded = clew.load(run / "run", device="cpu")
    sound = str(next(run.glob("*.wav")))
    view = clew.look(loaded, "transcript", text=sound)
    (heard,) = loaded.ask("transcribe", [sound], with_attention=True, method="greedy")[0]
    assert view.facts["text"] == heard.text and view.facts["weights"] == heard.attention.as_json()["weights"]


def test_a_language_model_is_only_for_ctc(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcribe", str(run / "run"), str(run / "3.wav"), "--lm", "texts.txt"]) == 2
    assert "--lm is for transcription by CTC, but " in capsys.readouterr().err


def test_a_pyramid_must_fit_the_encoder_without_residuals() -> None:
    def built(*settings: str) -> None:
        config = config_of("listen", [*SMALL, *settings])
        vocabularies = TASKS["listening"].learns.vocabularies
        build_task(config, vocabularies(transcribed(), RunTokenizers(config), config.task), to_train=False)

    with pytest.raises(UserError, match=r"model.pyramid \(3\) must be at most the number of the encoder's layers, 2"):
        built("model.pyramid=3")
    with pytest.raises(
        UserError,
        match="model.pyramid joins pairs of positions, so a layer's input is twice too wide to add"
        "; set model.residual=false",
    ):
        built("model.residual=true")
