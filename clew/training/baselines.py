"""What a trained model is held against: the scores of something that has learnt next to nothing, or that was known before neural models.

A kind of data has a function that fits its baselines on the training examples, one after the other as they are asked for. What would take
longer than a few seconds is left out.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from clew.baselines.bag_of_words import Reading, fit_text_classifier, fit_text_regression
from clew.baselines.branching import fit_branching
from clew.baselines.kneser_ney import fit_kneser_ney
from clew.baselines.most_frequent import fit_most_frequent_class, fit_most_frequent_tag
from clew.baselines.word_overlap import fit_word_overlap
from clew.core.errors import UserError
from clew.core.processes import from_first, world_size
from clew.core.tag_schemes import OUTSIDE, convert_tags, is_phrase_tag
from clew.data.encoded import TokenFile
from clew.data.examples import Labelled, Parsed, Question, Sentence
from clew.data.text_files import TextSource
from clew.metrics.answers import score_answers
from clew.metrics.brackets import score_brackets
from clew.metrics.classification import count_label_sets
from clew.metrics.correlation import correlation
from clew.metrics.measures import Measured
from clew.metrics.perplexity import Likelihood
from clew.metrics.score import Score
from clew.metrics.spans import score_spans
from clew.metrics.strings import Accuracy, exact_match
from clew.runs.config import Config
from clew.tasks import TASKS
from clew.tasks.answers import as_number

MOST_TOKENS = 5_000_000
"""Of a text that n-grams are counted in."""
MOST_TEXT = 10 * MOST_TOKENS
"""Characters of a text that is worth encoding to see how many tokens it has."""
MOST_CHARACTERS = 5_000_000
"""Of texts that naive Bayes learns from."""
MOST_WORK = 4_000_000
"""Characters times labels that regression learns from."""
STEPS = 50
"""Of regression: more change no figure."""
ORDER = 5


class Baseline(NamedTuple):
    """`words` begins the sentence: `naive Bayes has`. `measure` scores examples and ends it."""

    words: str
    measure: Callable[[Any], Measured]


Train = Callable[[], Any]
"""Gives the training examples, where they are needed."""


class Baselines:
    """Those of a kind of data, each fitted when it is first asked for."""

    def __init__(self, kind: str, train: Train):
        self.fitted: list[Baseline] = []
        self.unfitted: Iterator[Baseline] = BASELINES[kind](train) if kind in BASELINES else iter(())

    def beside(self, score: Score, examples: Any, interrupted: Callable[[], bool] = lambda: False) -> Score | None:
        """The score with the baselines' on the same examples; None where `interrupted` says to stop, which a process alone may do."""
        found = json.loads(from_first(lambda: json.dumps(self.measured(examples, interrupted))))
        if not found:
            return None if found is None else score
        measures = {name: value for values, _ in found for name, value in values.items()}
        return replace(score, measures={**score.measures, **measures}, text=f"{score.text}; {', '.join(text for _, text in found)}")

    def measured(self, examples: Any, interrupted: Callable[[], bool]) -> list[Measured] | None:
        """What each is found to reach, in whole sentences."""
        found = []
        try:
            for baseline in self.all():
                if interrupted() and world_size() == 1:
                    return None
                values, text = baseline.measure(examples)
                found.append(Measured(values, f"{baseline.words} {text}"))
        except (UserError, MemoryError):  # no training data any more, or trees without a single phrase
            pass
        return found

    def all(self) -> Iterator[Baseline]:
        yield from tuple(self.fitted)
        for baseline in self.unfitted:
            self.fitted.append(baseline)
            yield baseline


def baselines_of(config: Config, train: Train) -> Baselines:
    """Those of a run's task; of classification, as many labels as it tells."""
    kind: str = TASKS[config.task.name].data
    labels = {"several": "several_labels", "number": "numbers"}
    return Baselines(labels.get(getattr(config.task, "labels", "one"), kind), train)


def tree_baselines(train: Train) -> Iterator[Baseline]:
    """Trees that branch to the right, whatever the words, with the two labels that suit the very trees best that are judged."""

    def measure(examples: Sequence[Parsed]) -> Measured:
        golds = [example.tree for example in examples]
        branching = fit_branching(golds)
        found = score_brackets(golds, [branching.parse(tree.words, tree.tags) for tree in golds]).all
        return Measured({"right_branching_f1": 100 * found.f1}, f"F1 {100 * found.f1:.2f}")

    yield Baseline("right-branching trees have", measure)


