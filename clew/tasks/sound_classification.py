"""Sound classification: a label for a sound, several labels, or a number. Any body that reads one sequence, over
log-mel frames."""

from typing import Annotated, Literal

from pydantic import Field

from clew.core.config import Part, one_of
from clew.data.kinds.labelled_sounds import LABELLED_SOUNDS
from clew.sources.readers import SOUNDS
from clew.tasks.shared.labelled_inputs import InputClassifier, input_classification
from clew.tasks.shared.pooled import PooledConfig
from clew.tasks.shared.transcripts import SoundRow


class SoundClassificationConfig(PooledConfig):
    """A label for each sound, several, or a number."""

    name: Literal["sound_classification"] = "sound_classification"
    input: Annotated[Part, one_of("reader of sounds", SOUNDS)] = Field("log_mel", description="how a sound is read")
    longest: int = Field(2000, ge=1, description="training sounds with more frames than this are left out, and counted")


class SoundClassifier(InputClassifier):
    text_name = "sound"


SOUND_CLASSIFICATION = input_classification(
    SoundClassificationConfig,
    SoundClassifier,
    LABELLED_SOUNDS,
    SoundRow,
    SOUNDS,
    file="sound.wav",
    about="classify sounds",
    pipeline="audio-classification",
)
