"""What a classifier and a chooser share: texts that are given to be judged, and how their answers are measured."""

from collections.abc import Sequence
from typing import Any

from clew.data.examples import Labelled
from clew.metrics.bootstrap import Interval
from clew.metrics.measures import Measured
from clew.metrics.statistics import Statistics
from clew.tasks.uses.answers import Found
from clew.text.tokenizer import check_is_text


class Judging:
    """Answers to labelled texts, measured as the kind of its `answer` says."""

    answer: Any

    def measure(self, examples: Sequence[Labelled], predictions: Sequence[Found]) -> Measured:
        found: Measured = self.answer.measure(examples, predictions)
        return found

    def intervals(self, examples: Sequence[Labelled], predictions: Sequence[Found]) -> dict[str, Interval]:
        found: dict[str, Interval] = self.answer.intervals(examples, predictions)
        return found

    def report(self, examples: Sequence[Labelled], predictions: Sequence[Found]) -> tuple[str, ...]:
        found: tuple[str, ...] = self.answer.report(examples, predictions)
        return found

    def sentence_scores(self, examples: Sequence[Labelled], predictions: Sequence[Found]) -> list[float]:
        found: list[float] = self.answer.scores(examples, predictions)
        return found

    def statistics(self, examples: Sequence[Labelled], predictions: Sequence[Found]) -> list[Statistics]:
        found: list[Statistics] = self.answer.statistics(examples, predictions)
        return found

    def described(self, example: Labelled, prediction: Found) -> dict[str, Any]:
        second = {} if example.second is None else {"second": example.second}
        return {"source": example.text, **second, **self.answer.described(example, prediction)}


def unlabelled_texts(texts: Sequence[str | tuple[str, ...]], numbers: Sequence[int] | None) -> list[Labelled]:
    """Texts, or two together in a tuple, as examples without labels; one that is refused is named by its number."""
    examples = []
    for number, given in zip(numbers or range(1, len(texts) + 1), texts, strict=True):
        text, second = (given, None) if isinstance(given, str) else given
        check_is_text(f"{text} {second or ''}", f"text {number}")
        examples.append(Labelled(text, (), second, f"text {number}"))
    return examples
