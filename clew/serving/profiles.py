"""What the texts of requests are like, beside those that a run was trained on: unknown tokens, length, labels, confidence.

Sums alone are kept, no text. What a use watches (`Use.watch`) says how a row is read, and which labels and what confidence an answer has.
The training data has labels of its own; its confidence is what the model says of some of its texts, where that is quick.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.data.notes import Notes
from clew.data.text_files import beginning
from clew.runs.asking import answer_rows, find_use, own_verb, read_options
from clew.runs.loaded import Run
from clew.runs.trust import check_paths
from clew.serving.metrics import Metrics
from clew.tasks import TASKS
from clew.tasks.use import Use

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

    def read(self, use: Use[Any, Any], run: Run, rows: Sequence[Any]) -> None:
        for row in rows if use.watch is not None else ():
            ids, unknown = use.watch.tokens(run.task, row)  # type: ignore[union-attr]
            self.texts += 1
            self.tokens += len(ids)
            self.unknown += 0 if unknown is None else ids.count(unknown)

    def told(self, use: Use[Any, Any], run: Run, answers: Iterable[Any]) -> Counter[str]:
        """Adds what was told, and gives the labels of it."""
        labels: Counter[str] = Counter()
        for answer in answers:
            if answer is None or use.watch is None:
                continue
            labels.update(use.watch.labels(run.task, answer))
            if (sure := use.watch.confidence(answer)) is not None:
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
    config, found = run.config, Profile()
    use, learning = find_use(run, own_verb(config)), TASKS[config.task.name].learns
    check_paths(run.folder, config.data)
    examples = learning.read(config.data, config.seed, Notes(faults=config.data.faults))["train"]
    if not learning.has_examples:
        found.has_lengths = False  # what a request holds is not cut as these are
        text = beginning((f"{line}\n" for line in learning.lines(examples)), SOME_CHARACTERS)
        found.read(use, run, [use.row(text=text)])
        return found
    watch = use.watch
    if watch is None or watch.row_of is None:
        return found
    for example in examples:
        found.labels.update(watch.own_labels(run.task, example))
    rows = [row for example in spread(examples, SOME) if (row := watch.row_of(example)) is not None]
    found.read(use, run, rows)
    if watch.is_quick:
        told = Profile()
        told.told(use, run, answer_rows(use, [run.task], spread(rows, FEW), read_options(use, config, {})))
        found.confidences, found.confidence = told.confidences, told.confidence
    return found


def spread(examples: Sequence[Any], most: int) -> list[Any]:
    """At most so many, from the first to the last alike."""
    return list(examples)[:: -(-len(examples) // most) or 1]
