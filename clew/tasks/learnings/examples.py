"""Learning from examples: each is encoded once, examples of like length share a batch, predictions are gathered and
measured whole.

What it asks of a task, besides the loop's forward and counts: `encode(examples)`, `lengths(encoded)`, `longest`,
`check_length`, `collate(encoded)`, `predict(batch, decoding, seed, row_numbers)`, `measure(examples, predictions)`,
`best`, the measure by which the best evaluation is chosen, and whether it `writes` tokens; of the last evaluation
`intervals`, `report`, `statistics` and `sentence_scores` of examples and predictions, `row_losses(batch)`, and
`described(example, prediction)`. `ExampleTask` says what need not be said.
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
from clew.data.caching.parts import Part, gather, remembered, take
from clew.data.example_splits import find_overlaps
from clew.data.examples import LabelledInput
from clew.data.kinds.kind import Kind, Parts
from clew.data.kinds.section import ExampleData
from clew.data.notes import Notes
from clew.data.plans import ExamplePlan, batches_by_length, bucket_plan, shuffled_plan
from clew.metrics.bootstrap import Interval
from clew.metrics.measures import LOWEST, in_words, named
from clew.metrics.score import Score
from clew.metrics.statistics import Statistics
from clew.tasks.learning import Batching, Encoding, Evaluation, Learning, PartFiles, Tokenizers
from clew.tasks.learnings.encoded_parts import LENGTHS, encode_part
from clew.tasks.uses.writing import DecodingConfig
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer

TrainTokenizer = Callable[[Iterable[str], Sequence[str]], Tokenizer]
"""Trains a tokenizer on texts, with tokens of its own for some special ones."""
Vocabularies = Callable[[TrainTokenizer, bool, Any, Any], dict[str, Any]]
"""`vocabularies(train, joint, examples, task)`: every tokenizer and label table by role; `joint` says that both sides
share one."""
ROWS = 8
"""Of how many rows batches of few shapes have a multiple."""
TIE = 1e-7
"""What the loss counts beside the measure that the best evaluation is told by: it decides between equals alone."""
GREEDY = {"method": "greedy", "temperature": 1.0, "top_k": None, "top_p": None}
"""Decoding in evaluations during training: a beam search every few hundred steps would take longer than the steps, and
would rank checkpoints nearly the same."""


class ExampleTask(nn.Module):
    """A task whose data are examples."""

    needs: tuple[str, ...] = ()
    settled = ""
    """What a person should know of what was settled, in a sentence."""
    one_row_each = True
    """Whether a batch has one row for each example, so that a process can make those of its own alone."""
    can_bucket = False
    """Whether all that is ragged in a batch is padded by `core.batches.padded`, so that it can be padded to few
    lengths."""
    writes = False
    """Whether what it predicts is tokens, so that its loss is of each of them."""

    def label_table(self) -> Labels | None:
        """The labels that it tells; None where it tells none of a table."""
        return None

    def gold_labels(self, example: Any) -> Iterable[tuple[str, str]]:
        """An example's own labels, those that the table should have, each with its place."""
        return ()

    def unseen_remedy(self, label: str) -> str:
        """What may be done about a label that the table has not, as the end of a sentence."""
        return ""

    def prepare(self, encoded: Sequence[Any]) -> None:
        """Takes from the training part, once, what is no parameter: how frequent labels are."""

    def check_training(self, training: Batching) -> None:
        """Refuses a section `training` that the task cannot be trained by."""

    def check_decoding(self, config: DecodingConfig) -> None:
        """Refuses a section `decoding` that the task cannot write by."""

    def settle(self, batches: Iterable[tuple[Sequence[Any], Any]]) -> bool:
        """Takes from the validation part, batches with the examples in each, once training is over, what training is
        not to see; whether there was anything. Examples come too, since what is best may need texts (SQuAD's F1)."""
        return False

    def looked_up(self) -> list[Tensor]:
        """Tables that no vector is multiplied with: they cost no FLOPs."""
        body: Any = self.body
        tables: list[Tensor] = body.embedding.looked_up()
        return tables

    def intervals(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Interval]:
        """What the bootstrap says of some measures, by name, in their own units."""
        return {}

    def report(self, examples: Sequence[Any], predictions: Sequence[Any]) -> tuple[str, ...]:
        """Tables in words."""
        return ()

    def statistics(self, examples: Sequence[Any], predictions: Sequence[Any]) -> list[Statistics]:
        """Of each example what measures are computed from, by name; runs are compared by it."""
        return [{} for _ in examples]

    def row_losses(self, batch: Any) -> list[list[float]] | None:
        """The loss of each row of a batch and what it counts, which add to the batch's; None where a task does not
        say."""
        return None


