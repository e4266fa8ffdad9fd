"""Scores of tagged phrases, counted as in conlleval (Tjong Kim Sang and Buchholz 2000).

A phrase is right if its label, first word and last word are. Phrases are read from tags by `tag_spans`, so tags that
break their scheme also count. On B-, I-, O and on I-, E-, O tags the counts are conlleval's; it reads other BIOES tags
in its own way. Accuracy is over all tags, including O. Ratios are between 0 and 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clew.core.errors import UserError
from clew.core.tag_schemes import tag_spans
from clew.metrics.agreement import Agreement
from clew.metrics.statistics import Statistics, share_of
from clew.metrics.strings import Accuracy, check_pairs


@dataclass(frozen=True)
class SpanScore:
    """Counts over some sentences, by label. Counts of parts add, so each process can score a share."""

    labels: Mapping[str, Agreement] = field(default_factory=dict)
    tags: Accuracy = Accuracy()

    def __add__(self, other: "SpanScore") -> "SpanScore":
        labels = sorted({*self.labels, *other.labels})
        sums = {label: self.labels.get(label, Agreement()) + other.labels.get(label, Agreement()) for label in labels}
        return SpanScore(sums, self.tags + other.tags)

    @property
    def total(self) -> Agreement:
        return sum(self.labels.values(), Agreement())

    @property
    def precision(self) -> float:
        return self.total.precision

    @property
    def recall(self) -> float:
        return self.total.recall

    @property
    def f1(self) -> float:
        return self.total.f1

    @property
    def accuracy(self) -> float:
        return self.tags.value

    def describe(self) -> str:
        """The scores in per cent, the counts, and one line per label."""
        total = self.total
        width = max((len(label) for label in self.labels), default=0)
        return "\n".join(
            [
                f"{total.describe()}, accuracy {100 * self.accuracy:.2f}",
                f"{total.matched} of {total.gold} gold and {total.predicted} predicted phrases, {self.tags.total} tags",
                *(f"{label:{width}}  {counts.describe()}, {counts.gold} gold" for label, counts in self.labels.items()),
            ]
        )


def score_spans(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanScore:
    """The score of sentences' tags. Gold and predicted tags may have different schemes, but accuracy is then
    meaningless."""
    return sum(score_sentences(gold, predicted), SpanScore())


def score_sentences(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[SpanScore]:
    """The score of each sentence; `f1_interval` of their totals gives the bootstrap interval."""
    check_pairs(predicted, gold)
    return [
        score_sentence(gold_tags, predicted_tags, number)
        for number, (gold_tags, predicted_tags) in enumerate(zip(gold, predicted, strict=True), start=1)
    ]


def tag_statistics(gold: Sequence[str], predicted: Sequence[str], *, phrases: bool) -> Statistics:
    """The statistics of one sentence's tags, from which scores are computed; with `phrases`, also of its phrases."""
    accuracy: Statistics = {"accuracy": share_of(sum(a == b for a, b in zip(gold, predicted, strict=True)), len(gold))}
    if not phrases:
        return accuracy
    total = score_sentence(gold, predicted).total
    return {
        "f1": {"f1": [total.gold, total.predicted, total.matched]},
        "precision": share_of(total.matched, total.predicted),
        "recall": share_of(total.matched, total.gold),
        **accuracy,
    }


def score_sentence(gold: Sequence[str], predicted: Sequence[str], number: int = 1) -> SpanScore:
    if len(gold) != len(predicted):
        raise UserError(
            f"sentence {number} has {len(gold)} gold tags and {len(predicted)} predicted ones; each word needs one of"
            " each"
        )
    gold_spans, predicted_spans = set(tag_spans(gold)), set(tag_spans(predicted))
    counts = {
        label: Agreement(
            *(
                sum(span.label == label for span in spans)
                for spans in (gold_spans, predicted_spans, gold_spans & predicted_spans)
            )
        )
        for label in sorted({span.label for span in gold_spans | predicted_spans})
    }
    return SpanScore(counts, Accuracy(sum(a == b for a, b in zip(gold, predicted, strict=True)), len(gold)))
