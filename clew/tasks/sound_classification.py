"""What a sound is: a label, several, or a number. Any body that reads one sequence, over log-mel frames."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from clew.core.config import Part, build_part, one_of
from clew.data.examples import LabelledSound
from clew.data.kinds.labelled_sounds import LABELLED_SOUNDS
from clew.sources.readers import SOUNDS, AnyReader
from clew.tasks.answers import Found
from clew.tasks.entry import TaskEntry
from clew.tasks.examples import Examples, TrainTokenizer
from clew.tasks.input_lengths import places_read
from clew.tasks.labelled_inputs import LINES, InputClassifier, JudgedInput, input_baselines, judged_objects
from clew.tasks.pooled import PooledConfig, label_table_of
from clew.tasks.transcripts import SoundRow
from clew.tasks.use import Options, Use
from clew.text.labels import Labels


class SoundClassificationConfig(PooledConfig):
    """A label for each sound, several, or a number."""

    name: Literal["sound_classification"] = "sound_classification"
    input: Annotated[Part, one_of("reader of sounds", SOUNDS)] = Field("log_mel", description="how a sound is read")
    longest: int = Field(2000, ge=1, description="training sounds with more frames than this are left out, and counted")


class SoundClassifier(InputClassifier):
    text_name = "sound"

    def described(self, example: Any, prediction: Found) -> dict[str, Any]:
        return {**super().described(example, prediction), "source": example.key}


def train_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[LabelledSound], config: SoundClassificationConfig
) -> dict[str, Any]:
    reader = build_part("reader of sounds", config.input, SOUNDS).fitted(examples[0].sound)
    return {"input": reader, "labels": label_table_of(examples, config.labels)}


def build(body: Any, vocabularies: dict[str, Any], config: SoundClassificationConfig) -> SoundClassifier:
    return SoundClassifier(body, vocabularies["input"], vocabularies["labels"], config)


def judge_rows(tasks: Sequence[InputClassifier], rows: Sequence[SoundRow], options: Options, numbers: Sequence[int]) -> list[JudgedInput]:
    return tasks[0].judge_inputs([row.sound for row in rows])


SOUND_CLASSIFICATION = TaskEntry(
    config=SoundClassificationConfig,
    build=build,
    vocabularies={"input": AnyReader, "labels": Labels},
    learning=Examples(LABELLED_SOUNDS, train_vocabularies),
    baselines=input_baselines,
    uses={
        "predict": Use(
            about="tell what sounds are",
            row=SoundRow,
            options=Options,
            answer=judge_rows,
            objects=judged_objects,
            formats={"lines": LINES},
            places=places_read,
            try_it=lambda example: (["sound.wav"], None),
        )
    },
    pipeline="audio-classification",
)