def tag_baselines(train: Train) -> Iterator[Baseline]:
    """The most frequent tag of each word; with F1 where tags are of phrases, which are then in IOB2."""
    sentences: Sequence[Sentence] = train()
    are_phrases = all_phrases(sentences)
    tagger = fit_most_frequent_tag((sentence.words, tags_of(sentence, are_phrases)) for sentence in sentences)

    def measure(examples: Sequence[Sentence]) -> Measured:
        has_f1 = are_phrases and all_phrases(examples)
        gold = [tags_of(example, has_f1) for example in examples]
        found = [tags_of(example._replace(tags=tuple(tagger.tag(example.words))), has_f1) for example in examples]
        right = sum(a == b for tags, others in zip(gold, found, strict=True) for a, b in zip(tags, others, strict=True))
        values = {"baseline_most_frequent_tag": 100 * Accuracy(right, sum(map(len, gold))).value}
        text = f"accuracy {values['baseline_most_frequent_tag']:.2f}"
        if has_f1:
            values["baseline_most_frequent_tag_f1"] = f1 = 100 * score_spans(gold, found).f1
            text = f"F1 {f1:.2f}, {text}"
        return Measured(values, text)

    yield Baseline("the most frequent tag has", measure)


def tags_of(sentence: Sentence, are_phrases: bool) -> Sequence[str]:
    tags = sentence.tags or ()
    return convert_tags(tags, "iob2") if are_phrases else tags


def all_phrases(sentences: Iterable[Sentence]) -> bool:
    tags = {tag for sentence in sentences for tag in sentence.tags or ()}
    return all(map(is_phrase_tag, tags)) and tags != {OUTSIDE}


def label_baselines(train: Train, exclusive: bool = True) -> Iterator[Baseline]:
    """The most frequent class, naive Bayes, and softmax regression; where labels do not exclude each other, logistic regression."""
    examples: Sequence[Labelled] = train()
    texts, answers = [reading(example) for example in examples], [example.labels for example in examples]
    size = num_characters(examples)
    num_labels = len({label for answer in answers for label in answer})
    frequent = fit_most_frequent_class(answers, exclusive)
    yield label_baseline("most_frequent_class", "the most frequent class has", frequent, exclusive)
    if size <= MOST_CHARACTERS and size * num_labels <= 10 * MOST_WORK:
        bayes = fit_text_classifier(texts, answers, exclusive=exclusive)
        yield label_baseline("naive_bayes", "naive Bayes has", bayes, exclusive)
    if size * num_labels <= MOST_WORK:
        method = "softmax" if exclusive else "logistic"
        regression = fit_text_classifier(texts, answers, method, exclusive=exclusive, min_texts=2, max_steps=STEPS)
        yield label_baseline(f"{method}_regression", f"{method} regression has", regression, exclusive)


def several_label_baselines(train: Train) -> Iterator[Baseline]:
    return label_baselines(train, exclusive=False)


def tree_label_baselines(train: Train) -> Iterator[Baseline]:
    """Those of the words, without their tree."""
    for words, measure in label_baselines(lambda: [tree.as_text for tree in train()]):
        yield Baseline(words, lambda trees, measure=measure: measure([tree.as_text for tree in trees]))  # type: ignore[misc]


def number_baselines(train: Train) -> Iterator[Baseline]:
    """The mean of all numbers, and ridge regression."""
    examples: Sequence[Labelled] = train()
    numbers = [as_number(example) for example in examples]
    if not numbers:
        return
    mean = sum(numbers) / len(numbers)

    def measure_mean(others: Sequence[Labelled]) -> Measured:
        errors = [(as_number(example) - mean) ** 2 for example in others]
        error = math.sqrt(sum(errors) / len(errors))
        return Measured({"baseline_mean_error": error}, f"root of the mean squared error {error:.4g}")

    yield Baseline("the mean has", measure_mean)
    if num_characters(examples) > MOST_WORK:
        return
    model = fit_text_regression([reading(example) for example in examples], numbers, min_texts=2)

    def measure_ridge(others: Sequence[Labelled]) -> Measured:
        told = model.predict([reading(example) for example in others]).tolist()
        found = 100 * correlation("pearson", [as_number(example) for example in others], told)
        return Measured({"baseline_ridge_regression": found}, f"Pearson {found:.2f}")

    yield Baseline("ridge regression has", measure_ridge)


