"""How well tagged phrases agree with gold ones, as conlleval counts (Tjong Kim Sang and Buchholz 2000).

A phrase is right where label, first word and last word are. Phrases are read from tags as `tag_spans` reads them, so that tags that break
their scheme count as well. On B-, I-, O and on I-, E-, O the counts are conlleval's; it reads other tags of BIOES in a way of its own.
Accuracy is of tags, O among them. Shares are between 0 and 1.
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
    """What was counted over some sentences, by label; parts add, so that processes may each score a share."""

    labels: Mapping[str, Agreement] = field(default_factory=dict)
    tags: Accuracy = Accuracy()

    def __add__(self, other: "SpanScore") -> "SpanScore":
        labels = sorted({*self.labels, *other.labels})
        together = {label: self.labels.get(label, Agreement()) + other.labels.get(label, Agreement()) for label in labels}
        return SpanScore(together, self.tags + other.tags)

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
        """The scores in per cent, what they are of, and a line a label."""
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
    """The score of sentences' tags; the two may be in different schemes, but then accuracy says nothing."""
    return sum(score_sentences(gold, predicted), SpanScore())


def score_sentences(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[SpanScore]:
    """The score of each sentence: `f1_interval` of their totals is the bootstrap's."""
    check_pairs(predicted, gold)
    return [score_sentence(right, found, number) for number, (right, found) in enumerate(zip(gold, predicted, strict=True), start=1)]


def tag_statistics(gold: Sequence[str], predicted: Sequence[str], *, phrases: bool) -> Statistics:
    """What the scores of tags are computed from: of one sentence, its phrases counted where tags are of phrases."""
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
        raise UserError(f"sentence {number} has {len(gold)} gold tags and {len(predicted)} predicted ones; each word has one of both")
    right, found = set(tag_spans(gold)), set(tag_spans(predicted))
    counts = {
        label: Agreement(*(sum(span.label == label for span in spans) for spans in (right, found, right & found)))
        for label in sorted({span.label for span in right | found})
    }
    return SpanScore(counts, Accuracy(sum(a == b for a, b in zip(gold, predicted, strict=True)), len(gold)))
