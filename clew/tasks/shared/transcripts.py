"""What is said in sounds: rows, answers and measures that tasks which transcribe share, however they do it."""

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
    """Where each letter of a text lies in its input: weights (letters, places), and the input as a person looks at
    it."""

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
class Heard:
    """What is said in a sound; `log_prob` is of all paths that say it, of the best path alone where no beam was
    searched; of a decoder that writes, of its tokens and their end."""

    sound: str
    text: str
    log_prob: float
    attention: Looked | None = None

    def __repr__(self) -> str:
        return brief(self, self.text, log_prob=self.log_prob)

    def __str__(self) -> str:
        return self.text


class MeasuredTranscripts:
    """Texts held against what was said: word and character error rates."""

    config: Any

    def measure(self, examples: Sequence[Any], predictions: Sequence[str]) -> Measured:
        wanted = [example.text for example in examples]
        found = [MEASURES[name].corpus(predictions, wanted, False) for name in self.config.measures]
        values = {name: value for measured in found for name, value in measured.values.items()}
        return Measured(values, ", ".join(measured.text for measured in found))

    def statistics(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[Statistics]:
        wanted = [example.text for example in examples]
        found = [MEASURES[name].statistics(predictions, wanted, False) for name in self.config.measures]
        return [{name: row for each in found for name, row in each[place].items()} for place in range(len(examples))]

    def intervals(self, examples: Sequence[Any], predictions: Sequence[str]) -> dict[str, Interval]:
        """Of word and character error rates, by resampling examples."""
        wanted = [example.text for example in examples]
        rates = {"wer": word_errors, "cer": character_errors}
        chosen = [name for name in self.config.measures if name in rates]
        return {name: error_interval(rates[name](predictions, wanted)).times(100) for name in chosen}

    def sentence_scores(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[float]:
        """100 less the percentage of wrong words, at least 0."""
        sentence = MEASURES[self.config.measures[0] if self.config.measures else "wer"].sentence
        pairs = zip(examples, predictions, strict=True)
        return [max(100 + sentence(prediction, example.text, False), 0.0) for example, prediction in pairs]

    def described(self, example: Any, prediction: str) -> dict[str, str]:
        return {"source": str(example.id), "target": example.text, "prediction": prediction}


def heard_objects(number: int, row: SoundRow, answer: "Heard | list[Heard] | None", options: Any) -> Objects:
    if answer is None:
        return [{"line": number, "sound": "", "text": None}]
    if isinstance(answer, Heard):
        return [{"line": number, **heard_object(answer)}]
    return [{"line": number, "rank": rank, **heard_object(one)} for rank, one in enumerate(answer, start=1)]


def heard_object(heard: Heard) -> dict[str, Any]:
    looked = {} if heard.attention is None else {"attention": heard.attention.as_json()}
    return {"sound": heard.sound, "text": heard.text, "log_prob": heard.log_prob, **looked}


def as_lines(blocks: Blocks, options: Any, alone: bool) -> Iterator[str]:
    """The text; behind the file's name where there are several."""
    for some in blocks:
        for each in some:
            several = each.answer if isinstance(each.answer, list) else [each.answer]
            for one in several:
                name = "" if alone or one is None else f"{one.sound}\t"
                yield f"{name}{'' if one is None else one.text}\n"
