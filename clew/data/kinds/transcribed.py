"""Sounds with transcripts, and lines of writing: tables of files and texts, corpora of recordings, and drawn lines."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field

from clew.core.errors import UserError, unknown
from clew.data.corpora import read_corpus
from clew.data.corpora.contents import Recordings
from clew.data.examples import Transcribed
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import Column, TableData
from clew.data.notes import Notes
from clew.data.pictures.picture_decoding import ENDINGS
from clew.data.pictures.picture_files import picture_size
from clew.data.sounds.sound_files import sound_length
from clew.data.sounds.sound_readers import given_path, read_transcribed
from clew.data.sounds.spoken_digits import digit_strings
from clew.data.synthetic.drawn_lines import LINES, drawn_lines


class SoundsData(TableData):
    """Where the sounds come from: a corpus by name, or your own files."""

    sound: Column | None = Field(
        None, description="the column of the sound files, by name or number; paths are relative to the table"
    )
    unseen: bool = Field(
        True,
        description=(
            "recordings: validate on a speaker that is not in training; false: on the first takes of every speaker"
        ),
    )
    valid_speaker: str | None = Field(
        None, description="recordings: the speaker of the validation part; by default drawn by the seed"
    )
    test_speaker: str | None = Field(
        None, description="recordings: the speaker that is only in the test part; by default drawn by the seed"
    )


class TranscribedData(SoundsData):
    """Where the sounds and their texts come from: a corpus by name, or your own files."""

    text: Column | None = Field(None, description="the column of the transcript")
    strings: int | None = Field(
        2000,
        ge=1,
        description=(
            "the number of joined recordings of single words, or of drawn lines, for training; a tenth for other parts"
        ),
    )
    shortest: int = Field(1, ge=1, description="the fewest recordings in a string, or words in a line")
    longest: int = Field(5, ge=1, description="the most recordings in a string, or words in a line")
    speed: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="play training strings of recordings faster or slower by up to this share (Ko et al. 2015: 0.1)",
    )


def check_input(example: Any) -> None:
    """Refuse a file that is not a sound, or not a picture if it has a picture's ending, judged by its header."""
    name = str(example.input)
    picture_size(name) if name.lower().endswith(ENDINGS) else sound_length(name)


def read_recording_parts(data: SoundsData, seed: int, notes: Notes) -> dict[str, Sequence[Any]]:
    """Return the recordings of a corpus by part; the test part has a different speaker."""
    assert data.corpus is not None
    if data.valid_speaker is not None and not data.unseen:
        raise UserError(
            "data.valid_speaker names the only speaker of validation, but data.unseen=false validates on every"
            " speaker; give one of them"
        )
    parts: dict[str, Sequence[Any]] = read_corpus(data.corpus, kind=Recordings.kind, seed=seed, notes=notes)
    for part, speaker in (("test", data.test_speaker), ("valid", data.valid_speaker)):
        if speaker is not None:
            parts = with_speaker(parts, part, speaker)
    if data.unseen:
        return parts
    recordings = [*parts["train"], *parts["valid"]]
    takes = sorted({recording.take for recording in recordings})
    limit = takes[max(round(data.valid_fraction * len(takes)), 1)]
    return {
        **parts,
        "train": [recording for recording in recordings if recording.take >= limit],
        "valid": [recording for recording in recordings if recording.take < limit],
    }


def with_speaker(parts: dict[str, Sequence[Any]], part: str, speaker: str) -> dict[str, Sequence[Any]]:
    """Move a speaker's recordings to one of the parts; the speakers who were there take their place."""
    speakers = sorted({recording.speaker for recordings in parts.values() for recording in recordings})
    if speaker not in speakers:
        raise unknown(f"speaker for data.{part}_speaker", speaker, speakers)
    replaced = {recording.speaker for recording in parts[part]}
    moved: dict[str, Sequence[Any]] = {}
    for name, recordings in parts.items():
        own = {recording.speaker for recording in recordings}
        new = {speaker} if name == part else (own - {speaker} | replaced if speaker in own else own)
        moved[name] = [recording for each in parts.values() for recording in each if recording.speaker in new]
    return moved


def read_transcribed_parts(data: TranscribedData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        "there is no training data; name your table of sounds with data.train, e.g. `clew train transcribe"
        " data.train=my.csv data.sound=file data.text=said`"
    )
    if data.corpus is None:
        return cut_files(lambda files: read_transcribed_files(files, data, notes), data, seed, check=check_input)
    if data.corpus == LINES:
        return draw_parts(data, seed)
    parts: Parts = {}
    for number, (part, recordings) in enumerate(read_recording_parts(data, seed, notes).items()):
        spoken = list(recordings)
        if data.strings is not None:
            is_train = part == "train"
            count = data.strings if is_train else max(data.strings // 10, 1)
            speed = data.speed if is_train else 0.0
            spoken = digit_strings(spoken, count, data.shortest, data.longest, seed * 3 + number, speed=speed)
        parts[part] = [Transcribed(each, each.text, id=each.id) for each in spoken]
    return parts


def draw_parts(data: TranscribedData, seed: int) -> Parts:
    """Draw lines of writing. No two parts share a line: each line has its own hand."""
    whole = 2000 if data.strings is None else data.strings
    counts = {"train": whole, "valid": max(whole // 10, 1), "test": max(whole // 10, 1)}
    lines = {
        part: drawn_lines(count, data.shortest, data.longest, seed * 3 + number)
        for number, (part, count) in enumerate(counts.items())
    }
    return {part: [Transcribed(line, line.text, line.id) for line in drawn] for part, drawn in lines.items()}


def read_transcribed_files(files: PartFiles, data: TranscribedData, notes: Notes) -> Iterator[Transcribed]:
    for file in files:
        yield from read_transcribed(
            file, sound=data.sound, text=data.text, format=data.format, header=data.header, notes=notes
        )


def transcribed_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """Yield (path, text)."""
    for example in read_transcribed(examples, notes=notes):
        yield {"sound": given_path(example.input), "text": example.text}


TRANSCRIBED = Kind(
    name="transcribed sounds",
    section=TranscribedData,
    read_parts=read_transcribed_parts,
    read_files=read_transcribed_files,
    rows=transcribed_rows,
    is_plain=False,
)
