"""Recordings in tar archives, and digit strings made of them."""

import io
import tarfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.data.corpora import read_corpus
from clew.data.kinds.transcribed import TranscribedData, read_recording_parts
from clew.data.notes import Notes
from clew.data.sounds.spoken_digits import WORDS, DigitString, Recording, digit_strings, read_recordings
from tests.data.riff import chunk, form, pcm, riff
from tests.data.written import refusal, write


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def spoken(digit: int, length: int = 3, rate: int = 1000) -> bytes:
    return riff(form(rate=rate), chunk(b"data", pcm(*[1000 * (digit + 1)] * length)))


@pytest.fixture(scope="module")
def sample() -> dict[str, list[Recording]]:
    return {part: list(recordings) for part, recordings in read_corpus("digits-sample").items()}


def test_the_sample_trains_on_three_speakers_and_tests_on_a_fourth(sample: dict[str, list[Recording]]) -> None:
    for part, takes in (("train", 12), ("valid", 4)):
        counts = Counter((recording.speaker, recording.digit) for recording in sample[part])
        assert counts == {(speaker, digit): takes for speaker in ("george", "jackson", "lucas") for digit in range(10)}
    assert Counter(recording.digit for recording in sample["test"]) == dict.fromkeys(range(10), 10)
    assert {recording.speaker for recording in sample["test"]} == {"nicolas"}
    names = [recording.key for part in sample.values() for recording in part]
    assert len(set(names)) == 580


def test_every_recording_of_the_sample_can_be_read(sample: dict[str, list[Recording]]) -> None:
    for part in sample.values():
        for recording in part:
            sound = recording.sound()
            assert sound.rate == 8000 and 0.1 < sound.seconds < 3 and float(sound.samples.abs().max()) > 0.005, (
                recording.id
            )


def test_a_recording_is_read_from_its_place_in_the_archive(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "a.tar", {"recordings/7_anna_12.wav": spoken(7), "README.md": b"x", "0_bo_1.wav": spoken(0, 2)}
    )
    first, second = read_recordings(path)
    assert (first.digit, first.speaker, first.take, first.text, first.key) == (7, "anna", 12, "seven", "7_anna_12")
    assert (first.sound().samples * 32768).tolist() == [8000.0] * 3 and second.sound().samples.tolist() == [
        1000 / 32768
    ] * 2


def test_strings_join_takes_of_one_speaker_with_silences_by_seed(
    sample: dict[str, list[Recording]],
) -> None:
    strings = digit_strings(sample["train"], 200, 1, 5, seed=3)
    assert strings == digit_strings(list(reversed(sample["train"])), 200, 1, 5, seed=3)
    assert strings != digit_strings(sample["train"], 200, 1, 5, seed=4)
    assert {len(each.recordings) for each in strings} == {1, 2, 3, 4, 5}
    assert {each.speaker for each in strings} == {"george", "jackson", "lucas"}
    assert {word for each in strings for word in each.text.split()} == set(WORDS)
    for each in strings[:20]:
        assert {recording.speaker for recording in each.recordings} == {each.speaker}
        assert each.text == " ".join(WORDS[recording.digit] for recording in each.recordings)
        assert len(each.silences) == len(each.recordings) + 1 and all(
            0.05 <= silence <= 0.3 for silence in each.silences
        )
        parts = [recording.sound().samples for recording in each.recordings]
        sound = each.sound()
        expected = [np.zeros(round(each.silences[0] * 8000))]
        for part, silence in zip(parts, each.silences[1:], strict=True):
            expected += [part.numpy(), np.zeros(round(silence * 8000))]
        assert np.array_equal(sound.samples.numpy(), np.concatenate(expected)) and sound.rate == 8000


def test_a_faster_string_is_shorter_and_higher(tmp_path: Path) -> None:
    tone = [round(8000 * np.sin(2 * np.pi * 400 * n / 8000)) for n in range(4000)]
    path = archive(tmp_path / "a.tar", {"1_anna_0.wav": riff(form(rate=8000), chunk(b"data", pcm(*tone)))})
    string = DigitString(tuple(read_recordings(path)), (0.0, 0.0), Fraction(5, 4))
    samples = string.sound().samples.numpy()
    assert len(samples) == 3200 and abs(np.fft.rfft(samples)).argmax() == 400 * 1.25 * 3200 / 8000
    assert string.id.endswith("1_anna_0 x 1.25")


def test_strings_vary_in_speed_around_one(sample: dict[str, list[Recording]]) -> None:
    strings = digit_strings(sample["train"], 200, 1, 3, seed=3, speed=0.1)
    assert {each.speed for each in strings} == {1 + Fraction(steps, 20) for steps in (-2, -1, 0, 1, 2)}
    assert {each.speed for each in digit_strings(sample["train"], 20, 1, 3, seed=3)} == {1}


def test_the_length_of_a_string_is_known_without_reading_sound(sample: dict[str, list[Recording]]) -> None:
    for each in digit_strings(sample["train"], 30, 1, 3, seed=5, speed=0.2):
        assert each.length() == (len(each.sound().samples), 8000)


