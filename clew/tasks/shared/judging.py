"""What a classifier and a chooser share: unlabelled texts to classify, and the metrics of their answers."""

from collections.abc import Sequence
from typing import Any

from clew.data.examples import Labelled
from clew.metrics.bootstrap import Interval
from clew.metrics.measures import Measured
from clew.metrics.statistics import Statistics
from clew.tasks.uses.answers import Prediction
from clew.text.tokenizer import check_is_text


class Judging:
    """Answers to labelled texts, measured by the kind of `answer`."""

    answer: Any

    def measure(self, examples: Sequence[Labelled], predictions: Sequence[Prediction]) -> Measured:
        measured: Measured = self.answer.measure(examples, predictions)
        return measured

    def intervals(self, examples: Sequence[Labelled], predictions: Sequence[Prediction]) -> dict[str, Interval]:
        intervals: dict[str, Interval] = self.answer.intervals(examples, predictions)
        return intervals

    def report(self, examples: Sequence[Labelled], predictions: Sequence[Prediction]) -> tuple[str, ...]:
        lines: tuple[str, ...] = self.answer.report(examples, predictions)
        return lines

    def sentence_scores(self, examples: Sequence[Labelled], predictions: Sequence[Prediction]) -> list[float]:
        scores: list[float] = self.answer.scores(examples, predictions)
        return scores

    def statistics(self, examples: Sequence[Labelled], predictions: Sequence[Prediction]) -> list[Statistics]:
        statistics: list[Statistics] = self.answer.statistics(examples, predictions)
        return statistics

    def described(self, example: Labelled, prediction: Prediction) -> dict[str, Any]:
        second = {} if example.second is None else {"second": example.second}
        return {"source": example.text, **second, **self.answer.described(example, prediction)}


def unlabelled_texts(texts: Sequence[str | tuple[str, ...]], numbers: Sequence[int] | None) -> list[Labelled]:
    """Return texts, or pairs in tuples, as examples without labels. An error names the text by its number."""
    examples = []
    for number, text_or_pair in zip(numbers or range(1, len(texts) + 1), texts, strict=True):
        text, second = (text_or_pair, None) if isinstance(text_or_pair, str) else text_or_pair
        check_is_text(f"{text} {second or ''}", f"text {number}")
        examples.append(Labelled(text, (), second, f"text {number}"))
    return examples
