"""Baselines of tagging."""

from collections.abc import Iterable, Iterator, Sequence

from clew.baselines.baseline import Baseline, Train
from clew.baselines.most_frequent import fit_most_frequent_tag
from clew.core.tag_schemes import OUTSIDE, convert_tags, is_phrase_tag
from clew.data.examples import Sentence
from clew.metrics.measures import Measured
from clew.metrics.spans import score_spans
from clew.metrics.strings import Accuracy


def tag_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """The most frequent tag of each word; also with F1 if tags are of phrases, which are then converted to IOB2."""
    sentences: Sequence[Sentence] = train()
    are_phrases = all_phrases(sentences)
    tagger = fit_most_frequent_tag((sentence.words, tags_of(sentence, are_phrases)) for sentence in sentences)

    def measure(examples: Sequence[Sentence]) -> Measured:
        has_f1 = are_phrases and all_phrases(examples)
        gold = [tags_of(example, has_f1) for example in examples]
        predicted = [tags_of(example._replace(tags=tuple(tagger.tag(example.words))), has_f1) for example in examples]
        right = sum(
            a == b
            for tags, predicted_tags in zip(gold, predicted, strict=True)
            for a, b in zip(tags, predicted_tags, strict=True)
        )
        values = {"baseline_most_frequent_tag": 100 * Accuracy(right, sum(map(len, gold))).value}
        text = f"accuracy {values['baseline_most_frequent_tag']:.2f}"
        if has_f1:
            values["baseline_most_frequent_tag_f1"] = f1 = 100 * score_spans(gold, predicted).f1
            text = f"F1 {f1:.2f}, {text}"
        return Measured(values, text)

    yield Baseline("the most frequent tag has", measure)


def tags_of(sentence: Sentence, are_phrases: bool) -> Sequence[str]:
    tags = sentence.tags or ()
    return convert_tags(tags, "iob2") if are_phrases else tags


def all_phrases(sentences: Iterable[Sentence]) -> bool:
    tags = {tag for sentence in sentences for tag in sentence.tags or ()}
    return all(map(is_phrase_tag, tags)) and tags != {OUTSIDE}
