"""Sounds with a label, or with several: a folder for each class, tables, and corpora of recordings, whose label is the
spoken word."""

from clew.data.examples import LabelledInput
from clew.data.kinds.kind import Parts
from clew.data.kinds.labelled_inputs import LabelledData, labelled_inputs
from clew.data.kinds.transcribed import SoundsData, read_recording_parts
from clew.data.notes import Notes
from clew.data.sounds.sound_readers import SOUND_FILES


class LabelledSoundsData(SoundsData, LabelledData):
    """Where the labelled sounds come from: a corpus by name, or your own files."""


def read_corpus_parts(data: LabelledSoundsData, seed: int, notes: Notes) -> Parts:
    parts = read_recording_parts(data, seed, notes)
    return {
        part: [LabelledInput(each, (each.text,), each.id) for each in recordings] for part, recordings in parts.items()
    }


LABELLED_SOUNDS = labelled_inputs(LabelledSoundsData, SOUND_FILES, read_corpus_parts, "recordings")
