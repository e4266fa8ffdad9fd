"""Where a captioner looks in a picture while it writes each word (Xu et al. 2015).

weights_ti = softmax_i(score(s_t, a_i))      word t looks at place i of the picture's grid; hard attention looks at one
"""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.drawing.views import Overlays, Part, Table, View
from clew.inspection.similarity import entropy
from clew.instruments.instrument import HeadsOff, Instrument, Text
from clew.instruments.subject import Subject
from clew.instruments.word_alignment import layer_choices
from clew.sources.picture_inputs import PictureReader
from clew.tasks.offers import Given


class CaptionOptions(Section):
    """Which picture, and whose attention is taken."""

    text: Text = Field("", description="a picture file")
    target: str | None = Field(None, description="the caption; what the model writes itself where not given")
    layer: int | None = Field(None, description="of the decoder's layers that look at the picture, from 1 or from -1; the last but one")
    off: HeadsOff = ()


def look_at_caption(subjects: Sequence[Subject], options: CaptionOptions) -> View:
    subject = subjects[0]
    reader: PictureReader = subject.offers.reader
    if not options.text:
        raise UserError("there is no picture to caption; name a file: text=FILE")
    given = Given(options.text, options.target)
    text = options.target if options.target is not None else subject.offers.own_target(given, subject.decoding)
    found = subject.offers.aligns(given._replace(target=text), options.layer)
    weights = found.by_word().float().numpy()
    words = found.target.words
    pixels = reader.read(options.text).numpy()
    maps = [row.reshape(reader.grid) for row in weights]
    most = [int(row.argmax()) for row in weights]
    bits = (entropy(weights) / np.log(2)).tolist()
    rows = [
        (word, place // reader.grid[1] + 1, place % reader.grid[1] + 1, round(100 * float(row[place]), 1), round(spread, 2))
        for word, place, row, spread in zip(words, most, weights, bits, strict=True)
    ]
    parts: list[Part] = [
        Overlays(np.broadcast_to(pixels, (*pixels.shape[:2], 3)), words, maps, reader.pictures.cell, before=reader.pictures.before),
        Table(("word", "row", "column", "weight (%)", "entropy (bits)"), rows, "Where each word looks most"),
    ]
    facts = {
        "picture": str(options.text),
        "caption": text,
        "words": list(words),
        "grid": list(reader.grid),
        "weights": np.round(weights, 5).tolist(),
        "looked_at": most,
    }
    return View("Caption", parts, f"{text!r} for {options.text}: bright is where a word looks", facts)


def why_no_pictures(subject: Subject) -> str | None:
    reads = isinstance(getattr(subject.offers, "reader", None), PictureReader)
    return None if reads else f"{subject.name} writes no captions of pictures"


CAPTION = Instrument(
    "where a captioner looks in a picture for each word",
    CaptionOptions,
    look_at_caption,
    needs=("aligns",),
    fits=why_no_pictures,
    choices=layer_choices,
)