@pytest.mark.parametrize("unseen", [True, False])
def test_speakers_of_the_parts_are_chosen_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unseen: bool
) -> None:
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    (tmp_path / "speech").mkdir()
    names = [
        f"{digit}_{speaker}_{take}.wav"
        for speaker in ("ann", "bob", "cyd", "dee", "eve")
        for digit in range(2)
        for take in range(10)
    ]
    archive(tmp_path / "speech" / "fsdd.tar", {name: spoken(1) for name in names})
    for seed in (1, 2, 3):
        data = TranscribedData(
            corpus="fsdd", unseen=unseen, valid_speaker="bob" if unseen else None, test_speaker="dee"
        )
        parts = read_recording_parts(data, seed, Notes())
        assert {recording.speaker for recording in parts["test"]} == {"dee"}
        heard = {"ann", "cyd", "eve"} if unseen else {"ann", "bob", "cyd", "eve"}
        assert {recording.speaker for recording in parts["train"]} == heard
        assert {recording.speaker for recording in parts["valid"]} == ({"bob"} if unseen else heard)
        assert sum(map(len, parts.values())) == len(names) and len(
            {each.key for part in parts.values() for each in part}
        ) == len(names)
    with pytest.raises(UserError, match="unknown speaker for data.test_speaker 'dea'; did you mean 'dee'"):
        read_recording_parts(TranscribedData(corpus="fsdd", test_speaker="dea"), 1, Notes())
    with pytest.raises(UserError, match="data.unseen=false validates on every speaker; give one of them"):
        read_recording_parts(TranscribedData(corpus="fsdd", unseen=False, valid_speaker="bob"), 1, Notes())


def test_a_corpus_without_parts_is_split_by_speaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    (tmp_path / "speech").mkdir()
    names = [f"{digit}_{speaker}_{take}.wav" for speaker in "abcde" for digit in range(3) for take in range(2)]
    archive(tmp_path / "speech" / "fsdd.tar", {name: spoken(1) for name in names})
    parts = read_corpus("fsdd")
    assert {part: len(recordings) for part, recordings in parts.items()} == {"train": 18, "valid": 6, "test": 6}
    speakers = [{recording.speaker for recording in part} for part in parts.values()]
    assert sum(map(len, speakers)) == len(set().union(*speakers)) == 5


def test_names_without_a_digit_are_rejected_or_counted(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", {"1_anna_0.wav": spoken(1), "noise.wav": spoken(2), "._1_anna_0.wav": b"x"})
    assert (
        refusal(lambda: read_recordings(path))
        == f"{path}:noise.wav: a recording must be named {{digit}}_{{speaker}}_{{take}}.wav; fix it, or skip"
        " such records with data.faults=skip"
    )
    notes = Notes("skip")
    assert len(list(read_recordings(path, notes=notes))) == 1 and notes.skipped == {"bad name": 1}


def test_invalid_archives_are_rejected(tmp_path: Path) -> None:
    whole = archive(
        tmp_path / "a.tar", {name: spoken(1, 2000) for name in ("1_anna_0.wav", "2_anna_0.wav")}
    ).read_bytes()
    second = len(whole.partition(b"2_anna_0.wav")[0])
    assert refusal(lambda: read_recordings(write(tmp_path / "text.tar", "no tar")))[: len(str(tmp_path)) + 40].endswith(
        "text.tar: cannot be read as a tar of reco"[: 40 - 1]
    )
    assert (
        refusal(lambda: read_recordings(archive(tmp_path / "empty.tar", {"README.md": b"x"})))
        == f"{tmp_path / 'empty.tar'}: there are no recordings in it; add files named"
        " {digit}_{speaker}_{take}.wav to the archive"
    )
    cut = (
        f"{tmp_path / 'cut.tar'}:1_anna_0.wav: the archive ends before the recording does; fix it, or skip such records"
    )
    assert refusal(lambda: read_recordings(write(tmp_path / "cut.tar", whole[:2000]))).startswith(cut)
    for end in (second, second + 200):
        assert (
            refusal(lambda end=end: read_recordings(write(tmp_path / "cut.tar", whole[:end])))
            == f"{tmp_path / 'cut.tar'}: the archive is damaged or truncated at byte {second:,}; copy it again"
        )
    assert refusal(lambda: read_recordings(tmp_path / "missing.tar")).startswith(
        f"no such file: {tmp_path / 'missing.tar'}"
    )
    damaged = archive(tmp_path / "damaged.tar", {"1_anna_0.wav": b"hello, world"})
    (recording,) = read_recordings(damaged)
    assert refusal(recording.sound).startswith(f"{damaged}:1_anna_0: this is not a sound file in a known format")


def test_impossible_strings_are_rejected(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", {"1_anna_0.wav": spoken(1), "2_anna_0.wav": spoken(2, rate=500)})
    one, two = read_recordings(path)
    with pytest.raises(UserError, match="there are no recordings to build strings from; give at least one"):
        digit_strings([], 1, 1, 2, 1)
    with pytest.raises(
        UserError, match=r"the shortest string \(3 digits\) must .* not be longer than the longest \(2\)"
    ):
        digit_strings([one], 1, 3, 2, 1)
    with pytest.raises(
        UserError, match=r"the shortest silence \(0.5 seconds\) must .* longer than the longest \(0.1\)"
    ):
        digit_strings([one], 1, 1, 2, 1, silence=(0.5, 0.1))
    with pytest.raises(
        UserError,
        match=r"recordings in a string must have the same rate, but these have \[500, 1000\]; resample them first",
    ):
        DigitString((one, two), (0.0, 0.0, 0.0)).sound()
    assert torch.equal(DigitString((one,), (0.0, 0.0)).sound().samples, one.sound().samples)
