"""What a picture shows: a label, several, or a number. Any body that reads one sequence or a grid, over patches, pixels, rows or the grid
of a network."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from clew.core.config import Part, build_part, one_of
from clew.data.examples import LabelledPicture
from clew.data.kinds.labelled_pictures import LABELLED_PICTURES
from clew.sources.readers import PICTURES, AnyReader
from clew.tasks.captioning import PictureRow
from clew.tasks.entry import TaskEntry
from clew.tasks.examples import Examples, TrainTokenizer
from clew.tasks.input_lengths import places_read
from clew.tasks.labelled_inputs import LINES, InputClassifier, JudgedInput, input_baselines, judged_objects
from clew.tasks.pooled import PooledConfig, label_table_of
from clew.tasks.use import Options, Use
from clew.text.labels import Labels


class PictureClassificationConfig(PooledConfig):
    """A label for each picture, several, or a number."""

    name: Literal["picture_classification"] = "picture_classification"
    input: Annotated[Part, one_of("reader of pictures", PICTURES)] = Field("convolved", description="how a picture is read")
    longest: int = Field(10_000, ge=1, description="pictures of more places than this are left out of training, and counted")


class PictureClassifier(InputClassifier):
    text_name = "picture"


def train_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[LabelledPicture], config: PictureClassificationConfig
) -> dict[str, Any]:
    reader = build_part("reader of pictures", config.input, PICTURES).fitted(examples[0].picture)
    return {"input": reader, "labels": label_table_of(examples, config.labels)}


def build(body: Any, vocabularies: dict[str, Any], config: PictureClassificationConfig) -> PictureClassifier:
    return PictureClassifier(body, vocabularies["input"], vocabularies["labels"], config)


def judge_rows(tasks: Sequence[InputClassifier], rows: Sequence[PictureRow], options: Options, numbers: Sequence[int]) -> list[JudgedInput]:
    return tasks[0].judge_inputs([row.picture for row in rows])


PICTURE_CLASSIFICATION = TaskEntry(
    config=PictureClassificationConfig,
    build=build,
    vocabularies={"input": AnyReader, "labels": Labels},
    learning=Examples(LABELLED_PICTURES, train_vocabularies),
    baselines=input_baselines,
    uses={
        "predict": Use(
            about="tell what pictures show",
            row=PictureRow,
            options=Options,
            answer=judge_rows,
            objects=judged_objects,
            formats={"lines": LINES},
            places=places_read,
            try_it=lambda example: (["picture.png"], None),
        )
    },
    pipeline="image-classification",
    gives=("grid",),
)
