"""Picture classification: a label for a picture, several labels, or a number. Any body that reads one sequence or a
grid, over patches, pixels, rows or the feature map of a convolutional network."""

from typing import Annotated, Literal

from pydantic import Field

from clew.core.config import Part, one_of
from clew.data.kinds.labelled_pictures import LABELLED_PICTURES
from clew.sources.readers import PICTURES
from clew.tasks.captioning import PictureRow
from clew.tasks.shared.labelled_inputs import InputClassifier, input_classification
from clew.tasks.shared.pooled import PooledConfig


class PictureClassificationConfig(PooledConfig):
    """A label for each picture, several, or a number."""

    name: Literal["picture_classification"] = "picture_classification"
    input: Annotated[Part, one_of("reader of pictures", PICTURES)] = Field(
        "convolved", description="how a picture is read"
    )
    longest: int = Field(
        10_000, ge=1, description="training pictures with more positions than this are left out, and counted"
    )


class PictureClassifier(InputClassifier):
    text_name = "picture"


PICTURE_CLASSIFICATION = input_classification(
    PictureClassificationConfig,
    PictureClassifier,
    LABELLED_PICTURES,
    PictureRow,
    PICTURES,
    file="picture.png",
    about="classify pictures",
    pipeline="image-classification",
    gives=("grid",),
)
