"""What the texts of requests are like, beside those that a run was trained on: unknown tokens, length, labels, confidence.

Sums alone are kept, no text. A tagger's labels are its tags, of phrases without what says where they begin. Confidence is the mean
probability of what was told: of a label, of a sentence's tags, of the best guesses at masks, of an answer; of text that is written the
geometric mean over its tokens. The training data has labels of its own; its confidence is what the model says of some of its texts,
where that takes no writing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from clew.data.notes import Notes
from clew.data.text_files import beginning
from clew.runs.loaded import Run
from clew.serving.metrics import Metrics
from clew.tasks import TASKS
from clew.text.words import words_of

SOME, FEW = 1000, 100
"""Texts of the training data that are read, and those of them that the model is asked about."""
SOME_CHARACTERS = 200_000


@dataclass
class Profile:
    texts: int = 0
    tokens: int = 0
    unknown: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    confidences: int = 0
    confidence: float = 0.0
    has_lengths: bool = True

    def read(self, run: Run, rows: Sequence[Any]) -> None:
        for ids, unknown in tokens_of(run, rows):
            self.texts += 1
            self.tokens += len(ids)
            self.unknown += 0 if unknown is None else ids.count(unknown)

    def told(self, run: Run, answers: Iterable[Any]) -> Counter[str]:
        """Adds what was told, and gives the labels of it."""
        labels: Counter[str] = Counter()
        for answer in answers:
            labels.update(labels_of(run, answer))
            if (sure := confidence_of(run.verb, answer)) is not None:
                self.confidences += 1
                self.confidence += sure
        self.labels += labels
        return labels

    def put(self, metrics: Metrics, run: str, of: str) -> None:
        if self.tokens:
            metrics.put("clew_unknown_share", {"run": run, "of": of}, self.unknown / self.tokens)
        if self.texts and self.has_lengths:
            metrics.put("clew_text_tokens_mean", {"run": run, "of": of}, self.tokens / self.texts)
        for label, count in list(self.labels.items()):
            metrics.put("clew_label_share", {"run": run, "label": label, "of": of}, count / self.labels.total())
        if self.confidences:
            metrics.put("clew_confidence_mean", {"run": run, "of": of}, self.confidence / self.confidences)


def training_profile(run: Run) -> Profile:
    """Of the run's training data; a sentence says why where it is not at hand."""
    config = run.config
    learning = TASKS[config.task.name].learns
    found = Profile()
    examples = learning.read(config.data, config.seed, Notes(faults=config.data.faults))["train"]
    if not learning.has_examples:
        found.has_lengths = False  # what a request holds is not cut as these are
        found.read(run, [beginning((f"{line}\n" for line in learning.lines(examples)), SOME_CHARACTERS)])
        return found
    kind = learning.reads
    for example in examples:
        found.labels.update(own_labels(run, kind, example))
    rows = [row for example in spread(examples, SOME) if (row := row_of(kind, example)) is not None]
    found.read(run, rows)
    if run.verb in ("classify", "tag"):
        told = Profile()
        told.told(run, getattr(run, run.verb)(spread(rows, FEW)))
        found.confidences, found.confidence = told.confidences, told.confidence
    return found


def spread(examples: Sequence[Any], most: int) -> list[Any]:
    """At most so many, from the first to the last alike."""
    return list(examples)[:: -(-len(examples) // most) or 1]


def row_of(kind: str, example: Any) -> Any:
    """An example as it would be asked; None where it is a tree that only its brackets tell."""
    if kind == "pairs":
        return example.source
    if kind == "trees":
        return " ".join(example.tree.words)
    if kind == "tagged words":
        return list(example.words)
    if kind == "labelled texts":
        return example.text if example.second is None else (example.text, example.second)
    return (example.question, example.passage) if kind == "questions" else None


def own_labels(run: Run, kind: str, example: Any) -> list[str]:
    if kind == "tagged words":
        return [plain_tag(run, tag) for tag in example.tags]
    return [label for label in example.labels if label in run.vocabularies["labels"].names] if kind == "labelled texts" else []


def labels_of(run: Run, answer: Any) -> list[str]:
    if answer is None:
        return []
    if run.verb == "tag":
        return [plain_tag(run, word.tag) for word in answer.words]
    return list(answer.labels) if run.verb == "classify" else []


def plain_tag(run: Run, tag: str) -> str:
    return tag.partition("-")[2] or tag if run.task.scheme is not None else tag


def confidence_of(verb: str, answer: Any) -> float | None:
    if answer is None:
        return None
    if verb == "classify":
        return fmean(answer.probabilities[label] for label in answer.labels) if answer.labels else None
    if verb == "tag":
        return fmean(word.probability for word in answer.words) if answer.words else None
    if verb == "fill":
        return fmean(guesses[0].probability for guesses in answer.masks) if answer.masks else None
    if verb == "answer":
        return answer.probability
    if verb in ("generate", "translate"):
        best = answer[0] if isinstance(answer, list) else answer
        return math.exp(min(best.log_prob / len(best.tokens), 0.0)) if best.tokens else None
    return None


def tokens_of(run: Run, rows: Sequence[Any]) -> Iterator[tuple[list[int], int | None]]:
    """Each row's tokens as the model reads them, nothing around them, and the unknown one."""
    tokenizer = run.vocabularies["source" if "source" in run.vocabularies else "tokenizer"]
    by_words = tokenizer.unit == "word" and run.verb in ("classify", "tag", "answer")
    for row in rows:
        sides = [" ".join(row)] if run.verb == "tag" and not isinstance(row, str) else [row] if isinstance(row, str) else row
        ids: list[int] = []
        for side in sides:
            text = " ".join(words_of(side)) if by_words else side
            ids += tokenizer.encode_masked(text) if run.verb == "fill" else tokenizer.encode(text)
        yield ids, tokenizer.unknown
