"""Statistics of requests and of the training data, to detect drift: unknown tokens, length, labels, confidence.

Only sums are stored, never texts. `Use.watch` gives the tokens of a row, and the labels and the confidence of an
answer. The training data has its own labels; its confidence is measured on some of its texts, if the model is quick.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.data.files.text_files import beginning
from clew.data.notes import Notes
from clew.runs.asking import answer_rows, find_use, own_verb, read_options
from clew.runs.loaded import Run
from clew.runs.trust import check_paths
from clew.serving.metrics import Metrics
from clew.tasks import TASKS
from clew.tasks.use import Use

MOST_TEXTS, MOST_PREDICTED = 1000, 100
"""The number of training texts that are read, and the number of texts that the model is run on."""
MOST_CHARACTERS = 200_000


@dataclass
class Profile:
    texts: int = 0
    tokens: int = 0
    unknown: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    confidences: int = 0
    confidence: float = 0.0
    has_lengths: bool = True

    def add_rows(self, use: Use[Any, Any], run: Run, rows: Sequence[Any]) -> None:
        for row in rows if use.watch is not None else ():
            ids, unknown = use.watch.tokens(run.task, row)  # type: ignore[union-attr]
            self.texts += 1
            self.tokens += len(ids)
            self.unknown += 0 if unknown is None else ids.count(unknown)

    def add_answers(self, use: Use[Any, Any], run: Run, answers: Iterable[Any]) -> Counter[str]:
        """Add answers, and return the counts of their labels."""
        labels: Counter[str] = Counter()
        for answer in answers:
            if answer is None or use.watch is None:
                continue
            labels.update(use.watch.labels(run.task, answer))
            if (confidence := use.watch.confidence(answer)) is not None:
                self.confidences += 1
                self.confidence += confidence
        self.labels.update(labels)
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
    """Compute the profile of the run's training data; raise a UserError if the data is not available."""
    config, profile = run.config, Profile()
    use, learning = find_use(run, own_verb(config)), TASKS[config.task.name].learns
    check_paths(run.folder, config.data)
    examples = learning.read(config.data, config.seed, Notes(faults=config.data.faults))["train"]
    if not learning.has_examples:
        profile.has_lengths = False  # running text has no lengths to compare with those of requests
        text = beginning((f"{line}\n" for line in learning.lines(examples)), MOST_CHARACTERS)
        profile.add_rows(use, run, [use.row(text=text)])
        return profile
    watch = use.watch
    if watch is None or watch.row_of is None:
        return profile
    for example in examples:
        profile.labels.update(watch.own_labels(run.task, example))
    rows = [row for example in spread(examples, MOST_TEXTS) if (row := watch.row_of(example)) is not None]
    profile.add_rows(use, run, rows)
    if watch.is_quick:
        predictions = Profile()
        predictions.add_answers(
            use, run, answer_rows(use, [run.task], spread(rows, MOST_PREDICTED), read_options(use, config, {}))
        )
        profile.confidences, profile.confidence = predictions.confidences, predictions.confidence
    return profile


def spread(examples: Sequence[Any], most: int) -> list[Any]:
    """Return at most `most` examples, evenly spaced."""
    return list(examples)[:: -(-len(examples) // most) or 1]
