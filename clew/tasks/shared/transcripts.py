"""Rows, answers and metrics of tasks that transcribe sound."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from torch import Tensor

from clew.core.config import Section
from clew.core.reprs import brief
from clew.data.files.file_bytes import File
from clew.metrics.bootstrap import Interval
from clew.metrics.error_rates import character_errors, error_interval, word_errors
from clew.metrics.measures import MEASURES, Measured
from clew.metrics.statistics import Statistics
from clew.sources.canvases import Canvas
from clew.tasks.use import Blocks, Objects


class SoundRow(Section):
    sound: File = Field(
        description="a sound file, or a picture of a line of writing", json_schema_extra={"metavar": "FILE"}
    )


@dataclass(frozen=True)
class Looked:
    """Attention weights (letters, places) of each letter of a text over its input, and the canvas that shows the
    input."""

    letters: tuple[str, ...]
    weights: Tensor
    canvas: Canvas

    def as_json(self) -> dict[str, Any]:
        weights = [[round(weight, 5) for weight in row] for row in self.weights.tolist()]
        return {
            "letters": list(self.letters),
            "weights": weights,
            "length": self.canvas.length,
            "unit": self.canvas.unit,
        }


@dataclass(frozen=True)
class Transcription:
    """The transcript of a sound.

    `log_prob` is summed over all paths that collapse to the text; without a beam search it is that of the best path.
    For a decoder that generates the text it is that of the tokens and their end.
    """

    sound: str
    text: str
    log_prob: float
    attention: Looked | None = None

    def __repr__(self) -> str:
        return brief(self, self.text, log_prob=self.log_prob)

    def __str__(self) -> str:
        return self.text


class MeasuredTranscripts:
    """Transcripts compared with references: word and character error rates."""

    config: Any

    def measure(self, examples: Sequence[Any], predictions: Sequence[str]) -> Measured:
        references = [example.text for example in examples]
        measured = [MEASURES[name].corpus(predictions, references, False) for name in self.config.measures]
        values = {name: value for each in measured for name, value in each.values.items()}
        return Measured(values, ", ".join(each.text for each in measured))

    def statistics(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[Statistics]:
        references = [example.text for example in examples]
        metric_statistics = [MEASURES[name].statistics(predictions, references, False) for name in self.config.measures]
        return [
            {name: row for each in metric_statistics for name, row in each[place].items()}
            for place in range(len(examples))
        ]

    def intervals(self, examples: Sequence[Any], predictions: Sequence[str]) -> dict[str, Interval]:
        """Return bootstrap intervals of the word and character error rates."""
        references = [example.text for example in examples]
        rates = {"wer": word_errors, "cer": character_errors}
        names = [name for name in self.config.measures if name in rates]
        return {name: error_interval(rates[name](predictions, references)).times(100) for name in names}

    def sentence_scores(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[float]:
        """Return 100 minus the percentage of wrong words, at least 0."""
        sentence = MEASURES[self.config.measures[0] if self.config.measures else "wer"].sentence
        pairs = zip(examples, predictions, strict=True)
        return [max(100 + sentence(prediction, example.text, False), 0.0) for example, prediction in pairs]

    def described(self, example: Any, prediction: str) -> dict[str, str]:
        return {"source": str(example.id), "target": example.text, "prediction": prediction}


def transcription_objects(
    number: int, row: SoundRow, answer: "Transcription | list[Transcription] | None", options: Any
) -> Objects:
    if answer is None:
        return [{"line": number, "sound": "", "text": None}]
    if isinstance(answer, Transcription):
        return [{"line": number, **transcription_object(answer)}]
    return [
        {"line": number, "rank": rank, **transcription_object(transcript)}
        for rank, transcript in enumerate(answer, start=1)
    ]


def transcription_object(transcript: Transcription) -> dict[str, Any]:
    attention = {} if transcript.attention is None else {"attention": transcript.attention.as_json()}
    return {"sound": transcript.sound, "text": transcript.text, "log_prob": transcript.log_prob, **attention}


def as_lines(blocks: Blocks, options: Any, alone: bool) -> Iterator[str]:
    """Write each transcript, after the file's name if there are several rows."""
    for block in blocks:
        for answered in block:
            transcripts = answered.answer if isinstance(answered.answer, list) else [answered.answer]
            for transcript in transcripts:
                name = "" if alone or transcript is None else f"{transcript.sound}\t"
                yield f"{name}{'' if transcript is None else transcript.text}\n"
