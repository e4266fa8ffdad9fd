"""The transcript of a sound or a line of handwriting, and the location of each letter.

For a CTC model, the location is the probability that each frame belongs to the letter, over all paths (Graves et al.
2006). For an attentive model, it is the attention of its decoder when it wrote the letter.
"""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from clew.core.config import Section
from clew.drawing.views import Note, Part, Spelled, Table, View
from clew.instruments.instrument import HeadsOff, Instrument, Text
from clew.instruments.subjects.subject import Subject
from clew.tasks.offers import ModelInput


class TranscriptOptions(Section):
    """The file to transcribe."""

    text: Text = Field("", description="a sound file, or a picture of a line of writing")
    off: HeadsOff = ()


def look_at_transcript(subjects: Sequence[Subject], options: TranscriptOptions) -> View:
    subject = subjects[0]
    transcript = subject.offers.spells(ModelInput(options.text), subject.decoding)
    attention = transcript.attention
    weights = attention.weights.float().numpy()
    facts = {"file": str(options.text), "text": transcript.text, "log_prob": transcript.log_prob, **attention.as_json()}
    if not attention.letters:
        return View(
            "Transcript", [Note("nothing was recognised: no letter is likely anywhere")], str(options.text), facts
        )
    canvas, places = attention.canvas, subject.offers.reader.places(options.text, weights.shape[1])
    most = weights.argmax(1)
    rows = [
        (letter, places[place], round(100 * float(row[place] / max(row.sum(), 1e-12)), 1))
        for letter, place, row in zip(attention.letters, most.tolist(), weights, strict=True)
    ]
    parts: list[Part] = [
        Spelled(
            canvas.darkness.astype(np.float64), weights, attention.letters, canvas.length, canvas.unit, canvas.name
        ),
        Table(("letter", "most likely at", "share (%)"), rows, "Where each letter is"),
    ]
    return View(
        "Transcript", parts, f"{transcript.text!r} for {options.text}; log p {transcript.log_prob:.2f} nats", facts
    )


TRANSCRIPT = Instrument(
    "the transcript of a sound, and the location of each letter",
    TranscriptOptions,
    look_at_transcript,
    needs=("spells",),
)
