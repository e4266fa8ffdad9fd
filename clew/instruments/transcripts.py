"""What is said in a sound, or stands in a line of writing, and where each letter of it lies.

Of a model that was trained by CTC it is how probably each frame belongs to a letter, over all paths (Graves et al. 2006); of one that
attends, what its decoder looked at while it wrote the letter.
"""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from clew.core.config import Section
from clew.drawing.views import Note, Part, Spelled, Table, View
from clew.instruments.instrument import HeadsOff, Instrument, Text
from clew.instruments.subject import Subject
from clew.tasks.offers import Given


class TranscriptOptions(Section):
    """Which file is written down."""

    text: Text = Field("", description="a sound file, or a picture of a line of writing")
    off: HeadsOff = ()


def look_at_transcript(subjects: Sequence[Subject], options: TranscriptOptions) -> View:
    subject = subjects[0]
    heard = subject.offers.spells(Given(options.text), subject.decoding)
    looked = heard.attention
    weights = looked.weights.float().numpy()
    facts = {"file": str(options.text), "text": heard.text, "log_prob": heard.log_prob, **looked.as_json()}
    if not looked.letters:
        return View("Transcript", [Note("nothing was heard: no letter is likelier than none anywhere")], str(options.text), facts)
    canvas, places = looked.canvas, subject.offers.reader.places(options.text, weights.shape[1])
    most = weights.argmax(1)
    rows = [
        (letter, places[place], round(100 * float(row[place] / max(row.sum(), 1e-12)), 1))
        for letter, place, row in zip(looked.letters, most.tolist(), weights, strict=True)
    ]
    parts: list[Part] = [
        Spelled(canvas.darkness.astype(np.float64), weights, looked.letters, canvas.length, canvas.unit, canvas.name),
        Table(("letter", "lies most at", "share (%)"), rows, "Where each letter lies"),
    ]
    return View("Transcript", parts, f"{heard.text!r} for {options.text}; log p {heard.log_prob:.2f} nats", facts)


TRANSCRIPT = Instrument("what is said in a sound, and where each letter lies", TranscriptOptions, look_at_transcript, needs=("spells",))
