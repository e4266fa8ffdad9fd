"""Learning from examples. Each is encoded once, examples of similar length share a batch, and predictions are
gathered and measured as a whole.

Besides the loop's forward and counts, a task provides `encode(examples)`, `lengths(encoded)`, `longest`,
`check_length`, `collate(encoded)`, `predict(batch, decoding, seed, row_numbers)`, `measure(examples, predictions)`,
`best` (the metric that selects the best checkpoint), and `writes` (whether it generates tokens). The last evaluation
also uses `intervals`, `report`, `statistics` and `sentence_scores` of examples and predictions, `row_losses(batch)`
and `described(example, prediction)`. `ExampleTask` has the defaults.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from clew.core.batches import Batches, few_lengths, num_rows, rounded_up, rows_of, to_device
from clew.core.config import TaskSection
from clew.core.errors import UserError, counted, few_of
from clew.core.errors import named as named_label
from clew.core.identity import Known
from clew.core.processes import first_alone, from_all, rank, sum_over_processes, world_size
from clew.data.caching.fingerprints import code_digest
from clew.data.caching.parts import Part, examples_at, gather, remembered
from clew.data.example_splits import find_overlaps
from clew.data.examples import LabelledInput
from clew.data.kinds.kind import Kind, Parts
from clew.data.kinds.section import ExampleData
from clew.data.notes import Notes
from clew.data.plans import ExamplePlan, batches_by_length, bucket_plan, shuffled_plan
from clew.metrics.bootstrap import Interval
from clew.metrics.measures import LOWEST, in_words, measure_name
from clew.metrics.score import Score
from clew.metrics.statistics import Statistics
from clew.tasks.learning import Batching, Encoding, Evaluation, Learning, PartFiles, Tokenizers
from clew.tasks.learnings.encoded_parts import LENGTHS, encode_part
from clew.tasks.uses.writing import DecodingConfig
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer

TrainTokenizer = Callable[[Iterable[str], Sequence[str]], Tokenizer]
"""Trains a tokenizer on texts, with the given special tokens."""
Vocabularies = Callable[[TrainTokenizer, bool, Any, Any], dict[str, Any]]
"""`vocabularies(train, joint, examples, task)`: every tokenizer and label table by role; `joint` says whether both
sides share a tokenizer."""
ROWS = 8
"""If few batch shapes are wanted, the number of rows is a multiple of this."""
TIE = 1e-7
"""Weight of the loss relative to the metric that selects the best checkpoint: it only breaks ties."""
GREEDY = {"method": "greedy", "temperature": 1.0, "top_k": None, "top_p": None}
"""Decoding in evaluations during training. A beam search every few hundred steps would take longer than the steps,
and would rank checkpoints nearly the same."""


class ExampleTask(nn.Module):
    """A task that learns from examples."""

    needs: tuple[str, ...] = ()
    settled = ""
    """A remark for the user about `settle`, in a sentence."""
    one_row_each = True
    """Whether a batch has one row per example, so that a process can collate only its own rows."""
    can_bucket = False
    """Whether everything ragged in a batch is padded by `core.batches.padded`, so that it can be padded to few
    lengths."""
    writes = False
    """Whether predictions are tokens, so that the loss is per token."""

    def label_table(self) -> Labels | None:
        """Return the labels that the task predicts, or None if it predicts none from a table."""
        return None

    def gold_labels(self, example: Any) -> Iterable[tuple[str, str]]:
        """Return an example's gold labels that should be in the table, each with its place."""
        return ()

    def unseen_remedy(self, label: str) -> str:
        """Return what to do about a label that is not in the table, as the end of a sentence."""
        return ""

    def prepare(self, encoded: Sequence[Any]) -> None:
        """Compute values that are not parameters, such as label frequencies, once from the training part."""

    def check_training(self, training: Batching) -> None:
        """Refuse a section `training` that does not fit the task."""

    def check_decoding(self, config: DecodingConfig) -> None:
        """Refuse a section `decoding` that does not fit the task."""

    def settle(self, batches: Iterable[tuple[Sequence[Any], Any]]) -> bool:
        """Fit values that training must not see, after training, on the validation part; return whether there are
        any.

        Batches come with their examples, since the best value may depend on texts (SQuAD's F1).
        """
        return False

    def looked_up(self) -> list[Tensor]:
        """Return tables that are only looked up, never multiplied with a vector: they cost no FLOPs."""
        body: Any = self.body
        tables: list[Tensor] = body.embedding.looked_up()
        return tables

    def intervals(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Interval]:
        """Return bootstrap intervals of some metrics by name, in the metrics' units."""
        return {}

    def report(self, examples: Sequence[Any], predictions: Sequence[Any]) -> tuple[str, ...]:
        """Return tables as text."""
        return ()

    def statistics(self, examples: Sequence[Any], predictions: Sequence[Any]) -> list[Statistics]:
        """Return for each example what its metrics are computed from, by name; runs are compared with it."""
        return [{} for _ in examples]

    def row_losses(self, batch: Any) -> list[list[float]] | None:
        """Return the loss and the count of each row of a batch, which sum to the batch's; None if the task does not
        provide them."""
        return None


