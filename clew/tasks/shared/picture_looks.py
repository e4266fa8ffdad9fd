"""Where in a picture each word of a text looks, sentence by sentence: what tasks that write on pictures share."""

from typing import Any, NamedTuple

from torch import Tensor

from clew.core.errors import UserError
from clew.data.pictures.paragraph_readers import with_boxes
from clew.data.pictures.picture_files import as_picture
from clew.data.values import Faulty
from clew.sources.inputs import InputReader
from clew.sources.picture_inputs import PictureReader
from clew.tasks.offers import Given
from clew.tasks.shared.input_lengths import file_in


class SentenceLooks(NamedTuple):
    """A sentence on a picture: attention weights (words, places), the sentence's end being the last word. `topic`
    (places,) is where the sentence was planned from, of a model that plans."""

    text: str
    words: list[str]
    weights: Tensor
    topic: Tensor | None = None


def why_not_drawn(reader: InputReader) -> str | None:
    """The reason why attention weights cannot be drawn over a picture that `reader` reads, or None where they can."""
    can = isinstance(reader, PictureReader) or reader.reads_boxes
    return None if can else f"reads each {reader.unit} of a picture of any size, over which nothing is drawn"


def picture_in(given: Given, reader: InputReader) -> Any:
    """The picture as a reader takes it: with boxes where it reads regions, and without them where it does not."""
    file = file_in(given, "picture")
    if not reader.reads_boxes:
        if given.boxes:
            raise UserError(
                f"boxes are for models that read regions, and this one reads whole pictures ({reader.name}); leave"
                " boxes out"
            )
        return file
    boxes = given.boxes or getattr(file, "boxes", ())
    if not boxes:
        raise UserError(
            f"{file}: this model reads the regions of a picture; give their boxes, such as"
            " boxes=[[0,0,24,24],[8,24,40,48]]"
        )
    try:
        return with_boxes(as_picture(file), boxes)
    except Faulty as fault:
        raise UserError(f"{file}: {fault}") from None
