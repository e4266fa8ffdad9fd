"""Sounds with what is said in them, and lines of writing: tables of files and texts, corpora of recordings, and lines
that are drawn."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field

from clew.core.errors import UserError, unknown
from clew.data.corpora import read_corpus
from clew.data.corpora.contents import Recordings
from clew.data.examples import Transcribed
from clew.data.kinds.kind import Given, Kind, Parts, cut_files
from clew.data.kinds.section import Column, TableData
from clew.data.notes import Notes
from clew.data.pictures.picture_decoding import ENDINGS
from clew.data.pictures.picture_files import picture_size
from clew.data.sounds.sound_files import sound_length
from clew.data.sounds.sound_readers import given_path, read_transcribed
from clew.data.sounds.spoken_digits import digit_strings
from clew.data.synthetic.drawn_lines import LINES, drawn_lines


class SoundsData(TableData):
    """Where the sounds come from: a corpus by name, or files of one's own."""

    sound: Column | None = Field(
        None, description="the column of the sound files, by name or number; paths are relative to the table"
    )
    unseen: bool = Field(
        True,
        description=(
            "recordings: validation is of a speaker whom training does not hear; false: of the first takes of each"
            " speaker"
        ),
    )
    valid_speaker: str | None = Field(
        None, description="recordings: whom the validation part hears; drawn by the seed where not given"
    )
    test_speaker: str | None = Field(
        None, description="recordings: whom the test part alone hears; drawn by the seed where not given"
    )


class TranscribedData(SoundsData):
    """Where the sounds and their texts come from: a corpus by name, or files of one's own."""

    text: Column | None = Field(None, description="the column of what is said")
    strings: int | None = Field(
        2000,
        ge=1,
        description=(
            "recordings of single words are joined, or lines drawn: so many for training, and a tenth of that for the"
            " others"
        ),
    )
    shortest: int = Field(1, ge=1, description="recordings in a string, or words in a line, at least")
    longest: int = Field(5, ge=1, description="recordings in a string, or words in a line, at most")
    speed: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="training strings of recordings are played up to so much faster or slower (Ko et al. 2015: 0.1)",
    )


def check_input(example: Any) -> None:
    """Refuses what is no sound, or where it is called like a picture no picture, by its header."""
    name = str(example.input)
    picture_size(name) if name.lower().endswith(ENDINGS) else sound_length(name)


def recordings_of(data: SoundsData, seed: int, notes: Notes) -> dict[str, Sequence[Any]]:
    """The recordings of a corpus by part, those of the test part by a speaker of its own."""
    assert data.corpus is not None
    if data.valid_speaker is not None and not data.unseen:
        raise UserError(
            "data.valid_speaker is for validation alone, and data.unseen=false validates on every speaker; give one of"
            " them"
        )
    found: dict[str, Sequence[Any]] = read_corpus(data.corpus, kind=Recordings.kind, seed=seed, notes=notes)
    for part, speaker in (("test", data.test_speaker), ("valid", data.valid_speaker)):
        if speaker is not None:
            found = with_speaker(found, part, speaker)
    if data.unseen:
        return found
    heard = [*found["train"], *found["valid"]]
    first = sorted({recording.take for recording in heard})
    limit = first[max(round(data.valid_fraction * len(first)), 1)]
    return {
        **found,
        "train": [recording for recording in heard if recording.take >= limit],
        "valid": [recording for recording in heard if recording.take < limit],
    }


def with_speaker(parts: dict[str, Sequence[Any]], part: str, speaker: str) -> dict[str, Sequence[Any]]:
    """The parts with a speaker's recordings in one of them; who was there changes places with that speaker."""
    speakers = sorted({recording.speaker for some in parts.values() for recording in some})
    if speaker not in speakers:
        raise unknown(f"speaker for data.{part}_speaker", speaker, speakers)
    before = {recording.speaker for recording in parts[part]}
    found: dict[str, Sequence[Any]] = {}
    for name, some in parts.items():
        own = {recording.speaker for recording in some}
        changed = {speaker} if name == part else (own - {speaker} | before if speaker in own else own)
        found[name] = [recording for each in parts.values() for recording in each if recording.speaker in changed]
    return found


def transcribed_of(data: TranscribedData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        "data.train names your table of sounds, e.g. `clew train transcribe data.train=my.csv data.sound=file"
        " data.text=said`"
    )
    if data.corpus is None:
        return cut_files(lambda files: transcribed_in(files, data, notes), data, seed, check=check_input)
    if data.corpus == LINES:
        return drawn(data, seed)
    found = recordings_of(data, seed, notes)
    parts: Parts = {}
    for number, (part, recordings) in enumerate(found.items()):
        spoken = list(recordings)
        if data.strings is not None:
            is_train = part == "train"
            count = data.strings if is_train else max(data.strings // 10, 1)
            speed = data.speed if is_train else 0.0
            spoken = digit_strings(spoken, count, data.shortest, data.longest, seed * 3 + number, speed=speed)
        parts[part] = [Transcribed(each, each.text, id=each.id) for each in spoken]
    return parts


def drawn(data: TranscribedData, seed: int) -> Parts:
    """Lines of writing, none of which two parts have in common: each has its own hand."""
    whole = 2000 if data.strings is None else data.strings
    counts = {"train": whole, "valid": max(whole // 10, 1), "test": max(whole // 10, 1)}
    lines = {
        part: drawn_lines(count, data.shortest, data.longest, seed * 3 + number)
        for number, (part, count) in enumerate(counts.items())
    }
    return {part: [Transcribed(line, line.text, line.id) for line in some] for part, some in lines.items()}


def transcribed_in(files: Given, data: TranscribedData, notes: Notes) -> Iterator[Transcribed]:
    for file in files:
        yield from read_transcribed(
            file, sound=data.sound, text=data.text, format=data.format, header=data.header, notes=notes
        )


def transcribed_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """(path, text)."""
    for example in read_transcribed(examples, notes=notes):
        yield {"sound": given_path(example.input), "text": example.text}


TRANSCRIBED = Kind(
    name="transcribed sounds",
    section=TranscribedData,
    read_parts=transcribed_of,
    read_files=transcribed_in,
    rows=transcribed_rows,
    is_plain=False,
)