@dataclass(frozen=True)
class Examples(Learning[Sequence[Any], Sequence[Any]]):
    """Learning from examples of a kind; `train` creates the task's vocabularies from them."""

    kind: Kind
    train: Vocabularies
    has_examples = True
    can_cap = True

    @property
    def section(self) -> type[ExampleData]:
        return self.kind.section

    @property
    def reads(self) -> str:
        return self.kind.name

    def read(self, data: ExampleData, seed: int, notes: Notes) -> Parts:
        """Read the parts. Files in the cache are written by the first process and read by the others."""
        if not self.kind.is_plain:
            return self.kind.read(data, seed, notes)
        return first_alone(lambda: self.kind.read(data, seed, notes))

    def read_files(self, files: PartFiles, data: ExampleData, notes: Notes) -> Sequence[Any]:
        return gather(
            self.kind.read_files(
                [data.with_encoding(file) for file in files if isinstance(file, (Path, str))], data, notes
            )
        )

    def apart(self, parts: Mapping[str, Sequence[Any]], data: ExampleData) -> Parts:
        """Split the parts by direction, for a model of several languages."""
        pieces = self.kind.pieces(data)
        if not pieces:
            return dict(parts)
        pieces_by_name = {f"{part}{end}": with_end(parts[part], end) for part in parts for end in pieces}
        return {name: examples for name, examples in pieces_by_name.items() if examples}

    def check(self, task: Any, training: Batching) -> None:
        if training.batching == "streams":
            raise UserError(
                "training.batching=streams carries a state through one text, but this task learns from examples; leave"
                " it out"
            )
        if training.bucket and not getattr(task, "can_bucket", False):
            raise UserError(
                "training.bucket pads texts to few lengths, but this task's examples are not only texts; leave it out"
            )
        task.check_training(training)

    def content(self, part: Sequence[Any]) -> str | None:
        return part.key if isinstance(part, Part) else None

    def vocabularies(self, train: Sequence[Any], tokenizers: Tokenizers, task: TaskSection) -> dict[str, Any]:
        return self.train(tokenizers.of_sequences, tokenizers.joint, train, task)

    def encode(self, task: Any, part: Sequence[Any], encoding: Encoding) -> Sequence[Any]:
        """Encode a part.

        Examples that are too long are left out of training, and an error in any other part. An unknown label is an
        error in training, and in a part that has no known labels: it is then the wrong file, or the wrong column.
        """
        unseen = find_unseen(task, part)
        if unseen.labels and (encoding.to_train or unseen.times == unseen.total):
            task.label_table().id(unseen.first, unseen.place, task.unseen_remedy(unseen.first))
        if isinstance(part, Part):
            check = None if encoding.to_train else task.check_length
            on_disk: Sequence[Any] = first_alone(lambda: encode_part(task, part, encoding, check))
            return on_disk
        encoded: Sequence[Any] = task.encode(part)
        if not encoding.to_train:
            for example, ids in zip(part, encoded, strict=True):
                task.check_length(ids, example.id)
        return encoded

    def prepare(self, task: Any, encoded: Sequence[Any]) -> None:
        task.prepare(encoded)

    def batches(self, task: Any, encoded: Sequence[Any], training: Batching, seed: int) -> Batches:
        """Return batches of examples of similar length if `batch_tokens` limits their size, else of `batch_size`
        examples in random order."""
        lengths = lengths_of(task, encoded)
        fitting = np.flatnonzero(lengths.max(1) <= task.longest)
        # What an example takes in a batch.
        places = (rounded_up(lengths, task.longest) if training.bucket else lengths)[fitting]
        if not len(fitting):
            is_asked = task.longest == getattr(task.config, "longest", None)
            remedy = "raise task.longest" if is_asked else "raise model.max_length, or change model.position"
            raise UserError(
                f"all {len(lengths):,} training examples have more than {task.longest} tokens on a side, the end"
                f" included; {remedy}"
            )

        @lru_cache(maxsize=2)
        def plan(epoch: int) -> ExamplePlan:
            if training.batch_tokens is not None:
                return bucket_plan(places, training.batch_tokens, seed, epoch, ROWS if training.bucket else 1)
            return shuffled_plan(len(fitting), training.batch_size, seed, epoch)

        def collated(rows: np.ndarray) -> Any:
            with few_lengths(task.longest) if training.bucket else nullcontext():
                return task.collate([encoded[row] for row in fitting[rows]])

        def get(epoch: int, number: int) -> Any:
            return collated(plan(epoch).rows(number))

        def own(epoch: int, number: int, part: int, parts: int) -> Any:
            rows, size = plan(epoch).own_rows(number, part, parts, lengths[fitting])
            batch = collated(rows)
            assert num_rows(batch) == len(rows), (
                "a task whose examples have several rows says so by one_row_each = False"
            )
            return rows_of(batch, slice(0, size))

        return Batches(
            lambda epoch: plan(epoch).num_batches, get, own if getattr(task, "one_row_each", False) else None
        )

    def judge(
        self, task: Any, forward: Any, part: Sequence[Any], encoded: Sequence[Any], evaluation: Evaluation
    ) -> Score | None:
        return judge_examples(task, forward, part, encoded, evaluation)

    def settle(self, task: Any, part: Sequence[Any], encoded: Sequence[Any], evaluation: Evaluation) -> bool:
        rows = batches_by_length(lengths_of(task, encoded), evaluation_budget(evaluation.training))
        device = next(task.parameters()).device
        with evaluation.autocast():
            return bool(
                task.settle(
                    ([part[row] for row in some], to_device(task.collate([encoded[row] for row in some]), device))
                    for some in rows
                )
            )

    def known(self, task: Any, part: Sequence[Any], encoded: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        return part

    def identity(self, part: Sequence[Any], encoded: Sequence[Any], training: Batching, seed: int) -> dict[str, Known]:
        digest = remembered(part, "digest", lambda: examples_digest(part))
        size = (
            f"{training.batch_tokens:,} tokens"
            if training.batch_tokens is not None
            else f"{training.batch_size} examples"
        )
        order = (
            {"batch_tokens": training.batch_tokens}
            if training.batch_tokens is not None
            else {"batch_size": training.batch_size}
        )
        order |= {"bucket": True} if training.bucket else {}
        return {
            "training examples": Known({"examples": len(part), "digest": digest}, f"{len(part):,}, {digest[:8]}"),
            "order of batches": Known({**order, "seed": seed}, f"batches of {size}, seed {seed}"),
        }

    def describe(
        self, vocabularies: Mapping[str, Any], parts: Mapping[str, Sequence[Any]], encoded: Mapping[str, Sequence[Any]]
    ) -> str:
        hashes = {vocabulary.hash for vocabulary in vocabularies.values()}
        sizes = [f"{vocabulary.vocabulary:,} {vocabulary.unit}s ({role})" for role, vocabulary in vocabularies.items()]
        words = sizes if len(hashes) == len(sizes) else [sizes[0].replace("(source)", "(source and target)")]
        counts = ", ".join(f"{len(examples):,} {part}" for part, examples in parts.items())
        return f"{', '.join(words)}; {counts} examples"

    def remarks(self, task: Any, parts: Mapping[str, Sequence[Any]], encoded: Mapping[str, Sequence[Any]]) -> list[str]:
        """Return remarks about examples that two parts share, and about those that are too long to train on."""
        is_long = lengths_of(task, encoded["train"]).max(1) > task.longest
        held_out = {name: part.key for name, part in parts.items() if isinstance(part, Part)}
        remarks = remembered(
            parts["train"], f"overlaps {held_out}", lambda: [str(overlap) for overlap in find_overlaps(dict(parts))]
        )
        remarks += [
            note for name, part in parts.items() if name != "train" for note in self.judged_remarks(task, name, part)
        ]
        if is_long.any():
            first = parts["train"][int(np.argmax(is_long))].id
            left_out = counted(int(is_long.sum()), "training example")
            remarks.append(f"left out {left_out} of more than {task.longest} tokens on a side (first: {first})")
        return remarks

    def judged_remarks(self, task: Any, name: str, part: Sequence[Any]) -> list[str]:
        """Return a remark about labels that are not in the training part."""
        unseen = find_unseen(task, part)
        if not unseen.labels:
            return []
        verb = "is" if unseen.times == 1 else "are"
        labels = f"{few_of([named_label(label) for label in unseen.labels])}; first: {unseen.place}"
        count = f"{unseen.times:,} of {counted(unseen.total, 'label')}"
        return [
            f"{name}: {count} {verb} not in the training part ({labels}); counted as wrong, and left out of the loss"
        ]

    def lines(self, part: Sequence[Any]) -> Iterator[str]:
        return (example.key for example in part)


class Unseen(NamedTuple):
    """Counts of a part's gold labels that the task cannot predict, these labels, and the first one with its place."""

    times: int
    total: int
    labels: tuple[str, ...]
    first: str = ""
    place: str = ""


def find_unseen(task: Any, part: Sequence[Any]) -> Unseen:
    table = task.label_table()
    if table is None:
        return Unseen(0, 0, ())
    code = code_digest(type(task).__mro__[:-1])
    if code is None:
        times, total, labels, *first = look_for_unseen(task, part, table)
    else:
        config = hashlib.sha256(task.config.model_dump_json().encode()).hexdigest()
        name = f"unseen {type(task).__qualname__} {config} {table.hash} {code}"
        times, total, labels, *first = remembered(part, name, lambda: look_for_unseen(task, part, table))
    return Unseen(times, total, tuple(labels), *first)


def look_for_unseen(task: Any, part: Sequence[Any], table: Labels) -> list[Any]:
    total = times = 0
    places: dict[str, str] = {}
    for example in part:
        for label, place in task.gold_labels(example):
            total += 1
            if label not in table:
                times += 1
                places.setdefault(label, place)
    first = next(iter(places.items()), ())
    return [times, total, list(places), *first]


@torch.no_grad()
def judge_examples(
    task: Any, forward: Any, examples: Sequence[Any], encoded: Sequence[Any], evaluation: Evaluation
) -> Score | None:
    """Return the loss, and the task's metrics of all predictions together. Every process predicts its share of the
    batches.

    Predictions are gathered over processes, not counts: not every corpus metric is a function of sums, and a metric
    then has one form.
    """
    if evaluation.most_tokens is not None:
        kept = sample_rows(lengths_of(task, encoded), evaluation.most_tokens)
        examples, encoded = [examples[row] for row in kept], [encoded[row] for row in kept]
    batches = batches_by_length(lengths_of(task, encoded), evaluation_budget(evaluation.training))
    decoding: DecodingConfig = (
        evaluation.decoding if evaluation.is_final else evaluation.decoding.model_copy(update=GREEDY)
    )
    device = next(task.parameters()).device
    was_training = task.training
    task.eval()
    totals = torch.zeros(2, dtype=torch.float64)  # loss and targets
    own_rows: list[tuple[int, Any, list[float] | None]] = []
    try:
        with evaluation.whole(task):
            own = batches[rank() :: world_size()]
            for done, rows in enumerate(own, start=1):
                if evaluation.interrupted() and world_size() == 1:
                    return None
                batch = to_device(task.collate([encoded[row] for row in rows]), device)
                with evaluation.autocast():
                    loss = forward(batch, None)[0]["loss"]
                    predictions = task.predict(batch, decoding, evaluation.seed, [row + 1 for row in rows])
                    losses = task.row_losses(batch) if evaluation.is_final else None
                own_rows += zip(rows, predictions, losses or [None] * len(rows), strict=True)
                totals += torch.tensor([float(loss.sum), float(loss.count)], dtype=torch.float64)
                evaluation.progress(done, len(own))
    finally:
        task.train(was_training)
    nats, count = sum_over_processes(totals).tolist()
    results = {
        row: (prediction, loss) for text in from_all(json.dumps(own_rows)) for row, prediction, loss in json.loads(text)
    }
    in_order = [results[row] for row in range(len(examples))]
    each = [loss for _, loss in in_order]
    return score_predictions(
        task, examples, [prediction for prediction, _ in in_order], nats / (count or 1), evaluation.is_final, each
    )


def score_predictions(
    task: Any,
    examples: Sequence[Any],
    predictions: Sequence[Any],
    loss: float,
    is_final: bool,
    losses: Sequence[Sequence[float] | None] | None = None,
) -> Score:
    """Return the metrics of predictions. `losses` are the loss and the count of each example, if known."""
    measured = task.measure(examples, predictions)
    values, text = {"loss": loss}, f"loss {loss:.4f}"
    if task.writes:
        values["perplexity"] = math.exp(min(loss, 700.0))
        text += f", perplexity {values['perplexity']:.2f} per target token"
    values |= measured.values
    metric_text = measured.text if is_final else in_words(measured.values)
    text += f", {metric_text}" if metric_text else ""
    best = task.best
    if best not in values:
        raise UserError(
            f"{type(task).__name__} selects the best evaluation by {named_label(best)}, which is not among its"
            f" measures; set best to one of: {few_of(list(values))}"
        )
    value = loss if best == "loss" else (values[best] if best in LOWEST else -values[best]) + TIE * min(loss, 100.0)
    size = {"examples": len(examples)}
    if not is_final:
        return Score(values, value, text, size=size)
    ids = [example.id for example in examples]
    described = [task.described(example, prediction) for example, prediction in zip(examples, predictions, strict=True)]
    scores = task.sentence_scores(examples, predictions)
    intervals = task.intervals(examples, predictions)
    if intervals:
        interval_texts = ", ".join(
            f"{measure_name(name)} {interval.low:.2f} to {interval.high:.2f}" for name, interval in intervals.items()
        )
        text += f"; 95 % intervals: {interval_texts}"
    report = task.report(examples, predictions)
    statistics = task.statistics(examples, predictions)
    if losses is not None and None not in losses:
        statistics = [
            {"loss": {"mean": pair or ()}, **of_measures} for pair, of_measures in zip(losses, statistics, strict=True)
        ]
    scores_of, described_of, statistics_of = (
        dict(zip(ids, each, strict=True)) for each in (scores, described, statistics)
    )
    return Score(values, value, text, scores_of, described_of, intervals, report, statistics_of, size)


def sample_rows(lengths: np.ndarray, most: int) -> list[int]:
    """Sample examples with at most `most` tokens in total, at least one example. The same ones are drawn every time."""
    order = np.random.default_rng(len(lengths)).permutation(len(lengths))
    count = np.searchsorted(lengths.sum(1)[order].cumsum(), most, side="right")
    rows: list[int] = sorted(order[: max(int(count), 1)].tolist())
    return rows


def lengths_of(task: Any, encoded: Sequence[Any]) -> np.ndarray:
    """Return the number of places of each side of every example, (examples, sides)."""
    if isinstance(encoded, Part) and LENGTHS in encoded.arrays:
        return encoded.arrays[LENGTHS]
    return np.array([task.lengths(example) for example in encoded]).reshape(len(encoded), -1)


def with_end(part: Sequence[Any], end: str) -> Sequence[Any]:
    """Return the examples whose ids end with `end`."""
    return examples_at(part, np.flatnonzero([example.id.endswith(end) for example in part]))


def evaluation_budget(training: Batching) -> int:
    """Return the number of places in a batch of an evaluation, both sides and padding included. It is larger than in
    training, because no gradients are kept."""
    return (training.batch_tokens or (training.evaluate_batch or training.batch_size) * 64) * 4


def examples_digest(examples: Iterable[Any]) -> str:
    """Return a hash of the contents of examples, without their ids."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(hashed_fields(example._replace(id=""))).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def hashed_fields(example: Any) -> tuple[Any, ...]:
    """Return an example's fields to hash: those that its kind has always had, and any newer ones that differ from
    their defaults, with their names."""
    first, defaults = ALWAYS.get(type(example).__name__, ()), example._field_defaults
    newer = [name for name in example._fields if name not in first]
    return (
        *(getattr(example, name) for name in first),
        *(
            (former_name(example, name), value)
            for name in newer
            if (value := getattr(example, name)) != defaults.get(name, MISSING)
        ),
    )


def former_name(example: Any, name: str) -> str:
    """Return the name of a field in the examples whose hashes are in checkpoints: pictures and sounds once had
    separate names."""
    if name == "input" and isinstance(example, LabelledInput):
        return "picture" if hasattr(example.input, "pixels") else "sound"
    return name


MISSING = object()
ALWAYS = {
    "Labelled": ("text", "labels", "second", "id"),
    "Pair": ("source", "target", "id", "into"),
    "Question": ("question", "passage", "answers", "id"),
    "Sentence": ("words", "tags", "heads", "relations", "id"),
    "Parsed": ("tree", "id"),
    "LabelledTree": ("words", "nodes", "labels", "phrases", "id"),
}
"""Fields that are hashed even if they have their defaults, because checkpoints contain such hashes."""