def question_baselines(train: Train) -> Iterator[Baseline]:
    """The sentence that shares most words with the question."""
    examples: Sequence[Question] = train()
    passages = list(dict.fromkeys(example.passage for example in examples))
    if sum(map(len, passages)) > 4 * MOST_CHARACTERS:
        return
    overlap = fit_word_overlap(passages)

    def measure(others: Sequence[Question]) -> Measured:
        found = [example.passage[slice(*overlap.answer(example.question, example.passage))] for example in others]
        scores = score_answers(found, [example.texts for example in others])
        exact, f1 = 100 * scores.mean("exact"), 100 * scores.mean("f1")
        return Measured({"baseline_word_overlap": f1, "baseline_word_overlap_exact_match": exact}, f"exact match {exact:.2f}, F1 {f1:.2f}")

    yield Baseline("the sentence that shares most words has", measure)


def num_characters(examples: Iterable[Labelled]) -> int:
    return sum(len(example.text) + len(example.second or "") for example in examples)


def reading(example: Labelled) -> Reading:
    return example.text if example.second is None else (example.text, example.second)


def label_baseline(name: str, words: str, model: Any, exclusive: bool) -> Baseline:
    def measure(examples: Sequence[Labelled]) -> Measured:
        gold, found = [example.labels for example in examples], model.predict([reading(example) for example in examples])
        if exclusive:
            share = 100 * exact_match(found, gold).value
            return Measured({f"baseline_{name}": share}, f"accuracy {share:.2f}")
        labels = sorted({label for answer in (*gold, *found) for label in answer})
        f1 = 100 * count_label_sets(gold, found, labels).micro_f1
        return Measured({f"baseline_{name}": f1}, f"micro F1 {f1:.2f}")

    return Baseline(words, measure)


def text_baselines(train: Train) -> Iterator[Baseline]:
    """Interpolated n-grams over the very tokens that the model reads; `train` gives them with the size of their vocabulary."""
    text, vocabulary = train()
    if len(text) > MOST_TOKENS:
        return
    model = fit_kneser_ney(text.sequences, vocabulary, ORDER)

    def measure(other: TokenFile) -> Measured:
        """Every token but the first of a sequence, which nothing predicts."""
        found = model.likelihood(other.sequences, firsts=False)
        values = {"baseline_kneser_ney": found.perplexity, "baseline_kneser_ney_loss": found.loss}
        return Measured(values, f"loss {found.loss:.4f} and perplexity {found.perplexity:.2f}")

    yield Baseline(f"{ORDER}-grams (Kneser-Ney) have", measure)


def guess_baselines(train: Train) -> Iterator[Baseline]:
    """How often each token stands in the training part, one more for all; of pairs the more frequent answer. `train` gives the counts."""
    counts = train() + 1

    def measure(answers: tuple[np.ndarray, np.ndarray | None]) -> Measured:
        targets, random = answers
        found = Likelihood(-float(np.log(counts[targets] / counts.sum()).sum()), len(targets))
        accuracy = 100 * float((targets == counts.argmax()).mean())
        values = {"baseline_frequencies": found.perplexity, "baseline_most_frequent_token": accuracy}
        text = f"perplexity {found.perplexity:.2f} and accuracy {accuracy:.2f}"
        if random is not None:
            share = float(random.mean())
            values["baseline_next_sentence"] = 100 * max(share, 1 - share)
            text += f", of the next sentence {values['baseline_next_sentence']:.2f}"
        return Measured(values, text)

    yield Baseline("the most frequent answers have", measure)


def check_size(text: TextSource) -> None:
    """Refuses a text that would have too many tokens, before it is encoded for nothing."""
    size = 0
    for piece in text:
        size += len(piece)
        if size > MOST_TEXT:
            raise UserError(f"{text}: more than {MOST_TEXT:,} characters, too many to count n-grams in")


BASELINES: dict[str, Callable[[Train], Iterator[Baseline]]] = {
    "text": text_baselines,
    "documents": guess_baselines,
    "trees": tree_baselines,
    "tagged": tag_baselines,
    "labelled": label_baselines,
    "several_labels": several_label_baselines,
    "numbers": number_baselines,
    "labelled_trees": tree_label_baselines,
    "questions": question_baselines,
}
