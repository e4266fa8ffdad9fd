"""Attention over a picture for each word of a text, sentence by sentence, shared by tasks that describe pictures."""

from typing import Any, NamedTuple

from torch import Tensor

from clew.core.errors import UserError
from clew.data.pictures.paragraph_readers import with_boxes
from clew.data.pictures.picture_files import as_picture
from clew.data.values import Faulty
from clew.sources.inputs import InputReader
from clew.sources.picture_inputs import PictureReader
from clew.tasks.offers import ModelInput
from clew.tasks.shared.input_lengths import file_in


class SentenceLooks(NamedTuple):
    """The attention weights of a sentence (words, places); the last word is the sentence's end. `topic` (places,) is
    the attention of a model that plans sentences."""

    text: str
    words: list[str]
    weights: Tensor
    topic: Tensor | None = None


def why_not_drawn(reader: InputReader) -> str | None:
    """Return why attention weights cannot be drawn over a picture that `reader` reads, or None if they can."""
    is_drawable = isinstance(reader, PictureReader) or reader.reads_boxes
    return None if is_drawable else f"reads each {reader.unit} of a picture of any size, which is not drawn"


def picture_in(model_input: ModelInput, reader: InputReader) -> Any:
    """Return the picture as `reader` takes it: with boxes if it reads regions, else without."""
    file = file_in(model_input, "picture")
    if not reader.reads_boxes:
        if model_input.boxes:
            raise UserError(
                f"boxes are for models that read regions, but this model reads whole pictures ({reader.name}); leave"
                " boxes out"
            )
        return file
    boxes = model_input.boxes or getattr(file, "boxes", ())
    if not boxes:
        raise UserError(
            f"{file}: this model reads the regions of a picture; give their boxes, such as"
            " boxes=[[0,0,24,24],[8,24,40,48]]"
        )
    try:
        return with_boxes(as_picture(file), boxes)
    except Faulty as fault:
        raise UserError(f"{file}: {fault}") from None