@dataclass(frozen=True)
class Examples(Learning[Sequence[Any], Sequence[Any]]):
    """Examples of a kind; `train` makes the task's vocabularies of them."""

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
        """The parts; what is kept on disk is written by the first process and found by the others."""
        if not self.kind.is_plain:
            return self.kind.read(data, seed, notes)
        return first_alone(lambda: self.kind.read(data, seed, notes))

    def read_files(self, files: PartFiles, data: ExampleData, notes: Notes) -> Sequence[Any]:
        return gather(
            self.kind.read_files([data.given(file) for file in files if isinstance(file, (Path, str))], data, notes)
        )

    def apart(self, parts: Mapping[str, Sequence[Any]], data: ExampleData) -> Parts:
        """Each direction of a model of many languages by itself."""
        pieces = self.kind.pieces(data)
        if not pieces:
            return dict(parts)
        found = {f"{part}{end}": with_end(parts[part], end) for part in parts for end in pieces}
        return {name: examples for name, examples in found.items() if examples}

    def check(self, task: Any, training: Batching) -> None:
        if training.batching == "streams":
            raise UserError(
                "training.batching=streams carries a state through one text; a task that learns from examples has none,"
                " leave it out"
            )
        if training.bucket and not getattr(task, "can_bucket", False):
            raise UserError(
                "training.bucket pads texts to few lengths, and this task's examples are more than texts; leave it out"
            )
        task.check_training(training)

    def content(self, part: Sequence[Any]) -> str | None:
        return part.key if isinstance(part, Part) else None

    def vocabularies(self, train: Sequence[Any], tokenizers: Tokenizers, task: TaskSection) -> dict[str, Any]:
        return self.train(tokenizers.of_sequences, tokenizers.joint, train, task)

    def encode(self, task: Any, part: Sequence[Any], encoding: Encoding) -> Sequence[Any]:
        """Training leaves out examples that are too long; any other part is refused for one. A label that is not in the
        table is refused where it is to be learnt, and where a part has no other: it is then the wrong file, or the
        wrong column."""
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
        """Examples of like length together where `batch_tokens` says how much a batch may hold, else so many in random
        order."""
        lengths = lengths_of(task, encoded)
        fitting = np.flatnonzero(lengths.max(1) <= task.longest)
        places = (rounded_up(lengths, task.longest) if training.bucket else lengths)[
            fitting
        ]  # what an example takes in a batch
        if not len(fitting):
            is_asked = task.longest == getattr(task.config, "longest", None)
            remedy = "raise task.longest" if is_asked else "raise model.max_length, or take another model.position"
            raise UserError(
                f"none of the {len(lengths):,} training examples has at most {task.longest} tokens on a side, the end"
                f" among them; {remedy}"
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
            made = collated(rows)
            assert num_rows(made) == len(rows), (
                "a task whose examples have several rows says so by one_row_each = False"
            )
            return rows_of(made, slice(0, size))

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
        """Examples that two parts share, and those that are too long to train on."""
        is_long = lengths_of(task, encoded["train"]).max(1) > task.longest
        held_out = {name: part.key for name, part in parts.items() if isinstance(part, Part)}
        found = remembered(
            parts["train"], f"overlaps {held_out}", lambda: [str(overlap) for overlap in find_overlaps(dict(parts))]
        )
        found += [
            note for name, part in parts.items() if name != "train" for note in self.judged_remarks(task, name, part)
        ]
        if is_long.any():
            first = parts["train"][int(np.argmax(is_long))].id
            left_out = counted(int(is_long.sum()), "training example")
            found.append(f"left out {left_out} of more than {task.longest} tokens on a side (first: {first})")
        return found

    def judged_remarks(self, task: Any, name: str, part: Sequence[Any]) -> list[str]:
        """Labels that the training part has not."""
        unseen = find_unseen(task, part)
        if not unseen.labels:
            return []
        are = "is" if unseen.times == 1 else "are"
        which = f"{few_of([named_label(label) for label in unseen.labels])}; first: {unseen.place}"
        of = f"{unseen.times:,} of {counted(unseen.total, 'label')}"
        return [f"{name}: {of} {are} not in the training part ({which}); counted as wrong, and left out of the loss"]

    def lines(self, part: Sequence[Any]) -> Iterator[str]:
        return (example.key for example in part)


class Unseen(NamedTuple):
    """How many of a part's gold labels no answer can be, which these are, and the first of them with its place."""

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
    """The loss, and what the task measures of its predictions, all of them together; every process predicts its share
    of the batches.

    Predictions are gathered over processes, not counts: not every corpus measure is a function of sums, and a measure
    then has one form.
    """
    if evaluation.most_tokens is not None:
        kept = drawn(lengths_of(task, encoded), evaluation.most_tokens)
        examples, encoded = [examples[row] for row in kept], [encoded[row] for row in kept]
    batches = batches_by_length(lengths_of(task, encoded), evaluation_budget(evaluation.training))
    decoding: DecodingConfig = (
        evaluation.decoding if evaluation.is_final else evaluation.decoding.model_copy(update=GREEDY)
    )
    device = next(task.parameters()).device
    was_training = task.training
    task.eval()
    totals = torch.zeros(2, dtype=torch.float64)  # loss and targets
    mine: list[tuple[int, Any, list[float] | None]] = []
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
                mine += zip(rows, predictions, losses or [None] * len(rows), strict=True)
                totals += torch.tensor([float(loss.sum), float(loss.count)], dtype=torch.float64)
                evaluation.progress(done, len(own))
    finally:
        task.train(was_training)
    nats, count = sum_over_processes(totals).tolist()
    found = {row: (told, loss) for text in from_all(json.dumps(mine)) for row, told, loss in json.loads(text)}
    in_order = [found[row] for row in range(len(examples))]
    each = [loss for _, loss in in_order]
    return score_of(task, examples, [told for told, _ in in_order], nats / (count or 1), evaluation.is_final, each)


def score_of(
    task: Any,
    examples: Sequence[Any],
    predictions: Sequence[Any],
    loss: float,
    is_final: bool,
    losses: Sequence[Sequence[float] | None] | None = None,
) -> Score:
    """What is measured of predictions; `losses` are each example's and what it counts, where they are known."""
    measured = task.measure(examples, predictions)
    values, text = {"loss": loss}, f"loss {loss:.4f}"
    if task.writes:
        values["perplexity"] = math.exp(min(loss, 700.0))
        text += f", perplexity {values['perplexity']:.2f} per target token"
    values |= measured.values
    words = measured.text if is_final else in_words(measured.values)
    text += f", {words}" if words else ""
    best = task.best
    value = loss if best == "loss" else (values[best] if best in LOWEST else -values[best]) + TIE * min(loss, 100.0)
    size = {"examples": len(examples)}
    if not is_final:
        return Score(values, value, text, size=size)
    ids = [example.id for example in examples]
    described = [task.described(example, prediction) for example, prediction in zip(examples, predictions, strict=True)]
    scores = task.sentence_scores(examples, predictions)
    intervals = task.intervals(examples, predictions)
    if intervals:
        found = ", ".join(
            f"{named(name)} {interval.low:.2f} to {interval.high:.2f}" for name, interval in intervals.items()
        )
        text += f"; 95 % intervals: {found}"
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


def drawn(lengths: np.ndarray, most: int) -> list[int]:
    """Examples of so many tokens at most together, one at least: drawn from all of them, and the same every time."""
    order = np.random.default_rng(len(lengths)).permutation(len(lengths))
    count = np.searchsorted(lengths.sum(1)[order].cumsum(), most, side="right")
    found: list[int] = sorted(order[: max(int(count), 1)].tolist())
    return found


def lengths_of(task: Any, encoded: Sequence[Any]) -> np.ndarray:
    """How many places each side of every example takes, (examples, sides)."""
    if isinstance(encoded, Part) and LENGTHS in encoded.arrays:
        return encoded.arrays[LENGTHS]
    return np.array([task.lengths(example) for example in encoded]).reshape(len(encoded), -1)


def with_end(part: Sequence[Any], end: str) -> Sequence[Any]:
    """The examples whose ids end so."""
    return take(part, np.flatnonzero([example.id.endswith(end) for example in part]))


def evaluation_budget(training: Batching) -> int:
    """Places in a batch when a part is scored, both sides and padding counted: more than in training, as no gradient is
    kept."""
    return (training.batch_tokens or (training.evaluate_batch or training.batch_size) * 64) * 4


def examples_digest(examples: Iterable[Any]) -> str:
    """A hash of what examples say, their ids aside."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr(told(example._replace(id=""))).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def told(example: Any) -> tuple[Any, ...]:
    """An example's fields: those that its kind has always had, and of others those that do not hold their defaults,
    with their names."""
    first, defaults = ALWAYS.get(type(example).__name__, ()), example._field_defaults
    added = [name for name in example._fields if name not in first]
    return (
        *(getattr(example, name) for name in first),
        *(
            (former_name(example, name), value)
            for name in added
            if (value := getattr(example, name)) != defaults.get(name, MISSING)
        ),
    )


def former_name(example: Any, name: str) -> str:
    """What a field was called in the examples that checkpoints have hashes of: pictures and sounds once had their
    own."""
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
"""Fields whose defaults count too: checkpoints have hashes of them."""
