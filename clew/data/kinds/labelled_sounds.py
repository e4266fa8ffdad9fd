"""Sounds with a label, or with several: a folder a class, tables, and corpora of recordings, whose label is the word
that is spoken."""

from clew.data.examples import LabelledInput
from clew.data.kinds.kind import Parts
from clew.data.kinds.labelled_inputs import LabelledData, labelled_inputs
from clew.data.kinds.transcribed import SoundsData, recordings_of
from clew.data.notes import Notes
from clew.data.sounds.sound_readers import SOUND_FILES


class LabelledSoundsData(SoundsData, LabelledData):
    """Where the labelled sounds come from: a corpus by name, or files of one's own."""


def corpus_of(data: LabelledSoundsData, seed: int, notes: Notes) -> Parts:
    found = recordings_of(data, seed, notes)
    return {
        part: [LabelledInput(each, (each.text,), each.id) for each in recordings] for part, recordings in found.items()
    }


LABELLED_SOUNDS = labelled_inputs(LabelledSoundsData, SOUND_FILES, corpus_of, "recordings")
