"""Where a model looks in a picture for each word of a caption (Xu et al. 2015), or of the sentences of a paragraph.

weights_ti = softmax_i(score(s_t, a_i))      word t looks at place i of the picture's grid, or of its regions;
                                             hard attention looks at one place
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.drawing.views import Overlays, Part, Table, View
from clew.inspection.similarity import entropy
from clew.instruments.instrument import HeadsOff, Instrument, Text
from clew.instruments.subjects.subject import Subject
from clew.instruments.word_alignment import layer_choices
from clew.sources.inputs import InputReader
from clew.sources.picture_inputs import PictureReader
from clew.sources.region_inputs import small_picture
from clew.tasks.offers import ModelInput
from clew.tasks.shared.picture_looks import SentenceLooks, picture_in

LONGEST = 336
"""The longer side in pixels of a picture with regions drawn over it."""
TOPIC = "(topic)"
"""The name of the map of a sentence's plan."""


class CaptionOptions(Section):
    """The picture, and the layer whose attention is shown."""

    text: Text = Field("", description="a picture file")
    target: str | None = Field(None, description="the caption or paragraph; by default what the model writes")
    boxes: tuple[list[int], ...] = Field(
        (), description="for a model that reads regions: their boxes in pixels, [[left,top,right,bottom],...]"
    )
    phrases: tuple[str, ...] = Field(
        (), description="for a model that also reads phrases: one for each box, separated by commas"
    )
    layer: int | None = Field(
        None,
        description="one of the decoder's layers that look at the picture, from 1 or -1; the last but one by default",
    )
    off: HeadsOff = ()


def look_at_caption(subjects: Sequence[Subject], options: CaptionOptions) -> View:
    subject = subjects[0]
    reader: InputReader = subject.offers.reader
    if not options.text:
        raise UserError("caption needs a picture; name a file: text=FILE")
    model_input = ModelInput(options.text, options.target, boxes=options.boxes, phrases=options.phrases)
    sentences: list[SentenceLooks] = subject.offers.looks(model_input, options.layer, subject.decoding)
    text = " ".join(sentence.text for sentence in sentences)
    overlay = drawn_over(reader, picture_in(model_input, reader))
    single = len(sentences) == 1 and sentences[0].topic is None
    parts: list[Part] = []
    for sentence in sentences:
        names, weights = named_weights(sentence)
        title = "" if single else sentence.text
        parts.append(Overlays(names=names, maps=[reader_map(reader, row) for row in weights], title=title, **overlay))
        parts.append(table(reader, names, weights))
    facts: dict[str, Any] = {"picture": str(options.text), "caption": text, **places_facts(reader, overlay)}
    if single:
        facts |= sentence_facts(sentences[0])
    else:
        facts["sentences"] = [{"text": sentence.text, **sentence_facts(sentence)} for sentence in sentences]
    return View("Caption", parts, f"{text!r} for {options.text}: words look at the bright places", facts)


def drawn_over(reader: InputReader, picture: Any) -> dict[str, Any]:
    """Return the picture and its places as arguments of `Overlays`."""
    if isinstance(reader, PictureReader):
        pixels = reader.read(picture).numpy()
        whole = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
        return {"pixels": whole, "cell": reader.pictures.cell, "before": reader.pictures.before}
    small, boxes = small_picture(picture, LONGEST)
    return {"pixels": small.numpy(), "boxes": boxes}


def named_weights(sentence: SentenceLooks) -> tuple[list[str], np.ndarray]:
    """Return the names and weights (maps, places) of a sentence's maps: one for its plan, if it has one, and one for
    each word."""
    words, weights = list(sentence.words), sentence.weights.float().numpy()
    if sentence.topic is None:
        return words, weights
    return [TOPIC, *words], np.concatenate([sentence.topic.float().numpy()[None], weights])


def reader_map(reader: InputReader, weights: np.ndarray) -> np.ndarray:
    return weights.reshape(reader.grid) if isinstance(reader, PictureReader) else weights


def table(reader: InputReader, names: Sequence[str], weights: np.ndarray) -> Table:
    """List the place with the most weight for each word, and the entropy of its weights."""
    bits = (entropy(weights) / np.log(2)).tolist()
    rows = [
        (name, *place_of(reader, int(row.argmax())), round(100 * float(row.max()), 1), round(abs(spread), 2))
        for name, row, spread in zip(names, weights, bits, strict=True)
    ]
    place = ("row", "column") if isinstance(reader, PictureReader) else (reader.unit,)
    return Table(("word", *place, "weight (%)", "entropy (bits)"), rows, "Where each word looks most")


def place_of(reader: InputReader, place: int) -> tuple[int, ...]:
    """Return the row and column, or the number, of a place, from 1."""
    return (
        (place // reader.grid[1] + 1, place % reader.grid[1] + 1) if isinstance(reader, PictureReader) else (place + 1,)
    )


def places_facts(reader: InputReader, overlay: dict[str, Any]) -> dict[str, Any]:
    return {"grid": list(reader.grid)} if isinstance(reader, PictureReader) else {"regions": len(overlay["boxes"])}


def sentence_facts(sentence: SentenceLooks) -> dict[str, Any]:
    weights = sentence.weights.float().numpy()
    topic = {} if sentence.topic is None else {"topic": np.round(sentence.topic.float().numpy(), 5).tolist()}
    looked_at = [int(row.argmax()) for row in weights]
    return {"words": list(sentence.words), "weights": np.round(weights, 5).tolist(), "looked_at": looked_at, **topic}


CAPTION = Instrument(
    "where a model looks in a picture for each word it writes",
    CaptionOptions,
    look_at_caption,
    needs=("looks",),
    choices=layer_choices,
)
