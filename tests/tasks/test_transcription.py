"""Transcription: sounds of a few tones are memorised and transcribed, from Python and by the command."""

import json
import wave
from pathlib import Path

import pytest
import torch

import clew
from clew.cli.main import main
from clew.core.errors import UserError
from clew.data.examples import Transcribed
from clew.data.kinds.transcribed import TRANSCRIBED, TranscribedData
from clew.data.notes import Notes
from clew.data.sounds.sound_files import Sound
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.build import build_task
from clew.runs.tokenizers import RunTokenizers
from clew.sources.sounds import LogMelReader
from clew.tasks import TASKS

RATE = 8000
PITCHES = {"a": 400.0, "b": 900.0, "c": 2000.0}


def tones(text: str, seed: int = 0) -> torch.Tensor:
    """A tone of a tenth of a second for each letter, with as much silence before it."""
    seconds = torch.arange(RATE // 10) / RATE
    noise = 0.01 * torch.randn(len(text) * 2 * len(seconds), generator=torch.Generator().manual_seed(seed))
    parts = [
        part
        for letter in text
        for part in (torch.zeros_like(seconds), 0.5 * torch.sin(2 * torch.pi * PITCHES[letter] * seconds))
    ]
    return torch.cat(parts) + noise


def write_wav(path: Path, samples: torch.Tensor, rate: int = RATE) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes())
    return path


TEXTS = ("a", "ab", "ba", "cab", "bc", "abc", "cc", "bab")
SMALL = [
    "model.dim=32",
    "model.num_layers=1",
    "model.dropout=0",
    "task.input.time_masks=0",
    "task.input.frequency_masks=0",
    "device=cpu",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has memorised eight sounds."""
    folder = tmp_path_factory.mktemp("tones")
    for number, text in enumerate(TEXTS):
        write_wav(folder / f"{number}.wav", tones(text, number))
    rows = "".join(f"{number}.wav,{text}\n" for number, text in enumerate(TEXTS))
    for name in ("train.csv", "valid.csv"):
        (folder / name).write_text("file,said\n" + rows, encoding="utf-8")
    data = [f"data.train={folder}/train.csv", f"data.valid={folder}/valid.csv", "data.sound=file", "data.text=said"]
    steps = ["training.steps=120", "training.batch_size=8", "training.learning_rate=0.02", "training.evaluate_every=60"]
    run_recipe("transcribe", [*SMALL, *data, *steps], out=folder / "run")
    return folder


def test_eight_sounds_are_memorised_and_transcribed(run: Path) -> None:
    loaded = clew.load(run / "run")
    files = [str(run / f"{number}.wav") for number in range(len(TEXTS))]
    assert [str(transcript) for transcript in loaded.ask("transcribe", files)] == list(TEXTS)


def test_the_command_writes_a_line_for_each_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = str(run / "3.wav"), str(run / "5.wav")
    assert main(["transcribe", str(run / "run"), first]) == 0
    assert capsys.readouterr().out == "cab\n"
    assert main(["transcribe", str(run / "run"), first, second, "--beams", "8"]) == 0
    assert capsys.readouterr().out == f"{first}\tcab\n{second}\tabc\n"
    assert main(["transcribe", str(run / "run"), second, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert answers["text"] == "abc" and answers["sound"] == second and answers["log_prob"] < 0


def test_a_sound_of_another_rate_is_resampled(run: Path) -> None:
    loaded = clew.load(run / "run")
    twice = torch.nn.functional.interpolate(tones("cab", 3)[None, None], scale_factor=2, mode="linear")[0, 0]
    path = write_wav(run / "twice.wav", twice, 2 * RATE)
    assert [str(transcript) for transcript in loaded.ask("transcribe", [str(path)])] == ["cab"]


def test_files_that_are_not_sound_are_rejected_by_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "text.wav").write_text("not a sound", encoding="utf-8")
    assert main(["transcribe", str(run / "run"), str(run / "text.wav")]) == 2
    assert f"{run}/text.wav" in capsys.readouterr().err
    assert main(["transcribe", str(run / "run"), str(run / "none.wav")]) == 2
    assert f"{run}/none.wav" in capsys.readouterr().err


def test_a_missing_sound_of_a_table_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "sounds.csv").write_text("sound,text\nmissing.wav,hello\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=f"sounds.csv:2: there is no file {tmp_path}/missing.wav; paths are relative to {tmp_path}"
    ):
        list(TRANSCRIBED.read_files([tmp_path / "sounds.csv"], TranscribedData(), Notes()))


def test_a_text_with_more_symbols_than_frames_is_rejected() -> None:
    config = config_of("transcribe", SMALL)
    learning = TASKS["transcription"].learns
    examples = [
        Transcribed(Sound(tones("ab"), RATE), "ab", "first"),
        Transcribed(Sound(tones("a")[:300], RATE), "abcabcabc", "second"),
    ]
    task = build_task(config, learning.vocabularies(examples, RunTokenizers(config), config.task), to_train=False)
    with pytest.raises(
        UserError,
        match="second: 9 symbols need at least 9 frames, and the sound has 1; leave it out, or read more frames",
    ):
        task.encode(examples)


def test_a_reader_is_equal_after_saving_and_loading() -> None:
    reader = LogMelReader(num_mels=20, stack=3).fitted(Sound(tones("a"), RATE))
    restored = TASKS["transcription"].vocabularies["input"].from_json(reader.to_json())
    assert restored == reader and restored.hash == reader.hash and reader.rate == RATE
    length = reader.measured(Sound(tones("abc"), RATE)).length
    assert length == len(reader.read(Sound(tones("abc"), RATE)))


def test_strings_of_digits_share_no_speaker_with_the_test_part() -> None:
    parts = TRANSCRIBED.read(TranscribedData(corpus="digits-sample", strings=50), seed=1)
    speakers = {part: {example.input.speaker for example in examples} for part, examples in parts.items()}
    assert len(parts["train"]) == 50 and not speakers["train"] & speakers["test"]
    assert all(example.text == example.input.text and 1 <= len(example.text.split()) <= 5 for example in parts["train"])


def test_an_impossibly_large_option_is_rejected() -> None:
    with pytest.raises(UserError, match=r"task.input.stack \(1e\+09\) must be between 1 and 100"):
        LogMelReader(stack=10**9)


def test_a_sound_longer_than_the_positions_is_refused() -> None:
    config = config_of(
        "transcribe", [*SMALL, "model={family: bert, dim: 8, num_heads: 2, num_layers: 1, max_length: 4}"]
    )
    learning = TASKS["transcription"].learns
    examples = [Transcribed(Sound(tones("abc"), RATE), "abc", "first")]
    task = build_task(config, learning.vocabularies(examples, RunTokenizers(config), config.task), to_train=False)
    [encoded] = task.encode(examples)
    with pytest.raises(
        UserError, match="first: it has 20 frames, but the model has only 4 positions; give a smaller one, or"
    ):
        task.check_length(encoded, "first")


@pytest.mark.parametrize(("recipe", "column"), [("transcribe", "text"), ("classify-sounds", "label")])
def test_a_single_example_that_is_not_sound_is_rejected_by_name(tmp_path: Path, recipe: str, column: str) -> None:
    (tmp_path / "x.wav").write_text("not a sound", encoding="utf-8")
    (tmp_path / "sounds.csv").write_text(f"sound,{column}\nx.wav,hello\n", encoding="utf-8")
    with pytest.raises(UserError, match=f"{tmp_path}/x.wav: this is not a sound file in a known format"):
        run_recipe(recipe, [f"data.train={tmp_path}/sounds.csv", "device=cpu"], out=tmp_path / "run")


@pytest.mark.parametrize(
    ("recipe", "column"), [("caption", "caption"), ("classify-pictures", "label"), ("read-lines", "text")]
)
def test_a_single_example_that_is_not_a_picture_is_rejected_by_name(tmp_path: Path, recipe: str, column: str) -> None:
    (tmp_path / "x.png").write_text("not a picture", encoding="utf-8")
    (tmp_path / "pictures.csv").write_text(f"image,{column}\nx.png,hello\n", encoding="utf-8")
    with pytest.raises(UserError, match=f"{tmp_path}/x.png: this is not a picture in a known format"):
        run_recipe(recipe, [f"data.train={tmp_path}/pictures.csv", "device=cpu"], out=tmp_path / "run")


def test_a_single_good_example_is_still_too_few(tmp_path: Path) -> None:
    write_wav(tmp_path / "x.wav", tones("ab"))
    (tmp_path / "sounds.csv").write_text("sound,text\nx.wav,ab\n", encoding="utf-8")
    with pytest.raises(UserError, match="1 example with 1 different text cannot give a valid part"):
        run_recipe("transcribe", [f"data.train={tmp_path}/sounds.csv", "device=cpu"], out=tmp_path / "run")


def test_the_time_of_each_letter_is_drawn(run: Path) -> None:
    """Each letter takes a tenth of a second, with as much silence before it."""
    out = run / "heard.json"
    assert main(["transcribe", str(run / "run"), str(run / "3.wav"), "--attention", str(out)]) == 0
    (part,) = json.loads(out.read_text(encoding="utf-8"))["parts"]
    assert part["letters"] == ["c", "a", "b"]
    weights = torch.tensor(part["weights"])
    assert bool((weights.sum(1) > 0.9).all()) and float(weights.max()) <= 1.0001
    places = weights.argmax(1)
    assert bool((places.diff() > 0).all())


def test_n_grams_of_a_text_correct_a_transcript(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, texts = str(run / "0.wav"), run / "texts.txt"
    texts.write_text("cab\n" * 50, encoding="utf-8")
    assert main(["transcribe", str(run / "run"), path]) == 0
    assert capsys.readouterr().out == "a\n"
    assert main(["transcribe", str(run / "run"), path, "--lm", str(texts), "--lm-weight", "0"]) == 0
    assert capsys.readouterr().out == "a\n"
    assert main(["transcribe", str(run / "run"), path, "--lm", str(texts), "--lm-weight", "20"]) == 0
    assert capsys.readouterr().out == "cab\n"
    assert (
        main(["evaluate", str(run / "run"), f"{run}/valid.csv", "--lm", str(texts), "--lm-weight", "20", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["wer"] > 50


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--lm-weight", "1"], "--lm-weight needs a language model; name one with --lm TEXT or --lm RUN"),
        (["--lm", "none.txt"], "none.txt"),
        (["--lm", "{run}/train.csv", "--lm-order", "0"], "--lm-order (0) must be at least 1"),
        (["--lm", "{run}/train.csv", "--lm-weight", "-1"], "--lm-weight (-1) must be at least 0"),
        (["--lm", "{run}/run"], "is not a language model: its model"),
        (["--lm", "{run}/run"], "; name another run, or a text file"),
        (["--lm", "{run}/run", "--lm-order", "3"], "--lm-order is for n-grams counted in a text file"),
        (["--lm", "{run}/run", "--lm-order", "3"], " is a run; leave it out"),
    ],
)
def test_invalid_language_models_are_rejected(
    run: Path, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["transcribe", str(run / "run"), str(run / "0.wav"), *(word.format(run=run) for word in options)]) == 2
    assert sentence in capsys.readouterr().err
